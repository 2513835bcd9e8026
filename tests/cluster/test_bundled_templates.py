"""The bundled WorkflowTemplates and their examples on the real Argo controller, with `argo` and `kubectl`."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import Needs
from tests.dispatch.aihc_server import AK, SERVERLESS, SK, AihcServer
from tests.workflows.bundled.cooker_backend import CookerBackend, serve_cooker
from tools.cluster import addons, images
from tools.cluster.build import program
from tools.cluster.cluster import Cluster
from tools.cluster.layout import NODE_ADDRESS
from tools.cluster.sources import ARGO
from tools.cluster.webhooks import endpoint

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples" / "cooker"
NAMESPACE = f"--namespace={addons.WORKFLOWS}"
BACKEND = "mlp-cooker-backend"
COMMAND = "echo '$HOME $$ $(PATH) `id`' \"quoted\" \\ %s 中文 \n}} '''"
Argo = Callable[..., str]


@pytest.fixture(scope="module")
def argo(needs: Needs) -> Argo:
    """Runs `argo` in the namespace of workflows, after the templates were installed."""
    cluster = needs("node", "argo")
    cluster.load(images.python("python:3.12-slim", ["bce-python-sdk"]))
    for said in ("", "unchanged"):
        install = ["templates", "install", "mlp-cooker", NAMESPACE, f"--kubeconfig={cluster.kubeconfig}"]
        done = cluster.run([sys.executable, "-m", "muster", *install])
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(said) >= 2

    def run(*words: str, fine: bool = True) -> str:
        done = cluster.run([str(program(ARGO, "argo")), words[0], NAMESPACE, *words[1:]], seconds=300)
        assert (done.returncode == 0) is fine, (words, done.stdout, done.stderr)
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)

    return run


@pytest.fixture
def backend(real: Cluster) -> Iterator[CookerBackend]:
    """It runs beside the cluster, and is http://mlp-cooker-backend:5002 for Pods."""
    with serve_cooker(NODE_ADDRESS) as backend, ExitStack() as made:
        port = int(backend.address.rpartition(":")[2])
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": BACKEND, "namespace": addons.WORKFLOWS}}
        real.apply(
            {**service, "spec": {"ports": [{"name": "http", "port": 5002, "targetPort": port}]}},
            endpoint(addons.WORKFLOWS, BACKEND, {"http": port}),
        )
        made.callback(real.kubectl, "delete", "service", BACKEND, NAMESPACE)
        made.callback(real.kubectl, "delete", "endpointslice", f"{BACKEND}-process", NAMESPACE)
        yield backend


def submit(argo: Argo, *words: str) -> str:
    return argo("submit", *words, "--output=name").strip()


def nodes(argo: Argo, name: str) -> list[dict[str, Any]]:
    return list(json.loads(argo("get", name, "--output=json"))["status"]["nodes"].values())


def outputs(argo: Argo, name: str) -> dict[str, str]:
    (node,) = (node for node in nodes(argo, name) if node["type"] == "Pod")
    return {each["name"]: each["value"] for each in node["outputs"]["parameters"]}


def test_jobs_through_mlp_cooker(argo: Argo, backend: CookerBackend, tmp_path: Path) -> None:
    parameters = json.loads((EXAMPLES / "params.json").read_text())
    parameters["task-params"]["command"] = COMMAND
    (tmp_path / "params.json").write_text(json.dumps(parameters))
    template = ("--from", "workflowtemplate/mlp-cooker-training-job", "--parameter-file")
    from_file = submit(argo, *template, str(tmp_path / "params.json"))
    flows = {name: submit(argo, str(EXAMPLES / f"{name}.yaml")) for name in ("multi-stage", "conditional", "parallel")}
    skipped = submit(argo, str(EXAMPLES / "conditional.yaml"), "-p", "rows=0")
    argo("wait", from_file, *flows.values(), skipped)
    created = {job.task["name"]: job.task for job in backend.jobs.values()}
    names = ["conditional-training", "finetune-stage", "model-a-training", "model-b-training", "my-training-job"]
    assert sorted(created) == [*names, "pretrain-stage"]
    assert created["my-training-job"] == parameters["task-params"]
    found = outputs(argo, from_file)
    assert (json.loads(found["response"])["data"]["jobName"], found["status"]) == ("my-training-job", "Succeeded")
    logs = argo("logs", from_file)
    assert [number for number in range(1, 6) if logs.count(f"my-training-job line {number}") != 1] == []
    assert "model-b-training Succeeded" in argo("logs", flows["parallel"])
    assert "○ train-model" in argo("get", skipped)


def test_a_job_that_fails_and_one_that_is_stopped(argo: Argo, backend: CookerBackend) -> None:
    backend.states = ["Failed"]
    failed = submit(argo, str(EXAMPLES / "tensorflow.yaml"))
    argo("wait", failed, fine=False)
    (node,) = (node for node in nodes(argo, failed) if node["type"] == "Pod")
    assert "Training job job-1 (tensorflow-training): Failed: job-1-master-0: OOMKilled" in node["message"]
    backend.states = ["Running"]
    stopped = submit(argo, str(EXAMPLES / "pytorch.yaml"))
    while "line 5" not in argo("logs", stopped):
        time.sleep(1)
    argo("stop", stopped)
    argo("wait", stopped, fine=False)
    assert backend.stopped == ["job-2"]


def test_jobs_on_aihc(argo: Argo, real: Cluster) -> None:
    with AihcServer(host=NODE_ADDRESS) as aihc, ExitStack() as made:
        keys = (f"--from-literal=ak={AK}", f"--from-literal=sk={SK}")
        places = (f"--from-literal=resource-pool-id={SERVERLESS}", "--from-literal=queue-id=q-1")
        real.kubectl("create", "secret", "generic", "aihc-credentials", NAMESPACE, *keys)
        made.callback(real.kubectl, "delete", "secret", "aihc-credentials", NAMESPACE)
        address = f"--from-literal=aihc-base-url={aihc.url}"
        real.kubectl("create", "configmap", "aihc-config", NAMESPACE, *places, address)
        made.callback(real.kubectl, "delete", "configmap", "aihc-config", NAMESPACE)
        stages = submit(argo, str(EXAMPLES / "aihc.yaml"))
        single = submit(
            argo, "--from", "workflowtemplate/aihc-training-job", "-p", "job-name=my-training", "-p",
            f"command={COMMAND}", "-p", "replicas=4", "-p", "job-type=TensorFlowJob",
        )  # fmt: skip
        argo("wait", stages, single)
        assert dict(aihc.creations) == {"pretrain-stage": 1, "finetune-stage": 1, "my-training": 1}
        job = aihc.job("my-training")
        assert (job.body["command"], job.body["jobType"], job.body["jobSpec"]["replicas"]) == (COMMAND, "TFJob", 4)
        assert outputs(argo, single)["job-id"] == job.job_id
        assert SK not in argo("logs", stages)
