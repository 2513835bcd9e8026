"""`muster dispatch`: jobs of a shop's own dispatcher (docs/dispatch.md)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from muster.cli.errors import CommandError
from muster.cli.output import (
    Section,
    SectionGrid,
    TableWriter,
    colorize,
    echo,
    format_pairs,
    render_sections,
    supports_color,
    warn,
)
from muster.cli.session import Debug, configure_logging

if TYPE_CHECKING:
    from muster.dispatch import Dispatcher, Event, Job, State

dispatch_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Run the jobs of a Python program on this machine, a cluster, AIHC or timaker.",
)

VARIABLE = "MUSTER_DISPATCHER"
_COLORS = {"succeeded": "green", "failed": "red", "cancelled": "dim", "running": "cyan", "submitting": "cyan"}
_WIDE = ["PROJECT", "CREATOR", "PRIORITY", "ATTEMPT", "EXTERNAL ID"]

_Target = Annotated[str, typer.Argument(metavar="MODULE:NAME", help="The dispatcher, as in shop.jobs:dispatcher.")]
_Dispatcher = Annotated[
    str,
    typer.Option("--dispatcher", "-d", metavar="MODULE:NAME", help=f"The dispatcher. Default: {VARIABLE}."),
]
_Job = Annotated[str, typer.Argument(metavar="JOB", help="The id of the job, or @latest.")]
_Output = Annotated[str, typer.Option("--output", "-o", help="The format: wide, json, yaml or name.")]


@dispatch_app.command("run")
def run_dispatcher(target: _Target, debug: Debug = False) -> None:
    """Run a dispatcher until it is stopped. Several processes share the work."""
    configure_logging(debug, service=True)
    with _dispatcher(target) as dispatcher:
        warn(f"dispatching {', '.join(sorted(dispatcher.types)) or 'no types'} on {', '.join(dispatcher.adapters)}")
        dispatcher.run()


@dispatch_app.command("submit")
def submit_job(
    type: Annotated[str, typer.Argument(metavar="TYPE", help="The type of the job.")],
    values: Annotated[
        list[str] | None,
        typer.Option("--arg", "-a", metavar="NAME=VALUE", help="An argument, as JSON or text; may be repeated."),
    ] = None,
    on: Annotated[str, typer.Option("--on", help="The adapter. Default: the dispatcher's route.")] = "",
    key: Annotated[str, typer.Option("--key", help="The same key is the same job.")] = "",
    priority: Annotated[int, typer.Option("--priority", help="Higher is earlier.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, and submit nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for the result, and print it.")] = False,
    dispatcher: _Dispatcher = "",
) -> None:
    """Submit a job and print its id."""
    from muster.dispatch import JobFailed

    args = dict(_parse_value(each) for each in values or ())
    with _dispatcher(dispatcher) as found:
        if dry_run:
            plan = found.plan(type, args, on=on or None, priority=priority)
            echo(_dump({"on": plan.on, "request": dict(plan.request)}, "yaml"))
            for problem in plan.problems:
                warn(f"Warning: {problem}")
            return
        handle = found.submit(type, args, on=on or None, key=key or None, priority=priority)
        if not wait:
            echo(handle.id)
            return
        warn(handle.id)
        try:
            echo(json.dumps(handle.result(), indent=2, ensure_ascii=False))
        except JobFailed as failed:
            raise CommandError(f"error: {failed.message}") from None


@dispatch_app.command("list")
def list_jobs(
    state: Annotated[list[str] | None, typer.Option("--state", help="Show only this state; may be repeated.")] = None,
    type: Annotated[str, typer.Option("--type", help="Show only this type.")] = "",
    project: Annotated[str, typer.Option("--project", help="Show only this project.")] = "",
    on: Annotated[str, typer.Option("--on", help="Show only jobs of this adapter.")] = "",
    limit: Annotated[int, typer.Option("--limit", help="Show at most this many.")] = 50,
    output: _Output = "",
    dispatcher: _Dispatcher = "",
) -> None:
    """List jobs, newest first."""
    _check_format(output)
    with _dispatcher(dispatcher) as found:
        states = cast("list[State] | None", _check_states(state))
        page = found.list(state=states, type=type or None, project=project or None, on=on or None, limit=limit)
    if output in ("json", "yaml"):
        echo(_dump([_public(job) for job in page.items], output))
    elif output == "name":
        echo("\n".join(job.id for job in page.items))
    else:
        echo("\n".join(_table(page.items, wide=output == "wide")))
        if page.cursor is not None:
            warn(f"there are more; --limit shows more than {limit}")


@dispatch_app.command("describe")
def describe_job(job: _Job, output: _Output = "", dispatcher: _Dispatcher = "") -> None:
    """Show a job in detail: why it waits or failed, and what happened."""
    _check_format(output)
    with _dispatcher(dispatcher) as found:
        described = found.job(_find(found, job))
        events = found.events(described.id)
    if output in ("json", "yaml"):
        happened = [asdict(event) for event in events]
        echo(_dump({**_public(described), "events": happened}, output))
    elif output == "name":
        echo(described.id)
    else:
        echo("\n".join(render_sections(_sections(described, events))))


@dispatch_app.command("logs")
def print_logs(
    job: _Job,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines until the job ends.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", help="Print only the last N lines.")] = None,
    dispatcher: _Dispatcher = "",
) -> None:
    """Print the log of a job's last attempt."""
    with _dispatcher(dispatcher) as found:
        for line in found.get(_find(found, job)).logs(follow=follow, tail=tail):
            echo(line)


