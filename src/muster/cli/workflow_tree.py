"""Prints a workflow with the tree of its nodes, once or live."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from muster.cli.output import TableWriter, colorize, echo, escape_controls, supports_color
from muster.cli.selection import watch_object
from muster.cli.session import Session
from muster.cli.workflow_objects import (
    STYLES,
    format_workflow_time,
    is_finished,
    is_waiting,
    phase_of,
    summary_fields,
    with_full_status,
    workflow_kind,
)
from muster.kube.objects import Object, name_of, namespace_of, status_of

if TYPE_CHECKING:
    from rich.text import Text


_GROUPS = ("StepGroup", "TaskGroup", "Retry")
"""Children of these nodes are drawn below them, not below the enclosing template."""
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
_FOLDABLE_PHASES = ("Succeeded", "Pending", "Skipped", "Omitted")
_PHASE_ORDER = {"Failed": 0, "Error": 0, "Running": 1, "Pending": 2, "Succeeded": 3}
_FOLD_FROM = 3
_MAX_DEPTH = 100


class TreeNode(NamedTuple):
    """A node and the nodes drawn below it."""

    node: Object
    children: tuple[TreeNode, ...] = ()


class TreeLine(NamedTuple):
    branch: str
    """The lines that lead to the node."""
    mark: str
    name: str
    phase: str
    template: str = ""
    pod: str = ""
    took: str = ""
    message: str = ""


def build_trees(workflow: Object) -> list[TreeNode]:
    """Returns the tree of the entrypoint, and the trees beside it: exit handlers and hooks."""
    nodes: dict[str, Object] = status_of(workflow).get("nodes") or {}
    depths = _depths(nodes)
    order = {one: (node.get("startedAt") or "9", depths[one], *_order_key(node)) for one, node in nodes.items()}
    below = {one: sorted(under, key=order.__getitem__) for one, under in _children(nodes).items()}
    main = name_of(workflow)
    roots = sorted(below.get("", ()), key=lambda one: one != main)
    return [_build_tree(one, nodes, below) for one in roots]


def draw_trees(trees: Iterable[TreeNode], now: datetime, pod: Callable[[Object], str]) -> list[TreeLine]:
    """Returns the lines of the trees. `pod` returns the name of a node's Pod."""
    drawn: list[TreeLine] = []
    for tree in trees:
        _draw(tree, "", "", drawn, lambda node: _line(node, now, pod))
    return drawn


def fold_trees(trees: Sequence[TreeNode], room: int) -> list[TreeNode]:
    """Fits the trees to a screen with that many lines. If there are more, a node that succeeded becomes one line with
    all below it, and adjacent nodes in the same phase share one."""
    if sum(_height(tree) for tree in trees) <= room:
        return list(trees)
    return [_fold(tree, 0) for tree in trees]


def clip_lines(drawn: Sequence[TreeLine], room: int) -> tuple[list[TreeLine], str]:
    """Returns the lines that fit, and one about the others. Failed nodes come first, then running, pending and finished
    ones."""
    if len(drawn) <= room:
        return list(drawn), ""
    by_interest = sorted(range(len(drawn)), key=lambda n: (_PHASE_ORDER.get(drawn[n].phase, 4), n))
    kept = sorted(by_interest[: max(room - 1, 1)])
    hidden = [drawn[n].phase for n in by_interest[max(room - 1, 1) :]]
    counts = ", ".join(f"{hidden.count(phase)} {phase.lower()}" for phase in _MARKS if phase in hidden)
    return [drawn[n] for n in kept], f"... and {len(hidden)} more: {counts}"


def count_phases(trees: Iterable[TreeNode]) -> dict[str, int]:
    """Counts the leaves in each phase."""
    found: dict[str, int] = {}
    waiting = list(trees)
    while waiting:
        tree = waiting.pop()
        if tree.children:
            waiting += tree.children
            continue
        phase = str(tree.node.get("phase") or "Pending")
        found[phase] = found.get(phase, 0) + 1
    return found


def _children(nodes: dict[str, Object]) -> dict[str, list[str]]:
    """Returns the nodes drawn below each node. A node is drawn below its group, or else below the enclosing
    template."""
    of_group: dict[str, str] = {}
    for one, node in nodes.items():
        if node.get("type") in _GROUPS:
            of_group.update((child, one) for child in node.get("children") or ())
    below: dict[str, list[str]] = {}
    for one, node in nodes.items():
        parent = of_group.get(one) or str(node.get("boundaryID") or "")
        below.setdefault(parent if parent in nodes and parent != one else "", []).append(one)
    return below


