"""Retry: a failed workflow continues from where it failed. Pure.

The nodes that failed, and what depends on them, are removed from the status so that the engine runs them again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from muster.kube.errors import BadRequest
from muster.kube.objects import Object, annotations_of, labels_of, meta, name_of, spec_of, status_of, timestamp
from muster.workflows.engine.node_tree import pod_name, step_of
from muster.workflows.executors.resource import RETRIES
from muster.workflows.model import COMPLETED_LABEL, PHASE_LABEL, PIPELINE_ARGUMENT, Node, Template
from muster.workflows.operations.control import NodeSelector, template_name
from muster.workflows.submit import SubmissionError, override_parameters

ARCHIVING_LABEL = "workflows.argoproj.io/workflow-archiving-status"
_DONE = frozenset(("Succeeded", "Skipped", "Omitted"))


class RetryResult(NamedTuple):
    workflow: Object
    pods_to_delete: list[str]
    """Their names are used again, so they must be gone before the workflow is written."""


def retry(
    workflow: Object,
    *,
    restart_successful: bool = False,
    node_field_selector: str = "",
    parameters: Sequence[str] = (),
    now: str = "",
) -> RetryResult:
    """Returns the workflow to write and the Pods to delete.

    What has succeeded is not run again, and a failure that the workflow tolerates (continueOn, depends) is left alone:
    only what made the workflow fail, and what was left out because of it, runs again. With `restart_successful`, the
    selected nodes and everything after them run again as well. `parameters` are NAME=VALUE. Raises BadRequest.
    """
    phase = str(status_of(workflow).get("phase") or "")
    if phase == "Succeeded":
        if not (restart_successful and node_field_selector):
            raise BadRequest("To retry a succeeded workflow, set the options restartSuccessful and nodeFieldSelector")
    elif phase not in ("Failed", "Error"):
        raise BadRequest(f"Cannot retry a workflow in phase {phase or 'Pending'}")
    tree = OperationTree(workflow)
    every_failure_counts = bool(spec_of(workflow).get("shutdown")) or _is_pipeline(workflow)
    plan = _Plan(tree, every_failure_counts=every_failure_counts, has_new_parameters=bool(parameters))
    if restart_successful and node_field_selector:
        selector = NodeSelector(node_field_selector)
        for key, node in tree.nodes.items():
            if selector.matches(node):
                plan.restart(key)
    plan.decide()
    moment = now or timestamp()
    nodes = {key: plan.kept(key, moment) for key in tree.nodes if key not in plan.gone}
    renewed = _reopen(with_parameters(workflow, parameters), nodes, moment)
    pods = [_pod(workflow, tree.nodes[key]) for key in tree.nodes if key in plan.gone and _has_pod(tree.nodes[key])]
    return RetryResult(renewed, sorted(set(pods)))


class _Plan:
    """Which nodes are removed, to be created again, and which are reopened."""

    def __init__(self, tree: OperationTree, *, every_failure_counts: bool, has_new_parameters: bool) -> None:
        self._tree = tree
        self._every_failure_counts = every_failure_counts
        self._has_new_parameters = has_new_parameters
        self.gone: set[str] = set()
        self.entered: set[str] = set()

    def restart(self, key: str) -> None:
        """Removes a node and all that came after it."""
        for found in (key, *self._tree.reachable(key)):
            self._remove(found)

    def decide(self) -> None:
        tree = self._tree
        root = tree.root
        if root is None:
            return
        for hook in tree.hooks(root):
            self._remove(hook)
        for key in list(self.gone):
            self._enter_around(key)
        if root not in self.gone and _is_bad(tree.nodes[root]):
            self._rerun_failed(root)
        for key in list(self.entered):
            self._renew_items(key)
            self._renew_daemons(key)

    def kept(self, key: str, now: str) -> Node:
        node = self._tree.nodes[key]
        kept = Node(**node)
        if "children" in node:
            kept["children"] = [child for child in node["children"] if child not in self.gone]
        if "outboundNodes" in node:
            kept["outboundNodes"] = [out for out in node["outboundNodes"] if out not in self.gone]
        if key in self.entered:
            kept["phase"] = "Running"
            kept["startedAt"] = now
            kept.pop("finishedAt", None)
            kept.pop("message", None)
            kept.pop("outputs", None)
        return kept

    def _rerun_failed(self, key: str) -> None:
        """A failed node: what made it fail runs again."""
        if key in self.gone or key in self.entered:
            return
        tree, kind = self._tree, self._tree.nodes[key].get("type")
        if kind == "Retry":
            attempts = tree.members(key)
            if not any(tree.nodes[attempt].get("type") in GROUPS for attempt in attempts):
                self._enter(key)
                for attempt in attempts:
                    self._remove(attempt)
                return
            # The last attempt continues: some of its parts have succeeded.
            self._enter(key)
            self._rerun_failed(
                max(attempts, key=lambda a: (len(str(tree.nodes[a]["name"])), str(tree.nodes[a]["name"])))
            )
        elif kind == "DAG":
            self._enter(key)
            for task in self._failed_tasks(key):
                self._rerun_failed(task)
                self._rerun_followers(task)
        elif kind in GROUPS:
            self._enter(key)
            bad = [part for part in tree.members(key) if _is_bad(tree.nodes[part])]
            for part in [p for p in bad if kind != "StepGroup" or not self._continues_on(p)] or bad:
                self._rerun_failed(part)
        else:
            self._remove(key)

    def _failed_tasks(self, dag: str) -> list[str]:
        """Returns the tasks that made a DAG fail."""
        failed = [task for task in self._tree.members(dag) if _is_bad(self._tree.nodes[task])]
        guilty = [task for task in failed if self._every_failure_counts or self._counts(task)]
        return guilty or [task for task in failed if not self._continues_on(task)]

    def _counts(self, failed: str) -> bool:
        """A failure counts if it reaches the end of the DAG: the task itself, or tasks that were left out because of
        it. If a later task ran all the same, that one counts instead."""
        phase = str(self._tree.nodes[failed].get("phase"))
        seen, waiting = {failed}, [failed]
        while waiting:
            task = waiting.pop()
            followers = self._tree.followers(task)
            if not followers and not self._continues_on(task, phase):
                return True
            for follower in followers - seen:
                seen.add(follower)
                if self._tree.nodes[follower].get("phase") in ("Omitted", "Skipped"):
                    waiting.append(follower)
        return False

    def _rerun_followers(self, task: str) -> None:
        waiting = [task]
        while waiting:
            for follower in self._tree.followers(waiting.pop()):
                phase = self._tree.nodes[follower].get("phase")
                if follower in self.gone or follower in self.entered or phase == "Succeeded":
                    continue
                if phase in ("Omitted", "Skipped"):
                    self._remove(follower)
                else:
                    self._rerun_failed(follower)
                waiting.append(follower)

    def _continues_on(self, key: str, phase: str = "") -> bool:
        allowed = (self._tree.declaration(key) or {}).get("continueOn") or {}
        failure = phase or str(self._tree.nodes[key].get("phase"))
        return bool(allowed.get("failed" if failure == "Failed" else "error"))

    def _renew_items(self, group: str) -> None:
        """With other parameters, a loop may have other items."""
        tree = self._tree
        if not self._has_new_parameters or tree.nodes[group].get("type") not in ("TaskGroup", "StepGroup"):
            return
        for part in tree.members(group):
            declared = tree.declaration(part)
            loop = [(declared or {}).get(name) for name in ("withParam", "withItems", "withSequence")]
            if "{{" in str(loop) or (declared is None and tree.nodes[group].get("type") == "TaskGroup"):
                self._remove(part)

    def _renew_daemons(self, boundary: str) -> None:
        """Daemons ended with the template that they served; it continues, so they are needed again."""
        tree = self._tree
        if tree.nodes[boundary].get("type") not in ("Steps", "DAG"):
            return
        for key in list(tree.everything_in(boundary)):
            node = tree.nodes[key]
            if node.get("boundaryID") != boundary or node.get("type") != "Pod" or key in self.gone:
                continue
            if (tree.template(key) or {}).get("daemon"):
                self._remove(key)
                self._enter_around(key)

    def _remove(self, key: str) -> None:
        self.gone.update(self._tree.everything_in(key))

    def _enter(self, key: str) -> None:
        self.entered.add(key)
        for hook in self._tree.hooks(key):
            self._remove(hook)

    def _enter_around(self, key: str) -> None:
        for outer in self._tree.around(key):
            if outer not in self.gone and not self._is_workflow_hook(key):
                self._enter(outer)

    def _is_workflow_hook(self, key: str) -> bool:
        """The workflow's own exit handler is no reason to reopen its root."""
        root = self._tree.root
        inward = [key, *self._tree.around(key)]
        return root is not None and any(hook in inward for hook in self._tree.hooks(root))


