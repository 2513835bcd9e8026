"""`muster workflows`: the platform's workflows and their versions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import echo, format_table, warn
from muster.cli.platform_login import connect_platform, read_version_file
from muster.platform.records import StoredVersion

workflows_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="The platform's workflows and their versions.",
)

_Workflow = Annotated[str, typer.Argument(metavar="WORKFLOW", help="Its name or id.")]
_One = Annotated[
    str,
    typer.Argument(metavar="WORKFLOW[@VERSION]", help="A version is its number, name or id; the latest if left out."),
]
_File = Annotated[
    str, typer.Option("--filename", "-f", help="A graph document (JSON or YAML) or an Argo Workflow; - for stdin.")
]
_Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
_Description = Annotated[str, typer.Option("--description", help="What it does.")]


@workflows_app.command("list")
def list_workflows(
    q: Annotated[str, typer.Option("--search", "-q", help="Words that have to occur.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="Only those of this user.")] = "",
    team: Annotated[str, typer.Option("--team", help="Only those shared with this team.")] = "",
    archived: Annotated[bool, typer.Option("--archived", help="Only those that are archived.")] = False,
    sort: Annotated[
        str, typer.Option("--sort", help="name, created, updated, owner, versions; -x is the other way.")
    ] = "",
    most: Annotated[int, typer.Option("--limit", help="How many at most.")] = 100,
    as_json: _Json = False,
) -> None:
    """List workflows, the one that changed last first."""
    with connect_platform() as muster:
        found = list(
            muster.workflows.list(
                q=q, owner=owner, team=team, archived="only" if archived else "no", sort=sort, most=most
            )
        )
    if as_json:
        _say_json([asdict(workflow) for workflow in found])
    elif not found:
        warn("No workflows found")
    else:
        rows = ((w.name, w.versions, w.owner_name, w.team_name or "", _time(w.updated)) for w in found)
        echo("\n".join(format_table(["NAME", "VERSIONS", "OWNER", "TEAM", "UPDATED"], rows)))


@workflows_app.command("versions")
def list_versions(workflow: _Workflow, as_json: _Json = False) -> None:
    """List the versions of a workflow, the newest first."""
    with connect_platform() as muster:
        found = list(muster.workflows.versions(workflow))
    if as_json:
        _say_json([asdict(version) for version in found])
        return
    rows = (
        (
            v.number,
            v.name,
            v.type,
            v.nodes,
            v.author_name,
            _time(v.created),
            "archived" if v.archived else v.description,
        )
        for v in found
    )
    echo("\n".join(format_table(["NUMBER", "NAME", "TYPE", "NODES", "AUTHOR", "CREATED", "DESCRIPTION"], rows)))


@workflows_app.command("get")
def get_version(
    one: _One,
    manifest: Annotated[bool, typer.Option("--yaml", help="As an Argo Workflow that runs by itself.")] = False,
    output: Annotated[str, typer.Option("--output-file", help="Write it there.")] = "",
) -> None:
    """Print a version: its graph document, or the Argo Workflow it is."""
    import json

    workflow, version = _split(one)
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
    team: Annotated[str, typer.Option("--team", help="A team to share it with.")] = "",
    version: Annotated[str, typer.Option("--version-name", help="The name of its first version; v1 if left out.")] = "",
) -> None:
    """Create a workflow with its first version."""
    content = read_version_file(file)
    with connect_platform() as muster:
        _say_stored(muster.workflows.create(name, content, description=description, team=team, version_name=version))


@workflows_app.command("add")
def add_version(
    workflow: _Workflow,
    file: _File,
    name: Annotated[str, typer.Option("--name", help="The name of the version; vN if left out.")] = "",
    description: _Description = "",
) -> None:
    """Add a version to a workflow."""
    content = read_version_file(file)
    with connect_platform() as muster:
        _say_stored(muster.workflows.add_version(workflow, content, name=name, description=description))


@workflows_app.command("copy")
def copy_version(
    one: _One,
    new: Annotated[
        str, typer.Option("--as", help="The name of a new workflow that it becomes the first version of.")
    ] = "",
    into: Annotated[
        str, typer.Option("--into", help="The workflow that gets the new version; the same if left out.")
    ] = "",
    file: Annotated[str, typer.Option("--filename", "-f", help="What it is to hold instead.")] = "",
    name: Annotated[str, typer.Option("--name", help="The name of the version; vN if left out.")] = "",
    description: _Description = "",
) -> None:
    """Copy a version into the same, another or a new workflow."""
    if new and into:
        raise CommandError("--as makes a new workflow, --into takes one that is there; give one of them")
    workflow, version = _split(one)
    content = read_version_file(file) if file else None
    with connect_platform() as muster:
        _say_stored(
            muster.workflows.copy_version(
                workflow, version, new_workflow=new, into=into, content=content, name=name, description=description
            )
        )


@workflows_app.command("diff")
def diff_versions(
    workflow: Annotated[
        str, typer.Argument(metavar="WORKFLOW[@VERSION]", help="With the older version, or before it.")
    ],
    versions: Annotated[list[str] | None, typer.Argument(metavar="VERSION...", help="The newest if left out.")] = None,
    as_json: _Json = False,
) -> None:
    """Show what has changed between two versions."""
    name, before, after = parse_comparison(workflow, versions or [])
    with connect_platform() as muster:
        changes = muster.workflows.diff(name, before, after)
    if as_json:
        _say_json([asdict(change) for change in changes])
    elif not changes:
        warn("They run the same")
    else:
        echo("\n".join(change.text for change in changes))


@workflows_app.command("check")
def check_file(file: Annotated[str, typer.Argument(help="A graph document, or an Argo Workflow.")]) -> None:
    """Say what is wrong with a file before it becomes a version."""
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
        echo("nothing is wrong with it")


@workflows_app.command("archive")
def archive(one: _One) -> None:
    """Put a workflow, or one of its versions, away; nothing is lost."""
    workflow, _, version = one.partition("@")
    with connect_platform() as muster:
        muster.workflows.archive(workflow, version)
    echo(f"{one} is archived; `muster workflows restore` brings it back")


@workflows_app.command("restore")
def restore(one: _One) -> None:
    """Bring an archived workflow or version back."""
    workflow, _, version = one.partition("@")
    with connect_platform() as muster:
        muster.workflows.restore(workflow, version)
    echo(f"{one} is back")


@workflows_app.command("delete")
def delete(workflow: _Workflow) -> None:
    """Delete a workflow with all its versions, unless they have runs."""
    with connect_platform() as muster:
        muster.workflows.delete(workflow)
    echo(f"{workflow} is deleted")


def parse_comparison(workflow: str, versions: list[str]) -> tuple[str, str, str]:
    """The workflow and the two versions that `demo 1 2`, `demo@1 demo@2`, `demo@1 2` and `demo@1` are about."""
    name, first = _split(workflow)
    named = [_split(version) if "@" in version else (name, version) for version in versions]
    strangers = [other for other, _ in named if other != name]
    if strangers:
        raise CommandError(f"versions of one workflow can be compared, not of {name} and {strangers[0]}")
    asked = [first] * bool("@" in workflow) + [version for _, version in named]
    if not 1 <= len(asked) <= 2:
        raise CommandError("say which versions: muster workflows diff WORKFLOW@1 WORKFLOW@2")
    return name, asked[0], asked[1] if len(asked) == 2 else "latest"


def _split(one: str) -> tuple[str, str]:
    workflow, _, version = one.partition("@")
    return workflow, version or "latest"


def _say_stored(stored: StoredVersion) -> None:
    for note in stored.notes:
        warn(f"{note.severity}: {note}")
    echo(f"{stored.workflow_name}@{stored.version.number} ({stored.version.name}) is stored")


def _say_json(value: Any) -> None:
    import json

    echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _time(moment: Any) -> str:
    return str(moment.astimezone().strftime("%Y-%m-%d %H:%M:%S"))
