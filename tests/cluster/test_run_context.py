"""`muster run FILE --context NAME`: the same file and the same live output on a real cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from muster.kube.manifests import dump
from muster.kube.objects import Object
from tests.cluster.conftest import Needs
from tests.cluster.operating import operating, without_the_peer
from tools.cluster import images
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

RUN = [sys.executable, "-m", "muster", "run"]


def workflow() -> Object:
    text = "{{inputs.parameters.text}}"
    task = {"template": "say", "arguments": {"parameters": [{"name": "text", "value": "first"}]}}
    then = {"template": "say", "arguments": {"parameters": [{"name": "text", "value": "second"}]}, "depends": "a"}
    program = {"image": images.BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", f"echo said {text}"]}
    say = {"name": "say", "inputs": {"parameters": [{"name": "text"}]}, "container": program}
    templates = [{"name": "main", "dag": {"tasks": [{"name": "a", **task}, {"name": "b", **then}]}}, say]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "words"},
        "spec": {"entrypoint": "main", "templates": templates},
    }


def training_job(command: str, replicas: int) -> Object:
    """Ends when all workers have."""
    container = {
        "name": "paddle",
        "image": images.BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
    }
    template = {"spec": {"containers": [container]}}
    workers = {"replicas": replicas, "restartPolicy": "Never", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "both"},
        "spec": {"paddleReplicaSpecs": {"Worker": workers}},
    }


def allow_reports(real: RealCluster, namespace: str) -> None:
    """As docs/cluster-platform.md says."""
    rights = ["--verb=create,patch", "--resource=workflowtaskresults.argoproj.io", f"--namespace={namespace}"]
    real.kubectl("create", "role", "executor", *rights)
    account = f"--serviceaccount={namespace}:default"
    real.kubectl("create", "rolebinding", "executor", "--role=executor", account, f"--namespace={namespace}")


def run_on(real: RealCluster, namespace: str, file: Path) -> subprocess.CompletedProcess[str]:
    context = real.kubectl("config", "current-context").strip()
    return real.run([*RUN, str(file), f"--context={context}", f"--namespace={namespace}"], seconds=400)


def run_here(file: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MUSTER_HOME": str(home)}
    return subprocess.run([*RUN, str(file)], env=environment, capture_output=True, text=True, timeout=200)


UNFINISHED = re.compile(r" (Running|Pending|PodInitializing|ContainerCreating|Init:\S+)(: .*)?$")


def essence(output: str) -> list[str]:
    """The lines without times, and without states on the way: a cluster has some that the laptop has not. Pods may run
    side by side, so the order of lines means nothing."""
    lines = [re.sub(r" (after|in) [\dhms.]+", "", line) for line in output.splitlines()]
    lines = [re.sub(r"(?<= )\d+s$", "", line).rstrip() for line in lines]
    return sorted({re.sub(r" +", " ", line) for line in lines if not UNFINISHED.search(line)})


def test_a_workflow_prints_the_same(needs: Needs, namespace: str, tmp_path: Path) -> None:
    real = needs("node", "argo")
    allow_reports(real, namespace)
    file = tmp_path / "workflow.yaml"
    file.write_text(dump(workflow()))
    there, here = run_on(real, namespace, file), run_here(file, tmp_path / "home")
    assert (there.returncode, here.returncode) == (0, 0), there.stdout + there.stderr + here.stderr
    assert essence(there.stdout) == essence(here.stdout)
    assert re.findall(r"(?m)^\S+ \| (.*)$", there.stdout) == ["said first", "said second"], "nothing of the executor"
    assert re.search(r"(?m)^workflow.argoproj.io/words succeeded in", there.stdout)


@pytest.mark.parametrize(
    ("command", "replicas", "code"),
    [("echo worker ${HOSTNAME##*-} of $PADDLE_NNODES", 2, 0), ("echo failing; exit 3", 1, 1)],
    ids=["succeeds", "fails"],
)
def test_a_training_job_prints_the_same(
    needs: Needs, namespace: str, tmp_path: Path, command: str, replicas: int, code: int
) -> None:
    real = needs("node")
    file = tmp_path / "job.yaml"
    file.write_text(dump(training_job(command, replicas)))
    with without_the_peer(real), operating(real, f"--namespace={namespace}", name="context-operator", port=8098):
        there = run_on(real, namespace, file)
    here = run_here(file, tmp_path / "home")
    assert (there.returncode, here.returncode) == (code, code), there.stdout + there.stderr + here.stderr
    assert essence(there.stdout) == essence(here.stdout)
    lines = sorted(re.findall(r"(?m)^\S+ \| (.*)$", there.stdout))
    assert lines == (["failing"] if code else ["worker 0 of 2", "worker 1 of 2"])
