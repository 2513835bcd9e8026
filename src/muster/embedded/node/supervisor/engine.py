"""The command lines by which a container that an image engine runs is reached. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from muster.embedded.node.supervisor.contract import EngineCommands


def exec_command(
    engine: EngineCommands, argv: list[str], env: Mapping[str, str], cwd: str, *, terminal: bool
) -> list[str]:
    prefix = engine["exec"]
    cut = prefix.index("exec") + 1 if "exec" in prefix else len(prefix) - 1
    options = ["-i", "-t"] if terminal else ["-i"]
    for name, value in env.items():
        options += ["-e", f"{name}={value}"]
    if cwd:
        options += ["-w", cwd]
    return [*prefix[:cut], *options, *prefix[cut:], *argv]


def kill_command(engine: EngineCommands, number: int) -> list[str]:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = str(number)
    return [*engine["kill"], name, engine["name"]]
