"""What containers print."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.embedded.node.supervisor.conftest import Pods

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)")


def parsed(path: Path) -> list[tuple[str, str, str]]:
    found = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    return [(match[1], match[2], match[3]) for match in found if match is not None]


async def test_both_streams_are_kept_apart_and_nothing_is_lost(pods: Pods) -> None:
    folder = await pods.start("pod", "sh", "-c", "echo out; echo err >&2; printf 'no end'")
    await pods.finished(folder)
    lines = parsed(folder / "logs/main/0.log")
    assert sorted(lines) == [("stderr", "F", "err"), ("stdout", "F", "out"), ("stdout", "P", "no end")]


async def test_a_container_that_prints_nothing_has_no_log_file(pods: Pods) -> None:
    folder = await pods.start("pod", "true")
    await pods.finished(folder)
    assert not (folder / "logs").exists()


async def test_much_is_written_whole_and_in_order(pods: Pods) -> None:
    folder = await pods.start("pod", "seq", "300000", logFileBytes=1 << 30)
    await pods.finished(folder)
    assert pods.log(folder) == [str(n) for n in range(1, 300001)]


async def test_full_files_are_kept_up_to_their_number(pods: Pods) -> None:
    folder = await pods.start("pod", "seq", "100000", logFileBytes=1 << 20, logFiles=3)
    await pods.finished(folder)
    logs = folder / "logs/main"
    kept = ["0.log.2", "0.log.1", "0.log"]
    assert sorted(os.listdir(logs)) == sorted([*kept, "0.log.left-out"])
    numbers = [int(text) for name in kept for _, _, text in parsed(logs / name)]
    assert numbers == list(range(numbers[0], 100001))
    sizes = [(logs / name).stat().st_size for name in kept]
    assert all(size <= 1 << 20 for size in sizes)
    left_out, file_bytes, files = map(int, (logs / "0.log.left-out").read_text().split())
    line = len("2026-01-01T00:00:00.000000000Z stdout F ")
    everything = sum(line + len(f"{number}\n") for number in range(1, 100001))
    assert (left_out + sum(sizes), file_bytes, files) == (everything, 1 << 20, 3)


async def test_a_log_can_be_read_while_it_is_written(pods: Pods) -> None:
    folder = await pods.start("pod", "sh", "-c", "echo first; sleep 600")
    await pods.printed(folder, "first")


@pytest.mark.parametrize(("code", "message"), [(0, None), (1, "one\ntwo\n")])
async def test_the_last_log_lines_can_be_the_termination_message(pods: Pods, code: int, message: str | None) -> None:
    script = f"echo one; echo two; exit {code}"
    *_, end, _ = await pods.run("pod", "sh", "-c", script, terminationMessageFromLogs=True)
    assert end.get("message") == message


async def test_a_program_is_not_held_up_by_a_log_that_cannot_be_written(pods: Pods) -> None:
    folder = pods.write("pod", "sh", "-c", "seq 100000; echo done")
    (folder / "logs").write_text("in the way")
    await pods.zygote.start(folder)
    assert (await pods.finished(folder))[-1]["phase"] == "Succeeded"
