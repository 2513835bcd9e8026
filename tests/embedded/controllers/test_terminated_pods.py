from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.terminated_pods import (
    RECORDED_LABEL,
    TerminatedPodCollector,
    has_finished,
    pods_to_collect,
)
from muster.kube.builtin import JOB, POD, new_catalogue
from muster.kube.objects import Object, name_of


def pod(number: int, phase: str = "Succeeded", *, owned: bool = True, **metadata: Any) -> Object:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    found = {"ownerReferences": [owner]} if owned else {}
    name, created = f"p{number}", f"2026-01-01T00:00:{number:02}Z"
    return {
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": created, **found, **metadata},
        "status": {"phase": phase},
    }


RUNNING: Object = {"status": {"conditions": [{"type": "Complete", "status": "False"}]}}
DONE: Object = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}


@pytest.mark.parametrize(
    ("pods", "owner", "collected"),
    [
        pytest.param([pod(n) for n in range(3)], DONE, [], id="no more than may stay"),
        pytest.param([pod(n) for n in (4, 2, 3, 1, 5)], DONE, ["p1", "p2"], id="the oldest go first"),
        pytest.param([pod(n) for n in range(1, 6)], None, ["p1", "p2"], id="the owner is gone"),
        pytest.param([pod(n) for n in range(1, 6)], RUNNING, [], id="the owner is still at work"),
        pytest.param(
            [pod(n, labels={RECORDED_LABEL: str(n > 1).lower()}) for n in range(1, 6)],
            RUNNING,
            ["p2", "p3"],
            id="the owner is at work, but has recorded their outcome",
        ),
        pytest.param([pod(n, owned=False) for n in range(1, 6)], None, [], id="users' own Pods stay"),
        pytest.param([pod(n, finalizers=["x/y"]) for n in range(1, 6)], DONE, [], id="finalizers hold them"),
        pytest.param([pod(n, deletionTimestamp="x") for n in range(1, 6)], DONE, [], id="already being deleted"),
        pytest.param([pod(n, "Running") for n in range(1, 9)], DONE, [], id="running Pods do not count"),
        pytest.param([pod(n, "Failed") for n in range(1, 6)], DONE, ["p1", "p2"], id="failed Pods count"),
    ],
)
def test_which_pods_are_collected(pods: list[Object], owner: Object | None, collected: list[str]) -> None:
    assert [name_of(found) for found in pods_to_collect(pods, lambda _: owner, 3)] == collected


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ({"phase": "Succeeded"}, True),
        ({"phase": "Error"}, True),
        ({"phase": "Running"}, False),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, True),
        ({"conditions": [{"type": "Failed", "status": "False"}, {"type": "Running", "status": "True"}]}, False),
        ({"conditions": "odd"}, False),
        ({}, False),
    ],
)
def test_which_owners_have_finished(status: Object, finished: bool) -> None:
    assert has_finished({"status": status}) is finished


async def test_pods_of_a_finished_job_are_deleted_beyond_the_limit(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue()) as cluster:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        metadata: Object = {"name": "j", "namespace": "default"}
        job = await cluster.create({**_head(JOB), "metadata": metadata, "spec": {"template": template}})
        owner = {**_head(JOB), "name": "j", "uid": job["metadata"]["uid"], "controller": True}
        for number in range(5):
            metadata = {"name": f"p{number}", "namespace": "default", "ownerReferences": [owner]}
            made = await cluster.create({**_head(POD), "metadata": metadata, "spec": template["spec"]})
            await cluster.update({**made, "status": {"phase": "Succeeded"}}, subresource="status")
        collector = TerminatedPodCollector(cluster, 2)
        assert await collector.collect() == 0
        done = [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]
        job = await cluster.get(JOB, "j", "default")
        times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z"}
        await cluster.update({**job, "status": {"conditions": done, **times}}, subresource="status")
        assert await collector.collect() == 3
        assert len((await cluster.list(POD)).items) == 2


def _head(kind: Any) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind}
