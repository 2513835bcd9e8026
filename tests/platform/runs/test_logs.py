"""Lines of a log, whatever chunks they arrive in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from muster.kube.cluster import Cluster, LogQuery
from muster.kube.errors import NotFound
from muster.platform.runs.logs import ExecutorLines, LogSource, read_log_lines, read_log_text, save_logs, saved_log

WRITTEN = b"t1 one\nt2 \nt3 three words here\nt4 last"
PLACE = LogSource("default", "pod")


class Pieces:
    """A cluster whose log arrives in chunks of this size."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        for begin in range(0, len(WRITTEN), self._size):
            yield WRITTEN[begin : begin + self._size]


async def over() -> bool:
    return True


@pytest.mark.parametrize("size", [1, 2, 5, 7, 8, 11, 100])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 4, 9])
async def test_no_line_is_lost_or_split(size: int, after: int) -> None:
    cluster = cast(Cluster, Pieces(size))
    lines = [
        line async for bunch in read_log_lines(cluster, PLACE, follow=False, ended=over, after=after) for line in bunch
    ]
    wanted = [(1, "t1", "one"), (2, "t2", ""), (3, "t3", "three words here"), (4, "t4", "last")]
    assert lines == wanted[after:]
    texts = [bunch async for bunch in read_log_text(cluster, PLACE, follow=False, ended=over, after=after)]
    assert "".join(bunch.text for bunch in texts) == "".join(f"{text}\n" for _, _, text in wanted[after:])
    assert not texts or texts[-1].last == 4


class Endless:
    """A cluster whose Pods have written a megabyte each."""

    async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        for _ in range(16):
            yield b"2026-01-01T00:00:00Z text\n" * 2621


async def test_replaced_logs_of_a_run_have_a_budget(tmp_path: Path) -> None:
    cluster = cast(Cluster, Endless())
    for round in range(3):
        await save_logs(cluster, tmp_path, "run", round, "default", ["a", "b"], 2 << 20)
    files = [saved_log(tmp_path, "run", round, pod) for round in range(3) for pod in "ab"]
    assert sum(file.stat().st_size for file in files) < (2 << 20) + 1000
    assert b"not kept" not in files[0].read_bytes()
    assert b"budgets.runLogMegabytes" in files[-1].read_bytes()


NOISE = (
    b't1 time=2026-11-17T21:25:20.256Z level=INFO msg="capturing logs" argo=true',
    b't2 time="2025-01-02T03:04:05.678Z" level=info msg="capturing logs" argo=true',
    b't3 time=2026-11-17T21:25:21.265Z level=INFO msg="sub-process exited" argo=true error="exit status 3"',
)

ARCHIVED = (
    b't4 time="2026-11-18T02:36:25.395Z" level=info msg="Taring /tmp/d"',
    b't5 time="2026-11-18T02:36:25.400Z" level=info msg="archived 7 files/dirs in /tmp/d"',
)
"""What 3.7 writes about the files of a program that has ended."""


@pytest.mark.parametrize(
    ("written", "own"),
    [
        ([b"t one", b"t two"], [b"t one", b"t two"]),
        ([NOISE[0], b"t one", NOISE[1], NOISE[2], b"t Error: exit status 3", b"t two"], [b"t one", b"t two"]),
        ([b"t Error: exit status 3", NOISE[2]], [b"t Error: exit status 3"]),
        ([b"t argo=true", b"t time=now argo=true"], [b"t argo=true", b"t time=now argo=true"]),
        (list(NOISE), []),
        ([b"t one", NOISE[2], *ARCHIVED], [b"t one"]),
        ([*ARCHIVED, NOISE[2]], [*ARCHIVED]),
    ],
)
def test_lines_of_argos_executor_are_left_out(written: list[bytes], own: list[bytes]) -> None:
    assert (ExecutorLines().drop(b"\n".join(written)) or b"").split(b"\n") == (own or [b""])
    lines = ExecutorLines()
    assert [line for line in map(lines.drop, written) if line is not None] == own, "one line at a time"


class NoPod:
    async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        raise NotFound(pod)
        yield b""


@pytest.mark.parametrize("pod", ["gone", ""])
async def test_the_log_of_a_deleted_pod_is_read_from_the_archive(pod: str) -> None:
    async def archived() -> AsyncIterator[bytes]:
        yield b" one\n t"
        yield b"wo\n"

    place = LogSource("default", pod, read_archived=archived)
    found = [bunch async for bunch in read_log_lines(cast(Cluster, NoPod()), place, follow=True, ended=over)]
    assert [line for bunch in found for line in bunch] == [(1, "", "one"), (2, "", "two")]
