"""The nodes of a Workflow as they are drawn and inspected, read from `status.nodes`. Pure.

Drawn are the leaves: Pods, jobs, requests, pauses. The attempts of a retried node are one node. Steps, DAGs and groups
are not drawn, their edges are: from the leaves before them to the leaves inside. A group between many leaves stays, so
that a loop over a hundred items that follows another one has two hundred edges and not ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.platform.argo.workflows import moment
from muster.platform.records.argo import ArgoAttempt, ArgoNode, ArgoNodeDetail, ArgoValue, NamedValue
from muster.platform.records.runs import NodeState
from muster.workflows.engine.node_tree import pod_name

_GROUPS: Final = frozenset(("Steps", "StepGroup", "DAG", "TaskGroup"))
_MOST_CROSSING: Final = 16
"""Edges that may replace one group."""
_STATES: Final[Mapping[str, NodeState]] = {
    "Pending": "waiting",
    "Running": "running",
    "Succeeded": "succeeded",
    "Failed": "failed",
    "Error": "failed",
    "Skipped": "skipped",
    "Omitted": "skipped",
}

Nodes = Mapping[str, Mapping[str, Any]]


def drawn_nodes(workflow: Object) -> list[ArgoNode]:
    """The nodes in the order in which they were created, with the ids of those that follow."""
    nodes: Nodes = status_of(workflow).get("nodes") or {}
    attempts = _attempts(nodes)
    inner = {child for children in attempts.values() for child in children}
    hidden = _hidden_groups(nodes, attempts, inner)
    found = []
    for key, node in nodes.items():
        if key in inner or key in hidden:
            continue
        following = _following(key, nodes, attempts, hidden)
        found.append(_drawn(workflow, key, node, attempts.get(key), nodes, following))
    return found


def node_detail(workflow: Object, identifier: str) -> ArgoNodeDetail | None:
    """A drawn node with its attempts, inputs, outputs and template."""
    nodes: Nodes = status_of(workflow).get("nodes") or {}
    node = nodes.get(identifier)
    if node is None:
        return None
    children = _attempts(nodes).get(identifier)
    leaves = [node] if children is None else [nodes[child] for child in children]
    if node.get("type") in _GROUPS:
        leaves = []
    last = leaves[-1] if leaves else node
    drawn = _drawn(workflow, identifier, node, children, nodes, [])
    return ArgoNodeDetail(
        id=drawn.id,
        name=drawn.name,
        path=drawn.path,
        type=drawn.type,
        template=drawn.template,
        state=drawn.state,
        message=drawn.message,
        started=drawn.started,
        finished=drawn.finished,
        attempts=[
            _attempt(workflow, number, leaf)
            for number, leaf in enumerate(leaves, 1)
            if leaf.get("phase") not in ("Skipped", "Omitted")
        ],
        inputs=_values(last.get("inputs") or node.get("inputs") or {}),
        outputs=_values(last.get("outputs") or node.get("outputs") or {}),
        definition=dict(_template(workflow, last)),
    )


def find_artifact(workflow: Object, identifier: str, output: str) -> dict[str, Any] | None:
    """The artifact that the last attempt of a node wrote under this name."""
    nodes: Nodes = status_of(workflow).get("nodes") or {}
    leaves = [nodes[child] for child in _attempts(nodes).get(identifier, ())] or [nodes.get(identifier) or {}]
    for leaf in reversed(leaves):
        for artifact in (leaf.get("outputs") or {}).get("artifacts") or ():
            if artifact.get("name") == output:
                return dict(artifact)
    return None


def parameters_of(workflow: Object) -> list[NamedValue]:
    given = (spec_of(workflow).get("arguments") or {}).get("parameters") or ()
    return [NamedValue(str(each.get("name")), _text(each.get("value"))) for each in given]


def _attempts(nodes: Nodes) -> dict[str, list[str]]:
    """The ids of the attempts of each retried node. The other children of a Retry node are what follows it."""
    found = {}
    for key, node in nodes.items():
        if node.get("type") != "Retry":
            continue
        prefix = f"{node.get('name')}("
        own = [
            child
            for child in node.get("children") or ()
            if child in nodes and str(nodes[child].get("name") or "").startswith(prefix)
        ]
        if not any(nodes[child].get("type") in _GROUPS for child in own):
            found[key] = own
    return found


def _hidden_groups(nodes: Nodes, attempts: Mapping[str, list[str]], inner: set[str]) -> frozenset[str]:
    """Groups that are replaced by edges. The root is always one."""
    before: dict[str, int] = {}
    for key, node in nodes.items():
        for child in node.get("children") or ():
            if key not in inner or child not in inner:
                before[child] = before.get(child, 0) + 1
    hidden = set()
    for key, node in nodes.items():
        is_group = node.get("type") in _GROUPS or (node.get("type") == "Retry" and key not in attempts)
        if is_group and before.get(key, 0) * len(node.get("children") or ()) <= _MOST_CROSSING:
            hidden.add(key)
    return frozenset(hidden)


def _following(key: str, nodes: Nodes, attempts: Mapping[str, list[str]], hidden: frozenset[str]) -> list[str]:
    """The ids of the drawn nodes right after this one. What follows an attempt follows its node."""
    own = set(attempts.get(key, ()))
    ahead = [child for each in (key, *own) for child in nodes[each].get("children") or () if child not in own]
    found: dict[str, None] = {}
    seen: set[str] = set()
    while ahead:
        child = ahead.pop()
        if child in seen or child not in nodes:
            continue
        seen.add(child)
        if child in hidden:
            ahead += nodes[child].get("children") or ()
        else:
            found[child] = None
    return sorted(found)


def _drawn(
    workflow: Object,
    key: str,
    node: Mapping[str, Any],
    children: list[str] | None,
    nodes: Nodes,
    following: list[str],
) -> ArgoNode:
    stopped = bool(spec_of(workflow).get("shutdown"))
    last = nodes[children[-1]] if children else node
    state = _state(node, stopped)
    message = str(node.get("message") or last.get("message") or "")
    path = str(node.get("name") or "").removeprefix(name_of(workflow)).lstrip(".")
    return ArgoNode(
        id=key,
        name=str(node.get("displayName") or path or node.get("templateName") or key),
        path=path or str(node.get("templateName") or ""),
        type=str(last.get("type") or "") if children else str(node.get("type") or ""),
        template=_template_name(last),
        state=state,
        message="" if state in ("succeeded", "stopped") else message,
        attempts=len(children) if children is not None else int(state not in ("waiting", "skipped")),
        started=moment(node.get("startedAt")),
        finished=moment(node.get("finishedAt")),
        children=following,
    )


def _attempt(workflow: Object, number: int, leaf: Mapping[str, Any]) -> ArgoAttempt:
    has_pod = leaf.get("type") == "Pod" and "resource" not in _template(workflow, leaf)
    name = pod_name(name_of(workflow), str(leaf.get("name") or ""), _template_name(leaf)) if has_pod else ""
    return ArgoAttempt(
        number=number,
        id=str(leaf.get("id") or ""),
        state=_state(leaf, bool(spec_of(workflow).get("shutdown"))),
        message=str(leaf.get("message") or ""),
        pod=name,
        exit_code=str((leaf.get("outputs") or {}).get("exitCode") or ""),
        host=str(leaf.get("hostNodeName") or ""),
        started=moment(leaf.get("startedAt")),
        finished=moment(leaf.get("finishedAt")),
    )


def _state(node: Mapping[str, Any], stopped: bool) -> NodeState:
    state = _STATES.get(str(node.get("phase") or ""), "waiting")
    is_stopped = stopped and state == "failed" and "shutdown" in str(node.get("message") or "")
    return "stopped" if is_stopped else state


def _template_name(node: Mapping[str, Any]) -> str:
    return str((node.get("templateRef") or {}).get("template") or node.get("templateName") or "")


def _template(workflow: Object, node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Its own template, or one that the Workflow stored when it used a WorkflowTemplate."""
    name, status = _template_name(node), status_of(workflow)
    stored = status.get("storedWorkflowTemplateSpec") or {}
    templates: Iterable[Mapping[str, Any]] = (
        *(spec_of(workflow).get("templates") or ()),
        *(stored.get("templates") or ()),
        *(status.get("storedTemplates") or {}).values(),
    )
    return next((template for template in templates if template.get("name") == name), {})


def _values(given: Mapping[str, Any]) -> list[ArgoValue]:
    texts = [ArgoValue(str(p.get("name")), "text", _text(p.get("value")), "") for p in given.get("parameters") or ()]
    if given.get("result") is not None:
        texts.append(ArgoValue("result", "text", _text(given["result"]), ""))
    files = [
        ArgoValue(str(a.get("name")), "file", None, str(a.get("path") or ""))
        for a in given.get("artifacts") or ()
        if a.get("name") != "main-logs"
    ]
    return texts + files


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
