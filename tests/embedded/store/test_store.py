from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import orjson
import pytest

from muster.embedded.store.database import DirectoryInUse, Row, StoreUnreadable
from muster.embedded.store.history import Change
from muster.embedded.store.store import DATABASE, Store
from muster.embedded.store.view import Transaction
from muster.kube.errors import BadRequest, Conflict, Gone, StorageFull, TooLarge, Unavailable
from muster.kube.objects import Key, Object, version_of


def put(name: str, value: object = 0) -> Callable[[Transaction], Object]:
    return lambda tx: tx.put("things", {"metadata": {"namespace": "a", "name": name}, "value": value})


def remove(name: str) -> Callable[[Transaction], Object]:
    def change(tx: Transaction) -> Object:
        found = tx.get("things", Key("a", name))
        assert found is not None
        return tx.remove("things", found)

    return change


def add_one(tx: Transaction) -> int:
    found = tx.get("things", Key("a", "counter"))
    value = found["value"] + 1 if found else 1
    tx.put("things", {"metadata": {"namespace": "a", "name": "counter"}, "value": value})
    return int(value)


def values(store: Store) -> dict[str, object]:
    return {o["metadata"]["name"]: o["value"] for o in store.view.objects("things")}


async def test_a_write_is_visible_only_when_it_is_on_disk(tmp_path: Path) -> None:
    store = Store(tmp_path)
    writing = asyncio.create_task(store.write(put("x", 1)))
    await asyncio.sleep(0)
    assert store.get("things", Key("a", "x")) is None
    assert version_of(await writing) == "1"
    found = store.get("things", Key("a", "x"))
    assert found is not None
    assert found["value"] == 1
    await store.close()


async def test_a_write_sees_earlier_writes_that_are_not_committed_yet(tmp_path: Path) -> None:
    store = Store(tmp_path)
    answers = await asyncio.gather(*(store.write(add_one) for _ in range(100)))
    assert answers == list(range(1, 101))
    assert values(store) == {"counter": 100}
    assert store.version == 100
    await store.close()


