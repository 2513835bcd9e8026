"""How long logs stay: of Pods that have gone, those too old, and beyond a total size the ones that went first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import NamedTuple

from muster.embedded.agent.settings import LogLimits


class PodLogs(NamedTuple):
    """What is kept of one Pod."""

    path: str
    uid: str
    bytes: int
    written: float
    """When last, in epoch seconds."""


def to_drop(kept: Iterable[PodLogs], live: Collection[str], limits: LogLimits, now: float) -> list[PodLogs]:
    """`live` are the uids of Pods that exist: their logs stay, but count."""
    drop: list[PodLogs] = []
    total = 0
    gone: list[PodLogs] = []
    for logs in kept:
        if logs.uid in live:
            total += logs.bytes
        elif now - logs.written > limits.keep_seconds:
            drop.append(logs)
        else:
            total += logs.bytes
            gone.append(logs)
    for logs in sorted(gone, key=lambda found: found.written):
        if total <= limits.total_bytes:
            break
        total -= logs.bytes
        drop.append(logs)
    return drop


def sweep(root: str, live: Collection[str], limits: LogLimits, now: float) -> int:
    """Drops what is to go; answers how many Pods' logs that were. Slow on large folders: not for the event loop."""
    drop = to_drop(list(kept_logs(root)), live, limits, now)
    for logs in drop:
        shutil.rmtree(logs.path, ignore_errors=True)
        for parent in (os.path.dirname(logs.path), os.path.dirname(os.path.dirname(logs.path))):
            with suppress(OSError):
                os.rmdir(parent)  # refuses while others are in it
    return len(drop)


def kept_logs(root: str) -> Iterable[PodLogs]:
    for namespace in _folders(root):
        for pod in _folders(namespace):
            for path in _folders(pod):
                size, written = 0, _mtime(path)
                for container in _folders(path):
                    written = max(written, _mtime(container))
                    with suppress(OSError), os.scandir(container) as files:
                        for file in files:
                            found = file.stat()
                            size += found.st_size
                            written = max(written, found.st_mtime)
                yield PodLogs(path, os.path.basename(path), size, written)


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
