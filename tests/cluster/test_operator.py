"""Our operator runs every kind of training job on a real cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from muster.kube.builtin import CONFIG_MAP, POD, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT
from muster.kube.kinds import Kind
from muster.kube.objects import Object, labels_of, name_of, spec_of, status_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import Needs
from tests.cluster.operating import KINDS, on_fake_nodes, operating, owned_by, without_the_peer
from tests.cluster.waiting import has, phase_of, until
from tools.cluster import images
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.smoke, pytest.mark.timeout(300)]

KUBEFLOW = "kubeflow.org/v1"
PADDLECLOUD = "batch.paddlepaddle.org/v1"


@pytest.fixture(scope="module")
def ours(real: RealCluster) -> Iterator[RealCluster]:
    with without_the_peer(real) as cluster:
        yield cluster


@pytest.fixture
def operator(ours: RealCluster, namespace: str) -> Iterator[RealCluster]:
    """Our operator, for the test's namespace."""
    with operating(ours, f"--namespace={namespace}"):
        yield ours


def template(container: str, seconds: str = "", **more: Any) -> Object:
    fake = on_fake_nodes(seconds)
    return {**fake, "spec": {**fake["spec"], "containers": [{"name": container, "image": "none:1", **more}]}}


def kubeflow(kind: str, specs: str, container: str, roles: dict[str, tuple[int, str]], **spec: Any) -> Object:
    """Roles with their number of replicas and the seconds that each runs."""
    replicas = {
        role: {"replicas": number, "template": template(container, seconds)}
        for role, (number, seconds) in roles.items()
    }
    return {"apiVersion": KUBEFLOW, "kind": kind, "spec": {specs: replicas, **spec}}


def paddlecloud() -> Object:
    spec = {role: {"replicas": 2, "template": template("paddle", "1")} for role in ("ps", "worker")}
    return {"apiVersion": PADDLECLOUD, "kind": "PaddleJob", "spec": {"cleanPodPolicy": "Never", "withGloo": 1, **spec}}


JOBS: dict[str, tuple[Object, dict[str, dict[str, str]]]] = {
    # The job, and environment variables that some of its Pods must have.
    "pytorch": (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", "pytorch", {"Master": (1, "1"), "Worker": (2, "1")}),
        {
            "job-master-0": {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "RANK": "0", "WORLD_SIZE": "3"},
            "job-worker-1": {"MASTER_ADDR": "job-master-0", "RANK": "2", "PET_NNODES": "3", "PET_NODE_RANK": "2"},
        },
    ),
    "tensorflow": (
        kubeflow("TFJob", "tfReplicaSpecs", "tensorflow", {"PS": (1, ""), "Worker": (2, "1")}),
        {
            "job-worker-1": {
                "TF_CONFIG": json.dumps(
                    {
                        "cluster": {
                            "ps": ["job-ps-0.NAMESPACE.svc:2222"],
                            "worker": ["job-worker-0.NAMESPACE.svc:2222", "job-worker-1.NAMESPACE.svc:2222"],
                        },
                        "task": {"type": "worker", "index": 1},
                        "environment": "cloud",
                    }
                )
            }
        },
    ),
    "xgboost": (
        kubeflow("XGBoostJob", "xgbReplicaSpecs", "xgboost", {"Master": (1, "1"), "Worker": (2, "1")}),
        {
            "job-worker-0": {
                "MASTER_ADDR": "job-master-0",
                "MASTER_PORT": "9999",
                "RANK": "1",
                "WORLD_SIZE": "3",
                "WORKER_ADDRS": "job-worker-0,job-worker-1",
            }
        },
    ),
    "mpi": (
        kubeflow("MPIJob", "mpiReplicaSpecs", "mpi", {"Launcher": (1, "1"), "Worker": (2, "")}),
        {
            "job-launcher": {
                "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
                "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
            }
        },
    ),
    "paddle": (
        kubeflow("PaddleJob", "paddleReplicaSpecs", "paddle", {"Worker": (2, "1")}),
        {
            "job-worker-0": {"PADDLE_MASTER": "$(POD_IP_DUMMY):36543", "PADDLE_NNODES": "2"},
            "job-worker-1": {"PADDLE_MASTER": "job-worker-0:36543", "PADDLE_JOB_ID": "job"},
        },
    ),
    "jax": (
        kubeflow("JAXJob", "jaxReplicaSpecs", "jax", {"Worker": (2, "1")}),
        {
            "job-worker-1": {
                "COORDINATOR_ADDRESS": "job-worker-0",
                "COORDINATOR_PORT": "6666",
                "NUM_PROCESSES": "2",
                "PROCESS_ID": "1",
            }
        },
    ),
    "paddlecloud": (
        paddlecloud(),
        {
            "job-ps-0": {"PADDLE_PORT": "2379", "TRAINING_ROLE": "PSERVER"},
            "job-worker-1": {"PADDLE_TRAINER_ID": "1", "TRAINING_ROLE": "TRAINER"},
        },
    ),
}


