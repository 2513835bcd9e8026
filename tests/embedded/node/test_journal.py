from __future__ import annotations

from pathlib import Path

from muster.embedded.node.journal import Journal, append_entries, progress_of
from muster.embedded.node.supervisor.contract import JournalEntry


def test_it_reads_on_and_leaves_half_a_line(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    assert journal.read() == []
    file = tmp_path / "journal"
    file.write_bytes(b'{"t":1,"e":"supervised","pid":7}\n{"t":2,"e":"star')
    assert journal.read() == [{"t": 1, "e": "supervised", "pid": 7}]
    assert journal.read() == []
    with file.open("ab") as more:
        more.write(b'ted","c":"main","a":0,"pid":8}\n')
    assert journal.read() == [{"t": 2, "e": "started", "c": "main", "a": 0, "pid": 8}]


def test_it_reads_long_journals_whole(tmp_path: Path) -> None:
    entries: list[JournalEntry] = [
        {"t": float(n), "e": "unhealthy", "c": "c", "message": "x" * 500} for n in range(1000)
    ]
    append_entries(str(tmp_path), entries)
    assert Journal(str(tmp_path)).read() == entries


def test_what_is_written_after_half_a_line_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b'{"t":1,"e":"supervised"}\n{"t":2,"e":"exi')
    append_entries(str(tmp_path), [{"t": 3.0, "e": "finished", "phase": "Failed"}])
    assert [e["e"] for e in Journal(str(tmp_path)).read()] == ["supervised", "finished"]


def test_progress_follows_attempts() -> None:
    entries: list[JournalEntry] = [
        {"t": 1.0, "e": "supervised", "pid": 1},
        {"t": 2.0, "e": "started", "c": "a", "a": 0, "pid": 10},
        {"t": 2.5, "e": "startup", "c": "a", "a": 0},
        {"t": 3.0, "e": "ready", "c": "a", "a": 0, "ready": True},
        {"t": 4.0, "e": "exited", "c": "a", "a": 0, "code": 1, "reason": "Error"},
        {"t": 4.0, "e": "backoff", "c": "a", "a": 1, "until": 14.0},
    ]
    waiting = progress_of(entries).of("a")
    assert (waiting.running, waiting.attempt, waiting.backoff_until, waiting.ready) == (False, 0, 14.0, None)
    assert waiting.exit is not None and (waiting.exit.started, waiting.exit.ended, waiting.exit.code) == (2.0, 4.0, 1)

    again = progress_of([*entries, {"t": 14.0, "e": "started", "c": "a", "a": 1, "pid": 11}])
    a = again.of("a")
    assert (a.running, a.attempt, a.backoff_until, a.startup_passed, a.exit) == (True, 1, 0.0, False, None)
    assert a.last is not None and a.last.code == 1
    assert again.running_attempts() == [("a", 1)]


def test_a_probe_result_of_an_earlier_attempt_is_ignored() -> None:
    a = progress_of(
        [
            {"t": 1.0, "e": "started", "c": "a", "a": 1},
            {"t": 2.0, "e": "ready", "c": "a", "a": 0, "ready": True},
            {"t": 2.0, "e": "startup", "c": "a", "a": 0},
        ]
    ).of("a")
    assert (a.ready, a.startup_passed) == (None, False)


def test_a_container_that_never_started_can_end() -> None:
    a = progress_of([{"t": 5.0, "e": "exited", "c": "a", "a": 0, "code": 128, "reason": "StartError"}]).of("a")
    assert a.exit is not None and (a.exit.started, a.exit.ended) == (5.0, 5.0)


def test_nothing_runs_after_the_end() -> None:
    progress = progress_of(
        [
            {"t": 1.0, "e": "started", "c": "a", "a": 0},
            {"t": 2.0, "e": "finished", "phase": "Failed", "reason": "SupervisorFailed"},
        ]
    )
    ended = progress.of("a").exit
    assert ended is not None and (ended.code, ended.reason) == (137, "ContainerStatusUnknown")
