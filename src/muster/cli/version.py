"""`muster version`: of this command, and of the cluster if one can be reached."""

from __future__ import annotations

import asyncio
import platform
from typing import Annotated

import typer

from muster import __version__
from muster.cli.failures import Failure
from muster.cli.formats import json_text
from muster.cli.options import ContextName, Debug, Kubeconfig, configure_logging
from muster.cli.output import say
from muster.cli.session import connect
from muster.kube.errors import ApiError


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
        raise Failure(f'-o: "{output}" is not known; write yaml or json')
    known: dict[str, object] = {"clientVersion": {"version": __version__, "python": platform.python_version()}}
    if not client:
        server = asyncio.run(_server(kubeconfig, context))
        if server is not None:
            known["serverVersion"] = server
    if output == "json":
        say(json_text(known).rstrip())
    elif output == "yaml":
        from muster.kube.manifests import dump

        say(dump(known).rstrip())
    else:
        say(f"muster {__version__} (Python {platform.python_version()})")
        server_version = known.get("serverVersion")
        if isinstance(server_version, dict):
            say(f"cluster {server_version.get('gitVersion')}")
        elif not client:
            say("no cluster is running")


async def _server(kubeconfig: str, context: str) -> dict[str, object] | None:
    try:
        async with connect(kubeconfig, context) as session:
            return await session.remote.version() if session.remote is not None else None
    except (Failure, ApiError):
        if kubeconfig or context:
            raise
        return None