@dispatch_app.command("cancel")
def cancel_jobs(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="The ids of the jobs, or @latest.")],
    grace: Annotated[float, typer.Option("--grace", help="Seconds before a running job is killed.")] = 30.0,
    dispatcher: _Dispatcher = "",
) -> None:
    """Cancel jobs in any state."""
    with _dispatcher(dispatcher) as found:
        for job in jobs:
            id = _find(found, job)
            state = found.cancel(id, grace).state
            echo(f"{id} cancelled" if state == "cancelled" else f"{id} will be cancelled; it is {state}")


@dispatch_app.command("restart")
def restart_job(job: _Job, dispatcher: _Dispatcher = "") -> None:
    """Run an ended job again."""
    with _dispatcher(dispatcher) as found:
        echo(f"{found.restart(_find(found, job)).id} waits")


@dispatch_app.command("resolve")
def resolve_job(
    job: _Job,
    how: Annotated[str, typer.Argument(metavar="adopt|again|fail", help="What to do about the unclear start.")],
    external_id: Annotated[
        str, typer.Argument(metavar="[ID]", help="The id of the job on its cluster; for adopt.", show_default=False)
    ] = "",
    dispatcher: _Dispatcher = "",
) -> None:
    """Resolve a job whose start is unclear, after checking its cluster.

    `adopt ID` takes over the job that the cluster has; `again` starts it again; `fail` gives it up.
    """
    with _dispatcher(dispatcher) as found:
        resolved = found.resolve(_find(found, job), cast(Literal["again", "fail", "adopt"], how), external_id)
        echo(f"{resolved.id} is {resolved.state}")


@contextmanager
def _dispatcher(target: str) -> Iterator[Dispatcher]:
    """Imports the dispatcher from the current folder or the path. Its errors end the command with one message."""
    from sqlalchemy.exc import DBAPIError

    from muster.dispatch import Dispatcher, DispatchError
    from muster.dispatch.targets import load_target

    target = target or os.environ.get(VARIABLE, "")
    if not target:
        raise CommandError(f"error: name the dispatcher with --dispatcher shop.jobs:dispatcher, or set {VARIABLE}")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 (as Python itself does)
    try:
        found = load_target(target)
        if not isinstance(found, Dispatcher):
            raise CommandError(f"error: {target} is a {type(found).__name__}, not a Dispatcher")
        try:
            yield found
        finally:
            found.close()
    except DispatchError as error:
        raise CommandError(f"error: {error.message}") from None
    except ModuleNotFoundError as error:
        raise CommandError(f"error: {target}: {error}; run the command in the folder of your program") from None
    except DBAPIError as error:
        raise CommandError(f"error: the database cannot be used: {str(error.orig).strip()}") from None


def _find(dispatcher: Dispatcher, word: str) -> str:
    if word != "@latest":
        return word
    newest = dispatcher.list(limit=1).items
    if not newest:
        raise CommandError("error: there are no jobs yet")
    return newest[0].id


def _check_format(output: str) -> None:
    if output not in ("", "wide", "json", "yaml", "name"):
        raise CommandError(f'error: unable to print "{output}"; -o takes wide, json, yaml or name')


def _check_states(states: list[str] | None) -> list[str] | None:
    from muster.dispatch.model import STATES

    for state in states or ():
        if state not in STATES:
            raise CommandError(f'error: "{state}" is not a state; the states are {", ".join(STATES)}')
    return states


