from __future__ import annotations

import pytest

from muster.embedded.node.supervisor.attempt import exec_command, kill_command
from muster.embedded.node.supervisor.contract import EngineCommands

ENGINE: EngineCommands = {
    "name": "box",
    "exec": ["/usr/bin/podman", "--runtime", "runc", "exec", "box"],
    "kill": ["/usr/bin/podman", "kill", "--signal"],
}


@pytest.mark.parametrize(
    ("env", "cwd", "terminal", "options"),
    [
        ({}, "", False, ["-i"]),
        ({}, "", True, ["-i", "-t"]),
        ({"A": "b c"}, "/work", False, ["-i", "-e", "A=b c", "-w", "/work"]),
    ],
)
def test_options_come_before_the_name(env: dict[str, str], cwd: str, terminal: bool, options: list[str]) -> None:
    command = exec_command(ENGINE, ["ls", "-l"], env, cwd, terminal=terminal)
    assert command == ["/usr/bin/podman", "--runtime", "runc", "exec", *options, "box", "ls", "-l"]


@pytest.mark.parametrize(("number", "name"), [(15, "SIGTERM"), (9, "SIGKILL"), (40, "40")])
def test_a_signal_goes_by_its_name(number: int, name: str) -> None:
    assert kill_command(ENGINE, number) == ["/usr/bin/podman", "kill", "--signal", name, "box"]
