"""Daemons: nodes that run on until the template around them is done."""

from __future__ import annotations

from typing import Protocol

from muster.workflows.engine.tree import Tree


class Daemon(Protocol):
    @property
    def id(self) -> str: ...

    def dismiss(self) -> None: ...


class Daemons:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._inside: dict[str, dict[str, Daemon]] = {}

    def add(self, daemon: Daemon) -> None:
        self._inside.setdefault(self._boundary(daemon), {})[daemon.id] = daemon

    def drop(self, daemon: Daemon) -> None:
        """It has ended by itself."""
        self._inside.get(self._boundary(daemon), {}).pop(daemon.id, None)

    def dismiss(self, boundary: str) -> None:
        """Those who needed them are done."""
        for daemon in list(self._inside.pop(boundary, {}).values()):
            daemon.dismiss()

    def dismiss_all(self) -> None:
        for boundary in list(self._inside):
            self.dismiss(boundary)

    def _boundary(self, daemon: Daemon) -> str:
        return self._tree.nodes[daemon.id].get("boundaryID") or ""
