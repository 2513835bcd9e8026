"""A cluster with the workflow controller, and executors that do nothing: the test decides the outcomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.budgets import Budgets
from muster.kube.builtin import CONFIG_MAP, new_catalogue
from muster.kube.errors import ApiError, NotFound
from muster.kube.objects import Key, Object, name_of, status_of
from muster.workflows.controller import WorkflowController
from muster.workflows.kinds import WORKFLOW, workflow_kinds
from muster.workflows.lint import find_problems
from muster.workflows.metrics import MetricRegistry
from muster.workflows.model import Launch, Node, Outcome, Outputs, ReportOutcome

SECONDS = 30.0


class FakeExecutor:
    """The `Executor` of every kind. Nodes are identified by their display name."""

    def __init__(self) -> None:
        self.report: ReportOutcome = lambda workflow, node, outcome: None
        self.launched: list[str] = []
        self.begun: list[str] = []
        """Those that were launched as already running."""
        self.stopped: list[tuple[str, bool]] = []
        self.kept: list[list[str]] = []
        """The nodes that were kept, for each call of stop_others."""
        self.trouble: ApiError | None = None
        """The error of every launch."""
        self.failed = 0
        self._names: dict[str, str] = {}
        self._nodes: dict[tuple[str, str], str] = {}

    async def launch(self, workflow: Object, spec: Object, launch: Launch, *, begun: bool) -> None:
        name = launch.node["displayName"]
        if self.trouble is not None:
            self.failed += 1
            raise self.trouble
        self._names[launch.node["id"]] = name
        self._nodes[name_of(workflow), name] = launch.node["id"]
        (self.begun if begun else self.launched).append(name)

    async def stop(self, workflow: Object, node: Node, *, force: bool) -> None:
        self.stopped.append((node["displayName"], force))

    def recorded(self, workflow: Object, nodes: Collection[str]) -> None:
        return

    async def stop_others(self, workflow: Object, nodes: Collection[str]) -> None:
        self.kept.append([self._names.get(node, node) for node in nodes])

    async def run(self) -> None:
        await asyncio.Event().wait()

    def tell(
        self,
        workflow: str,
        node: str,
        phase: Literal["Pending", "Running", "Succeeded", "Failed", "Error"] = "Succeeded",
        message: str = "",
        **values: str,
    ) -> None:
        """Reports the outcome of a leaf; `values` are its output parameters."""
        parameters = [{"name": name, "value": value} for name, value in values.items()]
        outputs = Outputs(parameters=list(parameters)) if parameters else Outputs()
        self.report(Key("default", workflow), self._nodes[workflow, node], Outcome(phase, message, outputs=outputs))


class RecordedEvents:
    """Recorded events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def event(
        self,
        about: Object,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        self.events.append((reason, message))


class Stage:
    def __init__(self, cluster: EmbeddedCluster, budgets: Budgets) -> None:
        self.cluster = cluster
        self.budgets = budgets
        self.recorder = RecordedEvents()
        self.executor = FakeExecutor()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        hands = self.executor = FakeExecutor()

        def leaves(report: ReportOutcome) -> dict[str, FakeExecutor]:
            hands.report = report
            return {"pod": hands}

        controller = WorkflowController(
            self.cluster, self.recorder, leaves, find_problems, MetricRegistry(), self.budgets
        )
        self._task = asyncio.create_task(controller.run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def restart(self) -> None:
        """Restarts as after a kill: only the store is kept."""
        await self.stop()
        self.start()

    async def create(
        self, name: str, *templates: Object, labels: Mapping[str, str] | None = None, **spec: Any
    ) -> Object:
        """The first template is the entrypoint."""
        return await self.cluster.create({
            "apiVersion": WORKFLOW.api_version,
            "kind": "Workflow",
            "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
            "spec": {"entrypoint": templates[0]["name"], "templates": [*templates], **spec},
        })  # fmt: skip

    async def patch(self, name: str, patch: Object) -> Object:
        return await self.cluster.patch(WORKFLOW, name, "default", patch)

    async def limit(self, limit: int) -> None:
        """The limit of the semaphore."""
        body = {"data": {"gpus": str(limit)}}
        try:
            await self.cluster.patch(CONFIG_MAP, "limits", "default", body)
        except NotFound:
            metadata = {"name": "limits", "namespace": "default"}
            await self.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **body})

    def workflow(self, name: str) -> Object:
        """Returns the workflow as it is now, with its nodes."""
        found = self.cluster.store.get(WORKFLOW.resource, Key("default", name))
        assert found is not None
        return self.cluster.with_status_rows(found, WORKFLOW)

    def phase(self, name: str, node: str = "") -> str:
        if not node:
            return str(status_of(self.workflow(name)).get("phase") or "")
        nodes = (status_of(self.workflow(name)).get("nodes") or {}).values()
        return next((str(n["phase"]) for n in nodes if n["displayName"] == node), "")

    async def until(self, so: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
        deadline = time.monotonic() + SECONDS
        while not so():
            assert time.monotonic() < deadline, f"that did not come: {what()}; launched: {self.executor.launched}"
            await asyncio.sleep(0.002)

    async def launched(self, *names: str) -> None:
        """Waits until exactly these have been launched."""
        await self.until(lambda: sorted(self.executor.launched) == sorted(names), lambda: names)

    async def number_launched(self, number: int) -> None:
        """Waits for at least so many."""
        await self.until(lambda: len(self.executor.launched) >= number, lambda: number)

    async def ended(self, name: str) -> str:
        await self.until(lambda: self.phase(name) in ("Succeeded", "Failed", "Error"), lambda: self.workflow(name))
        return self.phase(name)

    async def settled(self) -> None:
        """Waits until the effects of all reports so far are visible."""
        marker = f"marker-{time.monotonic_ns()}"
        refused = {"workflowTemplateRef": {"name": "none"}, "templates": None, "entrypoint": None}
        await self.create(marker, task(), **refused)
        await self.ended(marker)


@asynccontextmanager
async def stage(home: Path, budgets: Budgets | None = None) -> AsyncIterator[Stage]:
    catalogue = new_catalogue()
    for kind in workflow_kinds():
        catalogue.register(kind)
    async with EmbeddedCluster(home / "store", catalogue, durability="process") as cluster:
        found = Stage(cluster, budgets or Budgets())
        found.start()
        yield found
        await found.stop()


def task(name: str = "task", **more: Any) -> Object:
    return {"name": name, "container": {"image": "busybox", "command": ["true"]}, **more}


def dag(*tasks: Object) -> Object:
    return {"name": "main", "dag": {"tasks": [{"template": "task", **each} for each in tasks]}}
