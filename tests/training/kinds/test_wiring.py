"""The environment of a replica by kind, on a cluster with DNS, which training-operator's users rely on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from muster.kube.objects import Object
from muster.training.kinds.base import JobKind
from muster.training.kinds.jax import Jax
from muster.training.kinds.mpi import Mpi
from muster.training.kinds.paddle import Paddle
from muster.training.kinds.pytorch import PyTorch
from muster.training.kinds.tensorflow import TensorFlow
from muster.training.kinds.xgboost import XGBoost
from muster.training.model import Replica
from tests.training.sample_jobs import loopback_addresses, training_job, wired


def job(job_kind: Any, roles: dict[str, Any], **spec: Any) -> Object:
    kind = job_kind.kind
    return training_job(kind.api_version, kind.kind, job_kind.replica_specs, job_kind.container, roles, **spec)


PYTORCH, TF, XGB, PADDLE, JAX = PyTorch(), TensorFlow(), XGBoost(), Paddle(), Jax()
WORKERS = {"Master": 1, "Worker": 2}


@pytest.mark.parametrize(
    ("job_kind", "obj", "role", "index", "told"),
    [
        (PYTORCH, job(PYTORCH, WORKERS), "Master", 0, {
            "PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": "auto", "PET_NNODES": "3",
            "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "3", "RANK": "0",
            "PET_MASTER_ADDR": "job-master-0", "PET_MASTER_PORT": "23456", "PET_NODE_RANK": "0",
        }),
        (PYTORCH, job(PYTORCH, WORKERS, nprocPerNode="4"), "Worker", 1, {
            "PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": "4", "PET_NNODES": "3",
            "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "12", "RANK": "2",
            "PET_MASTER_ADDR": "job-master-0", "PET_MASTER_PORT": "23456", "PET_NODE_RANK": "2",
        }),
        (PYTORCH, job(PYTORCH, {"Worker": 2}, elasticPolicy={
            "minReplicas": 1, "maxReplicas": 3, "maxRestarts": 100, "rdzvBackend": "c10d",
            "rdzvConf": [{"key": "timeout", "value": "9"}],
        }), "Worker", 1, {
            "PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": "auto", "PET_NNODES": "1:3",
            "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "job-worker-0:23456", "PET_RDZV_ID": "job",
            "PET_RDZV_CONF": "timeout=9", "PET_MAX_RESTARTS": "100",
        }),
        (XGB, job(XGB, WORKERS), "Worker", 0, {
            "MASTER_ADDR": "job-master-0", "MASTER_PORT": "9999", "WORLD_SIZE": "3", "RANK": "1",
            "PYTHONUNBUFFERED": "1", "WORKER_PORT": "9999", "WORKER_ADDRS": "job-worker-0,job-worker-1",
            "WORKER_ENDPOINTS": "job-worker-0:9999,job-worker-1:9999",
        }),
        (XGB, job(XGB, {"Master": 1}), "Master", 0, {
            "MASTER_ADDR": "job-master-0", "MASTER_PORT": "9999", "WORLD_SIZE": "1", "RANK": "0",
            "PYTHONUNBUFFERED": "1",
        }),
        (JAX, job(JAX, {"Worker": 2}), "Worker", 1, {
            "COORDINATOR_ADDRESS": "job-worker-0", "COORDINATOR_PORT": "6666", "NUM_PROCESSES": "2",
            "PROCESS_ID": "1", "PYTHONUNBUFFERED": "1",
        }),
        (PADDLE, job(PADDLE, {"Worker": 2}), "Worker", 1, {
            "PYTHONUNBUFFERED": "1", "PADDLE_JOB_ID": "job", "PADDLE_NNODES": "2",
            "PADDLE_MASTER": "job-worker-0:36543",
        }),
        (PADDLE, job(PADDLE, {"Worker": 2}), "Worker", 0, {
            "PYTHONUNBUFFERED": "1", "PADDLE_JOB_ID": "job", "PADDLE_NNODES": "2",
            "POD_IP_DUMMY": {"fieldRef": {"fieldPath": "status.podIP"}},
            "PADDLE_MASTER": "$(POD_IP_DUMMY):36543",
        }),
        (PADDLE, job(PADDLE, WORKERS), "Worker", 0, {
            "PYTHONUNBUFFERED": "1", "PADDLE_JOB_ID": "job", "PADDLE_NNODES": "3",
            "PADDLE_MASTER": "job-master-0:36543", "PADDLE_TRAINER_NUM": "1",
        }),
    ],
)  # fmt: skip
def test_environment(job_kind: JobKind, obj: Object, role: str, index: int, told: dict[str, Any]) -> None:
    assert wired(job_kind, obj, role, index) == told


@pytest.mark.parametrize(
    ("index", "policy", "conf"),
    [
        (0, {}, "is_host=true"),
        (1, {}, "is_host=false"),
        (1, {"rdzvConf": [{"key": "timeout", "value": "9"}]}, "timeout=9,is_host=false"),
        (1, {"rdzvConf": [{"key": "is_host", "value": "1"}]}, "is_host=1"),
        (1, {"rdzvHost": "elsewhere", "rdzvPort": 9}, None),
        (1, {"rdzvBackend": "etcd"}, None),
    ],
)
def test_where_all_share_one_address_only_the_first_worker_hosts_the_rendezvous(
    index: int, policy: dict[str, Any], conf: str | None
) -> None:
    elastic = PYTORCH.read(job(PYTORCH, {"Worker": 2}, elasticPolicy=policy))
    env = PYTORCH.wiring(elastic, Replica("Worker", index), loopback_addresses(elastic)).env
    assert env.get("PET_RDZV_CONF") == conf


def test_tf_config_names_every_replica_and_ones_own_task() -> None:
    obj = job(TF, {"PS": 1, "Worker": 2, "Chief": 1})
    assert json.loads(wired(TF, obj, "Worker", 1)["TF_CONFIG"]) == {
        "cluster": {
            "chief": ["job-chief-0.default.svc:2222"],
            "ps": ["job-ps-0.default.svc:2222"],
            "worker": ["job-worker-0.default.svc:2222", "job-worker-1.default.svc:2222"],
        },
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }


def test_a_single_tensorflow_replica_gets_no_configuration() -> None:
    assert wired(TF, job(TF, {"Worker": 1}), "Worker") == {}


@pytest.mark.parametrize(
    ("role", "index", "sparse"),
    [
        ("Worker", 1, {"worker": {"1": "job-worker-1.default.svc:2222"}, "ps": ["job-ps-0.default.svc:2222"]}),
        ("PS", 0, {"worker": {}, "ps": ["job-ps-0.default.svc:2222"]}),
    ],
)
def test_dynamic_workers_hear_only_of_themselves_and_the_servers(role: str, index: int, sparse: Any) -> None:
    obj = job(TF, {"PS": 1, "Worker": 2}, enableDynamicWorker=True)
    assert json.loads(wired(TF, obj, role, index)["TF_CONFIG"])["sparseCluster"] == sparse


def test_an_mpi_launcher_can_reach_its_workers_and_both_find_the_agent() -> None:
    mpi = Mpi()
    read = mpi.read(job(mpi, {"Launcher": 1, "Worker": 2}, slotsPerWorker=2))
    launcher, worker = (mpi.wiring(read, Replica(role, 0), {}) for role in ("Launcher", "Worker"))
    assert launcher.env["OMPI_MCA_plm_rsh_agent"] == launcher.env["HYDRA_LAUNCHER_EXEC"] == "/etc/mpi/kubexec.sh"
    assert launcher.env["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert launcher.service_account == "job-launcher"
    assert launcher.env["K_MPI_JOB_ROLE"] == "launcher"
    assert (worker.env, worker.volumes, worker.mounts) == (
        {"K_MPI_JOB_ROLE": "worker"},
        launcher.volumes,
        launcher.mounts,
    )
    files = {
        name: text for c in mpi.companions(read, {}) if c["kind"] == "ConfigMap" for name, text in c["data"].items()
    }
    assert files["hostfile"] == "job-worker-0 slots=2\njob-worker-1 slots=2\n"
    assert files["discover_hosts.sh"].splitlines()[1:] == ["echo job-worker-0:2", "echo job-worker-1:2"]


def test_an_mpi_worker_without_a_command_waits_and_ends_on_sigterm() -> None:
    worker = {"replicas": 1, "template": {"spec": {"containers": [{"name": "mpi", "image": "i"}]}}}
    role = Mpi().read(job(Mpi(), {"Launcher": 1, "Worker": worker})).role("Worker")
    assert role is not None
    command = role.template["spec"]["containers"][0]["command"]
    with subprocess.Popen(command, start_new_session=True) as sleeping:
        try:
            while not Path(f"/proc/{sleeping.pid}/task/{sleeping.pid}/children").read_text():
                assert sleeping.poll() is None, "it waits"
                time.sleep(0.01)
            sleeping.terminate()
            why = "by its own hand: the first process of a container does not hear it otherwise"
            assert sleeping.wait(5) == 143, why
        finally:
            os.killpg(sleeping.pid, signal.SIGKILL)  # as the end of a container does


@pytest.mark.parametrize(
    ("command", "args", "sleeps"),
    [
        (["/usr/sbin/sshd"], ["-De", "-f", "/home/mpiuser/.sshd_config"], True),  # mpi-operator's examples
        (["/usr/sbin/sshd", "-De"], None, True),
        (None, ["/usr/sbin/sshd", "-De"], True),
        (["bash", "-c", "exec /usr/sbin/sshd -De"], None, True),
        (["/entrypoint.sh"], ["/usr/sbin/sshd", "-De"], True),
        (["sh", "-c", "/usr/sbin/sshd; python train.py"], None, False),
        (["sh", "-c", "echo 'sshd"], None, False),
        (["python", "train.py"], ["/usr/sbin/sshd"], False),
    ],
)
def test_an_mpi_worker_that_would_only_run_an_ssh_daemon_waits_instead(
    command: list[str] | None, args: list[str] | None, sleeps: bool
) -> None:
    container = {
        "name": "mpi",
        "image": "i",
        **({"command": command} if command else {}),
        **({"args": args} if args else {}),
        "readinessProbe": {"tcpSocket": {"port": 2222}},
    }
    worker = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    obj = job(Mpi(), {"Launcher": 1, "Worker": worker})
    role = Mpi().read(obj).role("Worker")
    assert role is not None
    found = role.template["spec"]["containers"][0]
    assert (found.get("command") != command or found.get("args") != args) == sleeps
    assert ("readinessProbe" not in found) == sleeps, "nothing listens at the port of the daemon"
    warned = [cause.field for cause in Mpi().warnings(obj)]
    assert warned == (["spec.mpiReplicaSpecs.Worker.template.spec.containers[0].command"] if sleeps else [])
