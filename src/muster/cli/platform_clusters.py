"""`muster clusters` and `storage`: virtual clusters and storage roots."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from muster.cli.output import echo, format_table
from muster.cli.platform import (
    JsonOption,
    LimitOption,
    SearchOption,
    check_changes,
    command_group,
    connect_platform,
    given_options,
    parse_pairs,
    print_json,
    print_records,
)

clusters_app = command_group("Manage virtual clusters: SKUs, totals and usage.")
storage_app = command_group("Manage the storage roots that nodes may mount.")

_Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="The name or id of the virtual cluster.")]
_Root = Annotated[str, typer.Argument(metavar="ROOT", help="The name or id of the storage root.")]
_Description = Annotated[str | None, typer.Option("--description", help="What it is used for.")]
_Team = Annotated[str | None, typer.Option("--team", help="The team that may use it; '' allows everyone.")]
_Pairs = list[str] | None
_Sku = Annotated[
    _Pairs,
    typer.Option(
        "--sku",
        metavar="RESOURCE=AMOUNT",
        help="An amount in one SKU, as in gpu=1, cpu=10 or memory=80G; may be repeated.",
    ),
]
_Selector = Annotated[
    _Pairs, typer.Option("--node-selector", metavar="LABEL=VALUE", help="A label of its machines; may be repeated.")
]
_Tolerations = Annotated[
    list[str] | None,
    typer.Option("--toleration", metavar="KEY=VALUE:EFFECT", help="A taint of its machines; may be repeated."),
]
_Total = Annotated[int | None, typer.Option("--total", help="The number of SKUs.")]
_ReadOnly = Annotated[bool | None, typer.Option("--read-only/--read-write", help="Whether nodes may write to it.")]
_HostPath = Annotated[str | None, typer.Option("--host-path", help="The path on the machines, if it differs.")]
_Claim = Annotated[str | None, typer.Option("--claim", help="The PersistentVolumeClaim behind it.")]


@clusters_app.command("list")
def list_clusters(q: SearchOption = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List virtual clusters and their usage."""
    with connect_platform() as muster:
        found = list(muster.clusters.list(q=q, most=most))
    rows = [
        (
            c.name,
            _format_amounts(c.sku),
            f"{c.used}/{'-' if c.total is None else c.total}",
            c.team_name or "",
            c.description,
        )
        for c in found
    ]
    print_records(found, ["NAME", "SKU", "USED", "TEAM", "DESCRIPTION"], rows, as_json)


@clusters_app.command("get")
def get_cluster(cluster: _Cluster, as_json: JsonOption = False) -> None:
    """Show a virtual cluster and the runs that use it."""
    with connect_platform() as muster:
        found = muster.clusters.get(cluster)
        running, waiting = muster.clusters.uses(cluster)
    if as_json:
        uses = {"uses": [asdict(use) for use in running], "waiting": [asdict(use) for use in waiting]}
        print_json(asdict(found) | uses)
        return
    total = "unlimited" if found.total is None else str(found.total)
    echo(f"{found.name}: SKU {_format_amounts(found.sku)}; {found.used} of {total} in use")
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
    tolerations: _Tolerations = None,
    description: _Description = None,
    team: _Team = None,
) -> None:
    """Create a virtual cluster."""
    more = given_options(
        description=description,
        total=total,
        team=team,
        node_selector=dict(parse_pairs("--node-selector", selector)) if selector else None,
        tolerations=tolerations or None,
    )
    with connect_platform() as muster:
        created = muster.clusters.create(name, dict(parse_pairs("--sku", sku)), **more)
    echo(f"{created.name} created")


@clusters_app.command("edit")
def edit_cluster(
    cluster: _Cluster,
    name: Annotated[str | None, typer.Option("--name", help="The new name.")] = None,
    sku: _Sku = None,
    total: _Total = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="Do not limit the number of SKUs.")] = False,
    selector: _Selector = None,
    tolerations: _Tolerations = None,
    description: _Description = None,
    team: _Team = None,
) -> None:
    """Edit a virtual cluster."""
    changes = given_options(
        name=name,
        sku=dict(parse_pairs("--sku", sku)) if sku else None,
        total=total,
        node_selector=dict(parse_pairs("--node-selector", selector)) if selector else None,
        tolerations=tolerations or None,
        description=description,
        team=team,
    )
    if unlimited:
        changes["total"] = None
    check_changes(changes, "--sku, --total, --unlimited, --node-selector, --toleration, --team ...")
    with connect_platform() as muster:
        echo(f"{muster.clusters.edit(cluster, **changes).name} updated")


@clusters_app.command("delete")
def delete_cluster(cluster: _Cluster) -> None:
    """Delete a virtual cluster; versions that use it can no longer run."""
    with connect_platform() as muster:
        muster.clusters.delete(cluster)
    echo(f"{cluster} deleted")


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
    name: Annotated[str, typer.Argument(help="The name of the storage root.")],
    path: Annotated[str, typer.Argument(help="The path in nodes.")],
    host_path: _HostPath = None,
    claim: _Claim = None,
    read_only: _ReadOnly = None,
    description: _Description = None,
    team: _Team = None,
) -> None:
    """Create a storage root."""
    more = given_options(host_path=host_path, claim=claim, read_only=read_only, description=description, team=team)
    with connect_platform() as muster:
        echo(f"{muster.storage.create(name, path, **more).name} created")


@storage_app.command("edit")
def edit_root(
    root: _Root,
    name: Annotated[str | None, typer.Option("--name", help="The new name.")] = None,
    path: Annotated[str | None, typer.Option("--path", help="The path in nodes.")] = None,
    host_path: _HostPath = None,
    claim: _Claim = None,
    read_only: _ReadOnly = None,
    description: _Description = None,
    team: _Team = None,
) -> None:
    """Edit a storage root."""
    changes = given_options(
        name=name, path=path, host_path=host_path, claim=claim, read_only=read_only, description=description, team=team
    )
    check_changes(changes, "--path, --host-path, --claim, --read-only, --team ...")
    with connect_platform() as muster:
        echo(f"{muster.storage.edit(root, **changes).name} updated")


@storage_app.command("delete")
def delete_root(root: _Root) -> None:
    """Delete a storage root; the stored files stay."""
    with connect_platform() as muster:
        muster.storage.delete(root)
    echo(f"{root} deleted")


def _format_amounts(sku: dict[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sku.items())
