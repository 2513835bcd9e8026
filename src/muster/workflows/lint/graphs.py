"""Who waits for whom: an order for that, or a circle in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping


def ordered(graph: Mapping[str, Collection[str]]) -> list[str]:
    """The names, each behind those it depends on. Those in a circle, or behind one, are left out."""
    waiting = {name: len(needed) for name, needed in graph.items()}
    followers: dict[str, list[str]] = {}
    for name, needed in graph.items():
        for other in needed:
            followers.setdefault(other, []).append(name)
    ready = deque(name for name, count in waiting.items() if count == 0)
    order = []
    while ready:
        name = ready.popleft()
        order.append(name)
        for follower in followers.get(name, ()):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                ready.append(follower)
    return order


def cycle(graph: Mapping[str, Collection[str]]) -> list[str]:
    """A circle, its first name again at the end; [] if there is none."""
    rest = graph.keys() - set(ordered(graph))
    # What is left over waits for something else that is: going on like this has to come back.
    name = next((n for n in graph if n in rest), None)
    path: dict[str, None] = {}
    while name is not None and name not in path:
        path[name] = None
        name = next((other for other in graph[name] if other in rest), None)
    if name is None:
        return []
    steps = list(path)
    return [*steps[steps.index(name) :], name]


def ancestors_among(
    order: Iterable[str], graph: Mapping[str, Collection[str]], wanted: Mapping[str, Collection[str]]
) -> dict[str, set[str]]:
    """Of the names each one asks about, those it comes after. A bit for every name that is asked about keeps this
    linear, however long the way to it is."""
    asked = {name for names in wanted.values() for name in names}
    bits = {name: 1 << index for index, name in enumerate(sorted(asked))}
    before: dict[str, int] = {}
    found: dict[str, set[str]] = {}
    for name in order:
        seen = 0
        for other in graph[name]:
            seen |= before.get(other, 0) | bits.get(other, 0)
        before[name] = seen
        if wanted.get(name):
            found[name] = {other for other in wanted[name] if seen & bits[other]}
    return found
