"""`muster operator`: runs, installs and removes the training controller on a real Kubernetes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from muster.cli.errors import CommandError
from muster.cli.options import ContextName, Debug, Kubeconfig, Timeout, parse_duration
from muster.cli.output import echo, warn
from muster.training.gang import Scheduler, parse_scheduler

if TYPE_CHECKING:
    from muster.kube.remote.client import RemoteCluster
    from muster.kube.remote.kubeconfig import Access


# Merged from operator_install: `muster operator install` and `uninstall`: the operator as a Deployment of a cluster.


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
        raise CommandError(f'error: --failure-policy "{policy}" is not one of Ignore, Fail')

    from muster.kube.manifests import dump
    from muster.operator.install import install as put
    from muster.operator.install_manifests import IMAGE, InstallOptions, build_manifests

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
        echo("---\n".join(dump(obj) for obj in build_manifests(options)).rstrip())
        return
    patience = parse_duration(timeout, "--timeout")
    _run_on_cluster(
        kubeconfig,
        context,
        lambda cluster: put(cluster, options, echo, seconds=patience, replace=replace, anyway=anyway),
    )


def gang_scheduler(written: str) -> tuple[Scheduler, str]:
    """Which it is, and what a scheduler with the plugin is called."""
    try:
        return parse_scheduler(written)
    except ValueError as error:
        raise CommandError(f"error: --gang-scheduler-name {error}") from None


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
    _run_on_cluster(kubeconfig, context, lambda cluster: take_away(cluster, options, echo, definitions=crds))


def _issuer(written: str) -> dict[str, str] | None:
    if not written:
        return None
    kind, _, name = written.partition("/")
    if kind not in ("Issuer", "ClusterIssuer") or not name:
        raise CommandError(f'error: --cert-manager-issuer "{written}": write Issuer/NAME or ClusterIssuer/NAME')
    return {"kind": kind, "name": name}


def _run_on_cluster(kubeconfig: str, context: str, action: Callable[[RemoteCluster], Awaitable[None]]) -> None:
    from muster.kube.remote.client import RemoteCluster
    from muster.operator.install import InstallError

    async def connected() -> None:
        async with RemoteCluster(load_access(kubeconfig, context), on_warning=warn) as cluster:
            await cluster.discover()
            await action(cluster)

    try:
        asyncio.run(connected())
    except InstallError as error:
        raise CommandError(f"error: {error}") from None


# Merged from operator: `muster operator`: Muster's training controller on a real Kubernetes.


operator_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Look after training jobs on a Kubernetes cluster."
)  # fmt: skip
operator_app.command("install")(install)
operator_app.command("uninstall")(uninstall)


@operator_app.callback(invoke_without_command=True)
def operator(
    context: typer.Context,
    kubeconfig: Annotated[str, typer.Option("--kubeconfig", help="Inside a cluster, none is needed.")] = "",
    kube_context: Annotated[str, typer.Option("--context", help="Of the kubeconfig.")] = "",
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Whose jobs; as often as needed. Untold: all.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--enable-scheme", help="A kind of job, such as PyTorchJob; as often as needed. Untold: all."),
    ] = None,
    gang: Annotated[
        str,
        typer.Option(
            "--gang-scheduler-name",
            help="none, volcano, scheduler-plugins or scheduler-plugins:ITS-NAME: all jobs are gangs there.",
        ),
    ] = "none",
    workers: Annotated[int, typer.Option("--workers", min=1, help="Jobs looked at at the same time.")] = 16,
    requests: Annotated[int, typer.Option("--max-requests", min=1, help="Requests at the same time.")] = 12,
    elect: Annotated[bool, typer.Option("--leader-elect/--no-leader-elect", help="Of several, one works.")] = True,
    election_namespace: Annotated[
        str, typer.Option("--leader-election-namespace", help="Where the Lease is; untold: where the operator is.")
    ] = "",
    lease: Annotated[float, typer.Option("--lease-duration", help="Seconds for which a lease is left alone.")] = 15.0,
    renew: Annotated[float, typer.Option("--renew-deadline", help="Seconds in which the holder must renew it.")] = 10.0,
    retry: Annotated[float, typer.Option("--retry-period", help="Seconds between two tries.")] = 2.0,
    host: Annotated[str, typer.Option("--host", help="Where /healthz, /readyz, /metrics are served.")] = "0.0.0.0",  # noqa: S104
    port: Annotated[int, typer.Option("--port", help="The port of these.")] = 8080,
    webhook_port: Annotated[
        int, typer.Option("--webhook-port", help="Where API servers ask what is wrong with a job. 0: nowhere.")
    ] = 0,
    certificates: Annotated[
        Path | None,
        typer.Option(
            "--webhook-certificates",
            help="A folder with the webhook's tls.crt and tls.key. Untold: the operator makes its own, in a Secret.",
        ),
    ] = None,
    log_format: Annotated[str, typer.Option("--log-format", help="text or json.")] = "text",
    waiting_image: Annotated[
        str,
        typer.Option(
            "--pytorch-init-container-image",
            help="Workers of PyTorchJobs wait in it (it has nslookup) for their Master's name. Untold: they do not.",
        ),
    ] = "",
    delivery_image: Annotated[
        str,
        typer.Option(
            "--mpi-kubectl-delivery-image", help="Brings kubectl to launchers that have neither it nor Python."
        ),
    ] = "",
    debug: Debug = False,
) -> None:
    """Look after training jobs on a Kubernetes cluster, until stopped."""
    if context.invoked_subcommand is not None:
        return
    scheduler, scheduler_name = gang_scheduler(gang)
    if log_format not in ("text", "json"):
        raise CommandError(f'error: --log-format "{log_format}" is not one of text, json')

    import uvloop

    from muster.operator import run
    from muster.operator.run import serve
    from muster.operator.settings import OperatorSettings, SettingsError, with_election
    from muster.operator.webhook import WebhookSettings

    run.configure_logging(cast(run.LogFormat, log_format), debug=debug)
    credentials = load_access(kubeconfig, kube_context)
    settings = OperatorSettings(
        namespaces=tuple(namespace or ()),
        kinds=tuple(kind or ()),
        workers=workers,
        requests=requests,
        gang=scheduler,
        gang_name=scheduler_name,
        host=host,
        port=port,
        waiting_image=waiting_image,
        delivery_image=delivery_image,
        webhook=WebhookSettings(port=webhook_port, certificates=certificates, namespace=credentials.namespace)
        if webhook_port
        else None,
    )
    try:
        if elect:
            settings = with_election(
                settings, election_namespace or credentials.namespace,
                lease_seconds=lease, renew_seconds=renew, retry_seconds=retry,
            )  # fmt: skip
        uvloop.run(serve(credentials, settings))
    except (SettingsError, ValueError) as error:
        raise CommandError(f"error: {error}") from None
    except OSError as error:
        raise CommandError(f"error: {host}:{port} cannot be served on: {error.strerror or error}") from None
    except asyncio.CancelledError:
        return


def load_access(kubeconfig: str, context: str) -> Access:
    """What is named goes first, then what a Pod is given, then kubectl's own."""
    from muster.kube.remote.kubeconfig import KubeconfigError, in_cluster, load_kubeconfig

    usual = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path] or ["~/.kube/config"]
    try:
        if not (kubeconfig or context) and os.environ.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster()
        return load_kubeconfig([kubeconfig] if kubeconfig else usual, context)
    except KubeconfigError as error:
        raise CommandError(f"error: {error}") from None
