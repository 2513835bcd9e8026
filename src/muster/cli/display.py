"""Where a run is shown: a table that redraws itself below the scrolling logs, or plain lines."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from muster.cli.follow import Line, Source
from muster.cli.output import colour_of, fancy
from muster.cli.progress import Board, Row, fitting, line_of, tally, time_of
from muster.kube.objects import Object

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_STAGE_STYLES = {"Pending": "yellow", "Running": "cyan", "Succeeded": "green", "Failed": "bold red"}
_MARKS = {"Pending": "·", "Running": "▸", "Succeeded": "✓", "Failed": "✗"}
_WIDEST_PREFIX, _TALLEST = 32, 50
PENDING_GRACE = 1.0
"""Everything is Pending for a moment; only what stays so is worth a line."""


class Display(Protocol):
    def __enter__(self) -> Display: ...

    def __exit__(self, *_: object) -> None: ...

    def logs(self, source: Source, lines: list[Line]) -> None: ...

    def say(self, text: str, style: str = "") -> None: ...

    def wait(self, text: str) -> None:
        """What is going on before there is anything to see."""
        ...

    def update(self, board: Board, now: float) -> None:
        """The board has changed, or some time has passed."""
        ...

    def settle(self, board: Board, now: float) -> None:
        """The board will not change any more; what is said from now on stands below it."""
        ...


def display_for(terminal: bool | None = None) -> Display:
    return LiveDisplay() if (fancy() if terminal is None else terminal) else PlainDisplay()


class PlainDisplay:
    """A line per thing that happens; logs with the Pod's name in front."""

    def __init__(self) -> None:
        self._printed: dict[str, Row] = {}
        self._told: dict[str, str] = {}
        self._waits: set[str] = set()

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def logs(self, source: Source, lines: list[Line]) -> None:
        sys.stdout.write("".join(f"{source} | {line.text}\n" for line in lines))
        sys.stdout.flush()

    def say(self, text: str, style: str = "") -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def wait(self, text: str) -> None:
        return

    def update(self, board: Board, now: float) -> None:
        for uid, row in board.rows.items():
            if row.stage == "Pending" and now - row.created < PENDING_GRACE:
                continue
            line = line_of(row, self._printed.get(uid), self._told)
            self._printed[uid] = row
            self._told.setdefault(row.note, row.title)
            if line is not None and line not in self._waits:
                self.say(line)
            if line is not None and row.stage == "Pending":
                self._waits.add(line)  # an image that is tried again and again is news once

    def settle(self, board: Board, now: float) -> None:
        self.update(board, now)
        for workflow in board.workflows.values():
            self._tree(workflow)

    def _tree(self, workflow: Object) -> None:
        from muster.cli.workflow_show import tree_lines

        for line in tree_lines(workflow, datetime.now(UTC)):
            self.say(line)


class LiveDisplay:
    """Logs scroll by in colours; the table stays below them."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._known: dict[str, int] = {}
        self._told: set[str] = set()
        self._width = 0

    def __enter__(self) -> LiveDisplay:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def logs(self, source: Source, lines: list[Line]) -> None:
        from rich.text import Text

        number = self._known.setdefault(str(source), len(self._known))
        self._width = max(self._width, min(len(str(source)), _WIDEST_PREFIX))
        text = Text()
        for count, line in enumerate(lines):
            if count:
                text.append("\n")
            text.append(f"{source!s:<{self._width}} │ ", colour_of(number))
            text.append_text(Text.from_ansi(line.text))
        self._console.print(text, soft_wrap=True)

    def say(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(text, style), soft_wrap=True)

    def wait(self, text: str) -> None:
        from rich.text import Text

        self._live.update(Text(f"{text} ...", "dim"), refresh=True)

    def update(self, board: Board, now: float) -> None:
        for row in board.rows.values():
            # A row of the table has one line, too short for what somebody has to do.
            if "\n" in row.note and row.note not in self._told:
                self._told.add(row.note)
                self.say(line_of(row, None) or "", "yellow")
        height = max(self._console.height // 2 - 2, 4)
        self._live.update(self.table(board, now, height), refresh=True)

    def settle(self, board: Board, now: float) -> None:
        self._live.stop()
        if board.rows:
            self._console.print(self.table(board, now, _TALLEST))

    def table(self, board: Board, now: float, height: int) -> RenderableType:
        from rich.console import Group
        from rich.rule import Rule
        from rich.table import Table
        from rich.text import Text

        trees = self._trees(board, height)
        rows, rest = fitting(board.without_workflows(), max(height - sum(tree.plain.count("\n") for tree in trees), 4))
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        # If anything has to give way, it is the note.
        table.add_column(no_wrap=True, min_width=min(max((len(r.title) + 2 * d + 2 for d, r in rows), default=0), 50))
        table.add_column(no_wrap=True, min_width=max((len(r.state) for _, r in rows), default=0))
        table.add_column(no_wrap=True, min_width=5, justify="right")
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for depth, row in rows:
            style = _STAGE_STYLES.get(row.stage, "")
            table.add_row(
                Text(f"{'  ' * depth}{_MARKS.get(row.stage, ' ')} {row.title}", style if row.stage == "Failed" else ""),
                Text(row.state, style),
                Text(time_of(row, now), "dim"),
                Text(" ".join(row.note.split()), "dim"),
            )
        parts: list[RenderableType] = [Rule(tally(board.rows.values()), style="dim", align="left"), table]
        if rest:
            parts.append(Text(rest, "dim"))
        return Group(*parts, *trees)

    def _trees(self, board: Board, height: int) -> list[Text]:
        if not board.workflows:
            return []
        from muster.cli.workflow_show import tree_text

        now = datetime.now(UTC)
        room = max(height // len(board.workflows), 5)
        return [tree_text(workflow, now, room) for workflow in board.workflows.values()]
