from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.embedded.node.machine import amd_gpus, inspect_machine, measure_usage, nvidia_gpus, parse_stat, sum_trees


def test_gpus_are_read_from_what_the_tools_print() -> None:
    listing = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d)\n  MIG 1g.5gb Device 0: x\nGPU 1: NVIDIA A100 (UUID: GPU-6)\n"
    )
    assert nvidia_gpus(listing) == ("0", "1")
    assert nvidia_gpus("No devices were found\n") == ()
    assert amd_gpus("GPU[0]\t\t: Device Name: x\nGPU[0]\t\t: Device ID: 1\nGPU[1]\t\t: Device Name: y\n") == ("0", "1")


def test_this_machine(tmp_path: Path) -> None:
    machine = inspect_machine(tmp_path / "not" / "there" / "yet")
    assert machine.cores == len(os.sched_getaffinity(0))
    assert machine.memory_bytes > 0 and machine.storage_bytes > 0
    assert machine.hostname and machine.kernel and machine.os_image


@pytest.mark.parametrize("name", ["true", "a (b) c", ") 1 2"])
def test_a_process_may_have_any_name(name: str) -> None:
    fields = ["S", "7", *["0"] * 9, "1", "2", "3", "4", *["0"] * 6, "50", "0"]
    assert tuple(parse_stat(f"12 ({name}) {' '.join(fields)}")) == (7, 10, 50)


def test_a_pod_is_its_supervisors_tree() -> None:
    stat = "1 (x) S {parent} 0 0 0 0 0 0 0 0 0 {ticks} 0 0 0 0 0 0 0 0 0 {pages}"
    lines = {1: (0, 999, 9), 10: (1, 1, 100), 11: (10, 200, 1), 12: (11, 300, 2), 20: (1, 5, 5)}
    processes = {
        pid: parse_stat(stat.format(parent=parent, ticks=ticks, pages=pages))
        for pid, (parent, ticks, pages) in lines.items()
    }
    found = sum_trees({"a": 10, "b": 20, "gone": 30}, processes)
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert found == {"a": (500 / tick, 3 * page), "b": (0.0, 0)}


def test_usage_of_a_real_tree() -> None:
    script = "x = bytearray(50_000_000); print(flush=True); input()"
    shell = subprocess.Popen(
        ["sh", "-c", f"{sys.executable} -c '{script}'; :"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert shell.stdin is not None and shell.stdout is not None
    shell.stdout.readline()
    assert measure_usage({"pod": shell.pid})["pod"].memory_bytes > 50_000_000
    shell.communicate(b"\n")
    assert measure_usage({"pod": shell.pid}) == {}
    assert measure_usage({}) == {}
