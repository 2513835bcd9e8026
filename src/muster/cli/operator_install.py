"""`muster operator install` and `uninstall`: the operator as a Deployment of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.durations import seconds
from muster.cli.failures import Failure
from muster.cli.options import ContextName, Kubeconfig, Timeout
from muster.cli.output import say, warn
from muster.training.gang import Scheduler, read_scheduler

if TYPE_CHECKING:
    from muster.kube.remote.client import RemoteCluster

OwnNamespace = Annotated[str, typer.Option("--namespace", "-n", help="Where the operator itself runs.")]


def install(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be applied; touch nothing.")] = False,
    namespace: OwnNamespace = "muster-system",
    image: Annotated[str, typer.Option("--image", help="Of the operator; deploy/Containerfile builds it.")] = "",
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="Of these one works, the others stand by.")] = 2,
    gang: Annotated[
        str,
        typer.Option(
            "--gang-scheduler-name",
            help="none, volcano, scheduler-plugins or scheduler-plugins:ITS-NAME: all jobs are gangs there.",
        ),
    ] = "none",
    watched: Annotated[
        list[str] | None,
        typer.Option("--jobs-in", help="A namespace whose jobs it looks after; as often as needed. Untold: all."),
    ] = None,
    policy: Annotated[
        str, typer.Option("--failure-policy", help="Of the webhook, while no replica answers: Ignore or Fail.")
    ] = "Ignore",
    issuer: Annotated[
        str,
        typer.Option("--cert-manager-issuer", help="Issuer/NAME or ClusterIssuer/NAME, for the webhook's certificate."),
    ] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Stop training-operator and paddle-operator first; their jobs go on.")
    ] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Although another operator looks after such jobs.")] = False,
    timeout: Timeout = "3m",
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
) -> None:
    """Install the operator, or bring it up to date: definitions, accounts, Deployment, webhook."""
    gang_scheduler(gang)
    if policy not in ("Ignore", "Fail"):
        raise Failure(f'error: --failure-policy "{policy}" is not one of Ignore, Fail')

    from muster.kube.manifests import dump
    from muster.operator.install import install as put
    from muster.operator.install_manifests import IMAGE, InstallOptions, manifests

    options = InstallOptions(
        namespace=namespace,
        image=image or IMAGE,
        replicas=replicas,
        gang=gang,
        namespaces=tuple(watched or ()),
        failure_policy=policy,
        issuer=_issuer(issuer),
    )
    if dry_run:
        say("---\n".join(dump(obj) for obj in manifests(options)).rstrip())
        return
    patience = seconds(timeout, "--timeout")
    _on_cluster(
        kubeconfig,
        context,
        lambda cluster: put(cluster, options, say, seconds=patience, replace=replace, anyway=anyway),
    )


def gang_scheduler(written: str) -> tuple[Scheduler, str]:
    """Which it is, and what a scheduler with the plugin is called."""
    try:
        return read_scheduler(written)
    except ValueError as error:
        raise Failure(f"error: --gang-scheduler-name {error}") from None


def uninstall(
    namespace: OwnNamespace = "muster-system",
    crds: Annotated[
        bool, typer.Option("--crds", help="Delete the CustomResourceDefinitions too, and so every job there is.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
) -> None:
    """Remove the operator. Jobs stay, and their Pods go on."""
    from muster.operator.install import uninstall as take_away
    from muster.operator.install_manifests import InstallOptions

    options = InstallOptions(namespace=namespace)
    _on_cluster(kubeconfig, context, lambda cluster: take_away(cluster, options, say, definitions=crds))


def _issuer(written: str) -> dict[str, str] | None:
    if not written:
        return None
    kind, _, name = written.partition("/")
    if kind not in ("Issuer", "ClusterIssuer") or not name:
        raise Failure(f'error: --cert-manager-issuer "{written}": write Issuer/NAME or ClusterIssuer/NAME')
    return {"kind": kind, "name": name}


def _on_cluster(kubeconfig: str, context: str, action: Callable[[RemoteCluster], Awaitable[None]]) -> None:
    from muster.cli.operator import access
    from muster.kube.remote.client import RemoteCluster
    from muster.operator.install import InstallError

    async def connected() -> None:
        async with RemoteCluster(access(kubeconfig, context), on_warning=warn) as cluster:
            await cluster.discover()
            await action(cluster)

    try:
        asyncio.run(connected())
    except InstallError as error:
        raise Failure(f"error: {error}") from None
