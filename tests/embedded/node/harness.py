"""A node with real processes and a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.agent import Agent
from muster.embedded.node.supervisor.contract import Isolation
from muster.embedded.settings import AgentSettings
from muster.kube.builtin import EVENT, POD, new_catalogue
from muster.kube.cluster import LogQuery
from muster.kube.errors import NotFound
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, name_of, namespace_of, status_of
from tests.embedded.waiting import wait_until

SECONDS = 30.0


class Node:
    """A cluster with one node and no scheduler: Pods name the node themselves."""

    def __init__(self, home: Path, isolation: Isolation | None = None, **settings: Any) -> None:
        self.settings = AgentSettings(home=home / "agent", node_name="node", **settings)
        self.home = home
        self.isolation = isolation
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, **settings: Any) -> None:
        self.settings = replace(self.settings, **settings)
        self.cluster = EmbeddedCluster(self.home / "store", new_catalogue(), durability="process")
        await self.cluster.__aenter__()
        self.recorder = EventRecorder(self.cluster, "agent")
        self.agent = Agent(self.cluster, self.recorder, self.settings, isolation=self.isolation)
        self._tasks = [asyncio.create_task(self.recorder.run()), asyncio.create_task(self.agent.run())]
        ready = asyncio.create_task(self.agent.ready.wait())
        await asyncio.wait([ready, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._tasks[1]

    async def stop(self) -> None:
        """Stops the server; running Pods continue."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.recorder.flush()
        await self.cluster.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def clean_up(self) -> None:
        """Deletes all Pods, waits until their folders are removed, and stops."""
        for pod in (await self.cluster.list(POD)).items:
            await self.cluster.delete(POD, name_of(pod), namespace_of(pod), grace_seconds=0)
        await wait_until(lambda: not any(self.settings.pods.iterdir()))
        await self.stop()

    async def restart(self, **settings: Any) -> None:
        await self.stop()
        await self.start(**settings)

    async def create(self, name: str, *command: str, container: dict[str, Any] | None = None, **spec: Any) -> Object:
        """Creates a Pod on this node with one container `main` that is not restarted."""
        main = {"name": "main", "image": "img", "command": list(command) or ["true"], **(container or {})}
        metadata = {"name": name, "namespace": "default", **spec.pop("metadata", {})}
        body = {"nodeName": "node", "restartPolicy": "Never", "containers": [main], **spec}
        return await self.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body})

    async def put(self, kind: str, name: str, **body: Any) -> Object:
        metadata = {"name": name, "namespace": "default"}
        return await self.cluster.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, **body})

    async def get(self, name: str) -> Object:
        return await self.cluster.get(POD, name, "default")

    async def until(self, name: str, condition: Callable[[Object], object]) -> Object:
        """Returns the Pod as soon as the condition holds."""
        last: Object = {}
        try:
            async with asyncio.timeout(SECONDS):
                async for event in self.cluster.watch(POD, "default", fields=f"metadata.name={name}"):
                    last = event.object
                    if event.type != "DELETED" and condition(last):
                        return last
        except TimeoutError:
            raise AssertionError(f"{name} did not come to that; its status: {status_of(last)}") from None
        raise AssertionError("the watch ended")

    async def phase(self, name: str, *phases: str) -> Object:
        return await self.until(name, lambda pod: status_of(pod).get("phase") in phases)

    async def ended(self, name: str) -> Object:
        return await self.phase(name, "Succeeded", "Failed")

    async def gone(self, name: str) -> None:
        async with asyncio.timeout(SECONDS):
            async for event in self.cluster.watch(POD, "default", fields=f"metadata.name={name}"):
                if event.type == "DELETED":
                    return

    async def vanished(self, name: str) -> None:
        """Waits until the Pod is deleted; unlike `gone`, it may have been deleted before."""
        try:
            await self.get(name)
        except NotFound:
            return
        await self.gone(name)

    async def logs(self, name: str, **query: Any) -> str:
        pieces = [piece async for piece in self.cluster.logs(name, "default", LogQuery(**query))]
        return b"".join(pieces).decode()

    async def output(self, name: str, *command: str, **more: Any) -> str:
        """Returns what a Pod with this command prints."""
        await self.create(name, *command, **more)
        await self.ended(name)
        return await self.logs(name)

    async def events(self, name: str) -> list[str]:
        """Returns `Reason: message` of all events of a Pod, in order."""
        await self.recorder.flush()
        found = (await self.cluster.list(EVENT, "default")).items
        mine = [e for e in found if e["involvedObject"]["name"] == name]
        return [f"{e['reason']}: {e['message']}" for e in sorted(mine, key=name_of)]

    async def wait_until(self, condition: Callable[[], object]) -> None:
        await wait_until(condition)

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.cluster.delete(POD, name, "default", grace_seconds=grace)

    def folder(self, pod: Object) -> Path:
        return self.settings.pods / str(pod["metadata"]["uid"])


def container(pod: Object, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = status_of(pod)["containerStatuses"][index]
    return found


def waiting(pod: Object) -> dict[str, str]:
    statuses = status_of(pod).get("containerStatuses") or [{}]
    found: dict[str, str] = (statuses[0].get("state") or {}).get("waiting") or {}
    return found