async def test_everything_is_there_after_a_restart_and_versions_go_on(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in "abc":
        await store.write(put(name, name))
    await store.write(remove("b"))
    last = store.version
    await store.close()
    store = Store(tmp_path)
    assert values(store) == {"a": "a", "c": "c"}
    assert store.version == last
    assert version_of(await store.write(put("d"))) == str(last + 1)
    await store.close()


async def test_a_watch_resumes_across_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.write(put("a", 1))
    resume = store.version
    await store.write(put("a", 2))
    await store.write(remove("a"))
    await store.close()
    store = Store(tmp_path)
    changes = store.history("things").read(store.position("things", resume))
    assert [(c.event.type, (c.before or {}).get("value"), c.event.object["value"]) for c in changes] == [
        ("MODIFIED", 1, 2),
        ("DELETED", 2, 2),
    ]
    await store.close()


async def test_the_past_is_forgotten_on_disk_as_well(tmp_path: Path) -> None:
    store = Store(tmp_path, durability="process", history=100)
    await store.write(put("quiet", 1))
    for _ in range(30):
        await asyncio.gather(*(store.write(add_one) for _ in range(200)))
    for number in range(50):
        await store.write(put(f"passing-{number}"))
        await store.write(remove(f"passing-{number}"))
    state, floor, last = values(store), store.history("things").floor, store.version
    await store.close()
    with sqlite3.connect(tmp_path / DATABASE) as raw:
        assert raw.execute("SELECT count(*) FROM versions").fetchone()[0] < 300
    raw.close()
    store = Store(tmp_path, history=100)
    assert values(store) == state == {"quiet": 1, "counter": 6000}
    assert store.version == last
    assert store.history("things").floor >= floor
    with pytest.raises(Gone):
        store.position("things", 17)
    await store.close()


async def test_versions_never_go_back_even_if_the_newest_was_a_removal_now_forgotten(tmp_path: Path) -> None:
    store = Store(tmp_path, durability="process", history=1)
    for number in range(20):
        await store.write(put(f"x{number}"))
        await store.write(remove(f"x{number}"))
    last = store.version
    await store.close()
    store = Store(tmp_path)
    assert store.version == last
    await store.close()


async def test_a_version_this_store_never_had_is_gone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(Gone, match="another store"):
        store.position("things", 1)
    await store.close()


async def test_several_objects_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def both(tx: Transaction) -> None:
        put("one", 1)(tx)
        put("two", 2)(tx)

    def half(tx: Transaction) -> None:
        put("one", "spoilt")(tx)
        raise Conflict("no")

    await store.write(both)
    with pytest.raises(Conflict):
        await store.write(half)
    assert values(store) == {"one": 1, "two": 2}
    assert store.version == 2
    await store.close()


async def test_a_dry_run_answers_and_leaves_no_trace(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert (await store.write(put("x", 1), dry_run=True))["value"] == 1
    assert values(store) == {}
    assert store.version == 0
    await store.close()


async def test_a_full_disk_loses_nothing_and_reads_go_on(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.write(put("kept", 1))
    store.database.limit_pages(12)
    big = put("big", "x" * 200_000)
    results = await asyncio.gather(
        store.write(big), store.write(put("beside", 1)), store.write(big), return_exceptions=True
    )
    assert [type(r) for r in results] == [StorageFull, StorageFull, StorageFull]
    assert "nothing was stored" in str(results[0])
    assert isinstance(store.last_error, StorageFull)
    assert values(store) == {"kept": 1}
    assert store.version == 1
    await store.write(put("small", 2))
    assert store.last_error is None
    store.database.limit_pages(0)
    await store.write(big)
    await store.close()
    store = Store(tmp_path)
    assert set(values(store)) == {"kept", "small", "big"}
    await store.close()


async def test_writes_staged_on_a_failed_commit_fail_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.database.limit_pages(12)
    gate = threading.Event()
    store._writer.submit(gate.wait)
    failing = asyncio.create_task(store.write(put("base", "x" * 200_000)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # its batch is now in the writer thread, so later writes go into the next batch
    on_top = asyncio.create_task(store.write(lambda tx: put("top", bool(tx.get("things", Key("a", "base"))))(tx)))
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(failing, on_top, return_exceptions=True)
    assert [type(r) for r in results] == [StorageFull, StorageFull]
    assert values(store) == {}
    await store.close()


async def test_a_refusal_that_rests_on_an_unfinished_write_waits_for_it(tmp_path: Path) -> None:
    """Otherwise, an error could reveal a write that is then lost."""
    store = Store(tmp_path)
    store.database.limit_pages(12)

    def refuse(tx: Transaction) -> None:
        if tx.get("things", Key("a", "base")) is not None:
            raise Conflict("it is there already")

    gate = threading.Event()
    store._writer.submit(gate.wait)
    failing = asyncio.create_task(store.write(put("base", "x" * 200_000)))
    await asyncio.sleep(0)
    refused = asyncio.create_task(store.write(refuse))
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(failing, refused, return_exceptions=True)
    assert [type(r) for r in results] == [StorageFull, StorageFull]
    await store.close()


async def test_through_a_disk_that_fills_again_and_again_every_answer_is_true(tmp_path: Path) -> None:
    """Acknowledged writes are stored, refused writes are not, and no write is visible before it is stored."""
    store = Store(tmp_path, durability="process", history=50)
    random = Random(11)
    counted: dict[str, int] = {}
    heard: dict[str, int] = {}
    refused = 0
    store.listen(lambda resource, change: heard.update({change.key.name: change.event.object["value"][0]}))

    def count(name: str) -> Callable[[Transaction], int]:
        def change(tx: Transaction) -> int:
            found = tx.get("things", Key("a", name))
            value = found["value"][0] + 1 if found else 1
            put(name, [value, "x" * random.randrange(3000)])(tx)
            return int(value)

        return change

    async def work(name: str) -> None:
        nonlocal refused
        for _ in range(60):
            try:
                value = await store.write(count(name))
            except StorageFull:
                refused += 1
                continue
            assert value == counted.get(name, 0) + 1
            counted[name] = value
            assert heard[name] == value

    async def disturb() -> None:
        while True:
            store.database.limit_pages(random.choice([0, 12, 30]))
            await asyncio.sleep(0.01)

    disturbing = asyncio.create_task(disturb())
    await asyncio.gather(*(work(f"w{number}") for number in range(12)))
    disturbing.cancel()
    await asyncio.gather(disturbing, return_exceptions=True)
    assert refused > 0
    assert {o["metadata"]["name"]: o["value"][0] for o in store.view.objects("things")} == counted == heard
    store.database.limit_pages(0)
    await store.close()
    store = Store(tmp_path)
    assert {o["metadata"]["name"]: o["value"][0] for o in store.view.objects("things")} == counted
    await store.close()


async def test_other_trouble_is_unavailable_and_passes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.database.append([Row(1, "things", "a", "intruder", 0, b"{}")])
    with pytest.raises(Unavailable, match="nothing was stored"):
        await store.write(put("x"))
    assert values(store) == {}
    await store.close()


async def test_an_object_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path, largest_object=10_000)
    with pytest.raises(TooLarge, match=r'things "x" has 10,0\d\d bytes; the limit is 10,000'):
        await store.write(put("x", "v" * 10_000))
    with pytest.raises(BadRequest, match="JSON"):
        await store.write(put("x", {1, 2}))
    assert store.version == 0
    await store.close()


async def test_a_writer_that_gives_up_does_not_disturb_the_others(tmp_path: Path) -> None:
    store = Store(tmp_path)
    writes = [asyncio.create_task(store.write(put(str(n)))) for n in range(10)]
    await asyncio.sleep(0)
    writes[3].cancel()
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(r, dict) for r in results) == 9
    assert len(values(store)) == 10
    await store.close()


async def test_listeners_are_called_before_the_writer_returns(tmp_path: Path) -> None:
    store = Store(tmp_path)
    heard: list[tuple[str, str]] = []
    stop = store.listen(lambda resource, change: heard.append((resource, change.event.type)))
    await store.write(put("x"))
    assert heard == [("things", "ADDED")]
    stop()
    await store.write(remove("x"))
    assert heard == [("things", "ADDED")]
    await store.close()


async def test_a_listener_that_fails_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path)

    def fail(resource: str, change: Change) -> None:
        raise RuntimeError(resource)

    store.listen(fail)
    await store.write(put("x"))
    assert values(store) == {"x": 0}
    assert "a listener failed" in caplog.text
    await store.close()


async def test_closing_finishes_what_was_staged_and_refuses_the_rest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    writing = asyncio.create_task(store.write(put("x")))
    await asyncio.sleep(0)
    await store.close()
    await writing
    with pytest.raises(Unavailable):
        await store.write(put("y"))
    store = Store(tmp_path)
    assert values(store) == {"x": 0}
    await store.close()


async def test_two_stores_never_share_a_directory(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(DirectoryInUse):
        Store(tmp_path)
    await store.close()


async def test_a_damaged_object_is_reported_and_the_directory_is_free_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.write(put("x"))
    await store.close()
    with sqlite3.connect(tmp_path / DATABASE) as raw:
        raw.execute("INSERT INTO versions VALUES (2, 'things', 'a', 'y', 0, ?, NULL)", (orjson.dumps({})[:1],))
    raw.close()
    for _ in range(2):
        with pytest.raises(StoreUnreadable, match="the row of version 2 is damaged"):
            Store(tmp_path)
