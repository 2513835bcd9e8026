"""`muster up` and `muster down`: the cluster in a box, in this terminal or behind it."""

from __future__ import annotations

import gc
import shlex
from typing import Annotated

import typer

from muster.cli.failures import Failure
from muster.cli.options import Debug, Gang, configure_logging
from muster.cli.output import say
from muster.cli.session import home, load_settings
from muster.platform.users.local_secrets import platform_folder, waiting_link
from muster.server.presence import ServerError, ServerInfo, running, start_detached, stop


def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Leave it running in the background.")] = False,
    runtime: Annotated[str, typer.Option("--runtime", help="What runs Pods: sandbox, podman or docker.")] = "",
    gang: Gang = False,
    debug: Debug = False,
) -> None:
    """Start the cluster in a box."""
    configure_logging(debug, service=not detach)
    there = running(home())
    if there is not None:
        say("\n".join([f"a cluster is already running (process {there.pid})", *_where(there)]))
        return
    try:
        if detach:
            # What is wrong with the settings, if anything, the new process finds out; here it would take twice as long.
            options = [*([f"--runtime={runtime}"] if runtime else []), *(["--gang"] * gang), *(["--debug"] * debug)]
            say("\n".join(["the cluster is up", *_where(start_detached(home(), options=options))]))
            return
        settings = load_settings(runtime, gang=gang)
        gc.disable()  # Nothing that is loaded now is garbage.
        import uvloop

        from muster.server.serving import serve

        gc.enable()
        uvloop.run(serve(settings, on_ready=_say_ready))
    except ServerError as error:
        # What a server said for itself before it ended has its own heading.
        raise Failure(f"error: {str(error).removeprefix('error: ')}") from None


def down(debug: Debug = False) -> None:
    """Stop the cluster in a box."""
    configure_logging(debug)
    try:
        stopped = stop(home())
    except ServerError as error:
        # What a server said for itself before it ended has its own heading.
        raise Failure(f"error: {str(error).removeprefix('error: ')}") from None
    if stopped is None:
        say("no cluster is running")
    else:
        say("the cluster is down; Pods that run go on, and the next `muster up` finds them again")


def status(debug: Debug = False) -> None:
    """Show where the cluster in a box is."""
    configure_logging(debug)
    there = running(home())
    if there is None:
        raise Failure("no cluster is running; start one with `muster up`")
    say("\n".join([f"a cluster is running (process {there.pid})", *_where(there)]))


def _say_ready(info: ServerInfo) -> None:
    say("\n".join(["the cluster is up; Ctrl-C stops it", *_where(info)]))


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
