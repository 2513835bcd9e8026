"""`muster workflows`: the platform's workflows and their versions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import echo, warn
from muster.cli.platform import (
    JsonOption,
    LimitOption,
    SearchOption,
    command_group,
    connect_platform,
    format_time,
    print_json,
    print_records,
    read_version_file,
    split_version,
)
from muster.platform.records.workflows import StoredVersion

workflows_app = command_group("Manage the platform's workflows and their versions.")

_Workflow = Annotated[str, typer.Argument(metavar="WORKFLOW", help="The name or id of the workflow.")]
_One = Annotated[
    str,
    typer.Argument(metavar="WORKFLOW[@VERSION]", help="A version is a number, name or id. Default: the latest."),
]
_File = Annotated[
    str, typer.Option("--filename", "-f", help="A graph document (JSON or YAML) or an Argo Workflow; - for stdin.")
]
_Description = Annotated[str, typer.Option("--description", help="What the workflow does.")]


@workflows_app.command("list")
def list_workflows(
    q: SearchOption = "",
    owner: Annotated[str, typer.Option("--owner", help="Show only workflows of this user.")] = "",
    team: Annotated[str, typer.Option("--team", help="Show only workflows shared with this team.")] = "",
    archived: Annotated[bool, typer.Option("--archived", help="Show only archived workflows.")] = False,
    sort: Annotated[
        str, typer.Option("--sort", help="Sort by name, created, updated, owner or versions; -NAME reverses.")
    ] = "",
    most: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List workflows, most recently changed first."""
    with connect_platform() as muster:
        found = list(
            muster.workflows.list(
                q=q, owner=owner, team=team, archived="only" if archived else "no", sort=sort, most=most
            )
        )
    rows = [(w.name, w.versions, w.owner_name, w.team_name or "", format_time(w.updated)) for w in found]
    print_records(found, ["NAME", "VERSIONS", "OWNER", "TEAM", "UPDATED"], rows, as_json)


@workflows_app.command("versions")
def list_versions(workflow: _Workflow, as_json: JsonOption = False) -> None:
    """List the versions of a workflow, newest first."""
    with connect_platform() as muster:
        found = list(muster.workflows.versions(workflow))
    rows = [
        (
            v.number,
            v.name,
            v.type,
            v.nodes,
            v.author_name,
            format_time(v.created),
            "archived" if v.archived else v.description,
        )
        for v in found
    ]
    headers = ["NUMBER", "NAME", "TYPE", "NODES", "AUTHOR", "CREATED", "DESCRIPTION"]
    print_records(found, headers, rows, as_json)


@workflows_app.command("get")
def get_version(
    one: _One,
    manifest: Annotated[
        bool, typer.Option("--yaml", help="Print it as an Argo Workflow that can run anywhere.")
    ] = False,
    output: Annotated[str, typer.Option("--output-file", help="Write to this file.")] = "",
) -> None:
    """Print a version: its graph document, or its Argo Workflow."""
    import json

    workflow, version = split_version(one)
    with connect_platform() as muster:
        if manifest:
            text = muster.workflows.manifest(workflow, version)
        else:
            document = muster.workflows.document(workflow, version)
            text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if output:
        Path(output).write_text(text)
    else:
        echo(text.removesuffix("\n"))


@workflows_app.command("create")
def create_workflow(
    name: Annotated[str, typer.Argument(help="The name of the new workflow.")],
    file: _File,
    description: _Description = "",
    team: Annotated[str, typer.Option("--team", help="The team to share it with.")] = "",
    version: Annotated[str, typer.Option("--version-name", help="The name of the first version. Default: v1.")] = "",
) -> None:
    """Create a workflow with its first version."""
    content = read_version_file(file)
    with connect_platform() as muster:
        _print_stored(muster.workflows.create(name, content, description=description, team=team, version_name=version))


@workflows_app.command("add")
def add_version(
    workflow: _Workflow,
    file: _File,
    name: Annotated[str, typer.Option("--name", help="The name of the version. Default: vN.")] = "",
    description: _Description = "",
) -> None:
    """Add a version to a workflow."""
    content = read_version_file(file)
    with connect_platform() as muster:
        _print_stored(muster.workflows.add_version(workflow, content, name=name, description=description))


