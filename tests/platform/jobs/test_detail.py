"""The members of a job with and without Pods."""

from __future__ import annotations

from typing import Any

from muster.platform.jobs.detail import members_of, trainer_containers
from muster.platform.records.jobs import JobMember, JobState
from muster.training.kinds.pytorch import PyTorch
from tests.platform.jobs.test_jobs import pytorch

JOB = PyTorch().read(pytorch())


def pod(name: str, phase: str, container: dict[str, Any] | None = None, restarts: int = 0) -> dict[str, Any]:
    status = {"name": "pytorch", "restartCount": restarts, "state": container or {}}
    return {
        "metadata": {"name": name, "uid": f"uid of {name}"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "pytorch"}, {"name": "sidecar"}]},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [status]},
    }


def members(pods: list[dict[str, Any]], state: JobState = "running") -> dict[str, JobMember]:
    return {member.pod: member for role in members_of(JOB, pods, state) for member in role.members}


def test_a_member_without_a_pod_is_waiting_or_gone() -> None:
    assert {m.pod: m.state for m in members([], "waiting").values()} == {
        "j-master-0": "waiting", "j-worker-0": "waiting", "j-worker-1": "waiting", "j-worker-2": "waiting",
    }  # fmt: skip
    assert {m.state for m in members([], "failed").values()} == {"gone"}


def test_a_member_has_the_state_of_its_pod() -> None:
    ended = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:01:00Z"}}
    found = members([pod("j-master-0", "Running", {"running": {}}, 2), pod("j-worker-1", "Failed", ended)])
    master, worker = found["j-master-0"], found["j-worker-1"]
    assert (master.state, master.word, master.restarts, master.host, master.exit_code, master.message) == (
        "running", "Running", 2, "node-1", None, "",
    )  # fmt: skip
    assert (worker.state, worker.exit_code, worker.finished) == ("failed", 3, "2026-01-01T00:01:00Z")
    assert worker.message == 'container "pytorch" exited with code 3'
    assert worker.containers == ["pytorch", "sidecar"]


def test_every_member_has_a_training_container() -> None:
    assert trainer_containers(PyTorch(), JOB)["j-master-0"] == "pytorch"
    assert len(trainer_containers(PyTorch(), JOB)) == 4
