"""Shows the progress of a run: a live table below the scrolling logs, or plain lines.

There is one row per workload and per Pod. Times are measured when a change arrives: the timestamps of objects are whole
seconds, too coarse for short work.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from muster.cli.output import echo, escape_controls, pick_color, supports_color
from muster.cli.pod_logs import LogLine, LogSource
from muster.cli.run_objects import find_outcome, is_workload
from muster.cli.session import type_name
from muster.cli.workflow_objects import format_suspension, is_workflow
from muster.kube.columns import pod_status
from muster.kube.kinds import Kind
from muster.kube.objects import Object, is_deleting, name_of, spec_of, status_of, uid_of
from muster.kube.pod_diagnosis import diagnose_pod, find_failed_containers, find_pending_cause

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text


_ORDER = {"Failed": 0, "Running": 1, "Pending": 2, "Succeeded": 3}


@dataclass(frozen=True, slots=True)
class ProgressRow:
    title: str
    owner: str = ""
    """The uid of the workload that owns this Pod."""
    state: str = "Pending"
    stage: str = "Pending"
    """Pending, Running, Succeeded or Failed."""
    note: str = ""
    created: float = 0.0
    began: float | None = None
    ended: float | None = None


class ProgressBoard:
    """The rows of a run, by the uid of their object."""

    def __init__(self) -> None:
        self.rows: dict[str, ProgressRow] = {}
        self.workflows: dict[str, Object] = {}
        """The workflows with their full status; they are shown as trees."""

    def put(self, kind: Kind, obj: Object, now: float, owner: str = "", events: Sequence[Object] = ()) -> ProgressRow:
        """Updates the row of an object. `events` are its known events, oldest first."""
        before = self.rows.get(uid_of(obj))
        row = progress_row(kind, obj, before, now, owner, events)
        self.rows[uid_of(obj)] = row
        return row

    def remove(self, uid: str, now: float) -> None:
        """Marks a deleted object. Its row stays and shows how it ended."""
        row = self.rows.get(uid)
        if row is not None and row.ended is None:
            self.rows[uid] = replace(row, state="Deleted", stage="Failed", note="", ended=now)

    def without_workflows(self) -> list[tuple[int, ProgressRow]]:
        """Returns the rows that are not part of a workflow's tree."""
        trees = self.workflows.keys()
        titles = {id(row) for uid, row in self.rows.items() if uid in trees or row.owner in trees}
        return [(depth, row) for depth, row in self.in_order() if id(row) not in titles]

    def in_order(self) -> list[tuple[int, ProgressRow]]:
        """Returns (depth, row): workloads in order of arrival, each with its Pods below it."""
        below: dict[str, list[ProgressRow]] = {}
        for row in self.rows.values():
            below.setdefault(row.owner if row.owner in self.rows else "", []).append(row)
        ordered: list[tuple[int, ProgressRow]] = []
        for uid, row in self.rows.items():
            if row.owner in self.rows:
                continue
            ordered.append((0, row))
            ordered += [(1, child) for child in below.get(uid, ())]
        return ordered


def progress_row(
    kind: Kind, obj: Object, before: ProgressRow | None, now: float, owner: str = "", events: Sequence[Object] = ()
) -> ProgressRow:
    state, stage, note = _pod_state(obj) if kind.kind == "Pod" and not kind.group else _workload_state(obj)
    if stage == "Pending" and not note:
        note = find_pending_cause(events)
    row = before or ProgressRow(f"{type_name(kind)}/{name_of(obj)}", owner, created=now)
    began = row.began
    if began is None and stage != "Pending":
        began = now
    over = stage in ("Succeeded", "Failed")
    ended = (row.ended or now) if over else None
    return replace(row, owner=owner or row.owner, state=state, stage=stage, note=note, began=began, ended=ended)


