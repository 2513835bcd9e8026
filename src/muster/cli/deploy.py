"""`muster deploy`: the platform and the operator on a Kubernetes cluster, after a check of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.errors import CommandError
from muster.cli.operator import load_access, parse_gang_scheduler
from muster.cli.output import echo, format_table, warn
from muster.cli.session import ContextName, Kubeconfig, Timeout, parse_duration

if TYPE_CHECKING:
    from muster.kube.remote.client import RemoteCluster
    from muster.operator.deploy import Check, DeployOptions


def deploy(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the cluster and print what would be applied, but apply nothing.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the cluster.")] = False,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the server.")] = "muster-system",
    image: Annotated[str, typer.Option("--image", help="The server's image; deploy/Containerfile builds it.")] = "",
    operator_image: Annotated[
        str, typer.Option("--operator-image", help="The operator's image. Default: the server's, which has it, too.")
    ] = "",
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="Number of servers.")] = 2,
    config: Annotated[
        str, typer.Option("--config", "-f", help="A file with settings: web.url, artifacts.s3, oidc and so on.")
    ] = "",
    secret: Annotated[
        str, typer.Option("--secret", help="The Secret with database-url, encryption-key and other credentials.")
    ] = "muster",  # noqa: S107  (the name of one)
    gang: Annotated[
        str,
        typer.Option("--gang-scheduler-name", help="none, volcano or scheduler-plugins. Makes every job a gang."),
    ] = "none",
    egress: Annotated[
        list[int] | None,
        typer.Option(
            "--egress-port",
            help="Another port to which the servers may connect, such as that of PostgreSQL if it is not 5432; may be "
            "repeated. Ports in the settings are known.",
        ),
    ] = None,
    without_operator: Annotated[
        bool, typer.Option("--without-operator", help="Do not install the operator of training jobs.")
    ] = False,
    timeout: Timeout = "5m",
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
) -> None:
    """Deploy the platform on a Kubernetes cluster, or update it.

    First it checks the cluster: versions, Argo Workflows, schedulers, storage, permissions and the Secret. With an
    error nothing is applied. The same objects are a Helm chart, deploy/helm/muster, and a kustomize folder.
    """
    parse_gang_scheduler(gang)
    from muster.kube.errors import ApiError
    from muster.kube.manifests import dump
    from muster.kube.remote.client import RemoteCluster
    from muster.operator import platform_manifests
    from muster.operator.deploy import DeployOptions
    from muster.operator.deploy import deploy as put
    from muster.operator.install import InstallError
    from muster.operator.install_manifests import InstallOptions
    from muster.operator.platform_manifests import PlatformOptions, egress_ports

    image = image or platform_manifests.IMAGE
    settings = _read_config(config)
    options = DeployOptions(
        PlatformOptions(
            namespace=namespace,
            image=image,
            replicas=replicas,
            secret=secret,
            config=settings,
            egress_ports=egress_ports(settings, egress or ()),
        ),
        None
        if without_operator
        else InstallOptions(namespace=namespace, image=operator_image or image, gang=gang, workspaces=True),
    )
    seconds = parse_duration(timeout, "--timeout")

    async def connected() -> None:
        async with RemoteCluster(load_access(kubeconfig, context), on_warning=warn) as cluster:
            await cluster.discover()
            if not await _report(cluster, options):
                raise CommandError("error: nothing was applied: fix what is marked with ✘ first")
            if not (dry_run or check):
                await put(cluster, options, echo, seconds=seconds)

    if dry_run:
        echo("---\n".join(dump(obj) for obj in options.objects()).rstrip())
    try:
        asyncio.run(connected())
    except InstallError as error:
        raise CommandError(f"error: {error}") from None
    except ApiError as error:
        raise CommandError(f"error: {error.message}") from None


async def _report(cluster: RemoteCluster, options: DeployOptions) -> bool:
    """Prints the report to stderr, so that manifests on stdout stay valid. Returns whether nothing is wrong."""
    from muster.operator.deploy import check_cluster, gather_facts, to_rows

    checks = check_cluster(await gather_facts(cluster, options), options)
    warn("\n".join(format_table(["CHECK", "FOUND"], to_rows(checks))))
    for each in checks:
        if each.fix:
            warn(_advice(each))
    return all(each.state != "error" for each in checks)


def _advice(check: Check) -> str:
    return f"{check.state}: {check.name}: {check.fix}"


def _read_config(file: str) -> Mapping[str, Any]:
    if not file:
        return {}
    from muster.server.settings import SettingsError, load_file

    if not Path(file).is_file():
        raise CommandError(f"error: {file}: there is no such file")
    try:
        return load_file(Path(file))
    except SettingsError as error:
        raise CommandError(f"error: {error}") from None
