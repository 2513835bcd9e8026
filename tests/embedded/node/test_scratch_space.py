from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node.scratch_space import ScratchSchedule, ScratchUsage, eviction_message, measure_scratch
from muster.kube.budgets import Budgets

BUDGETS = Budgets(pod_scratch_megabytes=8)
MIB = 1 << 20


def test_what_a_pod_uses(tmp_path: Path) -> None:
    for name in ("tmp-main/deep", "volumes/a", "volumes/b", "kept/main", "rootfs-main/0/upper"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("tmp-main/deep/f", "volumes/a/f", "kept/main/0", "rootfs-main/0/upper/f"):
        (tmp_path / name).write_bytes(bytes(MIB))
    (tmp_path / "tmp-main/link").symlink_to("/")
    usage = measure_scratch(str(tmp_path), ["/none"])
    assert 3 * MIB <= usage.total < 4 * MIB
    assert usage.volumes["a"] >= MIB > usage.volumes["b"]
    assert not usage.is_too_deep


def test_a_sparse_file_counts_what_it_uses(tmp_path: Path) -> None:
    (tmp_path / "tmp-main").mkdir()
    (tmp_path / "tmp-main/f").touch()
    os.truncate(tmp_path / "tmp-main/f", 1 << 40)
    assert measure_scratch(str(tmp_path)).total < MIB


def pod(volumes: list[Any] | None = None, disk: str = "") -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"ephemeral-storage": disk} if disk else {}}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container, {"name": "b"}], "volumes": volumes or []}}


@pytest.mark.parametrize(
    ("given", "usage", "message"),
    [
        (pod(), ScratchUsage(8 * MIB, {}), ""),
        (pod(), ScratchUsage(9 * MIB, {}), "budgets.podScratchMegabytes"),
        (pod(), ScratchUsage(0, {}, is_too_deep=True), "too deeply"),
        (pod(disk="2Mi"), ScratchUsage(3 * MIB, {}), "total limit of containers 2Mi"),
        (pod(disk="2Mi"), ScratchUsage(MIB, {}), ""),
        (pod([{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]), ScratchUsage(0, {"v": 2 * MIB}), '"v" exceeds'),
        (pod([{"name": "v", "emptyDir": {"sizeLimit": "1", "medium": "Memory"}}]), ScratchUsage(0, {"v": 9 * MIB}), ""),
        (pod([{"name": "v", "hostPath": {"path": "/"}}]), ScratchUsage(0, {"v": 2 * MIB}), ""),
    ],
)  # fmt: skip
def test_who_is_evicted(given: dict[str, Any], usage: ScratchUsage, message: str) -> None:
    found = eviction_message(given, usage, BUDGETS)
    assert message in found
    assert bool(message) == bool(found)


def test_when_a_pod_is_measured() -> None:
    schedule = ScratchSchedule(8 * MIB)
    full = 1 << 40
    assert schedule.choose(["a"], full, 0.0) == []
    assert schedule.choose(["a", "b"], full, 5.0) == ["a"]
    schedule.measured("a", ScratchUsage(100, {}), 0.001, 5.0)
    assert schedule.choose(["a", "b"], full, 10.0) == ["b"]
    schedule.measured("b", ScratchUsage(4 * MIB, {}), 0.001, 10.0)
    assert schedule.choose(["a", "b"], full, 15.0) == ["b"]
    schedule.measured("b", ScratchUsage(4 * MIB, {}), 10.0, 15.0)
    assert schedule.choose(["a", "b"], full, 60.0) == []
    assert schedule.choose(["a", "b"], full - 2 * MIB, 61.0) == ["a", "b"]
    assert schedule.choose(["a", "b"], full - 2 * MIB, 62.0) == []
    assert schedule.choose(["a"], full, 70.0) == ["a"]
