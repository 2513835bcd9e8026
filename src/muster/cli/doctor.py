"""`muster doctor`: checks what this machine supports, and recommends what to install for the rest."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

import typer

from muster import __version__
from muster.cli.errors import CommandExit
from muster.cli.formats import format_json
from muster.cli.output import colorize, echo, supports_color
from muster.cli.session import Debug, configure_logging, home
from muster.embedded.node.image_engine import EngineName, EngineProblem, ImageEngine, find_engine
from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.machine import MachineInfo, inspect_machine
from muster.embedded.node.supervisor.resource_limits import can_limit
from muster.server.pidfile import running_server

Grade: TypeAlias = Literal["ok", "limited", "missing"]
_MARKS = {"ok": ("✓", "green"), "limited": ("!", "yellow"), "missing": ("✗", "red")}
_GIBI = 1024**3
_LITTLE_SPACE = 2 * _GIBI


class Finding(NamedTuple):
    name: str
    grade: Grade
    text: str
    advice: str = ""


def doctor(
    output: Annotated[str, typer.Option("--output", "-o", help="Output format: json.")] = "",
    debug: Debug = False,
) -> None:
    """Check what this machine supports, and what to install for the rest."""
    configure_logging(debug)
    findings = asyncio.run(examine(home()))
    if output == "json":
        echo(format_json([finding._asdict() for finding in findings]).rstrip())
    else:
        echo("\n".join(report(findings, colors=supports_color())))
    if any(finding.grade == "missing" and finding.name in _NEEDED for finding in findings):
        raise CommandExit(1)


_NEEDED = ("system", "data", "ports")


async def examine(folder: Path) -> list[Finding]:
    machine = inspect_machine(folder)
    podman, docker = await asyncio.gather(find_engine("podman"), find_engine("docker"))
    return [
        system(platform.system(), sys.version_info[:3], machine),
        resources(machine),
        gpus(machine, shutil.which("nvidia-smi") is not None),
        sandbox(*probe_isolation()),
        limits(*can_limit()),
        engine(podman),
        engine(docker),
        ports(*_try_ports()),
        data(folder, *_try_data(folder)),
        server(folder),
    ]


def report(findings: Sequence[Finding], *, colors: bool) -> list[str]:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        mark, style = _MARKS[finding.grade]
        lines.append(f"{colorize(mark, style, on=colors)} {finding.name:<{width}}  {finding.text}")
        lines += [f"  {'':<{width}}  {colorize(line, 'dim', on=colors)}" for line in finding.advice.splitlines()]
    return lines


def system(name: str, python: tuple[int, ...], machine: MachineInfo) -> Finding:
    version = ".".join(str(part) for part in python)
    text = (
        f"muster {__version__}, Python {version}, {machine.os_image}, kernel {machine.kernel} ({machine.architecture})"
    )
    if name != "Linux":
        return Finding("system", "missing", text, "Pods need Linux; a virtual machine or WSL 2 works, too.")
    return Finding("system", "ok", text)


def resources(machine: MachineInfo) -> Finding:
    return Finding("machine", "ok", f"{machine.cores} cores, {machine.memory_bytes / _GIBI:.1f} GiB of memory")


def gpus(machine: MachineInfo, has_tool: bool) -> Finding:
    if machine.devices:
        found = ", ".join(f"{len(ids)} x {resource}" for resource, ids in machine.devices.items())
        return Finding("gpus", "ok", found)
    if has_tool:
        return Finding(
            "gpus", "limited", "nvidia-smi is installed, but lists no GPU", "Check the output of `nvidia-smi`."
        )
    return Finding("gpus", "ok", "none; Pods that request one stay Pending")


def sandbox(isolation: str, why: str) -> Finding:
    """`why` describes the isolation of Pods, or what prevents it."""
    return Finding("sandbox", "limited" if isolation == "none" else "ok", why)


def limits(memory: bool, cpu: bool) -> Finding:
    if memory and cpu:
        return Finding("limits", "ok", "memory and CPU limits are enforced by control groups")
    missing = " and ".join(name for name, there in (("memory", memory), ("CPU", cpu)) if not there)
    advice = (
        "This user may not create control groups. Run as root, or in a session with delegation:\n"
        "systemd-run --user --scope -p Delegate=yes muster up"
    )
    instead = (
        "; memory is polled instead, which notices a sudden rise late, and Pods without a limit may use all of it"
        if not memory
        else ""
    )
    return Finding("limits", "limited", f"{missing} limits are not enforced by the kernel{instead}", advice)


def engine(found: ImageEngine | EngineProblem) -> Finding:
    name: EngineName = found.name
    if isinstance(found, ImageEngine):
        options = " ".join((*found.globals, *found.run_options))
        text = f"runs images with `--runtime {name}`" + (f" (with the options {options})" if options else "")
        return Finding(name, "ok", text if found.limits else f"{text}; limits cannot be set")
    return Finding(name, "limited", found.message, f"Only needed for `--runtime {name}`, to run real images.")


def ports(loopback: bool, own_addresses: bool) -> Finding:
    if not loopback:
        return Finding(
            "ports", "missing", "cannot listen on 127.0.0.1", "Enable the loopback device: ip link set lo up"
        )
    if not own_addresses:
        return Finding("ports", "limited", "all Pods share one address, because 127.0.0.2 and others cannot be used")
    return Finding("ports", "ok", "each Pod can have its own address (127.0.0.0/8)")


def data(folder: Path, problem: str, free: int) -> Finding:
    if problem:
        advice = "Set MUSTER_HOME to a writable directory."
        return Finding("data", "missing", f"{folder}: {problem}", advice)
    text = f"{folder}, {free / _GIBI:.1f} GiB free"
    if free < _LITTLE_SPACE:
        return Finding(
            "data",
            "limited",
            text,
            "There is little space for volumes and logs. Free some, or set MUSTER_HOME to another disk.",
        )
    return Finding("data", "ok", text)


def server(folder: Path) -> Finding:
    info = running_server(folder)
    if info is None:
        return Finding("cluster", "ok", "not running; `muster up` starts one, and `muster run` starts its own")
    return Finding("cluster", "ok", f"running at {info.url} (process {info.pid})")


def _try_ports() -> tuple[bool, bool]:
    return _can_listen("127.0.0.1"), _can_listen("127.0.0.2")


def _can_listen(address: str) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind((address, 0))
        except OSError:
            return False
        return True


def _try_data(folder: Path) -> tuple[str, int]:
    """Returns what is wrong with the folder ('' if nothing), and the free bytes."""
    existing = folder
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        return f"{existing} is not a directory", 0
    if not os.access(existing, os.W_OK | os.X_OK):
        return "is not writable", 0
    return "", shutil.disk_usage(existing).free
