"""`muster clusters` and `storage`: virtual clusters and storage roots."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo, format_table
from muster.cli.platform_login import connect_platform
from muster.cli.platform_users import JsonOption, LimitOption, SearchOption, print_json, print_records

clusters_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Virtual clusters: SKUs, totals, and who uses them.",
)
storage_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Storage roots that nodes may mount."
)

_Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="Name or id.")]
_Root = Annotated[str, typer.Argument(metavar="ROOT", help="Name or id.")]
_Description = Annotated[str | None, typer.Option("--description", help="What it is for.")]
_Team = Annotated[str | None, typer.Option("--team", help="The team that may use it; '' for everybody.")]
_Pairs = list[str] | None
_Sku = Annotated[
    _Pairs, typer.Option("--sku", metavar="RESOURCE=AMOUNT", help="Of one SKU: gpu=1, cpu=10, memory=80G; repeatable.")
]
_Selector = Annotated[
    _Pairs, typer.Option("--node-selector", metavar="LABEL=VALUE", help="Which machines; repeatable.")
]
_Total = Annotated[int | None, typer.Option("--total", help="How many SKUs there are.")]
_ReadOnly = Annotated[bool | None, typer.Option("--read-only/--read-write", help="Whether nodes may write.")]
_HostPath = Annotated[str | None, typer.Option("--host-path", help="Where it is on the machines, if elsewhere.")]
_Claim = Annotated[str | None, typer.Option("--claim", help="The PersistentVolumeClaim it is.")]


@clusters_app.command("list")
def list_clusters(q: SearchOption = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List virtual clusters and how much of them is in use."""
    with connect_platform() as muster:
        found = list(muster.clusters.list(q=q, most=most))
    rows = [
        (c.name, _amounts(c.sku), f"{c.used}/{'-' if c.total is None else c.total}", c.team_name or "", c.description)
        for c in found
    ]
    print_records(found, ["NAME", "SKU", "USED", "TEAM", "DESCRIPTION"], rows, as_json)


@clusters_app.command("get")
def get_cluster(cluster: _Cluster, as_json: JsonOption = False) -> None:
    """Show a virtual cluster and who uses it."""
    with connect_platform() as muster:
        found = muster.clusters.get(cluster)
        running, waiting = muster.clusters.uses(cluster)
    if as_json:
        uses = {"uses": [asdict(use) for use in running], "waiting": [asdict(use) for use in waiting]}
        print_json(asdict(found) | uses)
        return
    total = "as many as there is room for" if found.total is None else str(found.total)
    echo(f"{found.name}: SKU {_amounts(found.sku)}; {found.used} of {total} in use")
    rows = [(kind, use.skus, use.run_name, use.node, use.owner_name, use.run_id) for kind, uses in
            (("running", running), ("waiting", waiting)) for use in uses]  # fmt: skip
    if rows:
        echo("\n" + "\n".join(format_table(["STATE", "SKUS", "RUN", "NODE", "OWNER", "RUN ID"], rows)))


@clusters_app.command("create")
def create_cluster(
    name: Annotated[str, typer.Argument(help="The name of the virtual cluster.")],
    sku: _Sku = None,
    total: _Total = None,
    selector: _Selector = None,
    description: _Description = None,
    team: _Team = None,
) -> None:
    """Create a virtual cluster."""
    more = _said(description=description, total=total, team=team, node_selector=_pairs(selector) if selector else None)
    with connect_platform() as muster:
        echo(f"{muster.clusters.create(name, _pairs(sku), **more).name} is created")


@clusters_app.command("edit")
def edit_cluster(
    cluster: _Cluster,
    name: Annotated[str | None, typer.Option("--name", help="What to call it from now on.")] = None,
    sku: _Sku = None,
    total: _Total = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="As many SKUs as there is room for.")] = False,
    selector: _Selector = None,
    description: _Description = None,
    team: _Team = None,
) -> None:
    """Change a virtual cluster."""
    changes = _said(
        name=name,
        sku=_pairs(sku) if sku else None,
        total=total,
        node_selector=_pairs(selector) if selector else None,
        description=description,
        team=team,
    )
    if unlimited:
        changes["total"] = None
    if not changes:
        raise CommandError("error: say what to change: --sku, --total, --unlimited, --node-selector, --team ...")
    with connect_platform() as muster:
        echo(f"{muster.clusters.edit(cluster, **changes).name} is changed")


@clusters_app.command("delete")
def delete_cluster(cluster: _Cluster) -> None:
    """Delete a virtual cluster; versions that name it cannot be run any more."""
    with connect_platform() as muster:
        muster.clusters.delete(cluster)
    echo(f"{cluster} is deleted")


@storage_app.command("list")
def list_roots(q: SearchOption = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List storage roots."""
    with connect_platform() as muster:
        found = list(muster.storage.list(q=q, most=most))
    rows = [
        (r.name, r.path, r.claim or r.host_path or r.path, "read-only" if r.read_only else "", r.team_name or "")
        for r in found
    ]
    print_records(found, ["NAME", "PATH", "SOURCE", "ACCESS", "TEAM"], rows, as_json)


@storage_app.command("create")
def create_root(
    name: Annotated[str, typer.Argument(help="The name of the storage_app root.")],
    path: Annotated[str, typer.Argument(help="Where nodes find it.")],
    host_path: _HostPath = None,
    claim: _Claim = None,
    read_only: _ReadOnly = None,
    description: _Description = None,
    team: _Team = None,
) -> None:
    """Create a storage root."""
    more = _said(host_path=host_path, claim=claim, read_only=read_only, description=description, team=team)
    with connect_platform() as muster:
        echo(f"{muster.storage.create(name, path, **more).name} is created")


@storage_app.command("edit")
def edit_root(
    root: _Root,
    name: Annotated[str | None, typer.Option("--name", help="What to call it from now on.")] = None,
    path: Annotated[str | None, typer.Option("--path", help="Where nodes find it.")] = None,
    host_path: _HostPath = None,
    claim: _Claim = None,
    read_only: _ReadOnly = None,
    description: _Description = None,
    team: _Team = None,
) -> None:
    """Change a storage root."""
    changes = _said(
        name=name, path=path, host_path=host_path, claim=claim, read_only=read_only, description=description, team=team
    )
    if not changes:
        raise CommandError("error: say what to change: --path, --host-path, --claim, --read-only, --team ...")
    with connect_platform() as muster:
        echo(f"{muster.storage.edit(root, **changes).name} is changed")


@storage_app.command("delete")
def delete_root(root: _Root) -> None:
    """Delete a storage root; what is stored there stays."""
    with connect_platform() as muster:
        muster.storage.delete(root)
    echo(f"{root} is deleted")


def _said(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _pairs(given: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise CommandError(f'error: "{each}" is not NAME=VALUE')
        found[name] = value
    return found


def _amounts(sku: dict[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sku.items())
