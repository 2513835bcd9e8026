"""`muster operator`: runs, installs and removes the training controller on a real Kubernetes."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo, warn
from muster.cli.session import ContextName, Debug, Kubeconfig, Timeout, parse_duration
from muster.training.gang import Scheduler, parse_scheduler

if TYPE_CHECKING:
    from muster.kube.remote.client import RemoteCluster
    from muster.kube.remote.kubeconfig import Access


OwnNamespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the operator.")]


def install(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the manifests but apply nothing.")] = False,
    namespace: OwnNamespace = "muster-system",
    image: Annotated[str, typer.Option("--image", help="The operator's image; deploy/Containerfile builds it.")] = "",
    replicas: Annotated[
        int, typer.Option("--replicas", min=1, help="Number of replicas; one is active, the others are on standby.")
    ] = 2,
    gang: Annotated[
        str,
        typer.Option(
            "--gang-scheduler-name",
            help="none, volcano, scheduler-plugins or scheduler-plugins:SCHEDULER-NAME. Makes every job a gang.",
        ),
    ] = "none",
    watched: Annotated[
        list[str] | None,
        typer.Option("--jobs-in", help="A namespace whose jobs the operator runs; may be repeated. Default: all."),
    ] = None,
    policy: Annotated[
        str, typer.Option("--failure-policy", help="Failure policy of the webhook: Ignore or Fail.")
    ] = "Ignore",
    issuer: Annotated[
        str,
        typer.Option("--cert-manager-issuer", help="Issuer/NAME or ClusterIssuer/NAME of the webhook's certificate."),
    ] = "",
    workspaces: Annotated[
        bool,
        typer.Option("--workspaces", help="Run Notebooks and Tensorboards, too, in place of Kubeflow's controllers."),
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Stop training-operator and paddle-operator first, and take over their jobs."),
    ] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Install even if another operator runs these jobs.")] = False,
    timeout: Timeout = "3m",
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
) -> None:
    """Install or update the operator: definitions, accounts, Deployment and webhook."""
    parse_gang_scheduler(gang)
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
        issuer=_parse_issuer(issuer),
        workspaces=workspaces,
    )
    if dry_run:
        echo("---\n".join(dump(obj) for obj in build_manifests(options)).rstrip())
        return
    timeout_seconds = parse_duration(timeout, "--timeout")
    _run_on_cluster(
        kubeconfig,
        context,
        lambda cluster: put(cluster, options, echo, seconds=timeout_seconds, replace=replace, anyway=anyway),
    )


def parse_gang_scheduler(written: str) -> tuple[Scheduler, str]:
    """Returns the scheduler, and the name under which it runs."""
    try:
        return parse_scheduler(written)
    except ValueError as error:
        raise CommandError(f"error: --gang-scheduler-name {error}") from None


def uninstall(
    namespace: OwnNamespace = "muster-system",
    crds: Annotated[
        bool, typer.Option("--crds", help="Also delete the CustomResourceDefinitions, and with them all jobs.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
) -> None:
    """Remove the operator. Jobs stay, and their Pods keep running."""
    from muster.operator.install import uninstall as take_away
    from muster.operator.install_manifests import InstallOptions

    options = InstallOptions(namespace=namespace)
    _run_on_cluster(kubeconfig, context, lambda cluster: take_away(cluster, options, echo, definitions=crds))


def _parse_issuer(written: str) -> dict[str, str] | None:
    if not written:
        return None
    kind, _, name = written.partition("/")
    if kind not in ("Issuer", "ClusterIssuer") or not name:
        raise CommandError(
            f'error: --cert-manager-issuer "{written}" is not valid; use Issuer/NAME or ClusterIssuer/NAME'
        )
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


operator_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Run the training controller on a Kubernetes cluster."
)  # fmt: skip
operator_app.command("install")(install)
operator_app.command("uninstall")(uninstall)


@operator_app.callback(invoke_without_command=True)
def operator(
    context: typer.Context,
    kubeconfig: Annotated[
        str, typer.Option("--kubeconfig", help="A kubeconfig file. Not needed inside a cluster.")
    ] = "",
    kube_context: Annotated[str, typer.Option("--context", help="The context of the kubeconfig.")] = "",
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="A namespace whose jobs it runs; may be repeated. Default: all."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--enable-scheme", help="A kind of job, such as PyTorchJob; may be repeated. Default: all."),
    ] = None,
    gang: Annotated[
        str,
        typer.Option(
            "--gang-scheduler-name",
            help="none, volcano, scheduler-plugins or scheduler-plugins:SCHEDULER-NAME. Makes every job a gang.",
        ),
    ] = "none",
    workers: Annotated[int, typer.Option("--workers", min=1, help="Number of jobs processed in parallel.")] = 16,
    requests: Annotated[int, typer.Option("--max-requests", min=1, help="Number of parallel requests.")] = 12,
    elect: Annotated[
        bool, typer.Option("--leader-elect/--no-leader-elect", help="Let only one of several replicas be active.")
    ] = True,
    election_namespace: Annotated[
        str,
        typer.Option("--leader-election-namespace", help="The namespace of the Lease. Default: that of the operator."),
    ] = "",
    lease: Annotated[
        float, typer.Option("--lease-duration", help="Seconds before another replica may take the Lease.")
    ] = 15.0,
    renew: Annotated[
        float, typer.Option("--renew-deadline", help="Seconds within which the leader must renew the Lease.")
    ] = 10.0,
    retry: Annotated[float, typer.Option("--retry-period", help="Seconds between two attempts.")] = 2.0,
    host: Annotated[str, typer.Option("--host", help="The address of /healthz, /readyz and /metrics.")] = "0.0.0.0",  # noqa: S104
    port: Annotated[int, typer.Option("--port", help="The port of /healthz, /readyz and /metrics.")] = 8080,
    webhook_port: Annotated[
        int, typer.Option("--webhook-port", help="The port of the validating webhook; 0 disables it.")
    ] = 0,
    certificates: Annotated[
        Path | None,
        typer.Option(
            "--webhook-certificates",
            help="A folder with the webhook's tls.crt and tls.key. Default: the operator creates a Secret.",
        ),
    ] = None,
    log_format: Annotated[str, typer.Option("--log-format", help="Log format: text or json.")] = "text",
    waiting_image: Annotated[
        str,
        typer.Option(
            "--pytorch-init-container-image",
            help="An image with nslookup, in which PyTorchJob workers wait for their Master. Default: no wait.",
        ),
    ] = "",
    delivery_image: Annotated[
        str,
        typer.Option(
            "--mpi-kubectl-delivery-image",
            help="An image that provides kubectl to launchers without kubectl and Python.",
        ),
    ] = "",
    workspaces: Annotated[bool, typer.Option("--workspaces", help="Run Notebooks and Tensorboards, too.")] = False,
    tensorboard_image: Annotated[
        str, typer.Option("--tensorboard-image", help="An image with Python and TensorBoard.")
    ] = "",
    cull_idle: Annotated[
        float,
        typer.Option(
            "--cull-idle-minutes", min=0, help="Stop notebooks that are idle for this many minutes; 0: never."
        ),
    ] = 0.0,
    debug: Debug = False,
) -> None:
    """Run the training controller on a Kubernetes cluster until stopped."""
    if context.invoked_subcommand is not None:
        return
    scheduler, scheduler_name = parse_gang_scheduler(gang)
    if log_format not in ("text", "json"):
        raise CommandError(f'error: --log-format "{log_format}" is not one of text, json')

    import uvloop

    from muster.operator import run
    from muster.operator.run import serve
    from muster.operator.settings import OperatorSettings, SettingsError, WorkspaceOptions, with_election
    from muster.operator.webhook import WebhookSettings
    from muster.workspaces.images import WorkspaceSettings

    options = WorkspaceOptions(culling=WorkspaceSettings(cull_idle_minutes=cull_idle))
    if tensorboard_image:
        options = dataclasses.replace(options, tensorboard_image=tensorboard_image)

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
        workspaces=options if workspaces else None,
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
        raise CommandError(f"error: cannot listen on {host}:{port}: {error.strerror or error}") from None
    except asyncio.CancelledError:
        return


def load_access(kubeconfig: str, context: str) -> Access:
    """Uses the given kubeconfig or context, else the Pod's service account, else kubectl's default kubeconfig."""
    from muster.kube.remote.kubeconfig import KubeconfigError, in_cluster, load_kubeconfig

    usual = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path] or ["~/.kube/config"]
    try:
        if not (kubeconfig or context) and os.environ.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster()
        return load_kubeconfig([kubeconfig] if kubeconfig else usual, context)
    except KubeconfigError as error:
        raise CommandError(f"error: {error}") from None
