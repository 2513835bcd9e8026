"""The nodes of a workflow as a tree of lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from muster.cli.workflow_status import took, waits
from muster.kube.objects import Object, name_of, status_of

_GROUPS = ("StepGroup", "TaskGroup", "Retry")
"""Their children belong to them, not to the template around."""
_MARKS = {
    "Pending": "·",
    "Running": "●",
    "Succeeded": "✔",
    "Failed": "✖",
    "Error": "⚠",
    "Skipped": "○",
    "Omitted": "○",
}
_NUMBER = re.compile(r"\((\d+)(?::.*)?\)$")
_UNEXCITING = ("Succeeded", "Pending", "Skipped", "Omitted")
_INTEREST = {"Failed": 0, "Error": 0, "Running": 1, "Pending": 2, "Succeeded": 3}
_FOLD_FROM = 3
_DEEPEST = 100


class Twig(NamedTuple):
    """A node and what is drawn below it."""

    node: Object
    twigs: tuple[Twig, ...] = ()


class Line(NamedTuple):
    branch: str
    """The lines that lead to it."""
    mark: str
    name: str
    phase: str
    template: str = ""
    pod: str = ""
    took: str = ""
    message: str = ""


def forest(workflow: Object) -> list[Twig]:
    """The entrypoint, and what is not part of it: exit handlers and hooks."""
    nodes: dict[str, Object] = status_of(workflow).get("nodes") or {}
    depths = _depths(nodes)
    order = {one: (node.get("startedAt") or "9", depths[one], *_place(node)) for one, node in nodes.items()}
    below = {one: sorted(under, key=order.__getitem__) for one, under in _children(nodes).items()}
    main = name_of(workflow)
    roots = sorted(below.get("", ()), key=lambda one: one != main)
    return [_twig(one, nodes, below) for one in roots]


def lines(twigs: Iterable[Twig], now: datetime, pod: Callable[[Object], str]) -> list[Line]:
    """`pod` tells the name of a node's Pod."""
    drawn: list[Line] = []
    for twig in twigs:
        _draw(twig, "", "", drawn, lambda node: _line(node, now, pod))
    return drawn


def folded(twigs: Sequence[Twig], room: int) -> list[Twig]:
    """For a screen with that many lines: where there are more, what has ended well is one line, with all below it, and
    neighbours that ended or wait alike share one."""
    if sum(_height(twig) for twig in twigs) <= room:
        return list(twigs)
    return [_folded(twig, 0) for twig in twigs]


def clipped(drawn: Sequence[Line], room: int) -> tuple[list[Line], str]:
    """The lines that fit, and one about the others. What failed or runs is more interesting than what has not begun,
    and that more than what is over."""
    if len(drawn) <= room:
        return list(drawn), ""
    by_interest = sorted(range(len(drawn)), key=lambda n: (_INTEREST.get(drawn[n].phase, 4), n))
    kept = sorted(by_interest[: max(room - 1, 1)])
    hidden = [drawn[n].phase for n in by_interest[max(room - 1, 1) :]]
    told = ", ".join(f"{hidden.count(phase)} {phase.lower()}" for phase in _MARKS if phase in hidden)
    return [drawn[n] for n in kept], f"... and {len(hidden)} more: {told}"


def counts(twigs: Iterable[Twig]) -> dict[str, int]:
    """How many leaves are in each phase."""
    found: dict[str, int] = {}
    waiting = list(twigs)
    while waiting:
        twig = waiting.pop()
        if twig.twigs:
            waiting += twig.twigs
            continue
        phase = str(twig.node.get("phase") or "Pending")
        found[phase] = found.get(phase, 0) + 1
    return found


def _children(nodes: dict[str, Object]) -> dict[str, list[str]]:
    """Below which node each one is drawn: the group it is a child of, or else the template around it."""
    of_group: dict[str, str] = {}
    for one, node in nodes.items():
        if node.get("type") in _GROUPS:
            of_group.update((child, one) for child in node.get("children") or ())
    below: dict[str, list[str]] = {}
    for one, node in nodes.items():
        parent = of_group.get(one) or str(node.get("boundaryID") or "")
        below.setdefault(parent if parent in nodes and parent != one else "", []).append(one)
    return below


def _twig(root: str, nodes: dict[str, Object], below: dict[str, list[str]]) -> Twig:
    """Without recursion: a workflow that calls itself may be thousands of levels deep."""
    made: dict[str, Twig] = {}
    waiting = [(root, False)]
    while waiting:
        one, ready = waiting.pop()
        under = below.get(one, ())
        if ready or not under:
            made[one] = Twig(nodes[one], tuple(made[n] for n in under if n in made))
            continue
        waiting.append((one, True))
        waiting += [(n, False) for n in under if n not in made]
    return made[root]