def _parse_value(each: str) -> tuple[str, Any]:
    name, sign, value = each.partition("=")
    if not sign or not name:
        raise CommandError(f'error: --arg must be NAME=VALUE, not "{each}"')
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _public(job: Job) -> dict[str, Any]:
    """Returns what users see of a job."""
    found = asdict(job)
    for inner in ("tracking", "version", "next_at"):
        del found[inner]
    found["retry"].pop("on")
    return found


def _dump(value: Any, output: str) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=lambda one: one.isoformat())
    if output == "json":
        return text
    from muster.kube.manifests import dump

    return dump(json.loads(text)).rstrip("\n")


def _table(jobs: tuple[Job, ...], *, wide: bool) -> list[str]:
    headers = ["ID", "TYPE", "ON", "STATE", "PROGRESS", "AGE", "DURATION", *(_WIDE if wide else ()), "REASON"]
    rows = []
    for job in jobs:
        more = [job.project, job.creator, job.priority, job.attempt, job.external_id or ""] if wide else []
        progress = f"{job.progress:.0%}" if job.progress is not None else ""
        age, lasted = _age(job), _duration(job)
        rows.append([job.id, job.type, job.on, job.state, progress, age, lasted, *more, job.reason or job.message])
    return _colorize_states(TableWriter(headers).lines(rows), [job.state for job in jobs])


def _colorize_states(lines: list[str], states: list[str]) -> list[str]:
    """Colors the states after the columns were aligned."""
    on = supports_color()
    return [
        lines[0],
        *(line.replace(f" {s} ", f" {colorize(s, _COLORS.get(s, ''), on=on)} ", 1)
          for line, s in zip(lines[1:], states, strict=True)),
    ]  # fmt: skip


def _age(job: Job) -> str:
    from muster.kube.tables import format_duration

    return format_duration((datetime.now(UTC) - job.created).total_seconds())


def _duration(job: Job) -> str:
    from muster.kube.tables import format_duration

    if job.started is None:
        return ""
    return format_duration(((job.ended or datetime.now(UTC)) - job.started).total_seconds())


def _sections(job: Job, events: list[Event]) -> list[Section]:
    wanted = job.resources
    needs = [f"cpu={wanted.cpu:g}", f"memory={wanted.memory}"]
    if wanted.gpu:
        needs.append(f"gpu={wanted.gpu:g} {wanted.gpu_type}".rstrip())
    if wanted.nodes > 1:
        needs.append(f"nodes={wanted.nodes}")
    state = colorize(job.state, _COLORS.get(job.state, ""), on=supports_color())
    fields: list[tuple[str, Any]] = [
        ("ID", job.id),
        ("Name", job.name),
        ("Type", job.type),
        ("State", state),
        ("Reason", job.reason),
        ("On", f"{job.on} ({job.cluster_status})" if job.cluster_status else job.on),
        ("External ID", job.external_id or ""),
        ("Hosts", ", ".join(job.hosts)),
        ("Attempt", str(job.attempt)),
        ("Project", job.project),
        ("Creator", job.creator),
        ("Key", job.key or ""),
        ("Priority", str(job.priority) if job.priority else ""),
        ("Resources", needs),
        ("Arguments", format_pairs({name: json.dumps(value) for name, value in job.args.items()})),
        ("After", list(job.after)),
        ("Created", _time(job.created)),
        ("Started", _time(job.started)),
        ("Ended", _time(job.ended)),
        ("Progress", f"{job.progress:.0%} {job.message}".strip() if job.progress is not None else job.message),
        ("Metrics", format_pairs({name: f"{value:g}" for name, value in job.metrics.items()})),
        ("Folder", job.folder),
        ("Result", json.dumps(job.result, ensure_ascii=False) if job.result is not None else ""),
    ]
    found: list[Section] = [(label, value) for label, value in fields if value]
    if job.fault is not None:
        fault = job.fault
        found.append(("Fault", [("Code", fault.code), ("Message", fault.message), ("Origin", fault.origin)]))
        if fault.log_tail:
            found.append(("Log", list(fault.log_tail)))
    rows = [[_time(event.time), event.attempt, event.state, event.reason] for event in events]
    found.append(("Events", SectionGrid(["Time", "Attempt", "State", "Reason"], rows)))
    return found


def _time(moment: datetime | None) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""