def _is_pipeline(workflow: Object) -> bool:
    """In a pipeline, a failed task makes its DAG fail even if others ran after it."""
    arguments = (spec_of(workflow).get("arguments") or {}).get("parameters") or ()
    return any(parameter.get("name") == PIPELINE_ARGUMENT for parameter in arguments)


def _is_bad(node: Node) -> bool:
    return node.get("phase") not in _DONE


def _has_pod(node: Node) -> bool:
    return node.get("type") == "Pod"


def _pod(workflow: Object, node: Node) -> str:
    return pod_name(name_of(workflow), str(node["name"]), template_name(node))


def _reopen(workflow: Object, nodes: Mapping[str, Node], now: str) -> Object:
    """Returns the node as if it had not ended."""
    labels = {n: v for n, v in labels_of(workflow).items() if n not in (COMPLETED_LABEL, ARCHIVING_LABEL, PHASE_LABEL)}
    tries = int(annotations_of(workflow).get(RETRIES, "0")) + 1
    annotations = {**annotations_of(workflow), RETRIES: str(tries)}
    dropped = ("phase", "message", "finishedAt", "persistentVolumeClaims", "synchronization")
    status: dict[str, Any] = {n: v for n, v in status_of(workflow).items() if n not in dropped}
    conditions = [c for c in status.get("conditions") or () if c.get("type") != "Completed"]
    status |= {
        "startedAt": now,
        "conditions": [*conditions, {"type": "Completed", "status": "False"}],
        "nodes": dict(nodes),
    }
    if status.get("storedWorkflowTemplateSpec"):
        status["storedWorkflowTemplateSpec"] = without_shutdown(status["storedWorkflowTemplateSpec"])
    return {
        **workflow,
        "metadata": {**meta(workflow), "labels": labels, "annotations": annotations},
        "spec": without_shutdown(spec_of(workflow)),
        "status": status,
    }


