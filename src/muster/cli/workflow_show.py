"""A workflow with the tree of its nodes, once or live."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster.cli.observe import observed
from muster.cli.output import TableWriter, fancy, paint, say
from muster.cli.session import Session
from muster.cli.tree import Line, clipped, folded, forest, lines
from muster.cli.workflow_lookup import whole, workflow_kind
from muster.cli.workflow_status import STYLES, headline, is_over, phase_of
from muster.kube.objects import Object, name_of, namespace_of, status_of

if TYPE_CHECKING:
    from rich.text import Text

_TICK = 1.0
_LONGEST_END = 80
_HEADERS = ("STEP", "TEMPLATE", "POD", "DURATION", "MESSAGE")


def show(workflow: Object) -> None:
    say("\n".join(text_of(workflow, datetime.now(UTC), colours=fancy())))


def text_of(workflow: Object, now: datetime, *, colours: bool = False) -> list[str]:
    """All there is, for a printer or a terminal that scrolls."""
    head = [f"{label + ':':<20} {text}".rstrip() for label, text in headline(workflow, now)]
    if colours:
        style = STYLES.get(phase_of(workflow), "")
        head = [paint(line, style, on=True) if line.startswith("Status:") else line for line in head]
    drawn = lines(forest(workflow), now, _pod_of(workflow))
    if not drawn:
        return head
    return [*head, "", *_table(drawn, colours)]


async def watch_until_over(session: Session, workflow: Object) -> Object:
    """Until it is over, or gone; answers it as it was last seen."""
    latest = workflow
    changed = asyncio.Event()

    async def follow() -> None:
        nonlocal latest
        where = (workflow_kind(), name_of(workflow), namespace_of(workflow))
        async with observed(session.cluster, *where) as states:
            async for state in states:
                if state is None:
                    return
                latest = whole(session.cluster, state)
                changed.set()
                if is_over(latest):
                    return

    following = asyncio.create_task(follow())
    following.add_done_callback(lambda _: changed.set())
    try:
        with _LiveScreen() if fancy() else _PlainScreen() as screen:
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
    """Redrawn in place; in the end it stays, with neighbours that ended alike in one line if it is long."""

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
        self._live.update(live_text(workflow, datetime.now(UTC), self._console.height - 1), refresh=True)

    def end(self, workflow: Object) -> None:
        self._live.stop()
        self._console.print(live_text(workflow, datetime.now(UTC), _LONGEST_END))


class _PlainScreen:
    """A line per node that begins or ends; in the end the whole tree."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def __enter__(self) -> _PlainScreen:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def draw(self, workflow: Object) -> None:
        news, self._told = changes(workflow, self._told)
        for line in news:
            say(line)

    def end(self, workflow: Object) -> None:
        self.draw(workflow)
        say()
        show(workflow)


def changes(workflow: Object, told: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """A line for each leaf whose phase is not the one that was told, and what has been told then."""
    news = []
    now_told = {}
    for one, node in (status_of(workflow).get("nodes") or {}).items():
        phase = str(node.get("phase") or "Pending")
        now_told[one] = phase
        if node.get("type") in ("StepGroup", "TaskGroup", "Steps", "DAG", "Retry") or told.get(one) == phase:
            continue
        if phase not in ("Pending", "Omitted"):
            message = f": {' '.join(str(node['message']).split())}" if node.get("message") else ""
            news.append(f"{node.get('displayName')} {phase}{message}")
    return news, now_told


def live_text(workflow: Object, now: datetime, room: int) -> Text:
    """As much as a screen has room for."""
    from rich.text import Text

    head = headline(workflow, now)
    text = Text(no_wrap=True, overflow="ellipsis")
    for label, value in head:
        text.append(f"{label + ':':<20} ", "dim")
        text.append(f"{value}\n", STYLES.get(phase_of(workflow), "") if label == "Status" else "")
    text.append("\n")
    text.append_text(tree_text(workflow, now, max(room - len(head) - 3, 5)))
    return text


def tree_text(workflow: Object, now: datetime, room: int) -> Text:
    """The tree alone."""
    from rich.text import Text

    drawn, rest = clipped(lines(folded(forest(workflow), room), now, _pod_of(workflow)), room)
    text = Text.from_ansi("\n".join(_table(drawn, True)), no_wrap=True, overflow="ellipsis") if drawn else Text()
    if rest:
        text.append(f"\n{rest}", "dim")
    return text


def tree_lines(workflow: Object, now: datetime) -> list[str]:
    drawn = lines(forest(workflow), now, _pod_of(workflow))
    return _table(drawn, False) if drawn else []


def _table(drawn: list[Line], colours: bool) -> list[str]:
    rows = [(f"{one.branch}{one.mark} {one.name}", one.template, one.pod, one.took, one.message) for one in drawn]
    header, *body = TableWriter(_HEADERS).lines(rows)
    painted = [
        text.replace(one.mark, paint(one.mark, STYLES.get(one.phase, ""), on=colours), 1)
        for text, one in zip(body, drawn, strict=True)
    ]
    return [header, *(text.rstrip() for text in painted)]


def _pod_of(workflow: Object) -> Callable[[Object], str]:
    from muster.workflows.logs import pod_of

    return lambda node: pod_of(workflow, node)
