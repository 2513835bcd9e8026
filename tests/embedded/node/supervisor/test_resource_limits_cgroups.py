from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.embedded.node.supervisor import resource_limits
from muster.embedded.node.supervisor.resource_limits import can_limit, create_cgroup, enter_pods_group, find_parents

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = """\
24 30 0:22 / /proc rw - proc proc rw
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
35 30 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset"""


@pytest.mark.parametrize(
    ("own", "mountinfo", "memory", "cpu"),
    [
        ("", "", [], []),
        ("0::/\n", V2, [(2, "/sys/fs/cgroup")], [(2, "/sys/fs/cgroup")]),
        (
            "0::/user.slice/session-1.scope\n",
            V2,
            [
                (2, "/sys/fs/cgroup/user.slice/session-1.scope"),
                (2, "/sys/fs/cgroup/user.slice"),
                (2, "/sys/fs/cgroup"),
            ],
            [
                (2, "/sys/fs/cgroup/user.slice/session-1.scope"),
                (2, "/sys/fs/cgroup/user.slice"),
                (2, "/sys/fs/cgroup"),
            ],
        ),
        (
            "5:memory:/box\n4:cpu,cpuacct:/\n",
            V1,
            [(1, "/sys/fs/cgroup/memory/box")],
            [(1, "/sys/fs/cgroup/cpu,cpuacct")],
        ),
        (
            "5:memory:/docker/abc\n",
            "34 30 0:30 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            [(1, "/sys/fs/cgroup/memory")],
            [],
        ),
        (
            "5:memory:/\n0::/\n",
            "34 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "35 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
            [(1, "/sys/fs/cgroup/memory"), (2, "/sys/fs/cgroup/unified")],
            [(2, "/sys/fs/cgroup/unified")],
        ),
    ],
)
def test_where_groups_can_be_made(
    own: str, mountinfo: str, memory: list[tuple[int, str]], cpu: list[tuple[int, str]]
) -> None:
    places = find_parents(own, mountinfo)
    assert places.get("memory", []) == memory
    assert places.get("cpu", []) == cpu


def test_nothing_to_limit_makes_no_group() -> None:
    assert create_cgroup("muster-test-nothing", None, None) is None


def test_a_group_holds_its_limits_and_leaves_nothing_behind() -> None:
    if can_limit() != (True, True):
        pytest.skip("this user may not make control groups here")
    cgroup = create_cgroup(f"muster-test-{os.getpid()}", 64 << 20, 0.5)
    assert cgroup is not None
    paths = [Path(path) for path in cgroup.paths]
    limits = {
        text
        for path in paths
        for name in ("memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us")
        if (path / name).exists()
        for text in [(path / name).read_text().split()[0]]
    }
    assert limits == {str(64 << 20), "50000"}
    assert not cgroup.was_out_of_memory()
    cgroup.remove()
    assert not any(path.exists() for path in paths)


def test_all_pods_share_a_group_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups cannot have both processes and groups below, so the zygote has one of its own."""
    monkeypatch.setattr(resource_limits, "find_parents", lambda own, mounts: {"memory": [(2, str(tmp_path))]})
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("memory")
    old = tmp_path / "muster-pods-old" / "zygote"
    old.mkdir(parents=True)
    assert enter_pods_group("x", 1000)
    group = tmp_path / "muster-pods-x"
    assert (group / "memory.max").read_text() == "1000"
    assert (group / "zygote" / "cgroup.procs").read_text() == "0"
    assert not (group / "cgroup.procs").exists()
    assert not old.parent.exists()


def test_no_group_for_all_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_limits, "find_parents", lambda own, mounts: {})
    assert not enter_pods_group("x", 1000)
