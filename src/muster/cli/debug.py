"""`muster debug`: a shell in a node of a run or workflow that has failed, with its files, variables and mounts as it
ended, or in one that runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.exec import attach_process
from muster.cli.output import warn
from muster.cli.platform import connect_platform
from muster.cli.session import LATEST, Session, on_cluster
from muster.cli.workflow_objects import find_workflow
from muster.kube.errors import ApiError, BadRequest, NotFound
from muster.kube.objects import Object, name_of, status_of

_SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
_WORKFLOW_TYPES = ("workflow/", "workflows/", "wf/", "workflow.argoproj.io/", "workflows.argoproj.io/")


class NodePod(NamedTuple):
    name: str
    namespace: str
    state: str
    """As the workflow or the run calls it."""


@on_cluster
async def debug(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="(RUN | workflow/NAME)", help="A run's id, or a workflow.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="The name of the node.")],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND [ARGS...]")] = None,
    pod: Annotated[str, typer.Option("--pod", help="One of several Pods of the node.")] = "",
    container: Annotated[str, typer.Option("--container", "-c", help="The container. Default: the first one.")] = "",
) -> None:
    """Open a shell in a node that failed, as it ended, or in one that runs.

    The files, variables and mounts of a failed node are kept for node.keepFailedSeconds (config.yaml). What you change
    in a volume is there when you retry the node; all other changes are lost."""
    if target.startswith((*_WORKFLOW_TYPES, LATEST)):
        workflow = await find_workflow(session, target)
        found = pods_of_workflow_node(workflow, node, session.namespace)
    else:
        found = await asyncio.to_thread(_pods_of_run_node, target, node)
    chosen = choose_pod(found, pod, f'node "{node}" of {target}')
    is_terminal = sys.stdin.isatty()
    try:
        process = await session.cluster.exec(
            chosen.name,
            chosen.namespace,
            command or _SHELL,
            container=container,
            stdin=True,
            tty=is_terminal,
        )
    except NotFound:
        raise CommandError(f'error: the Pod "{chosen.name}" of the node is deleted; retry the node') from None
    except BadRequest as error:
        raise CommandError(f"error: {error.message}\n{_WHAT_TO_DO}") from None
    except ApiError as error:
        raise CommandError(f"error: {error.message}") from None
    if is_terminal and not command:
        warn(f'{chosen.state} node "{node}", Pod {chosen.name}; `exit` leaves it')
    code = await attach_process(process, stdin=True, tty=is_terminal)
    if is_terminal and not command and not target.startswith((*_WORKFLOW_TYPES, LATEST)):
        warn(f"`muster runs retry {target}` runs it again")
    if code:
        raise CommandExit(code)


_WHAT_TO_DO = (
    "The files of this node are not kept, or no longer. Set node.keepFailedSeconds in config.yaml (3600 for an hour), "
    "restart the server, and retry the node. Containers of podman and docker, and of other clusters, are not kept."
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


def _pods_of_run_node(run: str, node: str) -> list[NodePod]:
    with connect_platform() as muster:
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
