"""`muster up`, `server`, `down`, `status`, `env` and `version`: the cluster and how other clients reach it."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import shlex
from typing import Annotated

import typer

from muster import __version__
from muster.cli.errors import NO_CLUSTER, CommandError
from muster.cli.output import echo
from muster.cli.session import (
    ContextName,
    Debug,
    Gang,
    Kubeconfig,
    Namespace,
    configure_logging,
    connect,
    home,
    load_settings,
)
from muster.kube.errors import ApiError
from muster.server.pidfile import ServerError, ServerInfo, running_server, start_detached, stop_server


def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run the cluster in the background.")] = False,
    runtime: Annotated[str, typer.Option("--runtime", help="What runs Pods: sandbox, podman or docker.")] = "",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port of the web UI; by default 8265 if it is free.")
    ] = 0,
    gang: Gang = False,
    debug: Debug = False,
) -> None:
    """Start the embedded cluster and the platform."""
    configure_logging(debug, service=not detach)
    server = running_server(home())
    if server is not None:
        echo("\n".join([f"a cluster is already running (process {server.pid})", *_format_addresses(server)]))
        return
    try:
        if detach:
            # The new process checks the settings. Checking them here, too, would double the start-up time.
            options = [
                *([f"--runtime={runtime}"] if runtime else []),
                *([f"--port={port}"] if port else []),
                *(["--gang"] * gang),
                *(["--debug"] * debug),
            ]
            echo("\n".join(["the cluster is up", *_format_addresses(start_detached(home(), options=options))]))
            return
        settings = load_settings(runtime, gang=gang, web_port=port)
        gc.disable()  # None of the modules that are imported now becomes garbage.
        import uvloop

        from muster.server.embedded_server import serve_until_signal

        gc.enable()
        uvloop.run(serve_until_signal(settings, on_ready=_print_ready))
    except ServerError as error:
        raise _to_command_error(error) from None


def serve(
    cluster: Annotated[
        str, typer.Option("--cluster", help="What runs the workflows: embedded, as `muster up`, or kubernetes.")
    ] = "embedded",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port of the web UI; by default 8265 if it is free.")
    ] = 0,
    kubeconfig: Annotated[
        str, typer.Option("--kubeconfig", help="A kubeconfig file. Not needed inside a cluster.")
    ] = "",
    context: ContextName = "",
    debug: Debug = False,
) -> None:
    """Serve the platform, on the embedded cluster or on a Kubernetes cluster.

    With --cluster kubernetes it uses the named context, else the Pod's service account, else kubectl's current context.
    The cluster needs Argo Workflows.
    """
    configure_logging(debug, service=True)
    if cluster not in ("embedded", "kubernetes"):
        raise CommandError(f'error: --cluster: "{cluster}" is not a kind of cluster; use embedded or kubernetes')
    if cluster == "embedded" and (kubeconfig or context):
        raise CommandError("error: --kubeconfig and --context need --cluster kubernetes")
    if cluster == "embedded":
        up(port=port, debug=debug)
        return
    from muster.cli.operator import load_access

    access = load_access(kubeconfig, context)
    try:
        settings = load_settings(web_port=port)
        import uvloop

        from muster.server.cluster_server import serve_until_signal

        uvloop.run(serve_until_signal(settings, access, on_ready=_print_ready))
    except ServerError as error:
        raise _to_command_error(error) from None


def down(debug: Debug = False) -> None:
    """Stop the embedded cluster; running Pods keep running."""
    configure_logging(debug)
    try:
        stopped = stop_server(home())
    except ServerError as error:
        raise _to_command_error(error) from None
    if stopped is None:
        echo("no cluster is running")
    else:
        echo("the cluster is down; running Pods keep running, and the next `muster up` adopts them")


def status(debug: Debug = False) -> None:
    """Show the addresses and the data directory of the embedded cluster."""
    configure_logging(debug)
    server = running_server(home())
    if server is None:
        raise CommandError("no cluster is running; start one with `muster up`")
    echo("\n".join([f"a cluster is running (process {server.pid})", *_format_addresses(server)]))


def env(
    namespace: Namespace = "",
    unset: Annotated[bool, typer.Option("--unset", help="Print commands that remove the variables.")] = False,
    debug: Debug = False,
) -> None:
    """Print the environment variables that connect kubectl, argo and Hera to the cluster.

    Use it as in: eval "$(muster env)". The variables contain the administrator's token.
    """
    configure_logging(debug)
    if unset:
        echo("\n".join(f"unset {name}" for name in client_variables("", "", "", "")))
        return
    from muster.kube.remote.kubeconfig import Token, load_kubeconfig

    server = running_server(home())
    if server is None:
        raise CommandError(NO_CLUSTER)
    if not server.kubeconfig:
        raise CommandError(f"error: the server here uses the cluster {server.url}; use its own kubeconfig")
    access = load_kubeconfig([server.kubeconfig])
    token = access.credentials.value if isinstance(access.credentials, Token) else ""
    variables = client_variables(server.url, server.kubeconfig, token, namespace or access.namespace)
    echo("\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items()))


def client_variables(url: str, kubeconfig: str, token: str, namespace: str) -> dict[str, str]:
    return {
        "KUBECONFIG": kubeconfig,
        "ARGO_SERVER": url.removeprefix("https://"),
        "ARGO_HTTP1": "true",
        "ARGO_SECURE": "true",
        # argo accepts only the certificate authorities of the operating system.
        "ARGO_INSECURE_SKIP_VERIFY": "true",
        "ARGO_NAMESPACE": namespace,
        "ARGO_TOKEN": f"Bearer {token}",
    }


def rotate_key(
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print a key, for a file or MUSTER_ENCRYPTION_KEY.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Add a new key that encrypts secrets at rest.

    The next start of the server encrypts all secrets with it. The old keys stay in the file, for backups. If an old
    key has leaked, remove its line after that start.
    """
    from muster.kube.encryption import KEY_VARIABLE, EncryptionError, add_key, new_key

    configure_logging(debug)
    if print_only:
        echo(new_key())
        return
    if os.environ.get(KEY_VARIABLE):
        raise CommandError(
            f"{KEY_VARIABLE} is set: put a new key (`muster rotate-key --print`) in front of the others, separated by "
            "a comma, and restart the server"
        )
    file = load_settings().key_file
    try:
        added = add_key(file)
    except (EncryptionError, OSError) as error:
        raise CommandError(str(error)) from None
    echo(f"Added the key {added} to {file}. Restart the server (`muster down`, `muster up -d`) to use it.")