def progress_line(row: ProgressRow, before: ProgressRow | None, printed: Mapping[str, str] | None = None) -> str | None:
    """Returns the line to print for a change of state, or None if nothing has changed. A note of several lines is
    printed in full, but only once: `printed` maps the notes printed so far to their objects."""
    if before is not None and (row.state, row.note) == (before.state, before.note):
        return None
    if before is None and row.stage == "Pending" and not row.note:
        return None
    took = f" after {format_run_time(row.ended - (row.began or row.created))}" if row.ended is not None else ""
    return f"{row.title} {row.state}{took}{_format_note(row.note, printed or {})}"


def format_run_time(seconds: float) -> str:
    """Returns `0.4s`, `12s`, `3m05s` or `2h07m`."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    return f"{minutes // 60}h{minutes % 60:02}m"


def format_elapsed(row: ProgressRow, now: float) -> str:
    """Returns how long it has been running or, before it starts, waiting."""
    return format_run_time(
        (row.ended if row.ended is not None else now) - (row.began if row.began is not None else row.created)
    )


def fit_rows(rows: list[tuple[int, ProgressRow]], height: int) -> tuple[list[tuple[int, ProgressRow]], str]:
    """Returns the rows that fit a screen of that height, and a line about the others. Failed rows come first, then
    running, pending and succeeded ones."""
    if len(rows) <= height:
        return rows, ""
    room = max(height - 1, 1)
    by_interest = sorted(range(len(rows)), key=lambda n: (_ORDER.get(rows[n][1].stage, 1), n))
    shown = sorted(by_interest[:room])
    hidden = [rows[n][1].stage for n in by_interest[room:]]
    counts = ", ".join(f"{hidden.count(stage)} {stage.lower()}" for stage in _ORDER if stage in hidden)
    return [rows[n] for n in shown], f"... and {len(hidden)} more: {counts}"


def format_counts(rows: Iterable[ProgressRow]) -> str:
    """Returns `3 succeeded, 1 running`: counts of the Pods or, without Pods, of the workloads."""
    all_rows = list(rows)
    stages = [row.stage for row in [r for r in all_rows if r.title.startswith("pod/")] or all_rows]
    order = ("Succeeded", "Running", "Pending", "Failed")
    return ", ".join(f"{stages.count(stage)} {stage.lower()}" for stage in order if stage in stages)


def _format_note(note: str, printed: Mapping[str, str]) -> str:
    if not note:
        return ""
    if "\n" in note and note in printed:
        return f": same reason as {printed[note]}"
    return ": " + "\n  ".join(note.splitlines())


def _pod_state(pod: Object) -> tuple[str, str, str]:
    phase = str(status_of(pod).get("phase") or "Pending")
    stage = phase if phase in _ORDER else "Pending"
    state = pod_status(pod)
    if stage in ("Pending", "Running") and (state in ("Completed", "NotReady") or _ends_now(pod)):
        # A kubelet reports the end of a container before that of its Pod, which may even be pending still; and the end
        # of Argo's container after that of the program.
        return "Running", "Running", ""
    if state in ("Completed", "Error"):
        state = {"Completed": "Succeeded", "Error": "Failed"}[state] if stage in ("Succeeded", "Failed") else state
    if stage == "Succeeded":
        return state, stage, ""
    reasons = diagnose_pod(pod)
    if reasons == ["no node has been chosen yet"]:
        reasons = []
    restarts = sum(int(c.get("restartCount") or 0) for c in status_of(pod).get("containerStatuses") or ())
    if stage == "Running":
        again = f"restarted {restarts}x" if restarts else ""
        ends = [str(end) for end in find_failed_containers(pod)]
        return state, stage, "; ".join(text for text in (again, *ends[:1]) if text)
    note = reasons[0] if reasons else ""
    return state, stage, re.sub(rf'^container "[^"]*": {re.escape(state)}: ', "", note)


def _ends_now(pod: Object) -> bool:
    containers = status_of(pod).get("containerStatuses") or ()
    ended = bool(containers) and all((each.get("state") or {}).get("terminated") for each in containers)
    return ended and spec_of(pod).get("restartPolicy") == "Never"


def _workload_state(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    outcome = find_outcome(obj)
    status = status_of(obj)
    if outcome is not None:
        stage = "Succeeded" if outcome.succeeded else "Failed"
        detail = ": ".join(text for text in (outcome.reason, outcome.message) if text and text != stage)
        return stage, stage, _job_counts(obj) if outcome.succeeded else detail
    held = format_suspension(dict(obj)) if is_workflow(dict(obj)) else ""
    if held:
        return "Suspended", "Pending" if spec_of(obj).get("suspend") else "Running", held
    if spec_of(obj).get("suspend"):
        return "Suspended", "Pending", "spec.suspend is true"
    if (spec_of(obj).get("runPolicy") or {}).get("suspend"):
        return "Suspended", "Pending", _format_resume(obj)
    if is_deleting(obj):
        return "Terminating", "Running", ""
    phase = str(status.get("phase") or "")
    if not phase and is_workload(obj):
        true = [c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"]
        phase = "Running" if status.get("active") or "Running" in true else "Pending"
    return phase or "Applied", "Pending" if phase in ("", "Pending") else "Running", _job_counts(obj)


def _format_resume(job: Mapping[str, Any]) -> str:
    patch = '{"spec": {"runPolicy": {"suspend": false}}}'
    kind, name = str(job.get("kind")).lower(), name_of(dict(job))
    return f"spec.runPolicy.suspend is true; to resume: kubectl patch {kind} {name} --type merge -p '{patch}'"


def _job_counts(obj: Mapping[str, Any]) -> str:
    status, spec = status_of(obj), spec_of(obj)
    if obj.get("kind") != "Job" or not str(obj.get("apiVersion")).startswith("batch/"):
        return str(status.get("progress") or "")
    # A Pod that has just ended is in a list of its own until the Job controller has processed it.
    fresh = status.get("uncountedTerminatedPods") or {}
    succeeded, failed = (int(status.get(end) or 0) + len(fresh.get(end) or ()) for end in ("succeeded", "failed"))
    wanted = spec.get("completions") or spec.get("parallelism") or 1
    return f"{succeeded}/{wanted} done" + (f", {failed} failed" if failed else "")


_STAGE_STYLES = {"Pending": "yellow", "Running": "cyan", "Succeeded": "green", "Failed": "bold red"}
_MARKS = {"Pending": "·", "Running": "▸", "Succeeded": "✓", "Failed": "✗"}
_WIDEST_PREFIX, _TALLEST = 32, 50
PENDING_GRACE = 1.0
"""Every object is Pending for a moment. It gets a line only if it stays so for this many seconds."""


class Display(Protocol):
    def __enter__(self) -> Display: ...

    def __exit__(self, *_: object) -> None: ...

    def logs(self, source: LogSource, lines: list[LogLine]) -> None: ...

    def say(self, text: str, style: str = "") -> None: ...

    def wait(self, text: str) -> None:
        """Shows a message until there is a row to show."""
        ...

    def update(self, board: ProgressBoard, now: float) -> None:
        """Call this when the board has changed or some time has passed."""
        ...

    def settle(self, board: ProgressBoard, now: float) -> None:
        """Call this when the board will not change any more. Later messages appear below it."""
        ...


def create_display(terminal: bool | None = None) -> Display:
    return LiveDisplay() if (supports_color() if terminal is None else terminal) else PlainDisplay()


class PlainDisplay:
    """Prints a line per change, and log lines with the Pod's name."""

    def __init__(self) -> None:
        self._printed: dict[str, ProgressRow] = {}
        self._told: dict[str, str] = {}
        self._waits: set[str] = set()

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def logs(self, source: LogSource, lines: list[LogLine]) -> None:
        if lines:
            echo("\n".join(f"{source} | {line.text}" for line in lines))

    def say(self, text: str, style: str = "") -> None:
        echo(text)

    def wait(self, text: str) -> None:
        return

    def update(self, board: ProgressBoard, now: float) -> None:
        for uid, row in board.rows.items():
            if row.stage == "Pending" and now - row.created < PENDING_GRACE:
                continue
            line = progress_line(row, self._printed.get(uid), self._told)
            self._printed[uid] = row
            self._told.setdefault(row.note, row.title)
            if line is not None and line not in self._waits:
                self.say(line)
            if line is not None and row.stage == "Pending":
                self._waits.add(line)  # a repeated attempt, such as an image pull, is printed once

    def settle(self, board: ProgressBoard, now: float) -> None:
        self.update(board, now)
        for workflow in board.workflows.values():
            self._tree(workflow)

    def _tree(self, workflow: Object) -> None:
        from muster.cli.workflow_tree import format_tree

        for line in format_tree(workflow, datetime.now(UTC)):
            self.say(line)