def _build_tree(root: str, nodes: dict[str, Object], below: dict[str, list[str]]) -> TreeNode:
    """Builds a tree without recursion: a recursive workflow may be thousands of levels deep."""
    made: dict[str, TreeNode] = {}
    waiting = [(root, False)]
    while waiting:
        one, ready = waiting.pop()
        under = below.get(one, ())
        if ready or not under:
            made[one] = TreeNode(nodes[one], tuple(made[n] for n in under if n in made))
            continue
        waiting.append((one, True))
        waiting += [(n, False) for n in under if n not in made]
    return made[root]


def _depths(nodes: dict[str, Object]) -> dict[str, int]:
    """Returns how many nodes precede each one. Timestamps are whole seconds, so they do not order nodes by
    themselves."""
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


def _order_key(node: Object) -> tuple[int, int, str]:
    """Returns the sort key among nodes that started together: the number in a loop, then the name."""
    shown = str(node.get("displayName") or node.get("name") or "")
    number = _NUMBER.search(shown)
    return _number_of(node), int(number[1]) if number else -1, shown


def _number_of(node: Object) -> int:
    """Returns the number of a step group, such as `[12]`."""
    shown = str(node.get("displayName") or "")
    return int(shown[1:-1]) if shown[:1] == "[" and shown[1:-1].isdigit() else -1


def _draw(tree: TreeNode, branch: str, margin: str, drawn: list[TreeLine], line: Callable[[Object], TreeLine]) -> None:
    stack: list[tuple[TreeNode, str, str]] = [(tree, branch, margin)]
    while stack:
        one, at, beside = stack.pop()
        hidden, is_group = _is_hidden(one)
        if not hidden:
            drawn.append(line(one.node)._replace(branch=at))
        children = [child for child in one.children if child.children or not _is_hidden(child)[0]]
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
    """Returns the line before a child, and the line beside the nodes below it."""
    if is_group:
        if last == 0:
            return "──", "  "
        if number == 0:
            return "┬─", "│ "
    return ("└─", "  ") if number == last else ("├─", "│ ")


def _is_hidden(tree: TreeNode) -> tuple[bool, bool]:
    """Returns (the node is not drawn, its children run in parallel). A retry with one attempt is drawn as that
    attempt."""
    kind = tree.node.get("type")
    if kind == "StepGroup":
        return True, True
    if kind == "Retry" and len(tree.children) == 1:
        return True, False
    return kind == "Skipped" and tree.node.get("phase") == "Omitted", False


def _line(node: Object, now: datetime, pod: Callable[[Object], str]) -> TreeLine:
    phase = str(node.get("phase") or "Pending")
    ref = node.get("templateRef") or {}
    template = f"{ref.get('name')}/{ref.get('template')}" if ref else str(node.get("templateName") or "")
    return TreeLine(
        branch="",
        mark="‖" if is_waiting(node) else _MARKS.get(phase, "?"),
        name=str(node.get("displayName") or node.get("name") or ""),
        phase=phase,
        template=template,
        pod=pod(node) if node.get("type") == "Pod" else "",
        took=format_workflow_time(node, now) if phase != "Omitted" else "",
        message=" ".join(str(node.get("message") or "").split()),
    )


def _height(tree: TreeNode) -> int:
    height, waiting = 0, [tree]
    while waiting:
        one = waiting.pop()
        height += not _is_hidden(one)[0]
        waiting += one.children
    return height


def _fold(tree: TreeNode, depth: int) -> TreeNode:
    if depth > _MAX_DEPTH or (tree.node.get("phase") == "Succeeded" and depth):
        return TreeNode(tree.node)
    kept: list[TreeNode] = []
    alike: list[TreeNode] = []
    for child in [_fold(child, depth + 1) for child in tree.children]:
        if alike and alike[0].node.get("phase") != child.node.get("phase"):
            kept += _join_alike(alike)
            alike = []
        if child.children or child.node.get("phase") not in _FOLDABLE_PHASES:
            kept += [*_join_alike(alike), child]
            alike = []
        else:
            alike.append(child)
    return TreeNode(tree.node, (*kept, *_join_alike(alike)))


def _join_alike(alike: list[TreeNode]) -> list[TreeNode]:
    if len(alike) < _FOLD_FROM:
        return alike
    phase = str(alike[0].node.get("phase"))
    first, last = (str(end.node.get("displayName") or "") for end in (alike[0], alike[-1]))
    return [TreeNode({"displayName": f"{len(alike)} {phase.lower()}: {first} ... {last}", "phase": phase})]


_TICK = 1.0
_LONGEST_END = 80
_HEADERS = ("STEP", "TEMPLATE", "POD", "DURATION", "MESSAGE")


def print_workflow(workflow: Object) -> None:
    echo("\n".join(format_workflow(workflow, datetime.now(UTC), colors=supports_color())))


