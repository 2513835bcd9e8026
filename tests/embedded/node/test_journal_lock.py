from __future__ import annotations

import fcntl
import os
from pathlib import Path

from muster.embedded.node.journal import (
    Journal,
    append_entries,
    close_journal,
    has_supervisor,
    lock_pod,
    lost_its_folder,
    was_started,
)
from muster.embedded.node.supervisor.contract import LOCK


def hold(folder: Path) -> int:
    """Takes the lock as a supervisor does."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def test_a_supervisor_holds_the_lock(tmp_path: Path) -> None:
    assert not has_supervisor(tmp_path.as_posix())
    descriptor = hold(tmp_path)
    assert has_supervisor(str(tmp_path))
    with lock_pod(str(tmp_path)) as taken:
        assert not taken
    os.close(descriptor)
    assert not has_supervisor(str(tmp_path))
    with lock_pod(str(tmp_path)) as taken:
        assert taken
        assert has_supervisor(str(tmp_path))


def test_a_pod_was_started_if_its_file_exists(tmp_path: Path) -> None:
    assert not was_started(str(tmp_path))
    (tmp_path / "pod.json.new").write_text("{")
    assert not was_started(str(tmp_path))
    (tmp_path / "pod.json").write_text("{}")
    assert was_started(str(tmp_path))


def test_the_journal_of_a_dead_supervisor_is_closed_once(tmp_path: Path) -> None:
    append_entries(
        str(tmp_path),
        [
            {"t": 1.0, "e": "started", "c": "done", "a": 0},
            {"t": 2.0, "e": "exited", "c": "done", "a": 0, "code": 0},
            {"t": 3.0, "e": "started", "c": "lost", "a": 2},
        ],
    )
    assert close_journal(str(tmp_path), "", "")
    assert close_journal(str(tmp_path), "", "")
    entries = Journal(str(tmp_path)).read()[3:]
    assert [(e["e"], e.get("c"), e.get("a"), e.get("code"), e.get("reason")) for e in entries] == [
        ("exited", "lost", 2, 137, "ContainerStatusUnknown"),
        ("finished", None, None, None, None),
    ]


def test_a_journal_that_is_being_written_stays_open(tmp_path: Path) -> None:
    descriptor = hold(tmp_path)
    assert not close_journal(str(tmp_path), "", "")
    assert Journal(str(tmp_path)).read() == []
    os.close(descriptor)


def test_a_missing_folder_has_no_supervisor(tmp_path: Path) -> None:
    folder = str(tmp_path / "gone")
    assert not has_supervisor(folder)
    assert close_journal(folder, "", "")
    assert not os.path.exists(folder)


def test_a_status_that_tells_of_containers_needs_a_folder() -> None:
    waiting = {"status": {"containerStatuses": [{"name": "c", "state": {"waiting": {}}}]}}
    started = {"status": {"initContainerStatuses": [{"name": "c", "containerID": "process://u/c/0"}]}}
    assert not lost_its_folder({})
    assert not lost_its_folder(waiting)
    assert lost_its_folder(started)
