"""Nodes whose work is done outside: Pods, objects of resource templates, requests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from muster.workflows.engine import progress
from muster.workflows.engine.errors import Refused, message_of
from muster.workflows.engine.global_outputs import named_globally
from muster.workflows.engine.phases import is_ended
from muster.workflows.engine.templates import type_of
from muster.workflows.engine.times import duration, moment_of
from muster.workflows.engine.volumes import open_volumes, with_volumes
from muster.workflows.engine.work import Work
from muster.workflows.model import Launch, NodeType, Outcome, Phase, Stop

_EXCEEDED = "Step exceeded its deadline"
_TIMEOUT = "timeout"
"""What Argo says of a node that has not begun to run in its time."""


class Leaf(Work):
    deadline_seconds: int | None = None
    """What `backoff.maxDuration` leaves to an attempt."""
    stopped = ""
    """Why it has been told to end: the message to show once it has."""

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
        except Refused as error:
            self.fail(message_of(error))
            return
        self._open_containers()
        self.run.leaves[self.id] = self
        self.run.actions.launch.append(launch)
        self._watch_time()

    def restore(self) -> None:
        self.run.leaves[self.id] = self
        if self.node.get("daemoned"):
            self.run.daemons.add(self)
        self._watch_time()

    def advance(self) -> None:
        """Time has passed. A Pod that runs is ended by its own deadline; what waits, or is no Pod, by us."""
        limit = self._watched_limit()
        if limit is None or is_ended(self.node) or self.run.now < moment_of(self.node["startedAt"]) + limit:
            return
        if self.node["phase"] == "Pending":
            self.stop(_TIMEOUT)
        elif self.kind != "pod":
            self.stop(_EXCEEDED)

    def launch(self) -> Launch:
        """What the shell has to do for it. Raises Refused."""
        template = self.template
        around = self.run.live.get(self.call.boundary)
        if around is not None and self.run.spec.get("volumes"):
            volumes = open_volumes(self.run.spec)
            template = with_volumes(self.run, template, around.variables_for({"volumes": volumes}))
        limit = self._limit()
        if limit is not None:
            template = {**template, "activeDeadlineSeconds": max(1, int(limit.total_seconds()))}
        return Launch(
            node=self.node,
            kind=self.kind,
            template=template,
            pod_name=self.run.pod_name(self.name, template),
            wants_result=self.run.wants_result(self.name, self.call.boundary) or type_of(template) in ("data", "http"),
        )

    def observe(self, outcome: Outcome) -> None:
        """What has been seen of it."""
        if is_ended(self.node):
            return
        match outcome.phase:
            case "Pending":
                self._note(outcome, "Pending")
            case "Running" if not self.is_daemon:
                self._note(outcome, "Running")
            case "Running":
                if outcome.ready:
                    self._become_daemon(outcome)
            case _:
                self._finish(outcome)

    def stop(self, message: str, *, force: bool = False) -> None:
        """Has it ended from outside; its outcome will tell when it has."""
        self.stopped = message
        self.run.actions.stop.append(Stop(self.id, force))
        if self.node["phase"] == "Pending":
            # Nothing of it may be there yet whose end could be told.
            self._leave()
            self._end_containers("Failed")
            self.end("Failed", message)

    def dismiss(self) -> None:
        """A daemon whose users are done."""
        self.run.actions.stop.append(Stop(self.id))
        self._leave()
        self.run.tree.change(self.id, daemoned=None)
        self.run.tree.mark(self.id, "Succeeded")

    def _leave(self) -> None:
        """It is told to end, and nobody waits for that."""
        self.run.leaving[self.id] = self
        self.run.leaves.pop(self.id, None)

    def _note(self, outcome: Outcome, phase: Phase) -> None:
        before = self.node
        fields: dict[str, Any] = {"message": outcome.message or None}
        if outcome.host:
            fields["hostNodeName"] = outcome.host
        if progress.parse(outcome.progress):
            fields["progress"] = outcome.progress
        self.run.tree.change(self.id, **fields)
        self.run.tree.mark(self.id, phase)
        self._note_containers(outcome)
        if before["phase"] != phase:
            self.parent.work_changed(self)

    def _become_daemon(self, outcome: Outcome) -> None:
        was = self.node.get("daemoned")
        self._note_fields(outcome)
        self.run.tree.change(self.id, phase="Running", daemoned=True, podIP=outcome.address or None, message=None)
        if not was:
            self.run.daemons.add(self)
            self.parent.work_changed(self)

    def _note_fields(self, outcome: Outcome) -> None:
        if outcome.host:
            self.run.tree.change(self.id, hostNodeName=outcome.host)

    def _finish(self, outcome: Outcome) -> None:
        phase: Phase = outcome.phase
        message = outcome.message
        if self.is_daemon and phase == "Succeeded":
            phase = "Failed"
        if self.stopped and phase != "Succeeded":
            phase, message = "Failed", self.stopped
        outputs = named_globally(outcome.outputs, self.template)
        if outcome.exit_code is not None:
            outputs["exitCode"] = str(outcome.exit_code)
        node = self.node
        self._note_fields(outcome)
        self.run.tree.change(
            self.id,
            outputs=outputs or None,
            daemoned=None,
            resourcesDuration=dict(outcome.durations) or None,
            progress=outcome.progress if progress.parse(outcome.progress) else node.get("progress"),
            finishedAt=outcome.finished or None,
        )
        self._note_containers(outcome)
        self._end_containers(phase)
        self.run.leaves.pop(self.id, None)
        self.run.daemons.drop(self)
        if phase == "Succeeded":
            self.run.add_outputs(outputs)
            self.run.remember(self.node)
        self.end(phase, message)

    def _limit(self) -> timedelta | None:
        """How long it may take: the template's `activeDeadlineSeconds`, its `timeout`, what its retries have left."""
        limits = []
        seconds = self.template.get("activeDeadlineSeconds")
        if seconds is not None:
            limits.append(duration(seconds, "activeDeadlineSeconds"))
        if self.template.get("timeout"):
            limits.append(duration(self.template["timeout"], "timeout"))
        if self.deadline_seconds is not None:
            limits.append(timedelta(seconds=self.deadline_seconds))
        return min(limits, default=None)

    def _watched_limit(self) -> timedelta | None:
        try:
            if self.kind != "pod":
                return self._limit()
            return duration(self.template["timeout"], "timeout") if self.template.get("timeout") else None
        except Refused:
            return None

    def _watch_time(self) -> None:
        limit = self._watched_limit()
        if limit is not None:
            self.run.agenda.add_at(moment_of(self.node["startedAt"]) + limit, self)

    def _open_containers(self) -> None:
        containers = (self.template.get("containerSet") or {}).get("containers") or []
        for container in containers:
            name = f"{self.name}.{container['name']}"
            if self.run.tree.named(name) is None:
                node = self.run.new_node(name, "Container", "Pending", self.call.holder, self.call.context, self.id)
                if self.node.get("nodeFlag") is not None:
                    node["nodeFlag"] = self.node["nodeFlag"]
                self.run.tree.add(node)
        for container in containers:
            child = self.run.tree.id_of(f"{self.name}.{container['name']}")
            needs = container.get("dependencies") or []
            for parent in [f"{self.name}.{need}" for need in needs] or [self.name]:
                self.run.tree.link(self.run.tree.id_of(parent), child)

    def _note_containers(self, outcome: Outcome) -> None:
        for name, seen in outcome.containers.items():
            node = self.run.tree.named(f"{self.name}.{name}")
            if node is None or node["type"] != "Container" or is_ended(node):
                continue
            if seen.finished:
                self.run.tree.change(node["id"], finishedAt=seen.finished)
            self.run.tree.mark(node["id"], seen.phase, seen.message or None)

    def _end_containers(self, phase: Phase) -> None:
        """No container outlives its Pod."""
        for container in (self.template.get("containerSet") or {}).get("containers") or ():
            node = self.run.tree.named(f"{self.name}.{container['name']}")
            if node is not None and not is_ended(node):
                message = "" if phase == "Succeeded" else self.stopped or "Pod ended before the container did"
                self.run.tree.mark(node["id"], phase, message or None)
