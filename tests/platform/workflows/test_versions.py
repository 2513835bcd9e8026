"""Workflows and versions in the database: on SQLite and on PostgreSQL."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection

from muster.platform.database.database import Database
from muster.platform.database.queries import PageRequest
from muster.platform.errors import (
    ConflictProblem,
    ForbiddenProblem,
    InvalidProblem,
    NotFoundProblem,
    PreconditionFailedProblem,
)
from muster.platform.graphs.model import Document
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.users.accounts import create_user
from muster.platform.users.audit import AuditFilter, list_audit
from muster.platform.users.teams import create_team
from muster.platform.workflows.versions import (
    NewVersion,
    Stored,
    add_version,
    archive_version,
    copy_version,
    create_with_version,
    diff_versions,
    document_for,
    document_of,
    find_version,
    get_version,
    list_versions,
)
from muster.platform.workflows.workflows import (
    NewWorkflow,
    WorkflowFilter,
    archive_workflow,
    delete_workflow,
    edit_workflow,
    get_workflow,
    list_workflows,
)
from tests.platform.graphs.samples import CONTEXT, graph, node, seed_example

T = TypeVar("T")
DO = Callable[[Connection], T]
SECRET = graph(node("a", env=[{"name": "KEY", "value": "hunter2", "secret": True}]))
MANIFEST = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: a-}
spec:
  entrypoint: a
  templates:
  - name: a
    container: {image: busybox, command: [echo, hi]}
"""


def look(connection: Connection, actor: Actor, document: Document) -> Any:
    return CONTEXT


