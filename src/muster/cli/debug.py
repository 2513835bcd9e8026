"""`muster debug`: a shell in a node of a run or workflow that has failed, with its files, variables and mounts as it
ended, or in one that runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import quote, urlencode

import aiohttp
import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.exec import attach_process
from muster.cli.output import warn
from muster.cli.platform import connect_platform
from muster.cli.session import LATEST, ContextName, Debug, Kubeconfig, Namespace, configure_logging, connect
from muster.cli.workflow_objects import find_workflow
from muster.kube.cluster import Process
from muster.kube.errors import ApiError, BadRequest, NotFound
from muster.kube.objects import Object, name_of, status_of
from muster.kube.remote.exec_stream import V5, RemoteProcess

if TYPE_CHECKING:
    from muster.sdk import Muster

_SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
_WORKFLOW_TYPES = ("workflow/", "workflows/", "wf/", "workflow.argoproj.io/", "workflows.argoproj.io/")


class NodePod(NamedTuple):
    name: str
    namespace: str
    state: str
    """As the workflow or the run calls it."""


def debug(
    target: Annotated[str, typer.Argument(metavar="(RUN | workflow/NAME)", help="A run's id, or a workflow.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="The name of the node.")],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND [ARGS...]")] = None,
    pod: Annotated[str, typer.Option("--pod", help="One of several Pods of the node.")] = "",
    container: Annotated[str, typer.Option("--container", "-c", help="The container. Default: the first one.")] = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
    debug: Debug = False,
) -> None:
    """Open a shell in a node that failed, as it ended, or in one that runs.

    The files, variables and mounts of a failed node are kept for node.keepFailedSeconds (config.yaml; 10 minutes). What
    you change in a volume is there when you retry the node; all other changes are lost. A run is entered through the
    platform, so its owner needs no access to the cluster."""
    configure_logging(debug)
    options = _ExecOptions(node, command or (), pod, container, tty=sys.stdin.isatty())
    if target.startswith((*_WORKFLOW_TYPES, LATEST)):
        code = asyncio.run(_enter_workflow(target, options, kubeconfig, context, namespace))
        again = f"muster retry {target}"
    else:
        code = asyncio.run(_enter_run(target, options))
        again = f"muster runs retry {target}"
    if options.tty and not command:
        warn(f"`{again}` runs it again")
    if code:
        raise CommandExit(code)


class _ExecOptions(NamedTuple):
    node: str
    command: Sequence[str]
    pod: str
    container: str
    tty: bool


async def _enter_workflow(target: str, options: _ExecOptions, kubeconfig: str, context: str, namespace: str) -> int:
    async with connect(kubeconfig, context, namespace) as session:
        workflow = await find_workflow(session, target)
        found = pods_of_workflow_node(workflow, options.node, session.namespace)
        chosen = choose_pod(found, options.pod, f'node "{options.node}" of {target}')
        try:
            process = await session.cluster.exec(
                chosen.name,
                chosen.namespace,
                options.command or _SHELL,
                container=options.container,
                stdin=True,
                tty=options.tty,
            )
        except NotFound:
            raise CommandError(f'error: the Pod "{chosen.name}" of the node is deleted; retry the node') from None
        except BadRequest as error:
            raise CommandError(f"error: {error.message}\n{_WHAT_TO_DO}") from None
        except ApiError as error:
            raise CommandError(f"error: {error.message}") from None
        return await _attach(process, chosen, options)


async def _enter_run(run: str, options: _ExecOptions) -> int:
    """Runs the command through the platform, which lets the owner of a run enter its Pods. The Kubernetes API lets
    admins only."""
    with connect_platform() as muster:
        found = await asyncio.to_thread(_pods_of_run_node, muster, run, options.node)
        chosen = choose_pod(found, options.pod, f'node "{options.node}" of {run}')
        path = f"pods/{quote(chosen.namespace, '')}/{quote(chosen.name, '')}/terminal"
        query = {
            "command": list(options.command or _SHELL),
            "container": options.container,
            "tty": str(options.tty).lower(),
        }
        async with aiohttp.ClientSession() as session:
            try:
                socket = await session.ws_connect(
                    f"{muster.transport.url}/api/v1/{path}?{urlencode(query, doseq=True)}",
                    headers={"Authorization": muster.transport.authorization},
                    protocols=(V5,),
                    max_msg_size=0,
                )
            except aiohttp.WSServerHandshakeError as error:
                # aiohttp drops the body of a refused upgrade. The same request without it returns the reason.
                await asyncio.to_thread(muster.transport.request, "GET", path, query=query, headers=_UPGRADE)
                raise CommandError(f"error: {muster.transport.url} refused the request: {error.message}") from None
            except aiohttp.ClientError as error:
                raise CommandError(f"error: {muster.transport.url} does not respond: {error}") from None
            try:
                return await _attach(RemoteProcess(socket), chosen, options)
            except ApiError as error:
                raise CommandError(f"error: {error.message}") from None


_UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": V5,
}


async def _attach(process: Process, pod: NodePod, options: _ExecOptions) -> int:
    if options.tty and not options.command:
        warn(f'{pod.state} node "{options.node}", Pod {pod.name}; `exit` leaves it')
    return await attach_process(process, stdin=True, tty=options.tty)


_WHAT_TO_DO = (
    "The files of this node are not kept, or no longer. They are kept for node.keepFailedSeconds (config.yaml) after a "
    "container has failed that is not started again. Containers of podman and docker, and of other clusters, are not "
    "kept."
)


def pods_of_workflow_node(workflow: Object, node: str, namespace: str) -> list[NodePod]:
    """The Pods of the nodes with this name, id, or template, and of the attempts below them."""
    from muster.workflows.logs import pod_name_of

    nodes: Mapping[str, Any] = status_of(workflow).get("nodes") or {}
    meant = [n for n in nodes.values() if node in (n.get("displayName"), n.get("name"), n.get("id"))]
    meant = meant or [n for n in nodes.values() if n.get("templateName") == node]
    if not meant:
        names = sorted({str(n.get("displayName")) for n in nodes.values() if n.get("type") == "Pod"})
        raise CommandError(f'error: {name_of(workflow)} has no node "{node}"; its nodes: {", ".join(names) or "none"}')
    pending, found = list(meant), dict[str, Any]()
    while pending:
        each = pending.pop()
        if each.get("type") == "Pod":
            found[str(each.get("id"))] = each
        elif each.get("type") in ("Retry", "StepGroup", "Steps", "DAG", "TaskGroup"):
            pending += [nodes[child] for child in each.get("children") or () if child in nodes]
    ordered = sorted(found.values(), key=lambda each: str(each.get("startedAt") or ""), reverse=True)
    return [NodePod(pod_name_of(workflow, each), namespace, str(each.get("phase"))) for each in ordered]


def _pods_of_run_node(muster: Muster, run: str, node: str) -> list[NodePod]:
    namespace = muster.runs.get(run).namespace
    return [NodePod(pod.name, namespace, pod.phase) for pod in reversed(muster.runs.pods(run, node))]


def choose_pod(pods: Iterable[NodePod], wanted: str, where: str) -> NodePod:
    """The Pod that the user names; else the newest that failed, else the newest that runs."""
    pods = list(pods)
    if wanted:
        named = next((pod for pod in pods if pod.name == wanted), None)
        if named is None:
            raise CommandError(f'error: {where} has no Pod "{wanted}"; it has {", ".join(p.name for p in pods)}')
        return named
    for states in (("Failed", "Error"), ("Running",)):
        found = next((pod for pod in pods if pod.state in states), None)
        if found is not None:
            return found
    listed = ", ".join(f"{pod.name} ({pod.state})" for pod in pods) or "none"
    raise CommandError(f"error: {where} has no Pod that failed or runs: {listed}")
