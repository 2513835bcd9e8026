"""Which variables an expression needs, as Argo asks before it evaluates one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from muster.workflows.expressions.grammar import BUILTINS
from muster.workflows.expressions.parser import parse
from muster.workflows.expressions.syntax import Binary, Let, Member, Name, Node, String, walk


@lru_cache(maxsize=2048)
def references(text: str) -> tuple[str, ...]:
    """Names and member paths (`tasks`, `tasks.a`, `tasks.a.outputs`, ...) that an expression needs, each once.

    Members left of `??` and those that `?.` looks into may be missing, so they are not needed; the variable they start
    from is. Raises ExpressionError if the expression cannot be read."""
    tree = parse(text)
    guarded = set(_guarded(tree))
    declared = {node.name for node in walk(tree) if isinstance(node, Let)}
    found: dict[str, None] = {}
    for node in walk(tree):
        if isinstance(node, Name) and node.value not in declared:
            found.setdefault(node.value)
        elif isinstance(node, Member) and node not in guarded:
            path = _path(node)
            if path and path[0] not in declared:
                found.setdefault(".".join(path))
    return tuple(found)


@lru_cache(maxsize=2048)
def roots(text: str) -> frozenset[str] | None:
    """The variables of a scope that can matter to an expression: those it names, and those that would stand in for one
    of the language's functions. None: all of them. Raises ExpressionError if the expression cannot be read."""
    tree = parse(text)
    names = {node.value for node in walk(tree) if isinstance(node, Name)}
    # A variable of the scope cannot be declared anew, so those that the expression declares matter, too.
    declared = {node.name for node in walk(tree) if isinstance(node, Let)}
    return None if "$env" in names else BUILTINS | names | declared


def missing(names: tuple[str, ...], env: Mapping[str, Any]) -> list[str]:
    """Those of the names that an environment does not have. One that is there and nil is there."""
    return [name for name in names if not _is_there(name, env)]


def _guarded(tree: Node) -> Iterator[Node]:
    for node in walk(tree):
        if isinstance(node, Binary) and node.operator == "??":
            yield from (part for part in walk(node.left) if isinstance(part, Member))
        elif isinstance(node, Member) and node.optional and isinstance(node.base, Member):
            yield node.base


def _path(node: Member) -> list[str] | None:
    parts: list[str] = []
    current: Node = node
    while isinstance(current, Member):
        if current.optional or not isinstance(current.key, String):
            return None
        parts.append(current.key.value)
        current = current.base
    return [current.value, *reversed(parts)] if isinstance(current, Name) else None


def _is_there(name: str, env: Mapping[str, Any]) -> bool:
    if name in env:
        return True
    current: Any = env
    for part in name.split("."):
        if not isinstance(current, Mapping) or part not in current:
            return False
        current = current[part]
    return True