def without_shutdown(spec: Object) -> Object:
    """Returns the spec without what `stop` and `terminate` have written."""
    left = {name: value for name, value in spec.items() if name != "shutdown"}
    if left.get("activeDeadlineSeconds") == 0:
        del left["activeDeadlineSeconds"]
    return left


def with_parameters(workflow: Object, parameters: Sequence[str]) -> Object:
    """Overrides arguments of the workflow, or of the template it runs. `parameters` are NAME=VALUE. Raises
    BadRequest."""
    if not parameters:
        return workflow
    stored = status_of(workflow).get("storedWorkflowTemplateSpec")
    try:
        changed = {**workflow, "spec": _override_arguments(spec_of(workflow), parameters)}
        if stored:
            changed["status"] = {
                **status_of(workflow),
                "storedWorkflowTemplateSpec": _override_arguments(stored, parameters),
            }
    except SubmissionError as error:
        raise BadRequest(str(error)) from None
    return changed


def _override_arguments(spec: Object, parameters: Sequence[str]) -> Object:
    arguments = spec.get("arguments") or {}
    return {
        **spec,
        "arguments": {**arguments, "parameters": override_parameters(arguments.get("parameters") or (), parameters)},
    }


GROUPS = frozenset(("Steps", "StepGroup", "DAG", "TaskGroup"))
_SEPARATORS = re.compile(r"[.\[(]")


