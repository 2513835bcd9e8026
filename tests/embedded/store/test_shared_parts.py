"""A large spec is stored once, not with every change of the status."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.embedded.store.shared_parts import SharedParts, merge_parts, split_parts
from muster.embedded.store.store import DATABASE, Store
from muster.embedded.store.view import Transaction
from muster.kube.errors import StorageFull, TooLarge
from muster.kube.objects import Key, Object

LARGE = {"templates": [{"name": f"t{number}", "on": 1} for number in range(1000)]}
FLOW = Key("a", "flow")

OLD_TABLES = """
CREATE TABLE versions (
    version INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    gone INTEGER NOT NULL, object BLOB NOT NULL
);
CREATE TABLE floors (resource TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA application_id = 0x4D555354;
PRAGMA user_version = 2;
"""
"""What format 2 created."""


def flow(spec: object, step: int, **status: object) -> Object:
    return {"metadata": {"namespace": "a", "name": "flow"}, "spec": spec, "status": {"step": step, **status}}


def put(obj: Object) -> Callable[[Transaction], Object]:
    return lambda tx: tx.put("flows", obj)


def stored_bytes(folder: Path) -> int:
    with sqlite3.connect(folder / DATABASE) as connection:
        rows = connection.execute("SELECT sum(length(object)) FROM versions").fetchone()[0] or 0
        parts = connection.execute("SELECT sum(length(parts)) FROM shared_parts").fetchone()[0] or 0
    connection.close()
    return int(rows + parts)


def found(store: Store) -> Object:
    obj = store.get("flows", FLOW)
    assert obj is not None
    return obj


@pytest.mark.parametrize(
    "obj",
    [
        {"kind": "X", "metadata": {}, "spec": {"a": 1}, "status": {"phase": "Running"}},
        {
            "spec": {"a": 1},
            "status": {"storedTemplates": {"x": {}}, "phase": "", "storedWorkflowTemplateSpec": {"b": 2}},
        },
        {"status": {"storedTemplates": {}}},
        {"metadata": {}, "data": {"x": "y"}},
        {"spec": None, "status": None},
        {"spec": {}},
    ],
)
def test_parts_that_are_taken_out_can_be_put_back(obj: Object) -> None:
    rest = orjson.loads(orjson.dumps(merge_parts(obj, {})))
    assert orjson.dumps(merge_parts(rest, split_parts(obj))) == orjson.dumps(obj)


@pytest.mark.parametrize(("other", "same"), [(1, False), (True, False), (1.0, False)])
def test_values_that_are_merely_equal_are_not_the_same(other: object, same: bool) -> None:
    shared = SharedParts.of(1, {"spec": {"value": 1}}, b"", is_stored=True)
    assert shared.is_same({"spec": {"value": other}}) is same
    assert shared.is_same(shared.parts)


async def test_a_status_change_does_not_store_the_spec_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for step in range(100):
        await store.write(put(flow(LARGE if step % 2 else orjson.loads(orjson.dumps(LARGE)), step)))
    await store.close()
    assert stored_bytes(tmp_path) < len(orjson.dumps(LARGE)) + 100 * 200
    store = Store(tmp_path)
    assert found(store)["spec"] == LARGE
    assert found(store)["status"] == {"step": 99}
    await store.close()


async def test_a_changed_spec_is_stored_and_an_old_one_goes_with_its_last_version(tmp_path: Path) -> None:
    store = Store(tmp_path, history=4)
    for step in range(60):
        await store.write(put(flow({**LARGE, "step": step // 10}, step)))
    await store.close()
    assert stored_bytes(tmp_path) < 3 * len(orjson.dumps(LARGE))
    store = Store(tmp_path)
    assert found(store)["spec"] == {**LARGE, "step": 5}
    await store.close()


@pytest.mark.parametrize("value", [True, 1.0, 0, None])
async def test_a_spec_that_changes_in_type_only_is_stored(tmp_path: Path, value: Any) -> None:
    store = Store(tmp_path)
    await store.write(put(flow({**LARGE, "value": 1}, 1)))
    await store.write(put(flow({**LARGE, "value": value}, 2)))
    await store.close()
    store = Store(tmp_path)
    assert orjson.dumps(found(store)["spec"]["value"]) == orjson.dumps(value)
    await store.close()


async def test_a_spec_may_shrink_grow_and_go(tmp_path: Path) -> None:
    store = Store(tmp_path)
    specs: list[Any] = [{}, LARGE, {"a": 1}, LARGE, LARGE, None, LARGE]
    for step, spec in enumerate(specs):
        await store.write(put(flow(spec, step)))
        assert found(store)["spec"] == spec
    await store.write(lambda tx: tx.remove("flows", found(store)))
    await store.close()
    store = Store(tmp_path)
    assert store.get("flows", FLOW) is None
    past = store.history("flows")
    assert [c.after and c.after["spec"] for c in past.read(store.position("flows", 0))] == [*specs, None]
    assert past.read(store.position("flows", 7))[0].event.object["spec"] == LARGE
    await store.close()


async def test_the_limit_of_an_object_counts_its_shared_parts(tmp_path: Path) -> None:
    size = len(orjson.dumps(LARGE))
    store = Store(tmp_path, largest_object=size + 1000)
    await store.write(put(flow(LARGE, 1)))
    with pytest.raises(TooLarge):
        await store.write(put(flow(LARGE, 2, message="x" * 2000)))
    assert found(store)["status"] == {"step": 1}
    await store.close()


async def test_parts_of_a_commit_that_failed_are_stored_with_the_next_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.write(put(flow({}, 0)))
    store.database.limit_pages(1)
    results = await asyncio.gather(*(store.write(put(flow(LARGE, n))) for n in (1, 2)), return_exceptions=True)
    assert [type(result) for result in results] == [StorageFull, StorageFull]
    store.database.limit_pages(0)
    await store.write(put(flow(LARGE, 3)))
    await store.close()
    store = Store(tmp_path)
    assert found(store)["spec"] == LARGE
    await store.close()


async def test_a_file_of_the_format_before_opens_and_its_history_is_cut(tmp_path: Path) -> None:
    """Every version has its own copy of the spec there, and there may be thousands."""
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.executescript(OLD_TABLES)
        for version in range(1, 401):
            obj = {**flow(LARGE, version), "status": {"step": version}}
            obj["metadata"]["resourceVersion"] = str(version)
            row = (version, "flows", "a", "flow", 0, orjson.dumps(obj))
            connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.close()
    store = Store(tmp_path, history_bytes=1 << 20)
    assert found(store)["spec"] == LARGE
    assert found(store)["status"] == {"step": 400}
    position = store.position("flows", 390)
    assert [c.version for c in store.history("flows").read(position)] == list(range(391, 401))
    await store.write(put(flow(LARGE, 401)))
    await store.close()
    assert stored_bytes(tmp_path) < 2 << 20
    store = Store(tmp_path)
    assert (found(store)["spec"], found(store)["status"], store.version) == (LARGE, {"step": 401}, 401)
    await store.close()
