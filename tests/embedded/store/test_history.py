from __future__ import annotations

from collections.abc import Sequence

import pytest

from muster.embedded.store.history import Change, ChangeRecord, History, make_change
from muster.kube.errors import Gone
from muster.kube.objects import Key


def history(*versions: int, limit: int = 8, floor: int = 0) -> History:
    made = History(limit, floor)
    for version in versions:
        made.append(make_change(version, Key("a", str(version)), None, {}, False))
        made.trim()
    return made


@pytest.mark.parametrize(
    ("after", "found"),
    [(0, [3, 5, 9]), (2, [3, 5, 9]), (3, [5, 9]), (4, [5, 9]), (8, [9]), (9, []), (20, [])],
)
def test_reading_resumes_after_any_version(after: int, found: list[int]) -> None:
    past = history(3, 5, 9)
    assert [c.version for c in past.read(past.position(after))] == found


def test_reading_comes_in_portions() -> None:
    past = history(1, 2, 3, 4, 5)
    assert [c.version for c in past.read(past.position(0), limit=2)] == [1, 2]
    assert [c.version for c in past.read(past.position(0) + 2, limit=2)] == [3, 4]


def test_only_so_much_is_kept_and_older_versions_are_gone() -> None:
    past = history(*range(1, 101), limit=8)
    assert 90 <= past.floor <= 92
    assert [c.version for c in past.read(past.position(past.floor))] == list(range(past.floor + 1, 101))
    with pytest.raises(Gone, match=f"too old resource version: 50 \\({past.floor}\\)"):
        past.position(50)


def test_a_position_that_was_overtaken_is_gone() -> None:
    past = history(1, 2, limit=8)
    position = past.position(1)
    for version in range(3, 40):
        past.append(make_change(version, Key("a", "x"), None, {}, False))
        past.trim()
    with pytest.raises(Gone, match="fell behind"):
        past.read(position)


def test_dropped_changes_are_returned_once() -> None:
    past = History(4)
    forgotten = []
    for version in range(1, 21):
        past.append(make_change(version, Key("a", "x"), None, {}, False))
        forgotten += [c.version for c in past.trim()]
    assert forgotten == list(range(1, past.floor + 1))


async def test_all_waiting_watchers_wake_once() -> None:
    past = history()
    waiting = [past.subscribe() for _ in range(3)]
    past.wake()
    assert all(news.done() for news in waiting)
    past.wake()
    assert not past.subscribe().done()


async def test_a_watcher_that_leaves_is_not_remembered() -> None:
    past = history()
    news = past.subscribe()
    assert len(past._waiting) == 1
    past.unsubscribe(news)
    assert len(past._waiting) == 0


def test_large_changes_are_kept_in_smaller_numbers() -> None:
    past = History(1000, limit_bytes=1000)
    for version in range(1, 101):
        past.append(make_change(version, Key("a", "x"), {}, {}, False), size=100, before=version - 1)
        past.trim()
    assert 88 <= past.floor <= 90
    with pytest.raises(Gone):
        past.position(50)


def test_a_single_change_that_is_too_large_is_kept() -> None:
    past = History(1000, limit_bytes=1000)
    past.append(make_change(1, Key("a", "x"), None, {}, False), size=5000)
    assert past.trim() == []
    assert [c.version for c in past.read(past.position(0))] == [1]


def on_disk(version: int) -> Change:
    return make_change(version, Key("a", "x"), None, {}, False)


def test_changes_on_disk_are_read_only_when_a_watch_resumes_from_them() -> None:
    reads: list[list[int]] = []

    def read(records: Sequence[ChangeRecord]) -> list[Change]:
        reads.append([record.version for record in records])
        return [on_disk(record.version) for record in records]

    past = History(100, stored=[ChangeRecord(n, 10, n - 1, gone=False) for n in range(1, 11)], read_changes=read)
    now = past.position(10)
    assert past.read(now) == []
    past.append(on_disk(11))
    assert [c.version for c in past.read(now)] == [11]
    assert not reads
    assert [c.version for c in past.read(past.position(7))] == [8, 9, 10, 11]
    assert [c.version for c in past.read(past.position(0))] == list(range(1, 12))
    assert [c.version for c in past.read(now)] == [11]
    assert reads == [list(range(1, 11))]


def test_changes_on_disk_count_towards_the_limits() -> None:
    past = History(8, stored=[ChangeRecord(n, 10, n - 1, gone=False) for n in range(1, 9)])
    forgotten = []
    for version in range(9, 15):
        past.append(on_disk(version), before=version - 1)
        forgotten += past.trim()
    assert [record.before for record in forgotten] == list(range(len(forgotten)))
    assert past.floor == forgotten[-1].version
    assert [c.version for c in past.read(past.position(8))] == list(range(9, 15))