def environment(pod: Object) -> dict[str, str]:
    return {entry["name"]: str(entry.get("value")) for entry in spec_of(pod)["containers"][0].get("env") or ()}


def succeeded(obj: Object) -> bool:
    return has("Succeeded")(obj) or phase_of(obj) == "Completed"


def kind_of(job: Object) -> Kind:
    return KINDS[job["apiVersion"], job["kind"]]


async def submit(remote: RemoteCluster, namespace: str, job: Object, name: str = "job") -> Object:
    await remote.discover()
    return await remote.create({**job, "metadata": {"name": name, "namespace": namespace, **job.get("metadata", {})}})


async def log_of(remote: RemoteCluster, name: str, namespace: str) -> str:
    return b"".join([piece async for piece in remote.logs(name, namespace)]).decode()


@pytest.mark.parametrize("which", list(JOBS))
async def test_every_kind_runs_to_completion(
    needs: Needs, operator: RealCluster, remote: RemoteCluster, namespace: str, which: str
) -> None:
    needs("kwok")
    wanted, told = JOBS[which]
    job = await submit(remote, namespace, wanted)
    done = await until(remote, kind_of(job), "job", namespace, succeeded)
    pods = {name_of(pod): pod for pod in await owned_by(remote, POD, done)}
    for name, variables in told.items():
        there = environment(pods[name])
        for variable, value in variables.items():
            expected = value.replace("NAMESPACE", namespace)
            if variable == "TF_CONFIG":
                assert json.loads(there[variable]) == json.loads(expected)
            else:
                assert there[variable] == expected, variable

    services = await owned_by(remote, SERVICE, done)
    assert {name_of(service) for service in services} == (set() if which == "mpi" else set(pods))
    assert all(spec_of(service)["clusterIP"] == "None" for service in services)
    kind = wanted["kind"]
    assert {labels_of(pod)["training.kubeflow.org/job-name"] for pod in pods.values()} == {"job"}
    assert {labels_of(pod)["training.kubeflow.org/operator-name"] for pod in pods.values()} == {
        f"{kind.lower()}-controller"
    }
    if which == "paddlecloud":
        assert (status_of(done)["phase"], status_of(done)["mode"]) == ("Completed", "PS")
        places = {name: status_of(pod)["podIP"] for name, pod in pods.items()}
        (shared,) = await owned_by(remote, CONFIG_MAP, done)
        assert shared["data"]["PADDLE_TRAINERS"] == f"{places['job-worker-0']},{places['job-worker-1']}"
        assert shared["data"]["PADDLE_GLOO_HTTP_ENDPOINT"] == f"{places['job-ps-0']}:2397"
        row = operator.kubectl("get", "pdj", "-n", namespace, "--no-headers").split()
        assert row[:3] == ["job", "Completed", "PS"]
        return
    assert [(c["type"], c["status"], c["reason"]) for c in status_of(done)["conditions"]] == [
        ("Created", "True", f"{kind}Created"),
        ("Running", "False", f"{kind}Running"),
        ("Succeeded", "True", f"{kind}Succeeded"),
    ]
    assert status_of(done)["completionTime"] >= status_of(done)["startTime"]
    assert "Succeeded" in operator.kubectl("get", kind_of(job).resource, "job", "-n", namespace, "--no-headers")


async def test_members_on_a_real_node_find_each_other_by_name(
    needs: Needs, operator: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    """No init container waits. A member must be found as soon as it has a name."""
    needs("node")

    def role(script: str) -> Object:
        command = ["sh", "-ec", script]
        container = {"name": "pytorch", "image": images.BUSYBOX, "imagePullPolicy": "Never", "command": command}
        return {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}

    roles = {
        "Master": role("nc -l -p $MASTER_PORT | sed 's/^/heard: /'"),
        "Worker": role("until echo rank $RANK of $WORLD_SIZE | nc $MASTER_ADDR $MASTER_PORT; do sleep 0.2; done"),
    }
    job = {"apiVersion": KUBEFLOW, "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": roles}}
    await submit(remote, namespace, job)
    await until(remote, kind_of(job), "job", namespace, has("Succeeded"))
    assert await log_of(remote, "job-master-0", namespace) == "heard: rank 1 of 2\n"


