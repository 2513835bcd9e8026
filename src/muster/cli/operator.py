"""`muster operator`: Muster's training controller on a real Kubernetes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from muster.cli import operator_install
from muster.cli.failures import Failure
from muster.cli.options import Debug

if TYPE_CHECKING:
    from muster.kube.remote.kubeconfig import Access

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Look after training jobs on a Kubernetes cluster."
)  # fmt: skip
app.command("install")(operator_install.install)
app.command("uninstall")(operator_install.uninstall)


@app.callback(invoke_without_command=True)
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
    scheduler, scheduler_name = operator_install.gang_scheduler(gang)
    if log_format not in ("text", "json"):
        raise Failure(f'error: --log-format "{log_format}" is not one of text, json')

    import uvloop

    from muster.operator import logs
    from muster.operator.run import serve
    from muster.operator.settings import OperatorSettings, SettingsError, with_election
    from muster.operator.webhook import WebhookSettings

    logs.configure(cast(logs.LogFormat, log_format), debug=debug)
    credentials = access(kubeconfig, kube_context)
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
        raise Failure(f"error: {error}") from None
    except OSError as error:
        raise Failure(f"error: {host}:{port} cannot be served on: {error.strerror or error}") from None
    except asyncio.CancelledError:
        return


def access(kubeconfig: str, context: str) -> Access:
    """What is named goes first, then what a Pod is given, then kubectl's own."""
    from muster.kube.remote.kubeconfig import KubeconfigError, in_cluster, load_kubeconfig

    usual = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path] or ["~/.kube/config"]
    try:
        if not (kubeconfig or context) and os.environ.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster()
        return load_kubeconfig([kubeconfig] if kubeconfig else usual, context)
    except KubeconfigError as error:
        raise Failure(f"error: {error}") from None
