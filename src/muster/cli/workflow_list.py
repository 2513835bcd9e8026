"""`muster list`: workflows, one line each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import typer

from muster.cli.durations import seconds
from muster.cli.failures import Failure
from muster.cli.formats import as_text, parse_format
from muster.cli.options import AllNamespaces, Labels, on_cluster
from muster.cli.output import TableWriter, fancy, paint, say, warn
from muster.cli.session import Session
from muster.cli.workflow_lookup import light, workflow_kind
from muster.cli.workflow_status import STYLES, age, is_over, phase_of, status_word, took
from muster.kube.objects import Object, creation_order, meta, name_of, namespace_of, parse_time, spec_of, status_of

_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Error")


class Filter(NamedTuple):
    running: bool = False
    completed: bool = False
    phases: tuple[str, ...] = ()
    prefix: str = ""
    since: datetime | None = None
    """Created after."""
    older: datetime | None = None
    """Ended before."""


@on_cluster
async def list_workflows(
    session: Session,
    running: Annotated[bool, typer.Option("--running", help="Only those that have not ended.")] = False,
    completed: Annotated[bool, typer.Option("--completed", help="Only those that have ended.")] = False,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only those in this phase, as in Failed,Error.")
    ] = None,
    since: Annotated[str, typer.Option("--since", help="Only those created since, as in 10m.")] = "",
    older: Annotated[str, typer.Option("--older", help="Only those that ended longer ago, as in 2h.")] = "",
    prefix: Annotated[str, typer.Option("--prefix", help="Only those whose name begins so.")] = "",
    selector: Labels = "",
    all_namespaces: AllNamespaces = False,
    output: Annotated[str, typer.Option("--output", "-o", help="wide, name, yaml or json.")] = "",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Without the line of headers.")] = False,
) -> None:
    """List workflows, those that run first."""
    now = datetime.now(UTC)
    wanted = Filter(
        running=running,
        completed=completed,
        phases=_phases(status or ()),
        prefix=prefix,
        since=now - timedelta(seconds=seconds(since, "--since")) if since else None,
        older=now - timedelta(seconds=seconds(older, "--older")) if older else None,
    )
    if running and completed:
        raise Failure("--running and --completed leave nothing to show; give one of them")
    format = parse_format(output)
    namespace = "" if all_namespaces else session.namespace
    found = in_order(one for one in await light(session, namespace, selector) if fits(one, wanted))
    if not format.is_table:
        kind = workflow_kind()
        if format.kind != "name":
            found = [await session.cluster.get(kind, name_of(one), namespace_of(one)) for one in found]
        say(as_text(format, [(kind, one) for one in found], single=False).removesuffix("\n"))
        return
    if not found:
        warn("No workflows found" + (f" in the namespace {namespace}" if namespace else ""))
        return
    wide = format.kind == "wide"
    writer = TableWriter(_headers(wide, all_namespaces), show_headers=not no_headers)
    lines = writer.lines(row(one, now, wide=wide, with_namespace=all_namespaces) for one in found)
    coloured = fancy()
    head = 0 if no_headers else 1
    say(
        "\n".join(
            [*lines[:head], *(_coloured(line, one, coloured) for line, one in zip(lines[head:], found, strict=True))]
        )
    )


def fits(workflow: Object, wanted: Filter) -> bool:
    if wanted.running and is_over(workflow):
        return False
    if wanted.completed and not is_over(workflow):
        return False
    if wanted.phases and phase_of(workflow) not in wanted.phases:
        return False
    if not name_of(workflow).startswith(wanted.prefix):
        return False
    created, finished = meta(workflow).get("creationTimestamp"), status_of(workflow).get("finishedAt")
    if wanted.since is not None and not (created and parse_time(created) > wanted.since):
        return False
    return wanted.older is None or bool(finished and parse_time(finished) < wanted.older)


def in_order(workflows: Iterable[Object]) -> list[Object]:
    """Those that run first, the newest first; then what has ended, the last to end first."""
    found = sorted(workflows, key=creation_order, reverse=True)
    found.sort(key=lambda one: str(status_of(one).get("finishedAt") or ""), reverse=True)
    return sorted(found, key=lambda one: bool(status_of(one).get("finishedAt")))


def row(workflow: Object, now: datetime, *, wide: bool = False, with_namespace: bool = False) -> list[str]:
    status, spec = status_of(workflow), spec_of(workflow)
    cells = [
        name_of(workflow),
        status_word(workflow),
        age(workflow, now),
        took(status, now),
        str(spec.get("priority") or 0),
        " ".join(str(status.get("message") or "").split()),
    ]
    if with_namespace:
        cells.insert(0, namespace_of(workflow))
    if wide:
        given = (spec.get("arguments") or {}).get("parameters") or ()
        shown = ",".join(f"{p.get('name')}={_clipped(str(p['value']))}" for p in given if p.get("value") is not None)
        cells[-1:] = [str(status.get("progress") or ""), shown, cells[-1]]
    return cells


def _headers(wide: bool, with_namespace: bool) -> list[str]:
    more = ["PROGRESS", "PARAMETERS"] if wide else []
    return [
        *(["NAMESPACE"] if with_namespace else []),
        "NAME",
        "STATUS",
        "AGE",
        "DURATION",
        "PRIORITY",
        *more,
        "MESSAGE",
    ]


def _coloured(line: str, workflow: Object, on: bool) -> str:
    word = status_word(workflow)
    return line.replace(word, paint(word, STYLES.get(phase_of(workflow), ""), on=on), 1) if on else line


def _phases(given: Iterable[str]) -> tuple[str, ...]:
    phases = tuple(part.strip().capitalize() for text in given for part in text.split(",") if part.strip())
    for phase in phases:
        if phase not in _PHASES:
            raise Failure(f'--status: "{phase}" is not a phase; write {", ".join(_PHASES)}')
    return phases


def _clipped(text: str) -> str:
    return text if len(text) <= 50 else f"{text[:32]}...{text[-15:]}"
