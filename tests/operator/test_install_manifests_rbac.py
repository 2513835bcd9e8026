"""The operator's rights are exactly the calls it makes.

Runs the controller with its ServiceAccount's token against an API server that enforces RBAC.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from muster.embedded.controllers.garbage import GarbageCollector
from muster.kube.builtin import CONFIG_MAP, EVENT, POD, SERVICE
from muster.kube.events import EventRecorder
from muster.kube.kinds import Kind
from muster.kube.objects import Object, labels_of, name_of, owner_reference, spec_of, uid_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import Access, Token
from muster.kube.schema import ANY
from muster.operator.election import Election, ElectionSettings
from muster.operator.install_manifests import NAME, WEBHOOK_SECRET, InstallOptions, accounts, namespace, secret, webhook
from muster.operator.metrics import request_verb
from muster.operator.webhook_certificates import CONFIGURATION, CertificateSecret
from muster.training.controller import AUTOSCALER, TrainingController
from muster.training.gang import GangSettings, Scheduler, group_kind
from muster.training.model import JOB_NAME
from muster.training.registry import JOB_KINDS, training_kinds
from tests.embedded.waiting import run_components, wait_for, wait_for_all
from tests.server.kubernetes.served import Served, serving
from tests.training.sample_jobs import training_job

Call = tuple[str, str, str]
"""Group, resource with subresource, verb."""

HPA = Kind("autoscaling", "v2", AUTOSCALER[1], "horizontalpodautoscalers", schema={"type": "object", **ANY})
KINDS = {kind.resource + kind.version: kind for kind in training_kinds()}
PYTORCH, MPI = KINDS["pytorchjobs.kubeflow.orgv1"], KINDS["mpijobs.kubeflow.orgv1"]

NOT_SEEN_HERE = {
    # A launcher's Role has these, and one may only grant what one has.
    ("", "pods/exec", "create"), ("", "pods/exec", "get"),
    # The owner of a PodGroup is read if it is created at the same moment.
    ("scheduling.volcano.sh", "podgroups", "get"), ("scheduling.x-k8s.io", "podgroups", "get"),
    # Checked by an admission plugin of some clusters.
    ("jobs", "job/finalizers", "update"),
}  # fmt: skip


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """Has everything that `install` creates except the Deployment, for which there is no controller here."""
    async with serving(tmp_path) as running:
        for kind in (*training_kinds(), CONFIGURATION, HPA):
            running.cluster.catalogue.register(kind)
        options = InstallOptions()
        for obj in (namespace(options), *accounts(options), secret(options), webhook(options)):
            await running.cluster.create(obj)
        async with run_components(GarbageCollector(running.cluster)):
            yield running


class Calls:
    def __init__(self) -> None:
        self.made: set[Call] = set()
        self.forbidden: set[Call] = set()

    def note(self, method: str, url: URL, code: int, seconds: float) -> None:
        parts = url.path.strip("/").split("/")
        if len(parts) < 3:
            return  # /version, /apis: allowed for everyone
        group, below = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
        if below[:1] == ["namespaces"] and len(below) > 2:
            below = below[2:]
        if not below:
            return
        call = (group, "/".join((below[0], *below[2:3])), request_verb(method, url))
        self.made.add(call)
        if code == 403:
            self.forbidden.add(call)


@pytest.fixture
async def calls() -> Calls:
    return Calls()


@pytest.fixture
async def operator(served: Served, calls: Calls) -> AsyncIterator[RemoteCluster]:
    account = await served.cluster.get(served.cluster.catalogue.of("v1", "ServiceAccount"), NAME, "muster-system")
    token, _ = served.identity.service_accounts.issue("muster-system", NAME, uid_of(account))
    access = Access(served.url, authority=served.certificates.authority_pem(), credentials=Token(token))
    async with RemoteCluster(access, on_answer=calls.note, field_manager="muster-operator") as cluster:
        for kind in training_kinds():
            cluster.catalogue.register(kind)
        await cluster.discover()
        yield cluster


def granted() -> set[Call]:
    return {
        (group, resource, verb)
        for obj in accounts(InstallOptions())
        for rule in obj.get("rules") or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def generalised(call: Call) -> Call:
    """Treats all kinds of jobs alike."""
    group, resource, verb = call
    _, slash, subresource = resource.partition("/")
    if group in ("kubeflow.org", "batch.paddlepaddle.org"):
        return ("jobs", f"job{slash}{subresource}", verb)
    return call


def pytorch(name: str, **spec: Any) -> Object:
    roles = {"Master": 1, "Worker": {"replicas": 1, "restartPolicy": "ExitCode"}}
    made = training_job("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "pytorch", roles, **spec)
    return {**made, "metadata": {"name": name, "namespace": "default"}}


async def test_every_right_is_used_and_none_is_missing(served: Served, operator: RemoteCluster, calls: Calls) -> None:
    await CertificateSecret(
        operator, namespace="muster-system", secret=WEBHOOK_SECRET, service=NAME, configuration=NAME
    ).pair()  # fmt: skip
    election = Election(operator, ElectionSettings(NAME, "muster-system", "me", 15.0, 10.0, 2.0))
    await election.acquire()
    await election.release()
    await _alone(served, operator)
    for scheduler in ("volcano", "scheduler-plugins"):
        await _gangs(served, operator, scheduler)
    await _said_twice(served, operator)

    assert calls.forbidden == set()
    rights = {generalised(call) for call in granted()}
    used = {generalised(call) for call in calls.made}
    assert used - rights == set()
    assert rights - used == NOT_SEEN_HERE


async def _said_twice(served: Served, operator: RemoteCluster) -> None:
    """A repeated event is counted in the existing one."""
    about = await served.cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "talked-about", "namespace": "default"}}
    )
    recorder = EventRecorder(operator, NAME)
    async with run_components(recorder):
        for _ in range(2):
            recorder.event(about, "Normal", "Again", "the same")
            await recorder.flush()


async def _alone(served: Served, operator: RemoteCluster) -> None:
    """A worker that restarts, a job that expires, one that another operator has started, MPI, elasticity."""
    cluster = served.cluster
    await _begun_by_another(served)
    recorder = EventRecorder(operator, "muster-operator")
    async with run_components(TrainingController(operator, recorder, JOB_KINDS), recorder):
        await cluster.create(pytorch("job", runPolicy={"ttlSecondsAfterFinished": 0}))
        first = await wait_for(cluster, POD, "job-worker-0", lambda _: True)
        await _say(served, "job-master-0", "Running")
        await _fail(served, "job-worker-0", 137)
        await wait_for(cluster, POD, "job-worker-0", lambda pod: uid_of(pod) != uid_of(first))
        await _say(served, "job-master-0", "Succeeded")
        await wait_for_all(cluster, PYTORCH, lambda jobs: "job" not in map(name_of, jobs))

        mpi = training_job("kubeflow.org/v1", "MPIJob", "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 1})
        await cluster.create({**mpi, "metadata": {"name": "mpi", "namespace": "default"}})
        await wait_for(cluster, CONFIG_MAP, "mpi-config", lambda _: True)
        larger = {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}}
        await cluster.patch(MPI, "mpi", "default", larger)
        await wait_for(cluster, CONFIG_MAP, "mpi-config", lambda found: "mpi-worker-1" in found["data"]["hostfile"])

        await _meets_at_pods(served)

        await cluster.create(_elastic("elastic"))
        await wait_for(cluster, HPA, "elastic", lambda _: True)
        for kind, name in ((HPA, "stretchy"), (SERVICE, "stretchy-worker-0"), (POD, "old-worker-0")):
            await wait_for(cluster, kind, name, lambda found: JOB_NAME in labels_of(found))

        await cluster.create(pytorch("paused"))
        await wait_for(cluster, SERVICE, "paused-master-0", lambda _: True)
        for suspend in (True, False, True):
            await cluster.patch(PYTORCH, "paused", "default", {"spec": {"runPolicy": {"suspend": suspend}}})
            await wait_for_all(cluster, SERVICE, _with("paused-master-0", there=not suspend))
        await wait_for_all(
            cluster, EVENT, lambda found: any(e["count"] > 1 and e["reason"] == "PyTorchJobSuspended" for e in found)
        )


async def _meets_at_pods(served: Served) -> None:
    """Replicas of a PaddleJob get their addresses once all have one, and none while one is missing."""
    cluster = served.cluster
    worker = {"replicas": 2, "template": {"spec": {"containers": [{"name": "paddle", "image": "i"}]}}}
    job = {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "paddle", "namespace": "default"},
        "spec": {"worker": worker},
    }
    await cluster.create(job)
    for index in range(2):
        await wait_for(cluster, POD, f"paddle-worker-{index}", lambda _: True)
        placed = {"status": {"phase": "Running", "podIP": f"10.0.0.{index}"}}
        await cluster.patch(POD, f"paddle-worker-{index}", "default", placed, subresource="status")
    await wait_for(cluster, CONFIG_MAP, "paddle", lambda found: found["data"]["PADDLE_TRAINERS"] == "10.0.0.0,10.0.0.1")
    await cluster.delete(POD, "paddle-worker-0", "default", grace_seconds=0)
    await wait_for_all(cluster, CONFIG_MAP, _with("paddle", there=False))


def _with(name: str, *, there: bool) -> Callable[[list[Object]], bool]:
    return lambda found: (name in map(name_of, found)) is there


async def _begun_by_another(served: Served) -> None:
    """Objects of jobs without the labels that we look for."""
    cluster = served.cluster
    mpi = training_job("kubeflow.org/v1", "MPIJob", "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 1})
    old = await cluster.create({**mpi, "metadata": {"name": "old", "namespace": "default"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "old-launcher"}
    await _left(served, old, "v1", "ConfigMap", "old-config")
    await _left(served, old, "v1", "ServiceAccount", "old-launcher")
    await _left(served, old, "rbac.authorization.k8s.io/v1", "Role", "old-launcher")
    await _left(served, old, "rbac.authorization.k8s.io/v1", "RoleBinding", "old-launcher", roleRef=role)
    await _left(served, old, "v1", "Pod", "old-worker-0", spec={"containers": [{"name": "mpi", "image": "i"}]})
    stretchy = await cluster.create(_elastic("stretchy"))
    await _left(served, stretchy, "/".join((HPA.group, HPA.version)), HPA.kind, "stretchy")
    ports = {"clusterIP": "None", "ports": [{"port": 1}]}
    await _left(served, stretchy, "v1", "Service", "stretchy-worker-0", spec=ports)


def _elastic(name: str) -> Object:
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]
    policy = {"minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    made = training_job(
        "kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "pytorch", {"Worker": 1}, elasticPolicy=policy
    )
    return {**made, "metadata": {"name": name, "namespace": "default"}}


async def _left(served: Served, job: Object, api_version: str, kind: str, name: str, **content: Any) -> None:
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner_reference(job)]}
    await served.cluster.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, **content})


async def _gangs(served: Served, operator: RemoteCluster, scheduler: Scheduler) -> None:
    """A gang that shrinks and ends, and one whose PodGroup another operator created."""
    cluster, gang = served.cluster, GangSettings(scheduler, by_policy=True)
    kind, name = group_kind(scheduler), f"{scheduler}-gang"
    recorder = EventRecorder(operator, "muster-operator")
    async with run_components(TrainingController(operator, recorder, JOB_KINDS, gang), recorder):
        roles = {"Master": 1, "Worker": 3}
        made = training_job("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "pytorch", roles)
        await cluster.create({**made, "metadata": {"name": name, "namespace": "default"}})
        await wait_for(cluster, kind, name, lambda group: spec_of(group)["minMember"] == 4)
        smaller = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}}
        await cluster.patch(PYTORCH, name, "default", smaller)
        await wait_for(cluster, kind, name, lambda group: spec_of(group)["minMember"] == 2)
        await cluster.patch(kind, name, "default", {"status": {"phase": "Inqueue"}}, subresource="status")
        await wait_for(cluster, POD, f"{name}-master-0", lambda _: True)
        await _say(served, f"{name}-master-0", "Succeeded")
        await wait_for_all(
            cluster,
            EVENT,
            lambda events: any(
                e["reason"] == "SuccessfulDeletePodGroup" and e["message"].endswith(name) for e in events
            ),
        )


async def _say(served: Served, pod: str, phase: str) -> None:
    await served.cluster.patch(POD, pod, "default", {"status": {"phase": phase}}, subresource="status")


async def _fail(served: Served, pod: str, code: int) -> None:
    state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": "2026-11-15T12:00:00Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "pytorch", "restartCount": 0, "state": state}]}
    await served.cluster.patch(POD, pod, "default", {"status": status}, subresource="status")
