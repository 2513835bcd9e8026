"""An embedded cluster that runs Pods, and a substitute for the controller that launches leaves and records the
reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.box import Box
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.operations import AgentFiles
from muster.kube.builtin import POD, new_catalogue
from muster.kube.errors import NotFound
from muster.kube.objects import Key, Object, name_of, namespace_of
from muster.server.settings import Settings
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.executors.pod import PodExecutor
from muster.workflows.kinds import WORKFLOW
from muster.workflows.model import Launch, Node, Outcome

ISOLATION, WHY = probe_isolation()
SECONDS = 30.0


def launch_of(name: str, template: dict[str, Any], *, wants_result: bool = False) -> Launch:
    node = Node(id=f"wf-{name}", name=f"wf.{name}", displayName=name, type="Pod", phase="Pending")
    return Launch(node, "pod", {"name": name, **template}, f"wf-{name}", wants_result)


def shell(script: str, **more: Any) -> dict[str, Any]:
    return {"container": {"image": "busybox", "command": ["sh", "-ec", script], **more}}


class Stage:
    """One workflow, `wf`, whose leaves the test launches."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.reports: dict[str, list[Outcome]] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        settings = Settings.load(self.home)
        catalogue = new_catalogue()
        catalogue.register(WORKFLOW)
        self.box = Box(settings, catalogue)
        await self.box.__aenter__()
        self.box.start(isolation=ISOLATION)
        self.cluster: EmbeddedCluster = self.box.cluster
        self.artifacts = ArtifactClient(self.cluster, self.home / "workflows")
        self.leaves = PodExecutor(
            self.cluster,
            self._note,
            files=AgentFiles(settings.agent),
            home=self.home / "workflows",
            artifacts=self.artifacts,
        )
        self._task = asyncio.create_task(self.leaves.run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.box.__aexit__()

    async def restart(self) -> None:
        """Restarts as after a kill: only the store and the disk are kept."""
        await self.stop()
        self.reports.clear()
        await self.start()

    async def workflow(self, **spec: Any) -> Object:
        metadata = {"name": "wf", "namespace": "default"}
        body = {"entrypoint": "main", "templates": [{"name": "main", "suspend": {}}], **spec}
        return await self.cluster.create(
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": body}
        )

    async def launch(self, workflow: Object, launch: Launch, *, begun: bool = False) -> None:
        await self.leaves.launch(workflow, workflow["spec"], launch, begun=begun)

    async def run(
        self, name: str, template: dict[str, Any], *, workflow: Object | None = None, wants_result: bool = False
    ) -> Outcome:
        """Returns the final outcome of a leaf."""
        workflow = workflow or await self._its_workflow()
        await self.launch(workflow, launch_of(name, template, wants_result=wants_result))
        return await self.end(name)

    async def end(self, name: str) -> Outcome:
        return await self.until(name, "Succeeded", "Failed", "Error")

    async def until(self, name: str, *phases: str) -> Outcome:
        return await self.told(name, lambda outcome: outcome.phase in phases)

    async def told(self, name: str, condition: Callable[[Outcome], bool]) -> Outcome:
        """Returns the first report for which this holds."""
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    for outcome in self.reports.get(f"wf-{name}", []):
                        if condition(outcome):
                            return outcome
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{name} did not come to that: {self.reports.get(f'wf-{name}')}") from None

    async def printed(self, name: str, text: bytes) -> bytes:
        """Returns the log of a Pod once it contains this text."""
        async with asyncio.timeout(SECONDS):
            while True:
                found = b"".join([block async for block in self.cluster.logs(f"wf-{name}", "default")])
                if text in found:
                    return found
                await asyncio.sleep(0.02)

    async def pod(self, name: str) -> Object:
        return await self.cluster.get(POD, f"wf-{name}", "default")

    async def gone(self, name: str) -> None:
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    await self.pod(name)
                except NotFound:
                    return
                await asyncio.sleep(0.02)

    async def _its_workflow(self) -> Object:
        try:
            return await self.cluster.get(WORKFLOW, "wf", "default")
        except NotFound:
            return await self.workflow()

    def _note(self, workflow: Key, node: str, outcome: Outcome) -> None:
        assert workflow == Key("default", "wf")
        self.reports.setdefault(node, []).append(outcome)
        self._news.set()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    if ISOLATION == "none":
        pytest.skip(WHY)
    found = Stage(tmp_path)
    await found.start()
    yield found
    for pod in (await found.cluster.list(POD)).items:
        await found.cluster.delete(POD, name_of(pod), namespace_of(pod), grace_seconds=0)
    pods = found.box.settings.agent.pods
    for _ in range(int(SECONDS / 0.02)):
        if not any(pods.iterdir()):
            break
        await asyncio.sleep(0.02)
    await found.stop()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with asyncio.timeout(60), EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        yield cluster
