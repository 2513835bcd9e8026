"""`muster exec`: runs a command in a container, with -t on this terminal."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty as ttys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import warn
from muster.cli.session import Session, on_cluster
from muster.kube.cluster import Process
from muster.kube.objects import Object, annotations_of, owners_of, spec_of, status_of, uid_of

_PIECE = 65536


@on_cluster
async def exec_(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="(POD | TYPE/NAME)")],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND [ARGS...]")],
    container: Annotated[str, typer.Option("--container", "-c", help="The container. Default: the first one.")] = "",
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass stdin to the command.")] = False,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Allocate a terminal.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the output of the command.")] = False,
) -> None:
    """Run a command in a container."""
    pod = await _find_pod(session, target)
    if not container:
        container = _default_container(pod, quiet)
    if tty and not (stdin and sys.stdin.isatty()):
        if not quiet:
            warn("Unable to use a TTY - input is not a terminal or the right kind of file")
        tty = False
    process = await session.cluster.exec(
        pod["metadata"]["name"], session.namespace, command, container=container, stdin=stdin, tty=tty
    )
    code = await attach_process(process, stdin=stdin, tty=tty)
    if code:
        if not quiet and not tty:
            warn(f"command terminated with exit code {code}")
        raise CommandExit(code)


async def attach_process(process: Process, *, stdin: bool, tty: bool) -> int:
    """Connects a process to this terminal until it ends. Returns its exit code."""
    try:
        with _raw_terminal() if tty else nullcontext():
            return await _connect_streams(process, stdin=stdin, tty=tty)
    finally:
        await process.close()


async def _find_pod(session: Session, target: str) -> Object:
    kind, name = await session.target(target)
    found = await session.cluster.get(kind, name, session.namespace)
    if kind.kind == "Pod" and not kind.group:
        if status_of(found).get("phase") in ("Succeeded", "Failed"):
            raise CommandError(
                f"error: cannot exec into a container of a completed pod; {name} is {found['status']['phase']}"
            )
        return found
    pods = session.cluster.catalogue.of("v1", "Pod")
    listing = await session.cluster.list(pods, session.namespace)
    for pod in listing.items:
        owned = any(ref.get("uid") == uid_of(found) for ref in owners_of(pod))
        if owned and status_of(pod).get("phase") == "Running":
            return pod
    raise CommandError(f"error: {target} has no running Pod")


def _default_container(pod: Object, quiet: bool) -> str:
    names = [str(c["name"]) for c in spec_of(pod).get("containers") or ()]
    chosen = annotations_of(pod).get("kubectl.kubernetes.io/default-container") or names[0]
    if len(names) > 1 and not quiet:
        warn(f'Defaulted container "{chosen}" out of: {", ".join(names)}')
    return chosen


async def _connect_streams(process: Process, *, stdin: bool, tty: bool) -> int:
    loop = asyncio.get_running_loop()
    typed_input: asyncio.Queue[bytes] = asyncio.Queue()
    helpers: list[asyncio.Task[None]] = []
    if stdin:
        _read_stdin(loop, typed_input)
        helpers.append(asyncio.create_task(_send(process, typed_input)))
    if tty:
        resized = asyncio.Event()
        resized.set()
        loop.add_signal_handler(signal.SIGWINCH, resized.set)
        helpers.append(asyncio.create_task(_resize(process, resized)))
    try:
        async for channel, data in process.output():
            out = sys.stdout.buffer if channel == 1 else sys.stderr.buffer
            out.write(data)
            out.flush()
        return await process.wait()
    finally:
        if stdin:
            loop.remove_reader(sys.stdin.fileno())
        if tty:
            loop.remove_signal_handler(signal.SIGWINCH)
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)


def _read_stdin(loop: asyncio.AbstractEventLoop, typed_input: asyncio.Queue[bytes]) -> None:
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        data = os.read(descriptor, _PIECE)
        typed_input.put_nowait(data)
        if not data:
            loop.remove_reader(descriptor)

    try:
        loop.add_reader(descriptor, readable)
    except (PermissionError, OSError):
        # A regular file is always readable, so the event loop cannot wait for it.
        while data := os.read(descriptor, _PIECE):
            typed_input.put_nowait(data)
        typed_input.put_nowait(b"")


async def _send(process: Process, typed_input: asyncio.Queue[bytes]) -> None:
    while True:
        data = await typed_input.get()
        await process.write(data)
        if not data:
            return


async def _resize(process: Process, resized: asyncio.Event) -> None:
    while True:
        await resized.wait()
        resized.clear()
        size = shutil.get_terminal_size()
        await process.resize(size.lines, size.columns)


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Passes all keys through, including Ctrl-C, until the block ends."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        ttys.setraw(descriptor, termios.TCSADRAIN)  # what was typed_input ahead stays
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
