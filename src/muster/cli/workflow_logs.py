"""Logs of a workflow: all its Pods together, or those of one node."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from muster.cli.failures import Failure
from muster.cli.logtail import last_shown
from muster.cli.output import colour_of, fancy, paint, say
from muster.cli.session import Session
from muster.kube.cluster import LogQuery
from muster.kube.objects import Object, name_of, spec_of, status_of

if TYPE_CHECKING:
    from muster.workflows.logs import Entry


@dataclass(frozen=True, slots=True)
class LogView:
    node: str = ""
    container: str = "main"
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: float | None = None


async def print_logs(session: Session, workflow: Object, view: LogView) -> None:
    from muster.workflows.logs import Wanted, lines

    query = LogQuery(
        follow=view.follow,
        previous=view.previous,
        tail_lines=view.tail,
        since_seconds=view.since,
    )
    pods = pods_below(workflow, view.node) if view.node else {}
    printer = _Printer(view.timestamps)
    jobs = _makes_objects(workflow)
    if jobs:
        await session.discover()  # what they are may be known to the server alone
    wanted = Wanted(pods=tuple(pods.values()), container=view.container, query=query, jobs=jobs, nodes=tuple(pods))
    async for bunch in lines(session.cluster, workflow, wanted):
        for entry in bunch:
            printer.put(entry)


def pods_below(workflow: Object, word: str) -> dict[str, str]:
    """The Pods of a node, or of all nodes inside it, by the ids of their nodes. The word is its id, its name, the name
    it is shown by, or its Pod's. Raises Failure, which names similar ones."""
    from muster.workflows.logs import pod_of

    nodes: dict[str, Object] = status_of(workflow).get("nodes") or {}
    pods = {one: pod_of(workflow, node) for one, node in nodes.items() if node.get("type") == "Pod"}
    meant = [
        one
        for one, node in nodes.items()
        if word in (one, node.get("name"), node.get("displayName"), pods.get(one))
    ]  # fmt: skip
    if not meant:
        known = sorted({str(node.get("displayName")) for node in nodes.values()})
        near = get_close_matches(word, known, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise Failure(f'error: the workflow {name_of(workflow)} has no node "{word}"{hint}')
    inside = _inside(nodes, meant)
    found = {one: pod for one, pod in pods.items() if one in inside}
    if not found:
        raise Failure(f'error: the node "{word}" of the workflow {name_of(workflow)} has no Pod, so it has no log')
    return found


def _makes_objects(workflow: Object) -> bool:
    status = status_of(workflow)
    stored = (status.get("storedWorkflowTemplateSpec") or {}).get("templates") or ()
    templates = (*(spec_of(workflow).get("templates") or ()), *stored, *(status.get("storedTemplates") or {}).values())
    return any("resource" in template for template in templates)


def _inside(nodes: dict[str, Object], meant: list[str]) -> set[str]:
    members: dict[str, list[str]] = {}
    for one, node in nodes.items():
        members.setdefault(str(node.get("boundaryID") or ""), []).append(one)
    inside: set[str] = set()
    waiting = list(meant)
    while waiting:
        one = waiting.pop()
        if one in inside:
            continue
        inside.add(one)
        waiting += members.get(one, ())
        if nodes[one].get("type") in ("Retry", "TaskGroup", "StepGroup"):
            waiting += [child for child in nodes[one].get("children") or () if child in nodes]
    return inside


class _Printer:
    """Each line with the Pod it comes from, each Pod in a colour of its own."""

    def __init__(self, timestamps: bool) -> None:
        self._timestamps = timestamps
        self._colours = fancy()
        self._known: dict[str, int] = {}

    def put(self, entry: Entry) -> None:
        number = self._known.setdefault(entry.pod, len(self._known))
        stamp = f"{entry.stamp} " if self._timestamps else ""
        say(f"{paint(f'{entry.pod}:', colour_of(number), on=self._colours)} {stamp}{last_shown(entry.text)}")
