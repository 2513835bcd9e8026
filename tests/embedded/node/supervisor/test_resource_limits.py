from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.embedded.node.supervisor.resource_limits import (
    ResourceLimits,
    can_limit,
    create_cgroup,
    enter_pods_group,
)


def may_raise_limits() -> bool:
    status = Path("/proc/self/status").read_text()
    capabilities = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(capabilities, 16) >> 24 & 1)


def in_child(check: Callable[[], bool]) -> bool:
    """Limits cannot all be undone, so a child process applies them."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_limits_cannot_be_exceeded_by_a_child() -> None:
    def check() -> bool:
        ResourceLimits().apply({"openFiles": 100, "processes": 50})
        files, processes = resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_NPROC)
        return files[1] == 100 and files[0] <= 100 and processes[1] == 50 and resource.getrlimit(4) == (0, 0)

    assert in_child(check)


@pytest.mark.skipif(not may_raise_limits(), reason="needs CAP_SYS_RESOURCE, which raises a limit again")
def test_the_next_pod_of_a_supervisor_has_its_own_limits() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def check() -> bool:
        limits = ResourceLimits()
        limits.apply({"openFiles": 100, "processes": 50})
        limits.apply({"openFiles": 200})
        files = resource.getrlimit(resource.RLIMIT_NOFILE)
        limits.apply({})
        return files[1] == 200 and resource.getrlimit(resource.RLIMIT_NOFILE) == before

    assert in_child(check)


def test_a_limit_above_the_machines_changes_nothing() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def check() -> bool:
        limits = ResourceLimits()
        limits.apply({"openFiles": 1 << 40})
        return resource.getrlimit(resource.RLIMIT_NOFILE) == before and limits.explanation == ""

    assert in_child(check)


@pytest.mark.skipif(not can_limit()[0], reason="needs control groups")
def test_a_server_that_starts_leaves_the_containers_of_another_one_alone() -> None:
    def start_another_server() -> bool:
        return enter_pods_group(f"other-{os.getpid()}", 1 << 40)

    def check() -> bool:
        own = os.getpid()
        assert enter_pods_group(f"test-{own}", 1 << 40)
        container = create_cgroup(f"test-{own}", 1 << 30, None)
        assert container is not None
        parent = os.open(f"{os.path.dirname(os.path.dirname(container.paths[0]))}/cgroup.procs", os.O_WRONLY)
        try:
            # From where the first server has started.
            found = in_child(lambda: bool(os.write(parent, b"0")) and start_another_server())
            return found and os.write(container.procs[0], b"0") == 1
        finally:
            os.write(parent, b"0")
            container.remove()

    assert in_child(check)
