"""The training controller on a real store. The test plays the node."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import GarbageCollector
from muster.embedded.port_leases import PORT_LEASE, PortLeases
from muster.kube.builtin import CONFIG_MAP, EVENT, POD, POD_GROUP, ROLE, SERVICE, new_catalogue
from muster.kube.cluster import Listing
from muster.kube.errors import Invalid
from muster.kube.events import EventRecorder
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Object,
    annotations_of,
    is_deleting,
    name_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.training.controller import TrainingController
from muster.training.gang import GangSettings
from muster.training.kinds.paddlecloud import ETCD_ANNOTATION
from muster.training.kinds.pytorch import PyTorch
from muster.training.model import RESTART_SCOPE
from muster.training.registry import JOB_KINDS, training_kinds
from muster.training.replicas import RESTARTS_ANNOTATION
from tests.embedded.waiting import run_components, wait_for, wait_for_all
from tests.http_server import serve_http
from tests.training.sample_jobs import training_job

KINDS = {(kind.api_version, kind.kind): kind for kind in training_kinds()}
PYTORCH = KINDS["kubeflow.org/v1", "PyTorchJob"]
JAX = KINDS["kubeflow.org/v1", "JAXJob"]
MPI = KINDS["kubeflow.org/v1", "MPIJob"]
PADDLE = KINDS["batch.paddlepaddle.org/v1", "PaddleJob"]
NAMES = ["job-master-0", "job-worker-0", "job-worker-1"]


@asynccontextmanager
async def controlling(cluster: EmbeddedCluster, gang: GangSettings = GangSettings()) -> AsyncIterator[None]:  # noqa: B008
    recorder = EventRecorder(cluster, "training-controller")
    controller = TrainingController(cluster, recorder, JOB_KINDS, gang)
    async with run_components(controller, recorder, GarbageCollector(cluster)):
        yield


def pytorch(roles: Mapping[str, Any] | None = None, **more: Any) -> Object:
    wanted = roles or {"Master": 1, "Worker": 2}
    job = training_job("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "pytorch", wanted, **more)
    return {**job, "metadata": {"name": "job", "namespace": "default"}}


def annotated(obj: Object, annotations: Mapping[str, str]) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "annotations": dict(annotations)}}


def have(*names: str) -> Callable[[list[Object]], bool]:
    """Exactly these names, none of them being deleted."""
    return lambda found: sorted(name_of(o) for o in found) == sorted(names) and not any(map(is_deleting, found))


def is_in(state: str) -> Callable[[Object], bool]:
    """By the State column."""
    return lambda job: (status_of(job).get("conditions") or [{}])[-1].get("type") == state


async def say(cluster: EmbeddedCluster, pod: str, phase: str, code: int | None = None) -> None:
    container = {"name": "pytorch", "image": "i", "imageID": "", "ready": phase == "Running", "restartCount": 0}
    status: Object = {"phase": phase}
    if code is not None:
        ended = {"exitCode": code, "reason": "Error", "finishedAt": timestamp()}
        status["containerStatuses"] = [{**container, "state": {"terminated": ended}}]
    await cluster.patch(POD, pod, "default", {"status": status}, subresource="status")


async def all_run(cluster: EmbeddedCluster, *names: str) -> None:
    for name in names or NAMES:
        await say(cluster, name, "Running")


async def told(cluster: EmbeddedCluster, reason: str) -> str:
    """Returns the message of the event with that reason."""
    (event, *_) = [
        event
        for event in await wait_for_all(cluster, EVENT, lambda found: any(e["reason"] == reason for e in found))
        if event["reason"] == reason
    ]
    return str(event["message"])


async def test_a_job_from_its_submission_to_its_end(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(pytorch(runPolicy={"cleanPodPolicy": "Running"}))
        pods = await wait_for_all(cluster, POD, have(*NAMES))
        await wait_for_all(cluster, SERVICE, have(*NAMES))
        ports = {
            env["value"] for p in pods for env in p["spec"]["containers"][0]["env"] if env["name"] == "MASTER_PORT"
        }
        assert len(ports) == 1, "all have the same port"
        await wait_for(cluster, PYTORCH, "job", is_in("Created"))

        await all_run(cluster)
        job = await wait_for(
            cluster,
            PYTORCH,
            "job",
            lambda j: is_in("Running")(j) and status_of(j)["replicaStatuses"]["Worker"].get("active") == 2,
        )
        assert status_of(job)["replicaStatuses"]["Master"] == {
            "active": 1,
            "selector": "training.kubeflow.org/job-name=job,training.kubeflow.org/operator-name=pytorchjob-controller,"
            "training.kubeflow.org/replica-type=master",
        }

        await say(cluster, "job-master-0", "Succeeded")
        job = await wait_for(cluster, PYTORCH, "job", is_in("Succeeded"))
        assert [(c["type"], c["status"], c["reason"]) for c in status_of(job)["conditions"]] == [
            ("Created", "True", "PyTorchJobCreated"),
            ("Running", "False", "PyTorchJobRunning"),
            ("Succeeded", "True", "PyTorchJobSucceeded"),
        ]
        assert status_of(job)["completionTime"] >= status_of(job)["startTime"]
        await wait_for_all(cluster, POD, have("job-master-0"))
        await wait_for_all(cluster, SERVICE, have("job-master-0"))
        created = "Created 3 services and pods: job-master-0, job-worker-0, job-worker-1"
        assert await told(cluster, "SuccessfulCreatePod") == created, "one event for all of it"
        assert await told(cluster, "PyTorchJobRunning")
        assert await told(cluster, "PyTorchJobSucceeded") == "PyTorchJob default/job successfully completed."
        assert await told(cluster, "SuccessfulDeletePod")


async def test_nothing_is_written_when_nothing_has_changed(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(pytorch())
        await wait_for_all(cluster, POD, have(*NAMES))
        await all_run(cluster)
        job = await wait_for(
            cluster,
            PYTORCH,
            "job",
            lambda j: (status_of(j).get("replicaStatuses") or {}).get("Worker", {}).get("active") == 2,
        )
        # Causes a reconcile, and a later change that shows that it has happened.
        await cluster.patch(POD, "job-worker-0", "default", {"metadata": {"labels": {"seen": "yes"}}})
        await cluster.create({**pytorch(), "metadata": {"name": "next", "namespace": "default"}})
        await wait_for(cluster, PYTORCH, "next", is_in("Created"))
        assert version_of(await cluster.get(PYTORCH, "job", "default")) == version_of(job)


async def test_a_failed_member_is_replaced_and_the_restart_was_counted_first(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(pytorch(runPolicy={"backoffLimit": 1}))
        pods = {name_of(p): uid_of(p) for p in await wait_for_all(cluster, POD, have(*NAMES))}
        await all_run(cluster)
        await say(cluster, "job-worker-1", "Failed", 137)
        await wait_for(cluster, POD, "job-worker-1", lambda p: uid_of(p) != pods["job-worker-1"])
        job = await cluster.get(PYTORCH, "job", "default")
        assert json.loads(annotations_of(job)[RESTARTS_ANNOTATION]) == {"worker-1": 1}
        restarting = await told(cluster, "PyTorchJobRestarting")
        assert restarting == "restarting worker-1 after Pod job-worker-1, container pytorch: exit code 137 (Error)"
        now = {name_of(p): uid_of(p) for p in await wait_for_all(cluster, POD, have(*NAMES))}
        assert {name for name in NAMES if now[name] != pods[name]} == {"job-worker-1"}

        await say(cluster, "job-worker-1", "Failed", 3)
        job = await wait_for(cluster, PYTORCH, "job", is_in("Failed"))
        message = status_of(job)["conditions"][-1]["message"]
        assert "backoff limit (1)" in message
        assert "Pod job-worker-1, container pytorch: exit code 3" in message
        assert await told(cluster, "PyTorchJobBackoffLimitExceeded") == message


async def test_the_whole_gang_starts_again_elsewhere(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(annotated(pytorch(), {RESTART_SCOPE: "gang"}))
        pods = await wait_for_all(cluster, POD, have(*NAMES))
        before = {uid_of(pod) for pod in pods}
        await all_run(cluster)
        await say(cluster, "job-worker-0", "Failed", 1)
        new = await wait_for_all(
            cluster, POD, lambda found: have(*NAMES)(found) and not before & {uid_of(p) for p in found}
        )
        assert len({_port(pod) for pod in (*pods, *new)}) == 2, "one port before, another one now"
        job = await cluster.get(PYTORCH, "job", "default")
        assert json.loads(annotations_of(job)[RESTARTS_ANNOTATION]) == {"gang": 1}


def _port(pod: Object) -> str:
    return next(str(e["value"]) for e in pod["spec"]["containers"][0]["env"] if e["name"] == "MASTER_PORT")


async def test_no_member_of_a_gang_exists_before_there_is_room_for_all(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster, GangSettings(always=True)):
        await cluster.create(pytorch())
        group = await wait_for(cluster, POD_GROUP, "job", lambda g: True)
        assert (spec_of(group)["minMember"], spec_of(group)["queue"]) == (3, "default")
        for phase in ("Pending", "Inqueue"):
            assert (await cluster.list(POD)).items == []
            await cluster.patch(POD_GROUP, "job", "default", {"status": {"phase": phase}}, subresource="status")
        pods = await wait_for_all(cluster, POD, have(*NAMES))
        assert {p["spec"]["schedulerName"] for p in pods} == {"volcano"}
        assert {annotations_of(p)["scheduling.k8s.io/group-name"] for p in pods} == {"job"}
        await say(cluster, "job-master-0", "Succeeded")
        await wait_for_all(cluster, POD_GROUP, have())


async def test_the_users_own_group_is_honoured_and_stays(cluster: EmbeddedCluster) -> None:
    theirs = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    await cluster.create(theirs)
    async with controlling(cluster, GangSettings(always=True)):
        await cluster.create(pytorch())
        await wait_for(cluster, PYTORCH, "job", is_in("Created"))
        assert (await cluster.list(POD)).items == []
        await cluster.patch(POD_GROUP, "job", "default", {"status": {"phase": "Inqueue"}}, subresource="status")
        await wait_for_all(cluster, POD, have(*NAMES))
        await say(cluster, "job-master-0", "Succeeded")
        await wait_for(cluster, PYTORCH, "job", is_in("Succeeded"))
        group = await cluster.get(POD_GROUP, "job", "default")
        assert spec_of(group)["minMember"] == 2


async def test_suspending_and_resuming(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(pytorch(runPolicy={"suspend": True}))
        await wait_for(cluster, PYTORCH, "job", is_in("Suspended"))
        assert (await cluster.list(POD)).items == []
        await cluster.patch(PYTORCH, "job", "default", {"spec": {"runPolicy": {"suspend": False}}})
        pods = await wait_for_all(cluster, POD, have(*NAMES))
        await all_run(cluster)
        await wait_for(cluster, PYTORCH, "job", is_in("Running"))
        await cluster.patch(PYTORCH, "job", "default", {"spec": {"runPolicy": {"suspend": True}}})
        await wait_for_all(cluster, POD, have())
        await wait_for_all(cluster, SERVICE, have())
        job = await wait_for(cluster, PYTORCH, "job", is_in("Suspended"))
        assert "startTime" not in status_of(job)
        await cluster.patch(PYTORCH, "job", "default", {"spec": {"runPolicy": {"suspend": False}}})
        again = await wait_for_all(cluster, POD, have(*NAMES))
        assert {_port(p) for p in pods}.isdisjoint({_port(p) for p in again})
        for reason in ("PyTorchJobSuspended", "PyTorchJobResumed"):
            assert await told(cluster, reason)


async def test_a_deadline_ends_a_job_and_a_ttl_deletes_it(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        policy = {"activeDeadlineSeconds": 1, "cleanPodPolicy": "None"}
        await cluster.create(pytorch(runPolicy=policy))
        job = await wait_for(cluster, PYTORCH, "job", is_in("Failed"))
        assert "longer than specified deadline" in status_of(job)["conditions"][-1]["message"]
        await wait_for_all(cluster, POD, have())
        await cluster.patch(PYTORCH, "job", "default", {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 1}}})
        await wait_for_all(cluster, PYTORCH, have())


async def test_a_new_controller_goes_on_where_the_old_one_was(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(pytorch())
        before = await wait_for_all(cluster, POD, have(*NAMES))
    # While no controller runs: one has run, one has ended, one is deleted.
    await say(cluster, "job-master-0", "Running")
    await say(cluster, "job-worker-1", "Failed", 137)
    await cluster.delete(POD, "job-worker-0", "default", grace_seconds=0)
    async with controlling(cluster):
        gone = {uid_of(p) for p in before if name_of(p) != "job-master-0"}
        after = await wait_for_all(
            cluster, POD, lambda found: have(*NAMES)(found) and not gone & {uid_of(p) for p in found}
        )
        assert {_port(p) for p in before} == {_port(p) for p in after}, "those that kept running must find the new ones"
        await wait_for(cluster, PYTORCH, "job", is_in("Running"))


@pytest.mark.parametrize("kind", [POD, SERVICE])
async def test_objects_of_other_owners_are_left_alone_and_named(cluster: EmbeddedCluster, kind: Kind) -> None:
    meta = {"name": "job-worker-1", "namespace": "default"}
    spec = {"ports": [{"port": 80}]} if kind is SERVICE else {"containers": [{"name": "x", "image": "x"}]}
    theirs = await cluster.create({"apiVersion": "v1", "kind": kind.kind, "metadata": meta, "spec": spec})
    async with controlling(cluster):
        await cluster.create(pytorch())
        message = await told(cluster, f"FailedCreate{kind.kind}")
        assert message == (
            f"{kind.singular} job-worker-1 already exists and belongs to something else; delete or rename it"
        )
        assert uid_of(await cluster.get(kind, "job-worker-1", "default")) == uid_of(theirs)
        await cluster.delete(kind, "job-worker-1", "default", grace_seconds=0)
        await wait_for_all(cluster, POD, have(*NAMES))


async def test_a_template_that_makes_no_pods_is_refused_at_once(cluster: EmbeddedCluster) -> None:
    job = pytorch({"Worker": 1})
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"] = [{"name": "Not_A_Name"}]
    with pytest.raises(Invalid, match=r"spec\.pytorchReplicaSpecs\.Worker\.template\.spec\.volumes\[0\]\.name"):
        await cluster.create(job)


async def test_pods_the_cluster_refuses_are_explained(cluster: EmbeddedCluster) -> None:
    job = pytorch({"Worker": 1})
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] = {"labels": {"a": "no label!"}}
    async with controlling(cluster):
        await cluster.create(job)
        assert "metadata.labels" in await told(cluster, "FailedCreatePod")


async def test_a_wrong_job_on_a_cluster_that_does_not_check_it_fails_and_says_why(cluster: EmbeddedCluster) -> None:
    cluster.catalogue.register(PyTorch.kind)  # the schema alone, as in a CustomResourceDefinition
    async with controlling(cluster):
        await cluster.create(pytorch({"Master": 2}))
        job = await wait_for(cluster, PYTORCH, "job", is_in("Failed"))
        message = status_of(job)["conditions"][-1]["message"]
        assert message == "spec.pytorchReplicaSpecs.Master.replicas: must be 1: there is one master"
        assert await told(cluster, "PyTorchJobInvalid") == message
        assert (await cluster.list(POD)).items == []


async def test_scaling_within_the_bounds(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(pytorch({"Worker": 2}, elasticPolicy={"minReplicas": 1, "maxReplicas": 3}))
        await wait_for_all(cluster, POD, have("job-worker-0", "job-worker-1"))
        await cluster.patch(PYTORCH, "job", "default", {"spec": {"replicas": 3}}, subresource="scale")
        await wait_for_all(cluster, POD, have("job-worker-0", "job-worker-1", "job-worker-2"))
        await cluster.patch(PYTORCH, "job", "default", {"spec": {"replicas": 1}}, subresource="scale")
        await wait_for_all(cluster, POD, have("job-worker-0"))
        await wait_for_all(cluster, SERVICE, have("job-worker-0"))
        with pytest.raises(Invalid, match=r"4 is more than elasticPolicy\.maxReplicas, 3"):
            await cluster.patch(PYTORCH, "job", "default", {"spec": {"replicas": 4}}, subresource="scale")


async def test_metrics_need_a_cluster_that_can_autoscale(cluster: EmbeddedCluster) -> None:
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]
    async with controlling(cluster):
        await cluster.create(pytorch({"Worker": 1}, elasticPolicy={"maxReplicas": 3, "metrics": metrics}))
        assert "no HorizontalPodAutoscaler" in await told(cluster, "NoAutoscaler")
        await wait_for_all(cluster, POD, have("job-worker-0"))


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
async def test_an_mpi_launcher_waits_for_its_workers(cluster: EmbeddedCluster, version: str) -> None:
    job = training_job(f"kubeflow.org/{version}", "MPIJob", "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 2})
    async with controlling(cluster, GangSettings(always=True)):
        await cluster.create({**job, "metadata": {"name": "job", "namespace": "default"}})
        group = await wait_for(cluster, POD_GROUP, "job", lambda g: True)
        assert spec_of(group)["minMember"] == 2, "the launcher comes later: a gang that waits for it would never run"
        await cluster.patch(POD_GROUP, "job", "default", {"status": {"phase": "Inqueue"}}, subresource="status")
        await wait_for_all(cluster, POD, have("job-worker-0", "job-worker-1"))
        await all_run(cluster, "job-worker-0", "job-worker-1")
        await wait_for_all(cluster, POD, have("job-launcher", "job-worker-0", "job-worker-1"))
        files = (await cluster.get(CONFIG_MAP, "job-config", "default"))["data"]
        assert files["hostfile"] == "job-worker-0 slots=1\njob-worker-1 slots=1\n"

        scaled = {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 3}}}}
        await cluster.patch(MPI, "job", "default", scaled)
        await wait_for(cluster, CONFIG_MAP, "job-config", lambda c: "job-worker-2" in c["data"]["hostfile"])
        await wait_for(cluster, ROLE, "job-launcher", lambda r: "job-worker-2" in r["rules"][1]["resourceNames"])


async def test_jobs_of_another_manager_are_left_alone(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        theirs = pytorch(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})
        await cluster.create(theirs)
        await cluster.create({**pytorch(), "metadata": {"name": "ours", "namespace": "default"}})
        await wait_for(cluster, PYTORCH, "ours", is_in("Created"))
        assert not status_of(await cluster.get(PYTORCH, "job", "default"))
        with pytest.raises(Invalid, match=r"spec.runPolicy.managedBy: .*immutable"):
            own = {"spec": {"runPolicy": {"managedBy": "kubeflow.org/training-operator"}}}
            await cluster.patch(PYTORCH, "job", "default", own)


async def test_jobs_of_another_manager_are_not_judged_either(cluster: EmbeddedCluster) -> None:
    """Where it runs, other rules may apply."""
    cluster.catalogue.register(PyTorch.kind)  # the schema alone, as in a CustomResourceDefinition
    async with controlling(cluster):
        for name, manager in (("theirs", "kueue.x-k8s.io/multikueue"), ("ours", "kubeflow.org/training-operator")):
            wrong = pytorch({"Master": 2}, runPolicy={"managedBy": manager})
            await cluster.create({**wrong, "metadata": {"name": name, "namespace": "default"}})
        await wait_for(cluster, PYTORCH, "ours", is_in("Failed"))
        assert not status_of(await cluster.get(PYTORCH, "theirs", "default"))


async def test_a_paddlejob_shows_phases(cluster: EmbeddedCluster) -> None:
    role = {"replicas": 1, "template": {"spec": {"containers": [{"name": "paddle", "image": "i"}]}}}
    async with controlling(cluster):
        await cluster.create(
            {
                "apiVersion": "batch.paddlepaddle.org/v1",
                "kind": "PaddleJob",
                "metadata": {"name": "job", "namespace": "default"},
                "spec": {"cleanPodPolicy": "OnCompletion", "ps": role, "worker": role},
            }
        )
        await wait_for_all(cluster, POD, have("job-ps-0", "job-worker-0"))
        await wait_for(cluster, PADDLE, "job", lambda j: status_of(j).get("phase") == "Pending")
        await all_run(cluster, "job-ps-0", "job-worker-0")
        job = await wait_for(cluster, PADDLE, "job", lambda j: status_of(j).get("phase") == "Running")
        assert status_of(job)["mode"] == "PS"
        assert [ref["name"] for ref in status_of(job)["worker"]["refs"]] == ["job-worker-0"]
        await say(cluster, "job-worker-0", "Succeeded")
        await say(cluster, "job-ps-0", "Succeeded")
        await wait_for(cluster, PADDLE, "job", lambda j: status_of(j).get("phase") == "Completed")
        await wait_for_all(cluster, POD, have())


async def test_an_elastic_paddlejob_announces_how_many_workers_it_wants(cluster: EmbeddedCluster) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def kv_put(request: web.Request) -> web.Response:
        assert request.path == "/v3/kv/put"
        body = await request.json()
        heard.put_nowait("=".join(base64.b64decode(body[part]).decode() for part in ("key", "value")))
        return web.json_response({})

    worker = {"replicas": 2, "template": {"spec": {"containers": [{"name": "paddle", "image": "i"}]}}}
    async with serve_http(kv_put) as port, controlling(cluster):
        annotations = {ETCD_ANNOTATION: f"127.0.0.1:{port}"}
        job = {
            "apiVersion": "batch.paddlepaddle.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": "job", "namespace": "default", "annotations": annotations},
            "spec": {"elastic": 1, "worker": worker},
        }
        await cluster.create(job)
        assert await asyncio.wait_for(heard.get(), 30) == "/paddle/default-job/np=2"
        pods = await wait_for_all(cluster, POD, have("job-worker-0", "job-worker-1"))
        assert {pod["spec"]["restartPolicy"] for pod in pods} == {"OnFailure"}
        await cluster.patch(PADDLE, "job", "default", {"spec": {"worker": {"replicas": 3}}})
        assert await asyncio.wait_for(heard.get(), 30) == "/paddle/default-job/np=3"
        await wait_for_all(cluster, POD, have("job-worker-0", "job-worker-1", "job-worker-2"))


class Bare(EmbeddedCluster):
    """A cluster that, like a real one, cannot list kinds it does not know."""

    async def list(self, kind: Kind, namespace: str = "", **query: Any) -> Listing:
        self.catalogue.of(kind.api_version, kind.kind)
        return await super().list(kind, namespace, **query)


async def test_kinds_that_a_cluster_lacks_do_not_stop_the_others(tmp_path: Path) -> None:
    catalogue = new_catalogue()
    catalogue.unregister(POD_GROUP)
    catalogue.register(JAX)
    catalogue.register(PORT_LEASE)
    async with Bare(tmp_path, catalogue, durability="process") as cluster:
        cluster.addresses = PortLeases(cluster)
        async with controlling(cluster):
            job = training_job("kubeflow.org/v1", "JAXJob", "jaxReplicaSpecs", "jax", {"Worker": 2})
            await cluster.create({**job, "metadata": {"name": "job", "namespace": "default"}})
            await wait_for_all(cluster, POD, have("job-worker-0", "job-worker-1"))


async def test_deleting_a_job_takes_everything_along(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(pytorch())
        await wait_for_all(cluster, POD, have(*NAMES))
        await cluster.delete(PYTORCH, "job", "default")
        await wait_for_all(cluster, POD, have())
        await wait_for_all(cluster, SERVICE, have())
