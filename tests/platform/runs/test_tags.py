"""Tags of runs: their form, and lists that are filtered by them, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, func, select

from muster.platform.database.database import Database
from muster.platform.database.queries import PageRequest
from muster.platform.database.tables import run_tags, runs
from muster.platform.errors import ForbiddenProblem, InvalidProblem
from muster.platform.graphs.context import Context
from muster.platform.runs.create import NewRun, find_requests, prepare_copy, store_run
from muster.platform.runs.runs import RunFilter, edit_run, list_runs, workflow_ids
from muster.platform.runs.tags import count_tags, is_tag, parse_tags
from tests.platform.runs.test_runs_persist import begun, new_actor, with_workflow


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("baseline", True),
        ("data=2024-06", True),
        ("team.example/owner=ann b", True),
        ("数据=六月", True),
        ("a=b=c", True),
        ("k" * 63, True),
        ("k" * 64, False),
        ("k=" + "v" * 200, True),
        ("k=" + "v" * 201, False),
        ("", False),
        ("=v", False),
        ("k=", False),
        ("-k", False),
        ("k-", False),
        ("a b", False),
        ("k= v", False),
        ("k=a\nb", False),
        ("k=\x00", False),
        ("k\n", False),
    ],
)
def test_the_form_of_a_tag(text: str, valid: bool) -> None:
    assert is_tag(text) is valid


def test_tags_are_sorted_and_a_key_occurs_once() -> None:
    assert parse_tags(["b=2", "a", "b=2"]) == ["a", "b=2"]
    with pytest.raises(InvalidProblem) as caught:
        parse_tags(["b=2", "b=3", "", *map(str, range(20))])
    assert [(error.field, error.code) for error in caught.value.errors] == [
        ("tags[1]", "run.tag-twice"),
        ("tags[2]", "run.tag"),
        ("tags", "run.tags"),
    ]


async def test_runs_are_found_by_their_tags(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann, bob = new_actor(connection, "ann"), new_actor(connection, "bob")
        with_workflow(connection, ann)
        with_workflow(connection, ann, "other")
        june = begun(connection, ann, name="june", tags=["data=june", "baseline"])
        july = begun(connection, ann, name="july", tags=["data=July"])
        begun(connection, bob, "other", name="bare")

        def named(*tags: str) -> list[str]:
            only = RunFilter(tags=tags)
            return [run.name for run in list_runs(connection, bob, PageRequest(sort="name"), only).items]

        assert june.tags == ["baseline", "data=june"]
        assert named("data") == ["july", "june"]
        assert named("data=june") == ["june"]
        assert named("data", "baseline") == ["june"]
        assert named("data=july") == [], "letters have their case"
        assert named("dat") == named("%") == []
        assert len(named()) == 3

        copy = store_run(
            connection, ann, prepare_copy(connection, ann, june.id, NewRun("", ""), lambda c, a, d: Context())
        )
        assert copy.tags == june.tags
        bare = NewRun("", "", tags=[])
        assert prepare_copy(connection, ann, june.id, bare, lambda c, a, d: Context()).tags == []

        with pytest.raises(ForbiddenProblem):
            edit_run(connection, bob, july.id, tags=["mine"])
        edited = edit_run(connection, ann, july.id, tags=["data=may"])
        assert (edited.name, edited.tags, edited.revision) == ("july", ["data=may"], july.revision + 1)
        assert edit_run(connection, ann, july.id, tags=["data=may"]).revision == edited.revision, "nothing has changed"
        assert named("data=July") == []

        assert [(each.tag, each.runs) for each in count_tags(connection, bob)] == [
            ("baseline", 2),
            ("data=june", 2),
            ("data=may", 1),
        ]
        assert count_tags(connection, bob, workflow_ids(connection, "other")) == []

        # No tag reaches the cluster, whatever it is called.
        edit_run(connection, ann, july.id, tags=["muster.dev/queue=other", "scheduling.volcano.sh/queue-name=other"])
        assert all("other" not in str(request.workflow) for request in find_requests(connection, july.id))
        begun(connection, ann, name="reserved", tags=["muster.dev/queue=other"])
        assert all("muster.dev/queue=other" not in str(request) for request in find_requests(connection))

        connection.execute(runs.delete().where(runs.c.id == june.id))
        assert (
            connection.execute(
                select(func.count()).select_from(run_tags).where(run_tags.c.run_id == june.id)
            ).scalar_one()
            == 0
        )

    await database.write(story)