@pytest.mark.timeout(900)
async def test_a_launcher_reaches_exactly_its_workers_without_kubectl(
    needs: Needs, operator: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    image = needs("node").load(images.python())
    agent = "$OMPI_MCA_plm_rsh_agent"
    script = (
        f"while read host slots; do {agent} -x $host 'echo on $(hostname) with '$slots; done < /etc/mpi/hostfile;"
        f" {agent} job-worker-0 'exit 7' || echo ended with $?;"
        f" {agent} stranger true 2>&1 | grep -o 'cannot create resource \\S* in API group' || true"
    )

    def role(number: int, **more: Any) -> Object:
        container = {"name": "mpi", "image": image, "imagePullPolicy": "Never", **more}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        return {"replicas": number, "restartPolicy": "Never", "template": {"spec": spec}}

    roles = {"Launcher": role(1, command=["sh", "-ec", script]), "Worker": role(2)}
    job = {
        "apiVersion": KUBEFLOW,
        "kind": "MPIJob",
        "spec": {"slotsPerWorker": 3, "runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": roles},
    }
    made = await submit(remote, namespace, job)
    done = await until(remote, kind_of(job), "job", namespace, lambda o: has("Succeeded")(o) or has("Failed")(o))
    said = await log_of(remote, "job-launcher", namespace)
    assert has("Succeeded")(done), said
    assert said.splitlines()[:3] == ["on job-worker-0 with slots=3", "on job-worker-1 with slots=3", "ended with 7"]
    (role_,) = await owned_by(remote, ROLE, made)
    assert [(r["resources"], r.get("resourceNames")) for r in role_["rules"]] == [
        (["pods"], None),
        (["pods/exec"], ["job-worker-0", "job-worker-1"]),
    ]
    for kind in (CONFIG_MAP, SERVICE_ACCOUNT, ROLE_BINDING):
        assert len(await owned_by(remote, kind, made)) == 1


async def test_an_elastic_job_with_metrics_gets_an_autoscaler_and_can_be_scaled(
    needs: Needs, operator: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    needs("kwok")
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 8}},
    }
    elastic = {"minReplicas": 1, "maxReplicas": 4, "metrics": [metric]}
    job = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "pytorch", {"Worker": (2, "")}, elasticPolicy=elastic)
    await submit(remote, namespace, job)
    await until(remote, kind_of(job), "job", namespace, has("Running"))
    scaler = json.loads(operator.kubectl("get", "hpa", "job", "-n", namespace, "-o", "json"))
    assert scaler["spec"]["scaleTargetRef"] == {"apiVersion": KUBEFLOW, "kind": "PyTorchJob", "name": "job"}
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (1, 4)
    operator.kubectl("scale", "pytorchjob/job", "-n", namespace, "--replicas=3")
    await until(remote, POD, "job-worker-2", namespace, lambda pod: phase_of(pod) == "Running")
    told = environment(await remote.get(POD, "job-worker-2", namespace))
    assert (told["PET_NNODES"], told["PET_RDZV_ENDPOINT"]) == ("1:4", "job-worker-0:23456")


async def test_a_job_that_kueue_suspends(
    needs: Needs, operator: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    """Kueue creates jobs suspended, and resumes them when there is room. Jobs of MultiKueue are left alone."""
    needs("kwok")
    roles = {"Master": (1, "1"), "Worker": (1, "1")}
    policy = {"suspend": True}
    job = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "pytorch", roles, runPolicy=policy)
    theirs = kubeflow(
        "PyTorchJob", "pytorchReplicaSpecs", "pytorch", roles, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}
    )
    await submit(remote, namespace, theirs, "theirs")
    await submit(remote, namespace, job)
    await until(remote, kind_of(job), "job", namespace, has("Suspended"))
    assert (await remote.list(POD, namespace)).items == []
    await remote.patch(kind_of(job), "job", namespace, {"spec": {"runPolicy": {"suspend": False}}})
    done = await until(remote, kind_of(job), "job", namespace, has("Succeeded"))
    assert not has("Suspended")(done)
    assert {name_of(pod) for pod in (await remote.list(POD, namespace)).items} == {"job-master-0", "job-worker-0"}
    assert "status" not in await remote.get(kind_of(job), "theirs", namespace)
