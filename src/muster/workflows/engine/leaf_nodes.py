"""Nodes without nodes below them: those that executors run (Pods, resources, HTTP requests), suspends, daemons and
unsupported plugins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol

from muster.workflows.engine.clock import parse_duration_field, parse_timestamp
from muster.workflows.engine.errors import WorkflowError, error_message
from muster.workflows.engine.node_tree import NodeTree, is_ended, parse_progress
from muster.workflows.engine.scope import Scope, apply_global_names
from muster.workflows.engine.templates import type_of
from muster.workflows.engine.work_queue import Work
from muster.workflows.lang.tags import substitute, without_marks
from muster.workflows.model import Launch, Node, NodeType, Outcome, Phase, Stop, Template

if TYPE_CHECKING:
    from muster.workflows.engine.run import Run


def add_workflow_volumes(run: Run, template: Template, variables: Mapping[str, str]) -> Template:
    """Adds the workflow's volumes that contain tags, filled in. Volumes without tags are added with the Pod."""
    found = volumes_with_tags(run.spec)
    if not found:
        return template
    own = template.get("volumes") or []
    taken = {volume.get("name") for volume in own}
    filled = substitute(found, variables, allow_unresolved=True, clock=run.clock.expressions)
    return {**template, "volumes": [*own, *(volume for volume in filled if volume.get("name") not in taken)]}


