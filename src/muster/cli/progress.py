"""How a run is going: one row per piece of work and per Pod, kept current from the objects, shown as lines or a table.

Times are taken from the moment a change was seen: an object's own time stamps are whole seconds, too coarse for
work that takes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.cli.outcome import is_done, is_work
from muster.cli.targets import type_title
from muster.cli.workflow_status import is_workflow, waits_for_somebody
from muster.kube.kinds import Kind
from muster.kube.objects import Object, is_deleting, name_of, spec_of, status_of, uid_of
from muster.kube.pod_columns import status_word
from muster.kube.why import awaited, ended_badly, why

_ORDER = {"Failed": 0, "Running": 1, "Pending": 2, "Succeeded": 3}


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    owner: str = ""
    """The uid of the work it belongs to, for the Pods of a Job."""
    state: str = "Pending"
    stage: str = "Pending"
    """Pending, Running, Succeeded or Failed: what the state comes down to."""
    note: str = ""
    created: float = 0.0
    began: float | None = None
    ended: float | None = None


class Board:
    """The rows, by the uid of their object."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.workflows: dict[str, Object] = {}
        """Those among the work that have a tree of nodes to show, whole."""

    def put(self, kind: Kind, obj: Object, now: float, owner: str = "", events: Sequence[Object] = ()) -> Row:
        """Takes in an object as it is now. The events are its own, as far as known, in the order of time."""
        before = self.rows.get(uid_of(obj))
        row = row_of(kind, obj, before, now, owner, events)
        self.rows[uid_of(obj)] = row
        return row

    def gone(self, uid: str, now: float) -> None:
        """A row stays to say how it ended; one that had not ended was deleted."""
        row = self.rows.get(uid)
        if row is not None and row.ended is None:
            self.rows[uid] = replace(row, state="Deleted", stage="Failed", note="", ended=now)

    def without_workflows(self) -> list[tuple[int, Row]]:
        """Those rows that no tree tells about."""
        told = self.workflows.keys()
        titles = {id(row) for uid, row in self.rows.items() if uid in told or row.owner in told}
        return [(depth, row) for depth, row in self.in_order() if id(row) not in titles]

    def in_order(self) -> list[tuple[int, Row]]:
        """(depth, row): work in the order it came, its Pods below it."""
        below: dict[str, list[Row]] = {}
        for row in self.rows.values():
            below.setdefault(row.owner if row.owner in self.rows else "", []).append(row)
        ordered: list[tuple[int, Row]] = []
        for uid, row in self.rows.items():
            if row.owner in self.rows:
                continue
            ordered.append((0, row))
            ordered += [(1, child) for child in below.get(uid, ())]
        return ordered


def row_of(
    kind: Kind, obj: Object, before: Row | None, now: float, owner: str = "", events: Sequence[Object] = ()
) -> Row:
    state, stage, note = _pod(obj) if kind.kind == "Pod" and not kind.group else _work(obj)
    if stage == "Pending" and not note:
        note = awaited(events)
    row = before or Row(f"{type_title(kind)}/{name_of(obj)}", owner, created=now)
    began = row.began
    if began is None and stage != "Pending":
        began = now
    over = stage in ("Succeeded", "Failed")
    ended = (row.ended or now) if over else None
    return replace(row, owner=owner or row.owner, state=state, stage=stage, note=note, began=began, ended=ended)


