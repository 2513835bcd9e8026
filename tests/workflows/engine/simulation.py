"""Runs a workflow to its end without a cluster, with given outcomes and a simulated clock."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from muster.kube.objects import Object
from muster.workflows.engine.memoization import entry_text
from muster.workflows.engine.run import Run, advance_run
from muster.workflows.engine.synchronization import LockTable
from muster.workflows.engine.task_resolver import TaskResolver
from muster.workflows.model import Actions, Launch, Memo, Node, Outcome, WorkflowEvent

START = datetime(2026, 1, 1, tzinfo=UTC)
Answer = Callable[[Launch], Outcome]


@dataclass
class FakeView:
    now: datetime = START
    locks: LockTable = field(default_factory=LockTable)
    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    templates: dict[tuple[str, bool], Object] = field(default_factory=dict)
    restricted: bool = False

    def config_map(self, name: str) -> Mapping[str, str] | None:
        return self.config_maps.get(name)

    def cache(self, name: str) -> Mapping[str, str] | None:
        return self.config_maps.get(name)

    def template(self, name: str, *, cluster_scope: bool) -> Object | None:
        return self.templates.get((name, cluster_scope))


def succeed(launch: Launch) -> Outcome:
    return Outcome("Succeeded", exit_code=0)


class Simulation:
    """One workflow. `round` reports outcomes of everything launched; `finish` continues until nothing is left to do."""

    def __init__(
        self,
        workflow: Object | str,
        answer: Answer = succeed,
        *,
        view: FakeView | None = None,
        reload: bool = False,
        resolver_for: Callable[[Object], TaskResolver | None] = lambda workflow: None,
    ) -> None:
        self.resolver_for = resolver_for
        self.workflow = manifest(workflow) if isinstance(workflow, str) else workflow
        self.answer = answer
        self.view = view or FakeView()
        self.reload = reload
        """Reload the run from what was stored before every step."""
        self.stored: dict[str, Node] = {}
        self.open: dict[str, Launch] = {}
        self.launched: list[str] = []
        self.stopped: dict[str, bool] = {}
        self.news: list[WorkflowEvent] = []
        self.memos: list[Memo] = []
        self.wake: datetime | None = None
        self.steps = 0
        self.run = Run.load(self.workflow, {}, self.view, resolver=resolver_for(self.workflow))

    @property
    def phase(self) -> str:
        return str(self.run.status.get("phase"))

    @property
    def message(self) -> str:
        return str(self.run.status.get("message") or "")

    def step(self, outcomes: Mapping[str, Outcome] | None = None) -> Actions:
        if self.reload:
            self.restart()
        before = (
            {node_id: json.dumps(node, sort_keys=True) for node_id, node in self.stored.items()} if self.reload else {}
        )
        kept = dict(self.stored)
        actions = advance_run(self.run, outcomes or {}, self.view)
        self.steps += 1
        for node_id, text in before.items():
            assert json.dumps(kept[node_id], sort_keys=True) == text, "a node that was handed out has been changed"
        self.stored.update({node_id: self.run.nodes[node_id] for node_id in actions.changed})
        if self.reload:
            assert self.stored == self.run.nodes, "changed nodes were not told"
        if actions.status is not None:
            self.workflow = {**self.workflow, "status": actions.status}
        for memo in actions.remember:
            self.memos.append(memo)
            self.view.config_maps.setdefault(memo.cache, {})[memo.key] = entry_text(memo, self.view.now)
        for launch in actions.launch:
            assert "{{" not in json.dumps(launch.node.get("inputs", {})) or launch.node["phase"]
            self.open[launch.node["id"]] = launch
            self.launched.append(launch.node["name"])
        for stop in actions.stop:
            self.stopped[stop.node] = stop.force
        self.news += actions.news
        self.wake = actions.wake
        return actions

    def restart(self) -> None:
        stored = json.loads(json.dumps(self.stored))
        workflow = json.loads(json.dumps(self.workflow))
        self.run = Run.load(workflow, stored, self.view, resolver=self.resolver_for(workflow))
        for node_id in self.run.unfinished():
            again = self.run.launch(node_id)
            assert again.pod_name == self.open[node_id].pod_name if node_id in self.open else True

    def round(self) -> None:
        """Reports outcomes of what is open, in one step; if nothing is open, lets time pass."""
        outcomes: dict[str, Outcome] = {}
        for node_id in list(self.open):
            launch = self.open[node_id]
            if node_id in self.stopped:
                outcomes[node_id] = Outcome("Failed", "stopped", exit_code=143)
                del self.open[node_id]
                continue
            outcome = self.answer(replace(launch, node=self.run.nodes[node_id]))
            if outcome.phase in ("Pending", "Running"):
                node = self.run.nodes[node_id]
                if node["phase"] != outcome.phase or (outcome.ready and not node.get("daemoned")):
                    outcomes[node_id] = outcome
                continue
            outcomes[node_id] = outcome
            del self.open[node_id]
        for node_id in [n for n in self.stopped if n not in outcomes]:
            self.open.pop(node_id, None)
        if not outcomes and self.wake is not None:
            self.view.now = max(self.view.now, self.wake)
        self.view.now += timedelta(seconds=1)
        self.step(outcomes)

    def finish(self, most: int = 2000) -> Simulation:
        self.step()
        for _ in range(most):
            if self.run.finished:
                break
            before = (self.steps, len(self.open), self.wake)
            self.round()
            idle = not self.open and self.wake is None and not self.run.finished
            if idle and before[1:] == (0, None):
                break
        return self

    # -- results
    # ---------------------------------------------------------------------------------------------------------

    def node(self, display: str) -> Node:
        """Returns the node with this display name, or whose name ends with it."""
        found = [n for n in self.run.nodes.values() if n["displayName"] == display or n["name"] == display]
        assert len(found) == 1, f"{display}: {sorted(n['displayName'] for n in self.run.nodes.values())}"
        return found[0]

    def phases(self) -> dict[str, str]:
        return {n["displayName"]: n["phase"] for n in self.run.nodes.values()}

    def names(self) -> dict[str, str]:
        return {n["name"]: n["phase"] for n in self.run.nodes.values()}


def manifest(text: str, name: str = "wf") -> Object:
    """Returns a Workflow from its YAML, or from the YAML of its spec."""
    found: Any = yaml.safe_load(text)
    if "kind" not in found:
        found = {"spec": found.get("spec", found)}
    found = copy.deepcopy(found)
    metadata = found.setdefault("metadata", {})
    metadata.update({"name": metadata.get("name") or name, "namespace": metadata.get("namespace") or "default"})
    metadata.setdefault("uid", "11111111-2222-3333-4444-555555555555")
    metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", **found}


def run_to_end(text: Object | str, answer: Answer = succeed, *, view: FakeView | None = None) -> Simulation:
    return Simulation(text, answer, view=view).finish()


def by_node(outcomes: Mapping[str, Outcome | list[Outcome]], default: Outcome | None = None) -> Answer:
    """Returns outcomes by display name; a list is used from the front."""
    left = {name: list(o) if isinstance(o, list) else [o] for name, o in outcomes.items()}

    def answer(launch: Launch) -> Outcome:
        found = left.get(launch.node["displayName"])
        if not found:
            return default or Outcome("Succeeded", exit_code=0)
        return found.pop(0) if len(found) > 1 else found[0]

    return answer


def failed(message: str = "Error (exit code 1)", exit_code: int = 1) -> Outcome:
    return Outcome("Failed", message, exit_code=exit_code)


def result(text: str) -> Outcome:
    return Outcome("Succeeded", exit_code=0, outputs={"result": text})


def parameters(**values: str) -> Outcome:
    listed = [{"name": name.replace("_", "-"), "value": value} for name, value in values.items()]
    return Outcome("Succeeded", exit_code=0, outputs={"parameters": listed})
