"""Which part of Argo's API a path and a method mean. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from muster.embedded.api.calls import Answer
from muster.kube.errors import MethodNotAllowed, NotFound
from muster.server.argo.requests import Request

Handler: TypeAlias = Callable[[Request], Awaitable[Answer | None]]


_SHARED = ("api/v1/events",)
"""The Kubernetes API has these, too: only what is certainly Argo's is."""


class Route(NamedTuple):
    method: str
    pattern: tuple[str, ...]
    handler: Handler


def route(method: str, path: str, handler: Handler) -> Route:
    """A pattern such as `/api/v1/workflows/{namespace}`; `{rest...}` at its end stands for all that follows."""
    return Route(method, tuple(path.strip("/").split("/")), handler)


class Routes:
    """Earlier routes go first, so that `lint` is not taken for a name."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes: dict[str, list[Route]] = {}
        for one in routes:
            self._routes.setdefault(_prefix(one.pattern), []).append(one)

    def knows(self, method: str, path: str) -> bool:
        """Whether the request is Argo's at all."""
        parts = path.removeprefix("/").split("/")
        known = self._routes.get(_prefix(parts))
        if known is None or _prefix(parts) not in _SHARED:
            return known is not None
        return any(one.method == method and matched(one.pattern, parts) is not None for one in known)

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]]:
        parts = path.removeprefix("/").split("/")
        others: set[str] = set()
        for one in self._routes.get(_prefix(parts), ()):
            names = matched(one.pattern, parts)
            if names is None:
                continue
            if one.method == method or (method == "HEAD" and one.method == "GET"):
                return one.handler, names
            others.add(one.method)
        if others:
            raise MethodNotAllowed(f"{method} is not allowed on {path}; it takes {', '.join(sorted(others))}")
        raise NotFound(f"there is nothing at {path}")


def matched(pattern: Iterable[str], parts: list[str]) -> dict[str, str] | None:
    """What the names in braces stand for; they may be empty (`/workflows/` are those of all namespaces)."""
    names: dict[str, str] = {}
    wanted = list(pattern)
    for number, piece in enumerate(wanted):
        if piece.endswith("...}"):
            names[piece[1:-4]] = "/".join(parts[number:])
            return names
        if number >= len(parts):
            # Only a last name may be left out altogether.
            if number == len(wanted) - 1 and piece.startswith("{") and "namespace" in piece:
                names[piece[1:-1]] = ""
                return names
            return None
        if piece.startswith("{"):
            names[piece[1:-1]] = parts[number]
        elif piece != parts[number]:
            return None
    return names if len(parts) == len(wanted) or (len(parts) == len(wanted) + 1 and not parts[-1]) else None


def _prefix(parts: Any) -> str:
    return "/".join(parts[:3] if parts[0] == "api" else parts[:1])