class Team:
    """Ann and Ben are in a team that Lea leads; Eve is not."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.actors: dict[str, Actor] = {}

    async def __call__(self, function: DO[T]) -> T:
        return await self.database.write(function)

    async def settle(self) -> Team:
        def make(connection: Connection) -> None:
            team = create_team(connection, SYSTEM, "vision")
            for name in ("ann", "ben", "lea", "eve"):
                user = create_user(connection, SYSTEM, name)
                role: Any = {"lea": "leader", "eve": None}.get(name, "member")
                self.actors[name] = Actor(user.id, name, teams={team.id: role} if role else {})

        await self.database.write(make)
        self.actors["root"] = SYSTEM
        return self

    def __getitem__(self, name: str) -> Actor:
        return self.actors[name]

    async def made(
        self, who: str = "ann", name: str = "demo", document: Document | None = None, team: str = ""
    ) -> Stored:
        new = NewVersion(document=document or seed_example())
        return await self(lambda c: create_with_version(c, self[who], NewWorkflow(name, team=team), new, look))


@pytest.fixture
async def team(database: Database) -> Team:
    return await Team(database).settle()


async def test_a_workflow_is_created_with_its_first_version(team: Team) -> None:
    stored = await team.made()
    assert (stored.workflow.name, stored.workflow.owner_name, stored.workflow.versions) == ("demo", "ann", 1)
    assert (stored.version.number, stored.version.name, stored.version.type, stored.version.nodes) == (
        1,
        "v1",
        "graph",
        2,
    )
    document = await team(lambda c: document_of(c, stored.version.id))
    assert document["nodes"][1]["command"] == seed_example()["nodes"][1]["command"]


async def test_neither_is_created_if_the_version_is_invalid(team: Team) -> None:
    bad = graph(node("a", task={"type": "compute", "cluster": "A100", "skus": 0}))
    with pytest.raises(InvalidProblem) as caught:
        await team.made(document=bad)
    assert [(e.field, e.code) for e in caught.value.errors] == [
        ("version.document.nodes[0].task.skus", "task.sku"),
        ("version.document.nodes[0].task.cluster", "task.cluster"),
    ]
    with pytest.raises(NotFoundProblem):
        await team(lambda c: get_workflow(c, team["ann"], "demo"))


async def test_versions_are_numbered_and_never_change(team: Team) -> None:
    first = await team.made()
    new = NewVersion("second try", "with alpine", graph(node("a", image="alpine")))
    second = await team(lambda c: add_version(c, team["ann"], "demo", new, look, first.workflow.revision))
    assert (second.version.number, second.version.name) == (2, "second try")
    with pytest.raises(PreconditionFailedProblem):
        await team(lambda c: add_version(c, team["ann"], "demo", new, look, first.workflow.revision))
    with pytest.raises(ConflictProblem, match="second try"):
        await team(lambda c: add_version(c, team["ann"], "demo", new, look))
    assert (await team(lambda c: get_workflow(c, team["ann"], "demo"))).versions == 2
    workflow = second.workflow
    for word, number in (("1", 1), ("v1", 1), ("latest", 2), ("second try", 2), (second.version.id, 2)):
        assert (await team(partial(find_version, workflow=workflow, word=word))).number == number
    with pytest.raises(NotFoundProblem, match="no version"):
        await team(lambda c: find_version(c, workflow, "3"))


@pytest.mark.parametrize("name", ["latest", "7", "a/b", " x", "x" * 101])
async def test_invalid_version_names(team: Team, name: str) -> None:
    await team.made()
    new = NewVersion(name, "", seed_example())
    with pytest.raises(InvalidProblem):
        await team(lambda c: add_version(c, team["ann"], "demo", new, look))


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "enter a name"), *((name, "is not a valid") for name in (" a", "a/b", "a\nb", "x" * 101))],
)
async def test_invalid_workflow_names(team: Team, name: str, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        await team.made(name=name)
    await team.made(name="数据处理 demo")
    with pytest.raises(ConflictProblem, match="already"):
        await team.made(who="ben", name="数据处理 demo")


async def test_a_manifest_is_stored_or_becomes_a_graph(team: Team) -> None:
    await team.made()
    kept = await team(lambda c: add_version(c, team["ann"], "demo", NewVersion(manifest=MANIFEST), look))
    assert kept.version.type == "yaml"
    assert [note.code for note in kept.notes] == ["import.unmapped"]
    drawn = MANIFEST.replace("[echo, hi]", "[sh, -c, echo hi]")
    graphed = await team(lambda c: add_version(c, team["ann"], "demo", NewVersion(manifest=drawn), look))
    assert graphed.version.type == "graph"
    for wrong in (NewVersion(), NewVersion(manifest="a: ["), NewVersion(document=seed_example(), manifest=MANIFEST)):
        with pytest.raises(InvalidProblem):
            await team(partial(add_version, actor=team["ann"], workflow_id="demo", new=wrong, look=look))


async def test_two_versions_are_compared(team: Team) -> None:
    first = await team.made()
    changed = copy.deepcopy(seed_example())
    changed["nodes"][0]["retries"] = 2
    second = await team(lambda c: add_version(c, team["ann"], "demo", NewVersion(document=changed), look))
    changes = await team(lambda c: diff_versions(c, first.version, second.version))
    assert [str(change) for change in changes] == ["retries of step1 changed from nothing to 2"]


async def test_a_version_is_copied_into_the_same_or_a_new_workflow(team: Team) -> None:
    first = await team.made()
    source = (first.workflow, first.version)
    again = await team(lambda c: copy_version(c, team["ann"], source, "demo", NewVersion(), look))
    assert (again.version.number, again.version.hash) == (2, first.version.hash)
    assert again.version.copied_from == first.version.id
    edited = NewVersion("mine", "", graph(node("other")))
    new = await team(lambda c: copy_version(c, team["eve"], source, NewWorkflow("fork"), edited, look))
    assert (new.workflow.name, new.workflow.owner_name, new.version.nodes) == ("fork", "eve", 1)
    with pytest.raises(ForbiddenProblem):
        await team(lambda c: copy_version(c, team["eve"], source, "demo", NewVersion(), look))


async def test_secrets_are_only_for_editors_of_the_workflow(team: Team) -> None:
    stored = await team.made(document=SECRET, team="vision")

    async def seen_by(who: str) -> Any:
        document = await team(lambda c: document_for(c, team[who], stored.workflow, stored.version))
        return document["nodes"][0]["env"][0].get("value")

    assert [await seen_by(who) for who in ("ann", "ben", "lea", "root", "eve")] == ["hunter2"] * 4 + [None]
    unchanged = graph(node("a", command="echo", env=[{"name": "KEY", "secret": True}]))
    second = await team(lambda c: add_version(c, team["ben"], "demo", NewVersion(document=unchanged), look))
    assert "hunter2" in str(await team(lambda c: document_of(c, second.version.id)))
    source = (stored.workflow, stored.version)
    with pytest.raises(InvalidProblem, match="enter it again"):
        await team(lambda c: copy_version(c, team["eve"], source, NewWorkflow("stolen"), NewVersion(), look))
    entries = await team(lambda c: list_audit(c, SYSTEM, PageRequest(), AuditFilter()))
    assert "hunter2" not in str(entries)


async def test_archived_workflows_stay_but_get_no_new_versions(team: Team) -> None:
    stored = await team.made()
    second = await team(lambda c: add_version(c, team["ann"], "demo", NewVersion(document=seed_example()), look))
    gone = await team(lambda c: archive_version(c, team["ann"], second.workflow, second.version, archived=True))
    assert gone.archived is not None
    assert (await team(lambda c: find_version(c, stored.workflow, "latest"))).number == 1
    await team(lambda c: archive_version(c, team["ann"], second.workflow, gone, archived=False))
    assert (await team(lambda c: find_version(c, stored.workflow, "latest"))).number == 2
    await team(lambda c: archive_workflow(c, team["ann"], "demo", archived=True))
    with pytest.raises(ConflictProblem, match="restore it first"):
        await team(lambda c: add_version(c, team["ann"], "demo", NewVersion(document=seed_example()), look))
    only: list[tuple[bool | None, int]] = [(False, 0), (True, 1), (None, 1)]
    for archived, count in only:
        wanted = WorkflowFilter(archived=archived)
        page = await team(partial(list_workflows, actor=team["ann"], wanted=PageRequest(), only=wanted))
        assert page.total == count
    restored = await team(lambda c: archive_workflow(c, team["ann"], "demo", archived=False))
    assert restored.archived is None


ALLOWED = {
    # action: who may
    "edit": {"ann", "lea", "root"},
    "archive": {"ann", "lea", "root"},
    "delete": {"ann", "root"},
    "add": {"ann", "ben", "lea", "root"},
    "archive version": {"ann", "lea", "root"},
    "copy": {"ann", "ben", "lea", "eve", "root"},
    "view": {"ann", "ben", "lea", "eve", "root"},
}


def deed(what: str, actor: Actor, made: Stored) -> DO[Any]:
    workflow, version, new = made.workflow, made.version, NewVersion(document=seed_example())
    deeds: dict[str, DO[Any]] = {
        "edit": lambda c: edit_workflow(c, actor, workflow.id, {"description": "x"}),
        "archive": lambda c: archive_workflow(c, actor, workflow.id, archived=True),
        "delete": lambda c: delete_workflow(c, actor, workflow.id),
        "add": lambda c: add_version(c, actor, workflow.id, new, look),
        "archive version": lambda c: archive_version(c, actor, workflow, version, archived=True),
        "copy": lambda c: copy_version(c, actor, (workflow, version), NewWorkflow(f"{actor.name}'s"), new, look),
        "view": lambda c: get_version(c, actor, version.id),
    }
    return deeds[what]


@pytest.mark.parametrize("what", list(ALLOWED))
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_who_may_do_what(team: Team, what: str) -> None:
    allowed = set()
    for who in ("ann", "ben", "lea", "eve", "root"):
        made = await team.made(name=f"of {who}", team="vision")
        actor = Actor(team["eve"].id, "root", admin=True) if who == "root" else team[who]
        try:
            await team(deed(what, actor, made))
        except ForbiddenProblem:
            continue
        allowed.add(who)
    assert allowed == ALLOWED[what]


async def test_concurrent_edits_are_refused(team: Team) -> None:
    stored = await team.made(team="vision")
    edited = await team(
        lambda c: edit_workflow(c, team["ann"], "demo", {"name": "new", "description": "d"}, stored.workflow.revision)
    )
    assert (edited.name, edited.description, edited.team_name) == ("new", "d", "vision")
    with pytest.raises(PreconditionFailedProblem):
        await team(lambda c: edit_workflow(c, team["ann"], "new", {"name": "x"}, stored.workflow.revision))
    alone = await team(lambda c: edit_workflow(c, team["ann"], "new", {"team": ""}))
    assert alone.team_id is None
    await team.made(who="eve", name="eves")
    with pytest.raises(ForbiddenProblem, match="not in the team"):
        await team(lambda c: edit_workflow(c, team["eve"], "eves", {"team": "vision"}))
    with pytest.raises(ConflictProblem):
        await team(lambda c: edit_workflow(c, team["eve"], "eves", {"name": "new"}))


async def test_lists_are_filtered_sorted_and_paged(team: Team) -> None:
    for number in range(7):
        who = "ann" if number % 2 else "ben"
        await team.made(who=who, name=f"wf {number}", team="vision" if number < 3 else "")

    async def names(request: PageRequest = PageRequest(), **only: Any) -> list[str]:  # noqa: B008
        page = await team(lambda c: list_workflows(c, team["eve"], request, WorkflowFilter(**only)))
        return [workflow.name for workflow in page.items]

    assert await names() == [f"wf {n}" for n in reversed(range(7))]
    assert await names(PageRequest(sort="name"), owner="ann") == ["wf 1", "wf 3", "wf 5"]
    assert await names(PageRequest(sort="name"), team="vision") == ["wf 0", "wf 1", "wf 2"]
    assert await names(PageRequest(sort="name"), q="WF 6") == ["wf 6"]
    first = await team(lambda c: list_workflows(c, team["eve"], PageRequest(3, sort="name"), WorkflowFilter()))
    assert (first.total, [w.name for w in first.items]) == (7, ["wf 0", "wf 1", "wf 2"])
    assert await names(PageRequest(3, first.next or "", "name")) == ["wf 3", "wf 4", "wf 5"]
    workflow = await team(lambda c: get_workflow(c, team["ann"], "wf 1"))
    for _ in range(3):
        await team(lambda c: add_version(c, team["ann"], "wf 1", NewVersion(document=seed_example()), look))
    page = await team(lambda c: list_versions(c, workflow, PageRequest(2)))
    assert (page.total, [version.number for version in page.items]) == (4, [4, 3])