class LiveDisplay:
    """Prints colored logs above a table that redraws itself."""

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

    def logs(self, source: LogSource, lines: list[LogLine]) -> None:
        from rich.text import Text

        number = self._known.setdefault(str(source), len(self._known))
        self._width = max(self._width, min(len(str(source)), _WIDEST_PREFIX))
        text = Text()
        for count, line in enumerate(lines):
            if count:
                text.append("\n")
            text.append(f"{source!s:<{self._width}} │ ", pick_color(number))
            text.append_text(Text.from_ansi(escape_controls(line.text, colors=True)))
        self._console.print(text, soft_wrap=True)

    def say(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(escape_controls(text), style), soft_wrap=True)

    def wait(self, text: str) -> None:
        from rich.text import Text

        self._live.update(Text(f"{text} ...", "dim"), refresh=True)

    def update(self, board: ProgressBoard, now: float) -> None:
        for row in board.rows.values():
            # A table row has one line, which is too short for instructions.
            if "\n" in row.note and row.note not in self._told:
                self._told.add(row.note)
                self.say(progress_line(row, None) or "", "yellow")
        height = max(self._console.height // 2 - 2, 4)
        self._live.update(self.table(board, now, height), refresh=True)

    def settle(self, board: ProgressBoard, now: float) -> None:
        self._live.stop()
        if board.rows:
            self._console.print(self.table(board, now, _TALLEST))

    def table(self, board: ProgressBoard, now: float, height: int) -> RenderableType:
        from rich.console import Group
        from rich.rule import Rule
        from rich.table import Table
        from rich.text import Text

        trees = self._trees(board, height)
        rows, rest = fit_rows(board.without_workflows(), max(height - sum(tree.plain.count("\n") for tree in trees), 4))
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        # If the line is too long, the note is cut off.
        table.add_column(no_wrap=True, min_width=min(max((len(r.title) + 2 * d + 2 for d, r in rows), default=0), 50))
        table.add_column(no_wrap=True, min_width=max((len(r.state) for _, r in rows), default=0))
        table.add_column(no_wrap=True, min_width=5, justify="right")
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for depth, row in rows:
            style = _STAGE_STYLES.get(row.stage, "")
            table.add_row(
                Text(f"{'  ' * depth}{_MARKS.get(row.stage, ' ')} {row.title}", style if row.stage == "Failed" else ""),
                Text(row.state, style),
                Text(format_elapsed(row, now), "dim"),
                Text(escape_controls(" ".join(row.note.split())), "dim"),
            )
        parts: list[RenderableType] = [Rule(format_counts(board.rows.values()), style="dim", align="left"), table]
        if rest:
            parts.append(Text(rest, "dim"))
        return Group(*parts, *trees)

    def _trees(self, board: ProgressBoard, height: int) -> list[Text]:
        if not board.workflows:
            return []
        from muster.cli.workflow_tree import format_live_tree

        now = datetime.now(UTC)
        room = max(height // len(board.workflows), 5)
        return [format_live_tree(workflow, now, room) for workflow in board.workflows.values()]