def format_workflow(workflow: Object, now: datetime, *, colors: bool = False) -> list[str]:
    """Returns all lines, for output that scrolls."""
    head = [f"{label + ':':<20} {text}".rstrip() for label, text in summary_fields(workflow, now)]
    if colors:
        style = STYLES.get(phase_of(workflow), "")
        head = [colorize(line, style, on=True) if line.startswith("Status:") else line for line in head]
    drawn = draw_trees(build_trees(workflow), now, _pod_of(workflow))
    if not drawn:
        return head
    return [*head, "", *_table(drawn, colors)]


async def watch_until_finished(session: Session, workflow: Object) -> Object:
    """Shows the workflow until it finishes or is deleted. Returns its last state."""
    latest = workflow
    changed = asyncio.Event()

    async def follow() -> None:
        nonlocal latest
        where = (workflow_kind(), name_of(workflow), namespace_of(workflow))
        async with watch_object(session.cluster, *where) as states:
            async for state in states:
                if state is None:
                    return
                latest = with_full_status(session.cluster, state)
                changed.set()
                if is_finished(latest):
                    return

    following = asyncio.create_task(follow())
    following.add_done_callback(lambda _: changed.set())
    try:
        with _LiveScreen() if supports_color() else _PlainScreen() as screen:
            while not following.done():
                screen.draw(latest)
                changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TICK):
                        await changed.wait()
            await following
            screen.end(latest)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return latest


class _LiveScreen:
    """Redraws the tree in place. The last tree stays; if it is long, adjacent nodes in the same phase share one
    line."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> _LiveScreen:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self, workflow: Object) -> None:
        self._live.update(format_live(workflow, datetime.now(UTC), self._console.height - 1), refresh=True)

    def end(self, workflow: Object) -> None:
        self._live.stop()
        self._console.print(format_live(workflow, datetime.now(UTC), _LONGEST_END))


class _PlainScreen:
    """Prints a line per node that starts or ends, and the whole tree at the end."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def __enter__(self) -> _PlainScreen:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def draw(self, workflow: Object) -> None:
        news, self._told = find_changes(workflow, self._told)
        for line in news:
            echo(line)

    def end(self, workflow: Object) -> None:
        self.draw(workflow)
        echo()
        print_workflow(workflow)


def find_changes(workflow: Object, printed: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Returns a line for each leaf whose phase differs from `printed`, and the phases printed so far."""
    news = []
    now_told = {}
    for one, node in (status_of(workflow).get("nodes") or {}).items():
        phase = str(node.get("phase") or "Pending")
        now_told[one] = phase
        if node.get("type") in ("StepGroup", "TaskGroup", "Steps", "DAG", "Retry") or printed.get(one) == phase:
            continue
        if phase not in ("Pending", "Omitted"):
            message = f": {' '.join(str(node['message']).split())}" if node.get("message") else ""
            news.append(f"{node.get('displayName')} {phase}{message}")
    return news, now_told


def format_live(workflow: Object, now: datetime, room: int) -> Text:
    """Returns as much of the workflow as fits on the screen."""
    from rich.text import Text

    head = summary_fields(workflow, now)
    text = Text(no_wrap=True, overflow="ellipsis")
    for label, value in head:
        text.append(f"{label + ':':<20} ", "dim")
        text.append(f"{escape_controls(str(value))}\n", STYLES.get(phase_of(workflow), "") if label == "Status" else "")
    text.append("\n")
    text.append_text(format_live_tree(workflow, now, max(room - len(head) - 3, 5)))
    return text


def format_live_tree(workflow: Object, now: datetime, room: int) -> Text:
    """Returns only the tree, as much as fits on the screen."""
    from rich.text import Text

    drawn, rest = clip_lines(draw_trees(fold_trees(build_trees(workflow), room), now, _pod_of(workflow)), room)
    text = Text.from_ansi("\n".join(_table(drawn, True)), no_wrap=True, overflow="ellipsis") if drawn else Text()
    if rest:
        text.append(f"\n{rest}", "dim")
    return text


def format_tree(workflow: Object, now: datetime) -> list[str]:
    drawn = draw_trees(build_trees(workflow), now, _pod_of(workflow))
    return _table(drawn, False) if drawn else []


def _table(drawn: list[TreeLine], colors: bool) -> list[str]:
    rows = [(f"{one.branch}{one.mark} {one.name}", one.template, one.pod, one.took, one.message) for one in drawn]
    header, *body = TableWriter(_HEADERS).lines(rows)
    painted = [
        text.replace(one.mark, colorize(one.mark, STYLES.get(one.phase, ""), on=colors), 1)
        for text, one in zip(body, drawn, strict=True)
    ]
    return [header, *(text.rstrip() for text in painted)]


def _pod_of(workflow: Object) -> Callable[[Object], str]:
    from muster.workflows.logs import pod_name_of

    return lambda node: pod_name_of(workflow, node)
