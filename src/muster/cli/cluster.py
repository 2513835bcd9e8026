"""`muster up`, `down`, `status`, `env` and `version`: the embedded cluster and how other clients reach it."""

from __future__ import annotations

import asyncio
import gc
import platform
import shlex
from typing import Annotated

import typer

from muster import __version__
from muster.cli.errors import NO_CLUSTER, CommandError
from muster.cli.formats import format_json
from muster.cli.options import ContextName, Debug, Gang, Kubeconfig, Namespace, configure_logging
from muster.cli.output import echo
from muster.cli.session import connect, home, load_settings
from muster.kube.errors import ApiError
from muster.platform.users.local_secrets import platform_folder, waiting_link
from muster.server.pidfile import ServerError, ServerInfo, running_server, start_detached, stop

# Merged from lifecycle: `muster up` and `muster down`: the cluster in a box, in this terminal or behind it.


def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Leave it running_server in the background.")] = False,
    runtime: Annotated[str, typer.Option("--runtime", help="What runs Pods: sandbox, podman or docker.")] = "",
    gang: Gang = False,
    debug: Debug = False,
) -> None:
    """Start the cluster in a box."""
    configure_logging(debug, service=not detach)
    there = running_server(home())
    if there is not None:
        echo("\n".join([f"a cluster is already running (process {there.pid})", *_where(there)]))
        return
    try:
        if detach:
            # What is wrong with the settings, if anything, the new process finds out; here it would take twice as long.
            options = [*([f"--runtime={runtime}"] if runtime else []), *(["--gang"] * gang), *(["--debug"] * debug)]
            echo("\n".join(["the cluster is up", *_where(start_detached(home(), options=options))]))
            return
        settings = load_settings(runtime, gang=gang)
        gc.disable()  # Nothing that is loaded now is garbage.
        import uvloop

        from muster.server.serving import serve

        gc.enable()
        uvloop.run(serve(settings, on_ready=_say_ready))
    except ServerError as error:
        # What a server said for itself before it ended has its own heading.
        raise CommandError(f"error: {str(error).removeprefix('error: ')}") from None


def down(debug: Debug = False) -> None:
    """Stop the cluster in a box."""
    configure_logging(debug)
    try:
        stopped = stop(home())
    except ServerError as error:
        # What a server said for itself before it ended has its own heading.
        raise CommandError(f"error: {str(error).removeprefix('error: ')}") from None
    if stopped is None:
        echo("no cluster is running")
    else:
        echo("the cluster is down; Pods that run go on, and the next `muster up` finds them again")


def status(debug: Debug = False) -> None:
    """Show where the cluster in a box is."""
    configure_logging(debug)
    there = running_server(home())
    if there is None:
        raise CommandError("no cluster is running; start one with `muster up`")
    echo("\n".join([f"a cluster is running (process {there.pid})", *_where(there)]))


def _say_ready(info: ServerInfo) -> None:
    echo("\n".join(["the cluster is up; Ctrl-C stops it", *_where(info)]))


def _where(info: ServerInfo) -> list[str]:
    link = waiting_link(platform_folder(home()))
    return [
        f"  API         {info.url}",
        f"  kubeconfig  {info.kubeconfig}",
        *([f"  web         {info.web}"] if info.web else []),
        *([f"  first login {info.web}/welcome#{link}  (works once)"] if info.web and link else []),
        f"  data        {home()}",
        "  try         muster get nodes",
        f"              kubectl --kubeconfig {shlex.quote(info.kubeconfig)} get nodes",
    ]


# Merged from env: `muster env`: what other clients of the cluster need to find it, for `eval`.


def env(
    namespace: Namespace = "",
    unset: Annotated[bool, typer.Option("--unset", help="Take it all back.")] = False,
    debug: Debug = False,
) -> None:
    """Print the settings with which kubectl, argo and Hera find the cluster.

    As in: eval "$(muster env)". They contain the administrator's token.
    """
    configure_logging(debug)
    if unset:
        echo("\n".join(f"unset {name}" for name in client_variables("", "", "", "")))
        return
    from muster.kube.remote.kubeconfig import Token, load_kubeconfig
    from muster.server.pidfile import running_server

    info = running_server(home())
    if info is None:
        raise CommandError(NO_CLUSTER)
    access = load_kubeconfig([info.kubeconfig])
    token = access.credentials.value if isinstance(access.credentials, Token) else ""
    settings = client_variables(info.url, info.kubeconfig, token, namespace or access.namespace)
    echo("\n".join(f"export {name}={shlex.quote(value)}" for name, value in settings.items()))


def client_variables(url: str, kubeconfig: str, token: str, namespace: str) -> dict[str, str]:
    return {
        "KUBECONFIG": kubeconfig,
        "ARGO_SERVER": url.removeprefix("https://"),
        "ARGO_HTTP1": "true",
        "ARGO_SECURE": "true",
        # argo takes no certificate authority but the machine's own.
        "ARGO_INSECURE_SKIP_VERIFY": "true",
        "ARGO_NAMESPACE": namespace,
        "ARGO_TOKEN": f"Bearer {token}",
    }


# Merged from version: `muster version`: of this command, and of the cluster if one can be reached.


def version(
    client: Annotated[bool, typer.Option("--client", help="Only of this command.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="yaml or json.")] = "",
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
    debug: Debug = False,
) -> None:
    """Print the version of the command and of the cluster."""
    configure_logging(debug)
    if output not in ("", "yaml", "json"):
        raise CommandError(f'-o: "{output}" is not known; write yaml or json')
    known: dict[str, object] = {"clientVersion": {"version": __version__, "python": platform.python_version()}}
    if not client:
        server = asyncio.run(_server(kubeconfig, context))
        if server is not None:
            known["serverVersion"] = server
    if output == "json":
        echo(format_json(known).rstrip())
    elif output == "yaml":
        from muster.kube.manifests import dump

        echo(dump(known).rstrip())
    else:
        echo(f"muster {__version__} (Python {platform.python_version()})")
        server_version = known.get("serverVersion")
        if isinstance(server_version, dict):
            echo(f"cluster {server_version.get('gitVersion')}")
        elif not client:
            echo("no cluster is running")


async def _server(kubeconfig: str, context: str) -> dict[str, object] | None:
    try:
        async with connect(kubeconfig, context) as session:
            return await session.remote.version() if session.remote is not None else None
    except (CommandError, ApiError):
        if kubeconfig or context:
            raise
        return None
