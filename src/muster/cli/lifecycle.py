"""`muster up` and `muster down`: the cluster in a box, in this terminal or behind it."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.failures import Failure
from muster.cli.options import Debug, configure_logging
from muster.cli.output import say
from muster.cli.session import home, load_settings
from muster.server.presence import ServerError, ServerInfo, running, start_detached, stop


def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Leave it running in the background.")] = False,
    runtime: Annotated[str, typer.Option("--runtime", help="What runs Pods: sandbox, podman or docker.")] = "",
    debug: Debug = False,
) -> None:
    """Start the cluster in a box."""
    configure_logging(debug, service=not detach)
    there = running(home())
    if there is not None:
        say("\n".join([f"a cluster is already running (process {there.pid})", *_where(there)]))
        return
    settings = load_settings(runtime)
    try:
        if detach:
            options = [*([f"--runtime={runtime}"] if runtime else []), *(["--debug"] if debug else [])]
            say("\n".join(["the cluster is up", *_where(start_detached(home(), options=options))]))
            return
        import uvloop

        from muster.server.serving import serve

        uvloop.run(serve(settings, on_ready=_say_ready))
    except ServerError as error:
        raise Failure(f"error: {error}") from None


def down(debug: Debug = False) -> None:
    """Stop the cluster in a box."""
    configure_logging(debug)
    try:
        stopped = stop(home())
    except ServerError as error:
        raise Failure(f"error: {error}") from None
    if stopped is None:
        say("no cluster is running")
    else:
        say("the cluster is down; Pods that run go on, and the next `muster up` finds them again")


def _say_ready(info: ServerInfo) -> None:
    say("\n".join(["the cluster is up; Ctrl-C stops it", *_where(info)]))


def _where(info: ServerInfo) -> list[str]:
    return [
        f"  API         {info.url}",
        f"  kubeconfig  {info.kubeconfig}",
        f"  data        {home()}",
        "  try         muster get nodes",
        f"              kubectl --kubeconfig {info.kubeconfig} get nodes",
    ]
