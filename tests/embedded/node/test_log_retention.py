from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.embedded.node.log_files import (
    PodLogs,
    drop_empty_logs,
    drop_old_logs,
    list_pod_logs,
    select_logs_to_drop,
)
from muster.embedded.node.logs import DEFAULT_CONTAINER_LINK, OWNER_LINK
from muster.embedded.settings import LogLimits

LIMITS = LogLimits(keep_seconds=100, total_bytes=50)


def logs(uid: str, size: int, written: float) -> PodLogs:
    return PodLogs(f"/{uid}", uid, size, written)


@pytest.mark.parametrize(
    ("kept", "live", "dropped"),
    [
        ([], [], []),
        ([logs("a", 10, 950)], [], []),
        ([logs("a", 10, 850)], [], ["a"]),
        ([logs("a", 10, 850)], ["a"], []),
        ([logs("a", 30, 950), logs("b", 30, 960)], [], ["a"]),
        ([logs("b", 30, 960), logs("a", 30, 950)], [], ["a"]),
        ([logs("a", 30, 950), logs("b", 30, 960)], ["a"], ["b"]),
        ([logs("a", 99, 950)], ["a"], []),
        ([logs("old", 60, 850), logs("a", 30, 950)], [], ["old"]),
    ],
)
def test_select_logs_to_drop(kept: list[PodLogs], live: list[str], dropped: list[str]) -> None:
    assert [found.uid for found in select_logs_to_drop(kept, live, LIMITS, 1000.0)] == dropped


@pytest.mark.parametrize(
    ("kept", "live", "ended", "dropped"),
    [
        ([logs("a", 99, 950)], ["a"], ["a"], ["a"]),
        ([logs("a", 99, 950), logs("b", 99, 960)], ["a", "b"], ["b"], ["b"]),
        ([logs("a", 30, 950), logs("b", 30, 960)], ["a"], ["a"], ["b"]),
        ([logs("a", 10, 850)], ["a"], ["a"], []),
    ],
)
def test_logs_of_ended_pods_are_dropped_last(
    kept: list[PodLogs], live: list[str], ended: list[str], dropped: list[str]
) -> None:
    assert [found.uid for found in select_logs_to_drop(kept, live, LIMITS, 1000.0, ended)] == dropped


def test_drop_old_logs(tmp_path: Path) -> None:
    for uid, written in (("old", 10.0), ("new", 990.0)):
        folder = tmp_path / "team" / f"pod-{uid}" / uid / "main"
        folder.mkdir(parents=True)
        (folder / "0.log").write_text("x" * 7)
        for path in (folder / "0.log", folder, folder.parent):
            os.utime(path, (written, written))
    assert sorted((k.uid, k.bytes, k.written) for k in list_pod_logs(str(tmp_path))) == [
        ("new", 7, 990.0),
        ("old", 7, 10.0),
    ]
    assert drop_old_logs(str(tmp_path), [], LIMITS, 1000.0) == 1
    assert [p.name for p in (tmp_path / "team").iterdir()] == ["pod-new"]
    assert drop_old_logs(str(tmp_path), [], LIMITS, 5000.0) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("written", "is_left"), [("", False), ("x", True)])
def test_a_pod_that_wrote_nothing_leaves_no_folders(tmp_path: Path, written: str, is_left: bool) -> None:
    folder = tmp_path / "team" / "pod" / "uid"
    for container in ("main", "second"):
        (folder / container).mkdir(parents=True)
        (folder / container / "0.log").touch()
    (folder / "second" / "0.log").write_text(written)
    (folder / DEFAULT_CONTAINER_LINK).symlink_to("main")
    (folder / OWNER_LINK).symlink_to("Workflow@1")
    drop_empty_logs(str(folder))
    assert (folder / OWNER_LINK).is_symlink() == is_left
    assert [path.name for path in (tmp_path / "team").iterdir()] == (["pod"] if is_left else [])
