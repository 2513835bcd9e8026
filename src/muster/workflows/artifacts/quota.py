"""How much a restricted namespace may keep in the local repository."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from muster.kube.beneath import Folder
from muster.kube.budgets import Budgets, setting_name
from muster.kube.file_names import path_component
from muster.workflows.artifacts.errors import ArtifactError

_FRESH_SECONDS = 600.0
_AGAIN_SECONDS = 10.0
"""A namespace that is full is measured again after this time: something may have been deleted."""


@dataclass(slots=True)
class _Use:
    files: int
    size: int
    measured: float


class ArtifactQuota:
    """Counts what is stored, and measures it now and then. All calls block; they are safe in threads."""

    def __init__(self, folder: Path, budgets: Budgets, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._budgets, self._clock = folder, budgets, clock
        self._uses: dict[str, _Use] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def take(self, namespace: str, path: Path) -> None:
        """Makes room for a file or folder that is about to be stored. Raises ArtifactError."""
        files, size = measure(path)
        with self._locks[namespace]:
            use = self._uses.get(namespace)
            age = self._clock() - use.measured if use is not None else _FRESH_SECONDS
            if use is None or age >= _FRESH_SECONDS or (age >= _AGAIN_SECONDS and self._problem(use, files, size)):
                found = measure(self._folder / path_component(namespace))
                use = self._uses[namespace] = _Use(*found, self._clock())
            problem = self._problem(use, files, size)
            if problem:
                raise ArtifactError(problem)
            use.files += files
            use.size += size

    def _problem(self, use: _Use, files: int, size: int) -> str:
        most = self._budgets.member_artifact_megabytes
        if use.size + size > most << 20:
            return (
                f"the artifacts of the namespace would exceed {setting_name('member_artifact_megabytes')} ({most}): "
                "delete runs that are no longer needed"
            )
        if use.files + files > self._budgets.member_artifact_files:
            return (
                f"the artifacts of the namespace would exceed {setting_name('member_artifact_files')} "
                f"({self._budgets.member_artifact_files}): delete runs that are no longer needed"
            )
        return ""


def measure(path: Path) -> tuple[int, int]:
    """Returns the number of entries and their bytes. Follows no link."""
    with suppress(FileNotFoundError), Folder.at(path.parent) as beside:
        kind, size = beside.look([path.name])
        if kind != "folder":
            return (1, size) if kind else (0, 0)
        files = size = 0
        for entry in beside.walk([path.name]):
            files += 1
            size += entry.size if entry.kind == "file" else 0
        return files, size
    return 0, 0