def _depths(nodes: dict[str, Object]) -> dict[str, int]:
    """How many nodes came before each one: within a second, which is all that times tell, much can follow."""
    before = dict.fromkeys(nodes, 0)
    for node in nodes.values():
        for child in node.get("children") or ():
            if child in before:
                before[child] += 1
    depths = dict.fromkeys(nodes, 0)
    ready = [one for one, number in before.items() if not number]
    while ready:
        one = ready.pop()
        for child in nodes[one].get("children") or ():
            if child in before:
                depths[child] = max(depths[child], depths[one] + 1)
                before[child] -= 1
                if not before[child]:
                    ready.append(child)
    return depths


def _place(node: Object) -> tuple[int, int, str]:
    """Among those that began together: its number in a loop, then its name."""
    shown = str(node.get("displayName") or node.get("name") or "")
    number = _NUMBER.search(shown)
    return _number_of(node), int(number[1]) if number else -1, shown


def _number_of(node: Object) -> int:
    """Of a group of steps: `[12]`."""
    shown = str(node.get("displayName") or "")
    return int(shown[1:-1]) if shown[:1] == "[" and shown[1:-1].isdigit() else -1


def _draw(twig: Twig, branch: str, margin: str, drawn: list[Line], line: Callable[[Object], Line]) -> None:
    stack: list[tuple[Twig, str, str]] = [(twig, branch, margin)]
    while stack:
        one, at, beside = stack.pop()
        hidden, is_group = _is_hidden(one)
        if not hidden:
            drawn.append(line(one.node)._replace(branch=at))
        children = [child for child in one.twigs if child.twigs or not _is_hidden(child)[0]]
        last = len(children) - 1
        below = []
        for number, child in enumerate(children):
            if hidden and not is_group:
                below.append((child, at if number == 0 else beside, beside))
                continue
            corner, rest = _corner(number, last, is_group)
            start = at if hidden and number == 0 else beside
            below.append((child, start + corner, beside + rest))
        stack += reversed(below)


def _corner(number: int, last: int, is_group: bool) -> tuple[str, str]:
    """The piece of line in front of a child, and the one beside what is below it."""
    if is_group:
        if last == 0:
            return "──", "  "
        if number == 0:
            return "┬─", "│ "
    return ("└─", "  ") if number == last else ("├─", "│ ")


def _is_hidden(twig: Twig) -> tuple[bool, bool]:
    """(not drawn itself, its children run side by side). A retry with one attempt is that attempt."""
    kind = twig.node.get("type")
    if kind == "StepGroup":
        return True, True
    if kind == "Retry" and len(twig.twigs) == 1:
        return True, False
    return kind == "Skipped" and twig.node.get("phase") == "Omitted", False


def _line(node: Object, now: datetime, pod: Callable[[Object], str]) -> Line:
    phase = str(node.get("phase") or "Pending")
    ref = node.get("templateRef") or {}
    template = f"{ref.get('name')}/{ref.get('template')}" if ref else str(node.get("templateName") or "")
    return Line(
        branch="",
        mark="‖" if waits(node) else _MARKS.get(phase, "?"),
        name=str(node.get("displayName") or node.get("name") or ""),
        phase=phase,
        template=template,
        pod=pod(node) if node.get("type") == "Pod" else "",
        took=took(node, now) if phase != "Omitted" else "",
        message=" ".join(str(node.get("message") or "").split()),
    )


def _height(twig: Twig) -> int:
    height, waiting = 0, [twig]
    while waiting:
        one = waiting.pop()
        height += not _is_hidden(one)[0]
        waiting += one.twigs
    return height


def _folded(twig: Twig, depth: int) -> Twig:
    if depth > _DEEPEST or (twig.node.get("phase") == "Succeeded" and depth):
        return Twig(twig.node)
    kept: list[Twig] = []
    alike: list[Twig] = []
    for child in [_folded(child, depth + 1) for child in twig.twigs]:
        if alike and alike[0].node.get("phase") != child.node.get("phase"):
            kept += _together(alike)
            alike = []
        if child.twigs or child.node.get("phase") not in _UNEXCITING:
            kept += [*_together(alike), child]
            alike = []
        else:
            alike.append(child)
    return Twig(twig.node, (*kept, *_together(alike)))


def _together(alike: list[Twig]) -> list[Twig]:
    if len(alike) < _FOLD_FROM:
        return alike
    phase = str(alike[0].node.get("phase"))
    first, last = (str(end.node.get("displayName") or "") for end in (alike[0], alike[-1]))
    return [Twig({"displayName": f"{len(alike)} {phase.lower()}: {first} ... {last}", "phase": phase})]