@workflows_app.command("copy")
def copy_version(
    one: _One,
    new: Annotated[str, typer.Option("--as", help="Copy to a new workflow with this name.")] = "",
    into: Annotated[str, typer.Option("--into", help="Copy to this workflow. Default: the same workflow.")] = "",
    file: Annotated[str, typer.Option("--filename", "-f", help="Use this content instead.")] = "",
    name: Annotated[str, typer.Option("--name", help="The name of the version. Default: vN.")] = "",
    description: _Description = "",
) -> None:
    """Copy a version to the same, another or a new workflow."""
    if new and into:
        raise CommandError("--as (a new workflow) and --into (an existing one) cannot be combined")
    workflow, version = split_version(one)
    content = read_version_file(file) if file else None
    with connect_platform() as muster:
        _print_stored(
            muster.workflows.copy_version(
                workflow, version, new_workflow=new, into=into, content=content, name=name, description=description
            )
        )


@workflows_app.command("diff")
def diff_versions(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW[@VERSION]", help="The workflow, and the older version.")],
    versions: Annotated[
        list[str] | None, typer.Argument(metavar="VERSION...", help="The versions to compare. Default: the newest.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the changes between two versions."""
    name, before, after = parse_comparison(workflow, versions or [])
    with connect_platform() as muster:
        changes = muster.workflows.diff(name, before, after)
    if as_json:
        print_json([asdict(change) for change in changes])
    elif not changes:
        warn("The versions run the same")
    else:
        echo("\n".join(change.text for change in changes))


@workflows_app.command("check")
def check_file(file: Annotated[str, typer.Argument(help="A graph document or an Argo Workflow.")]) -> None:
    """Check a file before it becomes a version."""
    content = read_version_file(file)
    with connect_platform() as muster:
        if isinstance(content, str):
            found = muster.workflows.import_manifest(content).problems
        else:
            found = muster.workflows.check(content)
    for finding in found:
        echo(f"{finding.severity}: {finding}")
    if any(finding.severity == "error" for finding in found):
        raise CommandExit(1)
    if not found:
        echo("no mistakes")


@workflows_app.command("archive")
def archive(one: _One) -> None:
    """Archive a workflow or one of its versions; nothing is deleted."""
    workflow, _, version = one.partition("@")
    with connect_platform() as muster:
        muster.workflows.archive(workflow, version)
    echo(f"{one} archived; restore it with `muster workflows restore`")


@workflows_app.command("restore")
def restore(one: _One) -> None:
    """Restore an archived workflow or version."""
    workflow, _, version = one.partition("@")
    with connect_platform() as muster:
        muster.workflows.restore(workflow, version)
    echo(f"{one} restored")


@workflows_app.command("delete")
def delete(workflow: _Workflow) -> None:
    """Delete a workflow and its versions, unless they have runs."""
    with connect_platform() as muster:
        muster.workflows.delete(workflow)
    echo(f"{workflow} deleted")


def parse_comparison(workflow: str, versions: list[str]) -> tuple[str, str, str]:
    """Returns the workflow and the two versions of `demo 1 2`, `demo@1 demo@2`, `demo@1 2` or `demo@1`."""
    name, first = split_version(workflow)
    named = [split_version(version) if "@" in version else (name, version) for version in versions]
    others = [other for other, _ in named if other != name]
    if others:
        raise CommandError(f"only versions of one workflow can be compared, not of {name} and {others[0]}")
    requested = [first] * bool("@" in workflow) + [version for _, version in named]
    if not 1 <= len(requested) <= 2:
        raise CommandError("specify two versions, as in `muster workflows diff WORKFLOW@1 WORKFLOW@2`")
    return name, requested[0], requested[1] if len(requested) == 2 else "latest"


def _print_stored(stored: StoredVersion) -> None:
    for note in stored.notes:
        warn(f"{note.severity}: {note}")
    echo(f"{stored.workflow_name}@{stored.version.number} ({stored.version.name}) created")
