"""`muster runs`: runs of the platform's workflows."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import echo, format_table, warn
from muster.cli.platform_login import connect_platform
from muster.cli.platform_users import JsonOption, LimitOption, SearchOption, format_time, print_json, print_records
from muster.platform.records import Run, RunDetail
from muster.sdk import Muster
from muster.sdk.runs import ENDED

runs_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Runs of the platform's workflows."
)

_Run = Annotated[str, typer.Argument(metavar="RUN", help="Its id.")]
_Node = Annotated[str, typer.Argument(metavar="NODE", help="The name of a node.")]
_Values = Annotated[
    list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="An initial parameter; repeatable.")
]
_Name = Annotated[str, typer.Option("--name", help="What to call the run.")]
_Wait = Annotated[bool, typer.Option("--wait", "-w", help="Until it has ended; the exit code tells how.")]
_HEADERS = ["ID", "NAME", "WORKFLOW", "STATE", "NODES", "OWNER", "CREATED", "DURATION"]


@runs_app.command("list")
def list_runs(
    q: SearchOption = "",
    state: Annotated[
        list[str] | None, typer.Option("--state", help="waiting, running, succeeded, failed, stopped; repeatable.")
    ] = None,
    workflow: Annotated[str, typer.Option("--workflow", help="Its name or id; with @VERSION only that one.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="Only those of this user.")] = "",
    team: Annotated[str, typer.Option("--team", help="Only those shared with this team.")] = "",
    sort: Annotated[
        str,
        typer.Option("--sort", help="created, started, finished, name, state, workflow, version, owner; -x reverses."),
    ] = "",
    most: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List runs, the newest first."""
    name, _, version = workflow.partition("@")
    with connect_platform() as muster:
        found = list(
            muster.runs.list(
                q=q, states=state or (), workflow=name, version=version, owner=owner, team=team, sort=sort, most=most
            )
        )
    print_records(found, _HEADERS, [_row(run) for run in found], as_json)


@runs_app.command("create")
def create_run(
    one: Annotated[str, typer.Argument(metavar="WORKFLOW[@VERSION]", help="The latest version if none is named.")],
    values: _Values = None,
    name: _Name = "",
    team: Annotated[
        str | None, typer.Option("--team", help="A team to share it with; the workflow's if left out.")
    ] = None,
    wait: _Wait = False,
) -> None:
    """Run a version of a workflow."""
    workflow, _, version = one.partition("@")
    with connect_platform() as muster:
        run = muster.runs.create(workflow, version or "latest", name=name, parameters=_values(values), team=team)
        _begun(muster, run, wait)


@runs_app.command("copy")
def copy_run(
    run: _Run,
    values: _Values = None,
    name: _Name = "",
    version: Annotated[str, typer.Option("--version", help="Another version of the workflow.")] = "",
    wait: _Wait = False,
) -> None:
    """Run again with the values of an old run, except for what is said."""
    with connect_platform() as muster:
        _begun(muster, muster.runs.copy(run, name=name, version=version, parameters=_values(values)), wait)


@runs_app.command("get")
def get_run(run: _Run, as_json: JsonOption = False) -> None:
    """Show a run and how its nodes fare."""
    with connect_platform() as muster:
        found = muster.runs.get(run)
    if as_json:
        data = asdict(found)
        more = {
            "nodes": data.pop("node_states"),
            "parameters": data.pop("parameters"),
            "document": data.pop("document"),
        }
        print_json({"run": data, **more})
        return
    _say_run(found)


@runs_app.command("node")
def get_node(run: _Run, node: _Node, as_json: JsonOption = False) -> None:
    """Show one node: inputs and outputs with their values, how it was run, its attempts."""
    with connect_platform() as muster:
        found = muster.runs.node(run, node)
    if as_json:
        print_json(asdict(found))
        return
    echo(f"{found.name}: {found.state}" + (f" ({found.message})" if found.message else ""))
    echo(f"image      {found.image}")
    asked = ", ".join(f"{name} {amount}" for name, amount in found.resources.items())
    echo(f"resources  {asked}" + (f"; {found.skus} SKUs of {found.cluster}" if found.cluster else ""))
    echo("command    " + found.command.rstrip("\n").replace("\n", "\n           "))
    for title, values in (("INPUT", found.inputs), ("OUTPUT", found.outputs)):
        if values:
            rows = [(v.name, v.type, "" if v.value is None else v.value) for v in values]
            echo("\n" + "\n".join(format_table([title, "TYPE", "VALUE"], rows)))
    if found.attempt_list:
        tries = [(a.number, a.state, a.exit_code, a.host, a.message) for a in found.attempt_list]
        echo("\n" + "\n".join(format_table(["ATTEMPT", "STATE", "EXIT", "HOST", "MESSAGE"], tries)))


