"""The Job controller, with Pods that the test ends."""

from __future__ import annotations

from typing import Any

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import NamespaceController
from muster.embedded.controllers.jobs import TRACKING_FINALIZER, JobController
from muster.kube.builtin import JOB, NAMESPACE, POD
from muster.kube.events import EventRecorder
from muster.kube.objects import (
    Object,
    controller_of,
    is_condition_true,
    is_deleting,
    meta,
    name_of,
    status_of,
    uid_of,
)
from tests.embedded.waiting import run_components, wait_for, wait_for_all


def job(**spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["true"]}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": template, **spec},
    }


async def end(cluster: EmbeddedCluster, pod: Object, phase: str) -> None:
    change = {"status": {"phase": phase}}
    await cluster.patch(POD, name_of(pod), "default", change, subresource="status")


def finished(a_job: Object) -> bool:
    conditions = status_of(a_job).get("conditions")
    return is_condition_true(conditions, "Complete") or is_condition_true(conditions, "Failed")


def is_active(pod: Object) -> bool:
    return status_of(pod).get("phase") not in ("Succeeded", "Failed")


async def test_runs_pods_until_enough_have_succeeded(tidy_cluster: EmbeddedCluster) -> None:
    cluster = tidy_cluster
    async with run_components(JobController(cluster, EventRecorder(cluster, "job-controller"))):
        await cluster.create(job(completions=5, parallelism=2))
        for left in range(5, 0, -1):
            pods = await wait_for_all(cluster, POD, lambda pods: any(is_active(p) for p in pods))
            active = [p for p in pods if is_active(p)]
            assert len(active) <= min(2, left), "never more than parallelism and the work left"
            await end(cluster, active[0], "Succeeded")
        done = await wait_for(cluster, JOB, "j", lambda j: status_of(j).get("succeeded") == 5)
        assert is_condition_true(status_of(done)["conditions"], "Complete")
        assert status_of(done)["uncountedTerminatedPods"] == {}


async def test_fails_when_too_many_pods_have(tidy_cluster: EmbeddedCluster) -> None:
    cluster = tidy_cluster
    async with run_components(JobController(cluster, EventRecorder(cluster, "job-controller"))):
        await cluster.create(job(completions=5, parallelism=2, backoffLimit=0))
        pods = await wait_for_all(cluster, POD, lambda pods: len(pods) == 2)
        await end(cluster, pods[0], "Failed")
        done = await wait_for(cluster, JOB, "j", lambda j: finished(j) and status_of(j).get("failed", 0) >= 1)
        assert is_condition_true(status_of(done)["conditions"], "Failed")
        await wait_for_all(cluster, POD, lambda left: not any(is_active(p) for p in left))


async def test_pods_deleted_right_after_they_ended_still_count(tidy_cluster: EmbeddedCluster) -> None:
    cluster = tidy_cluster
    async with run_components(JobController(cluster, EventRecorder(cluster, "job-controller"))):
        await cluster.create(job())
        (pod,) = await wait_for_all(cluster, POD, lambda pods: len(pods) == 1)
        await end(cluster, pod, "Succeeded")
        await cluster.delete(POD, name_of(pod), "default")
        done = await wait_for(cluster, JOB, "j", lambda j: status_of(j).get("succeeded") == 1)
        assert finished(done)


async def test_deleting_a_job_takes_its_pods_along(tidy_cluster: EmbeddedCluster) -> None:
    cluster = tidy_cluster
    async with run_components(JobController(cluster, EventRecorder(cluster, "job-controller"))):
        await cluster.create(job(parallelism=3, completions=3))
        await wait_for_all(cluster, POD, lambda pods: len(pods) == 3)
        await cluster.delete(JOB, "j", "default")
        await wait_for_all(cluster, POD, lambda pods: not pods)


async def test_a_finished_job_is_deleted_after_its_ttl(tidy_cluster: EmbeddedCluster) -> None:
    cluster = tidy_cluster
    async with run_components(JobController(cluster, EventRecorder(cluster, "job-controller"))):
        await cluster.create(job(ttlSecondsAfterFinished=0))
        (pod,) = await wait_for_all(cluster, POD, lambda pods: len(pods) == 1)
        await end(cluster, pod, "Succeeded")
        await wait_for_all(cluster, JOB, lambda jobs: not jobs)
        await wait_for_all(cluster, POD, lambda pods: not pods)


async def test_pods_of_a_job_that_is_deleted_alone_stay_and_can_be_deleted(tidy_cluster: EmbeddedCluster) -> None:
    cluster = tidy_cluster
    recorder = EventRecorder(cluster, "job-controller")
    async with run_components(JobController(cluster, recorder), NamespaceController(cluster)):
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        wanted = job(parallelism=2, completions=2)
        await cluster.create({**wanted, "metadata": {"name": "j", "namespace": "team"}})
        before = await wait_for_all(cluster, POD, lambda pods: len(pods) == 2)
        await cluster.delete(JOB, "j", "team", propagation="Orphan")
        await wait_for_all(cluster, JOB, lambda jobs: not jobs)
        left = await wait_for_all(cluster, POD, lambda pods: all(not meta(p).get("finalizers") for p in pods))
        assert {uid_of(p) for p in left} == {uid_of(p) for p in before}
        assert all(controller_of(p) is None and not is_deleting(p) for p in left)
        await cluster.delete(NAMESPACE, "team")
        await wait_for_all(cluster, POD, lambda pods: not pods)
        await wait_for_all(cluster, NAMESPACE, lambda found: "team" not in map(name_of, found))


async def test_a_job_adopts_pods_that_match_and_lets_go_of_those_that_no_longer_do(
    tidy_cluster: EmbeddedCluster,
) -> None:
    cluster = tidy_cluster
    async with run_components(JobController(cluster, EventRecorder(cluster, "job-controller"))):
        made = await cluster.create(job(parallelism=1, completions=1))
        (pod,) = await wait_for_all(cluster, POD, lambda pods: len(pods) == 1)
        await cluster.patch(POD, name_of(pod), "default", {"metadata": {"ownerReferences": None, "finalizers": None}})
        adopted = await wait_for(cluster, POD, name_of(pod), lambda p: controller_of(p) is not None)
        assert (controller_of(adopted) or {})["uid"] == uid_of(made)
        assert meta(adopted)["finalizers"] == [TRACKING_FINALIZER]
        assert len((await cluster.list(POD)).items) == 1, "it needs no other Pod"

        await cluster.patch(POD, name_of(pod), "default", {"metadata": {"labels": None}})
        released = await wait_for(cluster, POD, name_of(pod), lambda p: controller_of(p) is None)
        assert "finalizers" not in meta(released)
        await wait_for_all(cluster, POD, lambda pods: len(pods) == 2)