def line_of(row: Row, before: Row | None, told: Mapping[str, str] | None = None) -> str | None:
    """What to print where nothing can be redrawn: a line per change of state, nothing for what is not news. A note of
    several lines says what to do, and is wanted whole, but once: `told` is what was said already, and of whom."""
    if before is not None and (row.state, row.note) == (before.state, before.note):
        return None
    if before is None and row.stage == "Pending" and not row.note:
        return None
    took = f" after {duration(row.ended - (row.began or row.created))}" if row.ended is not None else ""
    return f"{row.title} {row.state}{took}{_note(row.note, told or {})}"


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m05s`, `2h07m`."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    return f"{minutes // 60}h{minutes % 60:02}m"


def time_of(row: Row, now: float) -> str:
    """How long it has been running, or waiting for it."""
    return duration(
        (row.ended if row.ended is not None else now) - (row.began if row.began is not None else row.created)
    )


def fitting(rows: list[tuple[int, Row]], height: int) -> tuple[list[tuple[int, Row]], str]:
    """The rows that a screen of that height has room for, and a line about the others. What failed or runs is more
    interesting than what has not begun, and that more than what is over."""
    if len(rows) <= height:
        return rows, ""
    room = max(height - 1, 1)
    by_interest = sorted(range(len(rows)), key=lambda n: (_ORDER.get(rows[n][1].stage, 1), n))
    shown = sorted(by_interest[:room])
    hidden = [rows[n][1].stage for n in by_interest[room:]]
    counts = ", ".join(f"{hidden.count(stage)} {stage.lower()}" for stage in _ORDER if stage in hidden)
    return [rows[n] for n in shown], f"... and {len(hidden)} more: {counts}"


def tally(rows: Iterable[Row]) -> str:
    """`3 succeeded, 1 running`: of the Pods, if there are any, else of the work."""
    all_rows = list(rows)
    stages = [row.stage for row in [r for r in all_rows if r.title.startswith("pod/")] or all_rows]
    order = ("Succeeded", "Running", "Pending", "Failed")
    return ", ".join(f"{stages.count(stage)} {stage.lower()}" for stage in order if stage in stages)


def _note(note: str, told: Mapping[str, str]) -> str:
    if not note:
        return ""
    if "\n" in note and note in told:
        return f": for the same reason as {told[note]}"
    return ": " + "\n  ".join(note.splitlines())


def _pod(pod: Object) -> tuple[str, str, str]:
    phase = str(status_of(pod).get("phase") or "Pending")
    stage = phase if phase in _ORDER else "Pending"
    state = status_word(pod)
    if state in ("Completed", "Error"):
        state = {"Completed": "Succeeded", "Error": "Failed"}[state] if stage in ("Succeeded", "Failed") else state
    if stage == "Succeeded":
        return state, stage, ""
    reasons = why(pod)
    if reasons == ["no node has been chosen yet"]:
        reasons = []
    restarts = sum(int(c.get("restartCount") or 0) for c in status_of(pod).get("containerStatuses") or ())
    if stage == "Running":
        again = f"restarted {restarts}x" if restarts else ""
        ends = [str(end) for end in ended_badly(pod)]
        return state, stage, "; ".join(text for text in (again, *ends[:1]) if text)
    note = reasons[0] if reasons else ""
    return state, stage, re.sub(rf'^container "[^"]*": {re.escape(state)}: ', "", note)


def _work(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    outcome = is_done(obj)
    status = status_of(obj)
    if outcome is not None:
        stage = "Succeeded" if outcome.succeeded else "Failed"
        detail = ": ".join(text for text in (outcome.reason, outcome.message) if text and text != stage)
        return stage, stage, _counts(obj) if outcome.succeeded else detail
    held = waits_for_somebody(dict(obj)) if is_workflow(dict(obj)) else ""
    if held:
        return "Suspended", "Pending" if spec_of(obj).get("suspend") else "Running", held
    if spec_of(obj).get("suspend"):
        return "Suspended", "Pending", "spec.suspend is true"
    if is_deleting(obj):
        return "Terminating", "Running", ""
    phase = str(status.get("phase") or "")
    if not phase and is_work(obj):
        true = [c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"]
        phase = "Running" if status.get("active") or "Running" in true else "Pending"
    return phase or "Applied", "Pending" if phase in ("", "Pending") else "Running", _counts(obj)


def _counts(obj: Mapping[str, Any]) -> str:
    status, spec = status_of(obj), spec_of(obj)
    if obj.get("kind") != "Job" or not str(obj.get("apiVersion")).startswith("batch/"):
        return str(status.get("progress") or "")
    # A Pod that has just ended stands in a list of its own until the Job's controller has let go of it.
    fresh = status.get("uncountedTerminatedPods") or {}
    succeeded, failed = (int(status.get(end) or 0) + len(fresh.get(end) or ()) for end in ("succeeded", "failed"))
    wanted = spec.get("completions") or spec.get("parallelism") or 1
    return f"{succeeded}/{wanted} done" + (f", {failed} failed" if failed else "")
