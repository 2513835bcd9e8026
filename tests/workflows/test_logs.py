"""The lines of a workflow's Pods: none is lost, whenever the reader comes, and those of one moment stay in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.cluster import LogQuery
from muster.kube.errors import NotFound
from muster.kube.kinds import Catalogue
from muster.kube.objects import Object
from muster.workflows.kinds import WORKFLOW, workflow_kinds
from muster.workflows.logs import LogEntry, LogSelection, in_order, pod_name_of, read_log_lines
from muster.workflows.model import WORKFLOW_LABEL


class Logs:
    """What the node agent has of Pods, by name."""

    name = "node"

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}

    async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        if pod not in self.texts:
            raise NotFound(pod)
        yield self.texts[pod]

    async def usage(self) -> Any: ...

    def pods(self) -> Any: ...

    async def exec(self, *_: Any, **__: Any) -> Any: ...

    async def attach(self, *_: Any, **__: Any) -> Any: ...

    @contextmanager
    def forward(self, pod: str, namespace: str) -> Iterator[str]:
        yield ""

    def check_listener(self, pod: str, namespace: str, port: int) -> None: ...


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue: Catalogue = new_catalogue()
    for kind in workflow_kinds():
        catalogue.register(kind)
    async with EmbeddedCluster(tmp_path, catalogue, durability="process") as cluster:
        yield cluster


def entry(stamp: int, text: str, pod: str = "p") -> LogEntry:
    return LogEntry(f"2026-01-01T00:00:0{stamp}.000000000Z", pod, "main", text)


def test_lines_of_the_same_moment_stay_in_the_order_they_came_in() -> None:
    came = [entry(1, "b"), entry(1, "a"), entry(0, "z", "q"), entry(1, "c", "a"), entry(0, "y", "q")]
    assert [found.text for found in in_order(came)] == ["z", "y", "b", "a", "c"]


NODE = {"id": "flow", "name": "flow", "displayName": "flow", "type": "Pod", "templateName": "main"}


async def create(cluster: EmbeddedCluster, phase: str) -> Object:
    head = {"apiVersion": WORKFLOW.api_version, "kind": WORKFLOW.kind}
    container = {"name": "main", "container": {"image": "x", "command": ["true"]}}
    spec = {"entrypoint": "main", "templates": [container]}
    status = {"phase": phase, "nodes": {"flow": {**NODE, "phase": phase}}}
    return await cluster.create(
        {**head, "metadata": {"name": "flow", "namespace": "default"}, "spec": spec, "status": status}
    )


async def add_pod(cluster: EmbeddedCluster, name: str) -> None:
    metadata = {"name": name, "namespace": "default", "labels": {WORKFLOW_LABEL: "flow"}}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    made = await cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await cluster.update({**made, "status": {"phase": "Succeeded"}}, subresource="status")


@pytest.mark.parametrize("pod_stays", [True, False])
async def test_a_pod_that_appears_after_the_reader_is_read(cluster: EmbeddedCluster, pod_stays: bool) -> None:
    """Its node is there first; and it may be deleted before the reader looks again."""
    flow, logs = await create(cluster, "Pending"), Logs()
    cluster.node = logs
    pod = pod_name_of(flow, NODE)
    lines: list[str] = []

    async def read() -> None:
        wanted = LogSelection(query=LogQuery(follow=True))
        async for bunch in read_log_lines(cluster, cluster.with_status_rows(flow), wanted):
            lines.extend(found.text for found in bunch)

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.05)
    logs.texts[pod] = b"2026-01-01T00:00:00.000000000Z hello\n"
    if pod_stays:
        await add_pod(cluster, pod)
    now = await cluster.get(WORKFLOW, "flow", "default")
    status = {"phase": "Succeeded", "nodes": {"flow": {**NODE, "phase": "Succeeded"}}}
    await cluster.update({**now, "status": status})
    async with asyncio.timeout(10):
        await reading
    assert lines == ["hello"]
