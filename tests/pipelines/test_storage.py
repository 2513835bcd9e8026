"""What is stored about pipelines, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from muster.kube.budgets import Budgets
from muster.pipelines import experiments, pipelines, recurring_runs, runs
from muster.pipelines.controller import compile_run
from muster.pipelines.list_query import ListRequest
from muster.pipelines.pipelines import NewNames
from muster.pipelines.recurring_runs import NewRecurringRun
from muster.pipelines.runs import NewRun
from muster.platform.database.database import Database
from muster.platform.database.pipeline_tables import pipeline_specs
from muster.platform.errors import ConflictProblem
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.quotas import BUDGETS
from muster.platform.users.accounts import insert_user
from tests.pipelines.test_packages import SPEC


def user(connection: Connection) -> Actor:
    made = insert_user(connection, SYSTEM, "ann", admin=False)
    return Actor(made.id, "ann")


def specs(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(pipeline_specs)).scalar_one())


async def test_lists_by_times_that_are_not_known_yet(database: Database) -> None:
    def story(connection: Connection) -> list[str]:
        ann = user(connection)
        names = ["one", "two", "three"]
        ids = [experiments.create_experiment(connection, ann, name).id for name in names]
        source = runs.load_run(connection, ann, NewRun("r", experiment_id=ids[1], spec=SPEC))
        runs.store_run(connection, ann, source, compile_run(source))
        found: list[str] = []
        wanted = ListRequest(1, sort_by="last_run_created_at desc")
        while True:
            page = experiments.list_experiments(connection, ann, wanted, "")
            found += [each.name for each in page.items]
            if page.next is None:
                break
            wanted = ListRequest(1, page.next)
        predicate = {
            "operation": "GREATER_THAN",
            "key": "last_run_created_at",
            "timestamp_value": "2020-01-01T00:00:00Z",
        }
        only = ListRequest(filter=json.dumps({"predicates": [predicate]}))
        assert [each.name for each in experiments.list_experiments(connection, ann, only, "").items] == ["two"]
        return found

    found = await database.write(story)
    assert found[0] == "two"
    assert sorted(found) == ["one", "three", "two"]


async def test_a_spec_is_stored_once_and_goes_with_its_last_user(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = user(connection)
        pipeline = pipelines.create_pipeline(connection, ann, NewNames("p"))
        for name in ("a", "b"):
            pipelines.create_version(connection, ann, pipeline.id, NewNames(name), SPEC)
        source = runs.load_run(connection, ann, NewRun("r", pipeline_id=pipeline.id))
        runs.store_run(connection, ann, source, compile_run(source))
        assert specs(connection) == 1
        pipelines.delete_pipeline(connection, ann, pipeline.id, cascade=True)
        assert specs(connection) == 1
        runs.ask_to_delete(connection, ann, source.id)
        runs.delete_row(connection, source.id)
        assert specs(connection) == 0

    await database.write(story)


async def test_a_tick_is_stored_with_its_run_or_not_at_all(database: Database) -> None:
    def story(connection: Connection) -> list[Any]:
        ann = user(connection)
        new = NewRecurringRun(NewRun("t", spec=SPEC), {"periodic_schedule": {"interval_second": 60}})
        made = recurring_runs.create_recurring_run(connection, ann, new)
        tick = made.created + timedelta(seconds=60)
        source = recurring_runs.load_tick(connection, made, tick, 1, datetime.now(UTC))
        again = recurring_runs.load_tick(connection, made, tick, 1, datetime.now(UTC))
        stored = [recurring_runs.store_tick(connection, made, None, tick, s, compile_run(s)) for s in (source, again)]
        (enabled,) = recurring_runs.find_enabled(connection)
        assert (enabled.last_tick, enabled.ticks) == (tick, 1)
        assert runs.count_active(connection, made.id) == 1
        recurring_runs.enable_recurring_run(connection, ann, made.id, enabled=False)
        late = recurring_runs.store_tick(connection, made, tick, tick + timedelta(60), again, compile_run(again))
        return [*stored, late, runs.count_active(connection, made.id)]

    assert await database.write(story) == [True, False, False, 1]


async def test_the_specs_of_a_user_have_a_budget_and_equal_ones_count_once(database: Database) -> None:
    def story(connection: Connection) -> int:
        ann = user(connection)
        named = {"pipelineInfo": {"name": "x" * 300_000}}
        for number in range(3):
            made = pipelines.create_pipeline(connection, ann, NewNames(f"p{number}"))
            pipelines.create_version(connection, ann, made.id, NewNames("same"), {**SPEC, **named})
        small = connection.execution_options(**{BUDGETS: Budgets(user_pipeline_megabytes=1)})
        source = runs.load_run(small, ann, NewRun("r", spec={**SPEC, **named, "a": "y" * 300_000}))
        runs.insert_run(small, source, {"metadata": {"name": "w"}})
        with pytest.raises(ConflictProblem, match=r"more than 1 MB.*userPipelineMegabytes"):
            pipelines.store_spec(small, {**SPEC, "b": "z" * 300_000}, ann.id)
        pipelines.store_spec(small, {**SPEC, **named}, ann.id)  # it is there already
        pipelines.store_spec(small, {**SPEC, "b": "z" * 300_000}, "another")
        return pipelines.spec_bytes(connection, ann.id)

    assert 900_000 < await database.write(story) < 910_000