def volumes_with_tags(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the volumes that still contain tags."""
    return [volume for volume in spec.get("volumes") or () if "{{" in str(volume)]


_EXCEEDED = "Step exceeded its deadline"
_TIMEOUT = "timeout"
"""Argo's message for a node that did not start in time."""


class LeafNode(Work):
    deadline_seconds: int | None = None
    """The time that `backoff.maxDuration` leaves for an attempt."""
    stopped = ""
    """Why it is being stopped: the message to show once it has ended."""

    @property
    def kind(self) -> Literal["pod", "resource", "http"]:
        match type_of(self.template):
            case "resource":
                return "resource"
            case "http":
                return "http"
            case _:
                return "pod"

    @property
    def is_daemon(self) -> bool:
        return bool(self.template.get("daemon"))

    def start(self) -> None:
        kind: NodeType = "HTTP" if self.kind == "http" else "Pod"
        self.open(kind, "Pending")
        if kind == "Pod" and not (self.is_daemon and type_of(self.template) == "container"):
            self.run.tree.change(self.id, taskResultSynced=True)
        if not self.run.may_execute(self.call.on_exit):
            self.end("Failed", f"workflow shutdown with strategy: {self.run.shutdown}")
            return
        if self.run.is_over_deadline and not self.call.on_exit:
            self.end("Failed", _EXCEEDED)
            return
        try:
            launch = self.launch()
        except WorkflowError as error:
            self.fail(error_message(error))
            return
        self._open_containers()
        self.run.leaves.start(self)
        self.run.actions.launch.append(launch)
        self._schedule_deadline()

    def restore(self) -> None:
        if not self.node.get("startedAt"):  # a client wrote the node: `argo resubmit --memoized`
            self.run.tree.change(self.id, startedAt=self.run.tree.now)
        self.run.leaves.start(self)
        if self.run.is_loaded:
            # Its group began only now, because an earlier one had to be done again. Executors are told about the leaves
            # of a run when it is loaded, and about this one here.
            try:
                self.run.actions.launch.append(self.launch())
            except WorkflowError as error:
                self.fail(error_message(error))
                return
        if self.node.get("daemoned"):
            self.run.daemons.add(self)
        self._schedule_deadline()

    def advance(self) -> None:
        """Checks the deadline. A running Pod is ended by its own deadline; everything else is ended here."""
        limit = self._watched_limit()
        if limit is None or is_ended(self.node) or self.run.now < parse_timestamp(self.node["startedAt"]) + limit:
            return
        if self.node["phase"] == "Pending":
            self.stop(_TIMEOUT)
        elif self.kind != "pod":
            self.stop(_EXCEEDED)

    def launch(self) -> Launch:
        """Returns what the executor has to run. Raises WorkflowError."""
        template, patch = self.template, str(self.run.spec.get("podSpecPatch") or "")
        volumes = volumes_with_tags(self.run.spec)
        if volumes or "{{" in patch:
            variables = self._variables({"volumes": volumes})
            template = add_workflow_volumes(self.run, template, variables)
            patch = substitute(patch, variables, allow_unresolved=True, clock=self.run.clock.expressions)
        limit = self._limit()
        if limit is not None:
            template = {**template, "activeDeadlineSeconds": max(1, int(limit.total_seconds()))}
        return Launch(
            node=self.node,
            kind=self.kind,
            template=template,
            pod_name=self.run.pod_name(self.name, template),
            wants_result=self.run.wants_result(self.name, self.call.boundary) or type_of(template) in ("data", "http"),
            spec_patch=without_marks(patch),
        )

    def _variables(self, text: Mapping[str, Any]) -> dict[str, str]:
        """Returns what the workflow's volumes and its patch see: what is around the node, and its own inputs."""
        around = self.run.live.get(self.call.boundary)
        scope = around.variables_for(text) if around is not None else Scope()
        scope.include(Scope(self.template))
        known = {name: value for name, value in scope.parameters.items() if value is not None}
        own = {"pod.name": self.run.pod_name(self.name, self.template), "node.name": self.name}
        return {**self.run.variables, **known, **own}

    def observe(self, outcome: Outcome) -> None:
        """Takes in an outcome that the executor reported."""
        if is_ended(self.node):
            return
        match outcome.phase:
            case "Pending":
                self._apply_outcome(outcome, "Pending")
            case "Running" if not self.is_daemon:
                self._apply_outcome(outcome, "Running")
            case "Running":
                if outcome.ready:
                    self._become_daemon(outcome)
            case _:
                self._finish(outcome)

    def stop(self, message: str, *, force: bool = False) -> None:
        """Asks the executor to stop it; its outcome will report the end."""
        self.stopped = message
        self.run.actions.stop.append(Stop(self.id, force))
        if self.node["phase"] == "Pending":
            # Nothing may exist yet whose end could be reported.
            self._abandon()
            self._end_containers("Failed")
            self.end("Failed", message)

    def dismiss(self) -> None:
        """A daemon that is no longer needed."""
        self.run.actions.stop.append(Stop(self.id))
        self._abandon()
        self.run.tree.change(self.id, daemoned=None)
        self.run.tree.mark(self.id, "Succeeded")

    def _abandon(self) -> None:
        """Asks the executor to stop it without waiting for its outcome."""
        self.run.stopping[self.id] = self
        self.run.leaves.end(self)

    def _apply_outcome(self, outcome: Outcome, phase: Phase) -> None:
        before = self.node
        fields: dict[str, Any] = {"message": outcome.message or None}
        if outcome.restarts:
            fields["failedPodRestarts"] = outcome.restarts
        if outcome.host:
            fields["hostNodeName"] = outcome.host
        if parse_progress(outcome.progress):
            fields["progress"] = outcome.progress
        self.run.tree.change(self.id, **fields)
        self.run.tree.mark(self.id, phase)
        self._update_containers(outcome)
        if before["phase"] != phase:
            self.parent.work_changed(self)

    def _become_daemon(self, outcome: Outcome) -> None:
        was = self.node.get("daemoned")
        self._apply_fields(outcome)
        self.run.tree.change(self.id, phase="Running", daemoned=True, podIP=outcome.address or None, message=None)
        if not was:
            self.run.daemons.add(self)
            self.parent.work_changed(self)

    def _apply_fields(self, outcome: Outcome) -> None:
        if outcome.host:
            self.run.tree.change(self.id, hostNodeName=outcome.host)

    def _finish(self, outcome: Outcome) -> None:
        phase: Phase = outcome.phase
        message = outcome.message
        if self.is_daemon and phase == "Succeeded":
            phase = "Failed"
        if self.stopped and phase != "Succeeded":
            phase, message = "Failed", self.stopped
        outputs = apply_global_names(outcome.outputs, self.template)
        if outcome.exit_code is not None:
            outputs["exitCode"] = str(outcome.exit_code)
        node = self.node
        self._apply_fields(outcome)
        self.run.tree.change(
            self.id,
            outputs=outputs or None,
            daemoned=None,
            resourcesDuration=dict(outcome.durations) or None,
            progress=outcome.progress if parse_progress(outcome.progress) else node.get("progress"),
            finishedAt=outcome.finished or None,
        )
        self._update_containers(outcome)
        self._end_containers(phase)
        self.run.leaves.end(self)
        self.run.daemons.drop(self)
        if phase == "Succeeded":
            self.run.add_outputs(outputs)
            self.run.store_memo(self.node)
        self.end(phase, message)

    def _limit(self) -> timedelta | None:
        """Returns how long it may take: by the template's `activeDeadlineSeconds`, its `timeout`, and its retries."""
        limits = []
        seconds = self.template.get("activeDeadlineSeconds")
        if seconds is not None:
            limits.append(parse_duration_field(seconds, "activeDeadlineSeconds"))
        if self.template.get("timeout"):
            limits.append(parse_duration_field(self.template["timeout"], "timeout"))
        if self.deadline_seconds is not None:
            limits.append(timedelta(seconds=self.deadline_seconds))
        return min(limits, default=None)

    def _watched_limit(self) -> timedelta | None:
        try:
            if self.kind != "pod":
                return self._limit()
            return parse_duration_field(self.template["timeout"], "timeout") if self.template.get("timeout") else None
        except WorkflowError:
            return None

    def _schedule_deadline(self) -> None:
        limit = self._watched_limit()
        if limit is not None:
            self.run.queue.add_at(parse_timestamp(self.node["startedAt"]) + limit, self)

    def _open_containers(self) -> None:
        containers = (self.template.get("containerSet") or {}).get("containers") or []
        for container in containers:
            name = f"{self.name}.{container['name']}"
            if self.run.tree.find(name) is None:
                node = self.run.new_node(name, "Container", "Pending", self.call.holder, self.call.context, self.id)
                if self.node.get("nodeFlag") is not None:
                    node["nodeFlag"] = self.node["nodeFlag"]
                self.run.tree.add(node)
        for container in containers:
            child = self.run.tree.id_of(f"{self.name}.{container['name']}")
            needs = container.get("dependencies") or []
            for parent in [f"{self.name}.{need}" for need in needs] or [self.name]:
                self.run.tree.link(self.run.tree.id_of(parent), child)

    def _update_containers(self, outcome: Outcome) -> None:
        for name, seen in outcome.containers.items():
            node = self.run.tree.find(f"{self.name}.{name}")
            if node is None or node["type"] != "Container" or is_ended(node):
                continue
            if seen.finished:
                self.run.tree.change(node["id"], finishedAt=seen.finished)
            self.run.tree.mark(node["id"], seen.phase, seen.message or None)

    def _end_containers(self, phase: Phase) -> None:
        """No container outlives its Pod."""
        for container in (self.template.get("containerSet") or {}).get("containers") or ():
            node = self.run.tree.find(f"{self.name}.{container['name']}")
            if node is not None and not is_ended(node):
                message = "" if phase == "Succeeded" else self.stopped or "Pod ended before the container did"
                self.run.tree.mark(node["id"], phase, message or None)


class LeafTable(dict[str, LeafNode]):
    """The leaves that have not ended, and the size of their templates, which are in memory until then."""

    text_size = 0

    def start(self, leaf: LeafNode) -> None:
        """Raises BudgetExceeded."""
        self[leaf.id] = leaf
        self.text_size += leaf.call.text_size
        leaf.run.tree.budget.check(0, self.text_size)

    def end(self, leaf: LeafNode) -> None:
        if self.pop(leaf.id, None) is not None:
            self.text_size -= leaf.call.text_size


class SuspendNode(Work):
    def start(self) -> None:
        node = self.open("Suspend", "Running")
        outputs = self._supplied_outputs()
        if outputs:
            self.run.tree.change(self.id, outputs={"parameters": outputs})
        self._offer_choices(node)
        self.restore()

    def restore(self) -> None:
        self.run.suspended_nodes[self.id] = self
        span = self._duration()
        if span is not None:
            self.run.queue.add_at(parse_timestamp(self.node["startedAt"]) + span, self)

    def advance(self) -> None:
        """Its duration may be over."""
        if is_ended(self.node):
            return
        try:
            text = self.template["suspend"].get("duration")
            over = text and self.run.now >= parse_timestamp(self.node["startedAt"]) + parse_duration_field(
                text, "suspend.duration"
            )
            outputs = _with_defaults(self.node) if over else None
        except WorkflowError as error:
            self.run.suspended_nodes.pop(self.id, None)
            self.fail(error_message(error))
            return
        if not over:
            return
        if outputs is not None:
            self.run.tree.change(self.id, outputs={**self.node.get("outputs", {}), "parameters": outputs})
            self.run.add_outputs(self.node.get("outputs"))
        self.run.suspended_nodes.pop(self.id, None)
        self.end("Succeeded")

    def stop(self, message: str) -> None:
        self.run.suspended_nodes.pop(self.id, None)
        self.end("Failed", message)

    def _duration(self) -> Any:
        text = self.template["suspend"].get("duration")
        if not text:
            return None
        try:
            return parse_duration_field(text, "suspend.duration")
        except WorkflowError:
            self.run.queue.add(self)
            return None

    def _supplied_outputs(self) -> list[dict[str, Any]]:
        """Outputs that must be supplied when it is resumed."""
        inputs = {p["name"]: p for p in (self.template.get("inputs") or {}).get("parameters") or ()}
        wanted = []
        for parameter in (self.template.get("outputs") or {}).get("parameters") or ():
            source = parameter.get("valueFrom") or {}
            if source.get("supplied") is None:
                continue
            default = inputs.get(parameter["name"], {}).get("default")
            if source.get("default") is None and default is not None:
                parameter = {**parameter, "valueFrom": {**source, "default": default}}
            wanted.append(parameter)
        return wanted

    def _offer_choices(self, node: Node) -> None:
        """An input whose value is a parameter with an `enum` offers these values to choose from."""
        parameters = (node.get("inputs") or {}).get("parameters") or []
        offered = [_with_choices(p) for p in parameters]
        if offered != parameters:
            self.run.tree.change(self.id, inputs={**node["inputs"], "parameters": offered})


def _with_defaults(node: Node) -> list[dict[str, Any]] | None:
    """Returns the supplied outputs once no value can be supplied any more. Raises WorkflowError."""
    parameters = (node.get("outputs") or {}).get("parameters")
    if parameters is None:
        return None
    out = []
    for parameter in parameters:
        source = parameter.get("valueFrom") or {}
        if source.get("supplied") is not None:
            if source.get("default") is None:
                name = parameter.get("name")
                raise WorkflowError(f"raw output parameter '{name}' has not been set and does not have a default value")
            parameter = {**{f: v for f, v in parameter.items() if f != "valueFrom"}, "value": source["default"]}
        out.append(parameter)
    return out


def _with_choices(parameter: dict[str, Any]) -> dict[str, Any]:
    try:
        inner = json.loads(parameter.get("value") or "")
    except ValueError:
        return parameter
    choices = inner.get("enum") if isinstance(inner, dict) else None
    if not isinstance(choices, list) or not choices:
        return parameter
    out = {**parameter, "enum": choices}
    out.setdefault("default", choices[0])
    return out


class Unsupported(Work):
    def start(self) -> None:
        self.open("Plugin", "Pending")
        kinds = ", ".join(self.template.get("plugin") or ()) or "none"
        self.fail(
            f"plugin templates ({kinds}) need an executor plugin of Argo, which is not available here: "
            "use a container, script, http or resource template instead"
        )

    def restore(self) -> None:
        self.run.queue.add(self)

    def advance(self) -> None:
        self.start()


class Daemon(Protocol):
    @property
    def id(self) -> str: ...

    def dismiss(self) -> None: ...


class Daemons:
    def __init__(self, tree: NodeTree) -> None:
        self._tree = tree
        self._inside: dict[str, dict[str, Daemon]] = {}

    def add(self, daemon: Daemon) -> None:
        self._inside.setdefault(self._boundary(daemon), {})[daemon.id] = daemon

    def drop(self, daemon: Daemon) -> None:
        """The daemon has ended by itself."""
        self._inside.get(self._boundary(daemon), {}).pop(daemon.id, None)

    def dismiss(self, boundary: str) -> None:
        """The nodes that needed the daemons are done."""
        for daemon in list(self._inside.pop(boundary, {}).values()):
            daemon.dismiss()

    def dismiss_all(self) -> None:
        for boundary in list(self._inside):
            self.dismiss(boundary)

    def _boundary(self, daemon: Daemon) -> str:
        return self._tree.nodes[daemon.id].get("boundaryID") or ""
