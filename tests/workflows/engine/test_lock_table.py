from __future__ import annotations

from muster.workflows.engine.synchronization import LockTable

MUTEX = "default/Mutex/gpu"


def ask(table: LockTable, holder: str, *, limit: int = 1, priority: int = 0, since: str = "1") -> str:
    return table.acquire(MUTEX, holder, limit=limit, priority=priority, since=since)


def test_one_at_a_time() -> None:
    table = LockTable()
    assert ask(table, "default/a") == ""
    assert ask(table, "default/a") == ""
    assert ask(table, "default/b") == "Waiting for default/Mutex/gpu lock. Lock status: 0/1"
    table.release(MUTEX, "default/a")
    assert table.waiting_for_turn() == ["default/b"]
    assert table.waiting_for_turn() == []
    assert ask(table, "default/b") == ""
    assert table.holders(MUTEX) == ["default/b"]


def test_as_many_as_the_limit_says() -> None:
    table = LockTable()
    assert [ask(table, f"default/wf/{n}", limit=2) for n in "abc"] == [
        "",
        "",
        "Waiting for default/Mutex/gpu lock. Lock status: 0/2",
    ]
    assert ask(table, "default/wf/c", limit=3) == ""


def test_priority_goes_before_age_and_age_before_chance() -> None:
    table = LockTable()
    ask(table, "default/holder")
    for holder, priority, since in (("young", 0, "3"), ("old", 0, "2"), ("urgent", 5, "9")):
        assert ask(table, f"default/{holder}", priority=priority, since=since)
    turns = []
    previous = "default/holder"
    for _ in range(3):
        table.release(MUTEX, previous)
        (previous,) = table.waiting_for_turn()
        turns.append(previous)
        assert ask(table, previous) == ""
    assert turns == ["default/urgent", "default/old", "default/young"]


def test_who_is_not_first_in_line_waits_even_if_the_lock_is_free() -> None:
    table = LockTable()
    ask(table, "default/holder")
    ask(table, "default/first", since="1")
    ask(table, "default/second", since="2")
    table.release(MUTEX, "default/holder")
    assert ask(table, "default/second", since="2").startswith("Waiting")
    assert table.waiting_for_turn() == ["default/first"]


def test_who_gives_up_leaves_the_line() -> None:
    table = LockTable()
    ask(table, "default/holder")
    ask(table, "default/first")
    ask(table, "default/second", since="2")
    table.release(MUTEX, "default/first")
    table.release(MUTEX, "default/holder")
    assert table.waiting_for_turn() == ["default/second"]


def test_what_was_held_before_a_restart_is_held_again_whatever_the_limit() -> None:
    table = LockTable()
    table.restore(MUTEX, ["default/a", "default/b"])
    assert ask(table, "default/a") == ""
    assert ask(table, "default/c") == "Waiting for default/Mutex/gpu lock. Lock status: 0/1"
    table.release(MUTEX, "default/a")
    assert ask(table, "default/c").startswith("Waiting")
    table.forget("default/b")
    assert ask(table, "default/c") == ""
