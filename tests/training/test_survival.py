"""A training job survives the server: kill -9, start another one, and the job succeeds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.server.pidfile import running_server
from tests.cli.commands import PATIENCE, Muster

PROGRAM = Path(__file__).parent / "programs" / "two_ranks.py"


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    command = Muster(tmp_path / "home", tmp_path)
    yield command
    command("delete", "pytorchjobs", "--all", "--now")
    command.end()
    command("down")


def job() -> str:
    role = f"""
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: python
              command: [python3, /programs/{PROGRAM.name}]
              volumeMounts: [{{name: programs, mountPath: /programs}}]
          volumes: [{{name: programs, hostPath: {{path: {PROGRAM.parent}}}}}]
"""
    return (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: ranks}\n"
        f"spec:\n  pytorchReplicaSpecs:\n    Master:{role}    Worker:{role}"
    )


def wait_for(muster: Muster, text: str) -> str:
    deadline = time.monotonic() + PATIENCE
    while text not in (log := muster("logs", "ranks-master-0").out):
        assert time.monotonic() < deadline, log
    return log


def test_a_training_goes_on_while_its_server_is_dead(muster: Muster) -> None:
    muster("up", "-d").ok()
    muster("apply", "-f", muster.file("job.yaml", job())).ok()
    before = wait_for(muster, "step 3 ")
    uids = muster("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}").ok().out
    server = running_server(muster.home)
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    assert muster("get", "pods").code == 1, "no server runs"
    muster("up", "-d").ok()
    after = wait_for(muster, "step 3 ")
    assert after.startswith(before), "the log is complete, and the job did not start again"
    assert muster("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}").ok().out == uids
    for pod in ("ranks-master-0", "ranks-worker-0"):
        muster("exec", pod, "--", "touch", "/tmp/enough").ok()
    muster("wait", "--for=condition=Succeeded", "pytorchjob/ranks", "--timeout=60s").ok()
    log = muster("logs", "ranks-master-0").ok().out
    assert "both ranks have" in log
    assert [line for line in log.splitlines() if line.startswith("step 1 ")] == ["step 1 sum 1"], "it ran once"
    assert muster("get", "pytorchjob", "ranks", "--no-headers").ok().out.split()[1] == "Succeeded"