class OperationTree:
    """The nodes of a workflow as a tree of containment, and as a graph of succession. Node names nest: `wf[0].fan(1:b)`
    is part of `wf[0]`, which is part of `wf`."""

    def __init__(self, workflow: Object) -> None:
        self._spec = spec_of(workflow)
        self._status = status_of(workflow)
        self.nodes: Mapping[str, Node] = self._status.get("nodes") or {}
        self._ids: dict[str, str] = {str(node["name"]): key for key, node in self.nodes.items()}
        self.root = self._ids.get(name_of(workflow))
        self.parts: dict[str, list[str]] = defaultdict(list)
        self.whole: dict[str, str] = {}
        """What a node is part of; the root and detached nodes are not in it."""
        for key, node in self.nodes.items():
            whole = self._whole(str(node["name"]))
            if whole is not None:
                self.whole[key] = whole
                self.parts[whole].append(key)
        self._followers: dict[str, set[str]] | None = None
        self._declared: dict[str, dict[str, Mapping[str, Any]]] = {}
        spec = self._status.get("storedWorkflowTemplateSpec") or self._spec
        self._templates: dict[str, Template] = {str(t.get("name")): t for t in spec.get("templates") or ()}

    def members(self, key: str) -> list[str]:
        """The parts of a node, without hooks."""
        return [part for part in self.parts[key] if not is_hook(self.nodes[part])]

    def hooks(self, key: str) -> list[str]:
        return [part for part in self.parts[key] if is_hook(self.nodes[part])]

    def everything_in(self, key: str) -> Iterator[str]:
        """Includes the node itself."""
        waiting = [key]
        while waiting:
            found = waiting.pop()
            yield found
            waiting += self.parts[found]

    def around(self, key: str) -> Iterator[str]:
        """What the node is part of, innermost first."""
        while key in self.whole:
            key = self.whole[key]
            yield key

    def followers(self, task: str) -> set[str]:
        """Returns the tasks of the same DAG that depend on this one."""
        if self._followers is None:
            self._followers = self._all_followers()
        return self._followers.get(task, set())

    def reachable(self, key: str) -> set[str]:
        """Returns everything that came after the node or a part of it."""
        found: set[str] = set()
        waiting = list(self.everything_in(key))
        while waiting:
            for child in self.nodes[waiting.pop()].get("children") or ():
                if child in self.nodes and child not in found:
                    found.add(child)
                    waiting += self.everything_in(child)
        return found

    def template(self, key: str) -> Template | None:
        """Returns the template that a node runs, if the workflow has a copy of it."""
        node = self.nodes[key]
        stored = self._status.get("storedTemplates") or {}
        ref = node.get("templateRef")
        if ref:
            scope = "cluster" if ref.get("clusterScope") else "namespaced"
            return stored.get(f"{scope}/{ref.get('name')}/{ref.get('template')}")
        name = node.get("templateName")
        if not name:
            inline: Template | None = (self.declaration(key) or {}).get("inline")
            return inline
        found = stored.get(f"{node.get('templateScope')}/{name}")
        if found is not None:
            return dict(found)
        return self._templates.get(name)

    def declaration(self, key: str) -> Mapping[str, Any] | None:
        """Returns the step or task that a node belongs to, as written in the template around it."""
        node = self.nodes[key]
        boundary = node.get("boundaryID") or ""
        if boundary not in self._declared:
            self._declared[boundary] = _declarations(self.template(boundary) if boundary in self.nodes else None)
        return self._declared[boundary].get(step_of(str(node["name"])))

    def _whole(self, name: str) -> str | None:
        for separator in reversed(list(_SEPARATORS.finditer(name))):
            found = self._ids.get(name[: separator.start()])
            if found is not None:
                return found
        return None

    def _all_followers(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for key, node in self.nodes.items():
            inward = [key, *self.around(key)]
            for child in node.get("children") or ():
                dag = self.whole.get(child)
                if dag is None or self.nodes[dag].get("type") != "DAG" or is_hook(self.nodes[child]):
                    continue
                task = next((k for k in inward if self.whole.get(k) == dag), None)
                if task is not None and task != child:
                    found[task].add(child)
        return found


def is_hook(node: Node) -> bool:
    flag = node.get("nodeFlag") or {}
    return bool(flag.get("hooked") and not flag.get("retried")) or str(node["name"]).endswith(".onExit")


def _declarations(template: Template | None) -> dict[str, Mapping[str, Any]]:
    """Returns the steps or tasks of a template by name."""
    found = template or {}
    steps = [step for group in found.get("steps") or () for step in _listed(group)]
    return {str(step.get("name")): step for step in (*steps, *((found.get("dag") or {}).get("tasks") or ()))}


def _listed(group: Any) -> list[Any]:
    """A group of steps: a list or, as v3 also allowed, a single mapping."""
    return list(group.get("steps") or ()) if isinstance(group, Mapping) else list(group)