@runs_app.command("logs")
def print_log(
    run: _Run,
    node: _Node,
    attempt: Annotated[int | None, typer.Option("--attempt", help="Which one; the last if left out.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it is written.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", help="Only the last so many lines.")] = None,
    times: Annotated[bool, typer.Option("--timestamps", help="With the time of each line.")] = False,
) -> None:
    """Print what a node has written."""
    if follow and (tail is not None or times):
        raise CommandError("error: --follow prints everything, without times; leave --tail and --timestamps out")
    with connect_platform() as muster:
        if follow:
            for line in muster.runs.follow_log(run, node, attempt=attempt):
                echo(line)
            return
        text = muster.runs.log(run, node, attempt=attempt, tail=tail, times=times)
    if text:
        echo(text.removesuffix("\n"))


@runs_app.command("wait")
def wait_for_run(run: _Run) -> None:
    """Wait until a run has ended; the exit code tells how."""
    with connect_platform() as muster:
        _waited(muster, run)


@runs_app.command("stop")
def stop_run(run: _Run) -> None:
    """Begin nothing new, and end what runs."""
    with connect_platform() as muster:
        muster.runs.stop(run)
    echo(f"{run} is being stopped")


@runs_app.command("retry")
def retry_run(run: _Run, wait: _Wait = False) -> None:
    """Go on from what failed or was not finished: what has succeeded is not done again."""
    with connect_platform() as muster:
        muster.runs.retry(run)
        echo(f"{run} goes on")
        if wait:
            _waited(muster, run)


@runs_app.command("delete")
def delete_run(run: _Run) -> None:
    """Delete a run with all that belongs to it."""
    with connect_platform() as muster:
        muster.runs.delete(run)
    echo(f"{run} is deleted")


def _begun(muster: Muster, run: Run, wait: bool) -> None:
    echo(run.id)
    if wait:
        _waited(muster, run.id)


def _waited(muster: Muster, run_id: str) -> None:
    for found in muster.runs.watch(run_id):
        if found.state in ENDED:
            warn(f"{found.name}: {found.state}" + (f" ({found.message})" if found.message else ""))
            if found.state != "succeeded":
                raise CommandExit(1)
            return


def _values(given: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise CommandError(f'error: "{each}" is no value; write NAME=VALUE')
        found[name] = value
    return found


def _say_run(found: RunDetail) -> None:
    run = found
    echo(f"{run.name} ({run.id}): {run.state}" + (f" ({run.message})" if run.message else ""))
    echo(f"{run.workflow_name}@{run.version_number} ({run.version_name}), {run.owner_name}, {format_time(run.created)}")
    for name, value in (found.parameters or {}).items():
        echo(f"  {name} = {value}")
    rows = [
        (
            n.name + (f" ({n.attempts - 1})" if n.attempts > 1 else ""),
            n.state,
            _duration(n.started, n.finished),
            n.message,
        )
        for n in found.node_states
    ]
    if rows:
        echo("\n" + "\n".join(format_table(["NODE", "STATE", "DURATION", "MESSAGE"], rows)))


def _row(run: Run) -> tuple[object, ...]:
    version = f"{run.workflow_name}@{run.version_number}"
    lasted = _duration(run.started, run.finished)
    return (
        run.id,
        run.name,
        version,
        run.state,
        f"{run.done}/{run.nodes}",
        run.owner_name,
        format_time(run.created),
        lasted,
    )


def _duration(started: datetime | None, finished: datetime | None) -> str:
    from muster.kube.tables import format_duration

    if started is None:
        return ""
    return format_duration(((finished or datetime.now(started.tzinfo)) - started).total_seconds())
