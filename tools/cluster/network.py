"""Creates, enters and removes the cluster's network namespace. No traffic leaves it."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tools.cluster.layout import NODE_ADDRESS, Layout

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_homes: list[IO[str]] = []


def make(layout: Layout) -> None:
    """Creates what is missing of it."""
    if not layout.network.exists():
        _ip("netns", "add", layout.identity)
    inside = ("-netns", layout.identity)
    _ip(*inside, "link", "set", "lo", "up")
    if subprocess.run(["ip", *inside, "link", "show", "node0"], capture_output=True).returncode:
        # Not every kernel has dummy links; a bridge without ports works too.
        _ip(*inside, "link", "add", "node0", "type", "bridge")
    _ip(*inside, "address", "replace", f"{NODE_ADDRESS}/24", "dev", "node0")
    _ip(*inside, "link", "set", "node0", "up")
    _ip(*inside, "route", "replace", "default", "via", NODE_ADDRESS, "dev", "node0")
    with entered(layout.network):
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def remove(layout: Layout) -> None:
    if layout.network.exists():
        _ip("netns", "delete", layout.identity)


def inside(layout: Layout, command: Sequence[str]) -> list[str]:
    """Returns the command that runs in the namespace. `ip netns exec` would mount another /sys, in which the kubelet
    finds no control groups."""
    return ["nsenter", f"--net={layout.network}", "--", *command]


@contextmanager
def entered(network: Path) -> Iterator[None]:
    """Puts this thread, and the threads and processes it starts, into the namespace."""
    with _current() as home, network.open() as there:
        _homes.append(home)
        _enter(there)
        try:
            yield
        finally:
            _enter(home)
            _homes.remove(home)


@contextmanager
def left() -> Iterator[None]:
    """Returns this thread to the original namespace, where packages can be downloaded."""
    if not _homes:
        yield
        return
    with _current() as here:
        _enter(_homes[0])
        try:
            yield
        finally:
            _enter(here)


def _current() -> IO[str]:
    return Path("/proc/thread-self/ns/net").open()


def _enter(namespace: IO[str]) -> None:
    if _libc.setns(namespace.fileno(), _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot enter the network namespace: {os.strerror(number)}")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
