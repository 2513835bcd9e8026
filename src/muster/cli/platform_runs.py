"""`muster runs`: runs of the platform's workflows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import echo, format_table, warn
from muster.cli.platform import (
    JsonOption,
    LimitOption,
    SearchOption,
    command_group,
    connect_platform,
    format_time,
    parse_pairs,
    print_json,
    print_records,
)
from muster.platform.records.runs import Run, RunDetail
from muster.sdk import Muster
from muster.sdk.runs import ENDED

runs_app = command_group("Manage runs of the platform's workflows.")

_Run = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")]
_Node = Annotated[str, typer.Argument(metavar="NODE", help="The name of a node.")]
_Values = Annotated[
    list[str] | None,
    typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="An initial parameter; may be repeated."),
]
_Name = Annotated[str, typer.Option("--name", help="The name of the run.")]
_Wait = Annotated[bool, typer.Option("--wait", "-w", help="Wait until the run ends; the exit code is its result.")]
_Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="KEY[=VALUE]", help="A tag of the run; may be repeated.")
]
_HEADERS = ["ID", "NAME", "WORKFLOW", "STATE", "NODES", "OWNER", "CREATED", "DURATION", "TAGS"]


@runs_app.command("list")
def list_runs(
    q: SearchOption = "",
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", help="Show only this state: waiting, running, succeeded, failed or stopped; may be repeated."
        ),
    ] = None,
    workflow: Annotated[
        str, typer.Option("--workflow", help="Show only runs of this workflow (name or id, optionally @VERSION).")
    ] = "",
    owner: Annotated[str, typer.Option("--owner", help="Show only runs of this user.")] = "",
    team: Annotated[str, typer.Option("--team", help="Show only runs shared with this team.")] = "",
    tags: Annotated[
        list[str] | None,
        typer.Option(
            "--tag",
            metavar="KEY[=VALUE]",
            help="Show only runs with this tag (KEY: with any value); may be repeated.",
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            "--sort",
            help="Sort by created, started, finished, name, state, workflow, version or owner; -NAME reverses.",
        ),
    ] = "",
    most: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    name, _, version = workflow.partition("@")
    with connect_platform() as muster:
        found = list(
            muster.runs.list(
                q=q,
                states=state or (),
                workflow=name,
                version=version,
                owner=owner,
                team=team,
                sort=sort,
                most=most,
                tags=tags or (),
            )
        )
    print_records(found, _HEADERS, [_row(run) for run in found], as_json)


@runs_app.command("create")
def create_run(
    one: Annotated[str, typer.Argument(metavar="WORKFLOW[@VERSION]", help="Default: the latest version.")],
    values: _Values = None,
    name: _Name = "",
    team: Annotated[
        str | None, typer.Option("--team", help="The team to share it with. Default: the team of the workflow.")
    ] = None,
    tags: _Tags = None,
    wait: _Wait = False,
) -> None:
    """Run a version of a workflow."""
    workflow, _, version = one.partition("@")
    with connect_platform() as muster:
        run = muster.runs.create(
            workflow,
            version or "latest",
            name=name,
            parameters=dict(parse_pairs("--parameter", values)),
            team=team,
            tags=tags or (),
        )
        _print_created(muster, run, wait)


@runs_app.command("copy")
def copy_run(
    run: _Run,
    values: _Values = None,
    name: _Name = "",
    version: Annotated[str, typer.Option("--version", help="Use another version of the workflow.")] = "",
    tags: _Tags = None,
    wait: _Wait = False,
) -> None:
    """Create a run with the parameters of another run, and the given changes.

    It has the tags of the other run, unless --tag is used.
    """
    with connect_platform() as muster:
        parameters = dict(parse_pairs("--parameter", values))
        copied = muster.runs.copy(run, name=name, version=version, parameters=parameters, tags=tags)
        _print_created(muster, copied, wait)


@runs_app.command("tag")
def tag_run(
    run: _Run,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY[=VALUE] | KEY-]...", help="Tags to set; KEY- removes one.")
    ] = None,
) -> None:
    """Set or remove tags of a run, and print its tags."""
    with connect_platform() as muster:
        tags = muster.runs.get(run).tags
        if changes:
            tags = muster.runs.set_tags(run, changed_tags(tags, changes)).tags
    for tag in tags:
        echo(tag)


def changed_tags(tags: Iterable[str], changes: Iterable[str]) -> list[str]:
    """A pure function. A tag replaces the one with the same key."""
    found = {tag.partition("=")[0]: tag for tag in tags}
    for change in changes:
        if change.endswith("-") and "=" not in change:
            found.pop(change.removesuffix("-"), None)
        else:
            found[change.partition("=")[0]] = change
    return list(found.values())


@runs_app.command("get")
def get_run(run: _Run, as_json: JsonOption = False) -> None:
    """Show a run and the state of its nodes."""
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
    _print_run(found)


@runs_app.command("node")
def get_node(run: _Run, node: _Node, as_json: JsonOption = False) -> None:
    """Show a node: inputs, outputs, command, resources and attempts."""
    with connect_platform() as muster:
        found = muster.runs.node(run, node)
    if as_json:
        print_json(asdict(found))
        return
    echo(f"{found.name}: {found.state}" + (f" ({found.message})" if found.message else ""))
    echo(f"image      {found.image}")
    requested = ", ".join(f"{name} {amount}" for name, amount in found.resources.items())
    echo(f"resources  {requested}" + (f"; {found.skus} SKUs of {found.cluster}" if found.cluster else ""))
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
    attempt: Annotated[int | None, typer.Option("--attempt", help="The attempt. Default: the last one.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", help="Print only the last N lines.")] = None,
    times: Annotated[bool, typer.Option("--timestamps", help="Print the time of each line.")] = False,
) -> None:
    """Print the log of a node."""
    if follow and (tail is not None or times):
        raise CommandError("error: --follow cannot be combined with --tail or --timestamps")
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
    """Wait until a run ends; the exit code is its result."""
    with connect_platform() as muster:
        _wait_for_end(muster, run)


@runs_app.command("stop")
def stop_run(run: _Run) -> None:
    """Stop a run and its running nodes."""
    with connect_platform() as muster:
        muster.runs.stop(run)
    echo(f"{run} is being stopped")


@runs_app.command("retry")
def retry_run(run: _Run, wait: _Wait = False) -> None:
    """Retry a run from the nodes that did not succeed."""
    with connect_platform() as muster:
        muster.runs.retry(run)
        echo(f"{run} continues")
        if wait:
            _wait_for_end(muster, run)


@runs_app.command("delete")
def delete_run(run: _Run) -> None:
    """Delete a run and everything that belongs to it."""
    with connect_platform() as muster:
        muster.runs.delete(run)
    echo(f"{run} deleted")


def _print_created(muster: Muster, run: Run, wait: bool) -> None:
    echo(run.id)
    if wait:
        _wait_for_end(muster, run.id)


def _wait_for_end(muster: Muster, run_id: str) -> None:
    for found in muster.runs.watch(run_id):
        if found.state in ENDED:
            warn(f"{found.name}: {found.state}" + (f" ({found.message})" if found.message else ""))
            if found.state != "succeeded":
                raise CommandExit(1)
            return


def _print_run(found: RunDetail) -> None:
    run = found
    echo(f"{run.name} ({run.id}): {run.state}" + (f" ({run.message})" if run.message else ""))
    echo(f"{run.workflow_name}@{run.version_number} ({run.version_name}), {run.owner_name}, {format_time(run.created)}")
    if run.tags:
        echo(f"tags: {', '.join(run.tags)}")
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
        " ".join(run.tags),
    )


def _duration(started: datetime | None, finished: datetime | None) -> str:
    from muster.kube.tables import format_duration

    if started is None:
        return ""
    return format_duration(((finished or datetime.now(started.tzinfo)) - started).total_seconds())