def version(
    client: Annotated[bool, typer.Option("--client", help="Print only the version of this command.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="Output format: yaml or json.")] = "",
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
    debug: Debug = False,
) -> None:
    """Print the version of the command and of the cluster."""
    configure_logging(debug)
    if output not in ("", "yaml", "json"):
        raise CommandError(f'-o: "{output}" is not a known format; use yaml or json')
    versions: dict[str, object] = {"clientVersion": {"version": __version__, "python": platform.python_version()}}
    if not client:
        server = asyncio.run(_fetch_server_version(kubeconfig, context))
        if server is not None:
            versions["serverVersion"] = server
    if output == "json":
        from muster.cli.formats import format_json

        echo(format_json(versions).rstrip())
    elif output == "yaml":
        from muster.kube.manifests import dump

        echo(dump(versions).rstrip())
    else:
        echo(f"muster {__version__} (Python {platform.python_version()})")
        server_version = versions.get("serverVersion")
        if isinstance(server_version, dict):
            echo(f"cluster {server_version.get('gitVersion')}")
        elif not client:
            echo("no cluster is running")


async def _fetch_server_version(kubeconfig: str, context: str) -> dict[str, object] | None:
    try:
        async with connect(kubeconfig, context) as session:
            return await session.remote.version() if session.remote is not None else None
    except (CommandError, ApiError):
        if kubeconfig or context:
            raise
        return None


def _to_command_error(error: ServerError) -> CommandError:
    # The last output of a server that could not start may begin with "error: " already.
    return CommandError(f"error: {str(error).removeprefix('error: ')}")


def _print_ready(server: ServerInfo) -> None:
    what = "the cluster is up" if server.kubeconfig else "the server is up"
    echo("\n".join([f"{what}; press Ctrl-C to stop it", *_format_addresses(server)]))


def _format_addresses(server: ServerInfo) -> list[str]:
    from muster.platform.users.credentials import platform_folder, waiting_link

    link = waiting_link(platform_folder(home()))
    web = [
        *([f"  web         {server.web}"] if server.web else []),
        *([f"  first login {server.web}/welcome#{link}  (works once)"] if server.web and link else []),
    ]
    if not server.kubeconfig:
        return [f"  cluster     {server.url}", *web, f"  data        {home()}"]
    return [
        f"  API         {server.url}",
        f"  kubeconfig  {server.kubeconfig}",
        *web,
        f"  data        {home()}",
        "  try         muster get nodes",
        f"              kubectl --kubeconfig {shlex.quote(server.kubeconfig)} get nodes",
    ]
