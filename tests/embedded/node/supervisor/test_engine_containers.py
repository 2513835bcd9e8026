"""Containers that an image engine runs; here a test engine that keeps its containers' processes in files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from muster.embedded.node.supervisor.contract import Isolation, JournalEntry

if TYPE_CHECKING:
    from tests.embedded.node.supervisor.conftest import Pods

Exits = Callable[[list[JournalEntry]], list[tuple[str, int, int, str]]]

ENGINE = """#!/bin/sh
echo "$*" >> "$0.calls"
case $1 in
run) name=$2; shift 2
    setsid "$@" & echo $! > "$0.$name"; wait $!
    code=$?; exit $code;;
exec) shift; while [ "$1" != box ]; do shift; done; shift
    exec env INSIDE=yes "$@";;
kill) kill -s "${3#SIG}" "$(cat "$0.$4")";;
rm) kill -s KILL "$(cat "$0.$3")"; rm -f "$0.$3"; exit 0;;
esac
"""


@pytest.fixture
def isolation() -> Isolation:
    return "none"


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "engine"
    path.write_text(ENGINE)
    path.chmod(0o755)
    return path


def boxed(engine: Path, *argv: str) -> dict[str, Any]:
    program = str(engine)
    return {
        "argv": [program, "run", "box", *argv],
        "engine": {
            "name": "box",
            "exec": [program, "exec", "box"],
            "kill": [program, "kill", "--signal"],
            "remove": [program, "rm", "-f", "box"],
        },
    }


async def test_the_engines_container_is_ours(pods: Pods, engine: Path, exits: Exits) -> None:
    folder = await pods.start("pod", **boxed(engine, "sh", "-c", "echo hello; exit 4"))
    assert exits(await pods.finished(folder)) == [("main", 0, 4, "Error")]
    assert pods.log(folder) == ["hello"]
    assert Path(f"{engine}.calls").read_text().splitlines()[-1] == "rm -f box"


async def test_the_container_is_stopped_through_the_engine(pods: Pods, engine: Path, exits: Exits) -> None:
    script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    folder = await pods.start("pod", **boxed(engine, "sh", "-c", script))
    await pods.printed(folder, "up")
    await pods.stop(folder, 20.0)
    await pods.finished(folder)
    assert "kill --signal SIGTERM box" in Path(f"{engine}.calls").read_text().splitlines()
    assert "asked" in pods.log(folder)


async def test_commands_run_through_the_engine(pods: Pods, engine: Path) -> None:
    probe = {"kind": "exec", "command": ["sh", "-c", "test $INSIDE = yes"], "period": 0.05, "timeout": 5.0}
    folder = await pods.start("pod", **boxed(engine, "sleep", "600"), readinessProbe=probe)
    await pods.event(folder, "ready", ready=True)
    ours, theirs = os.pipe()
    request: Any = {"op": "exec", "container": "main", "argv": ["sh", "-c", "echo $INSIDE"]}
    with await pods.ask(folder, request, theirs, theirs, theirs) as control:
        os.close(theirs)
        await control.answer()
        assert await control.answer() == {"code": 0}
    with open(ours) as stream:
        assert stream.read() == "yes\n"
    assert "exec -i box sh -c echo $INSIDE" in Path(f"{engine}.calls").read_text().splitlines()
