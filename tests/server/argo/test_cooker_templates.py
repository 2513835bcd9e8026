"""The bundled templates and their examples with the real `argo` command, as MLP Cooker's own guide uses them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Muster
from tests.dispatch.aihc_server import AK, SERVERLESS, SK, AihcServer
from tests.server.argo.test_argo_command import ARGO, Argo
from tests.workflows.bundled.cooker_backend import CookerBackend, serve_cooker

pytestmark = pytest.mark.skipif(not ARGO, reason="there is no argo: python -m tools.argo_cli builds one (with Go)")

EXAMPLES = Path(__file__).parents[3] / "examples" / "cooker"
TEMPLATE = "workflowtemplate/mlp-cooker-training-job"
TASK = (
    '{"name":"my-job","jobType":"PyTorchJob","command":"python train.py","jobSpec":{"replicas":1,"image":'
    '"registry.baidubce.com/aihc-aiak/pytorch:latest","resources":[],"envs":[],"enableRDMA":true}}'
)


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    folder = tmp_path_factory.mktemp("cooker")
    muster = Muster(folder / "home", folder)
    muster.home.mkdir()
    # The Python of these tests has Baidu's SDK, so that the step need not install it.
    (muster.home / "config.yaml").write_text(f'images: {{"python:*": {{path: [{Path(sys.executable).parent}]}}}}\n')
    muster("up", "-d").ok()
    muster("create", "namespace", "argo").ok()
    muster("templates", "install", "mlp-cooker", "-n", "argo").ok()
    yield muster
    muster("down").ok()


@pytest.fixture(scope="module")
def argo(muster: Muster) -> Argo:
    told = muster("env", "-n", "argo").ok().out
    settings = dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in told.splitlines())
    return Argo(muster.folder, {"PATH": os.environ["PATH"], "HOME": str(muster.folder), **settings})


@pytest.fixture
def backend(argo: Argo) -> Iterator[CookerBackend]:
    with serve_cooker() as backend:
        yield backend
        argo("delete", "-n", "argo", "--all")


def api(backend: CookerBackend) -> tuple[str, str]:
    return "--parameter", f"mlp-cooker-api={backend.address}"


def tasks(backend: CookerBackend) -> list[str]:
    return sorted(job.task["name"] for job in backend.jobs.values())


def outputs(argo: Argo, name: str) -> dict[str, Any]:
    (node,) = argo.nodes(name)
    return {each["name"]: each["value"] for each in node["outputs"]["parameters"]}


def test_submit_from_the_template_with_parameters(argo: Argo, backend: CookerBackend) -> None:
    name = argo(
        "submit", "-n", "argo", "--from", TEMPLATE, *api(backend), "--parameter", f"task-params={TASK}", "--wait",
        "-o", "name",
    ).strip()  # fmt: skip
    assert [job.task for job in backend.jobs.values()] == [json.loads(TASK)]
    assert json.loads(outputs(argo, name)["response"])["data"]["jobName"] == "my-job"
    assert re.search(rf"{name}\s+Succeeded", argo("list", "-n", "argo"))
    assert re.search(r"Status:\s+Succeeded", argo("get", "-n", "argo", "@latest"))
    assert "Created training job job-1 (my-job)" in argo("logs", "-n", "argo", "@latest")
    again = argo("resubmit", "-n", "argo", name, "--wait", "-o", "name").strip()
    assert again != name
    assert len(backend.jobs) == 2
    argo("delete", "-n", "argo", name)
    assert "not found" in argo("get", "-n", "argo", name, fine=False)


COMMAND = "echo '$HOME $$ $(PATH) `id`' \"quoted\" \\ %s 中文 \n}} '''"
"""Upstream's template pastes it into a shell script."""


def test_a_parameter_file_holds_the_task_as_an_object(argo: Argo, backend: CookerBackend) -> None:
    parameters = json.loads((EXAMPLES / "params.json").read_text()) | {"mlp-cooker-api": backend.address}
    parameters["task-params"]["command"] = COMMAND
    argo.file("my-config.json", json.dumps(parameters))
    argo("submit", "-n", "argo", "--from", TEMPLATE, "--parameter-file", "my-config.json", "--wait")
    assert [job.task for job in backend.jobs.values()] == [parameters["task-params"]]
    assert "job-1-master-0 | my-training-job line 5" in argo("logs", "-n", "argo", "@latest"), "wait is true"


def test_the_examples(argo: Argo, backend: CookerBackend) -> None:
    trained = {
        "pytorch": ["pytorch-training"],
        "tensorflow": ["tensorflow-training"],
        "deepspeed": ["deepspeed-training"],
        "multi-stage": ["pretrain-stage", "finetune-stage"],
        "conditional": ["conditional-training"],
        "parallel": ["model-a-training", "model-b-training"],
    }
    submit = ("submit", "-n", "argo", *api(backend), "-o", "name")
    names = {example: argo(*submit, str(EXAMPLES / f"{example}.yaml")).strip() for example in trained}
    skipped = argo(*submit, str(EXAMPLES / "conditional.yaml"), "-p", "rows=0").strip()
    argo("wait", "-n", "argo", *names.values(), skipped)
    assert tasks(backend) == sorted(name for each in trained.values() for name in each)
    assert "○ train-model" in argo("get", "-n", "argo", skipped)
    reported = argo("logs", "-n", "argo", names["parallel"])
    assert "model-a-training Succeeded" in reported
    assert "model-b-training Succeeded" in reported


def test_a_failed_job_is_retried(argo: Argo, backend: CookerBackend) -> None:
    backend.states = ["Failed"]
    submit = ("submit", "-n", "argo", *api(backend), "-o", "name", str(EXAMPLES / "multi-stage.yaml"))
    name = argo(*submit).strip()
    argo("wait", "-n", "argo", name, fine=False)
    assert "Training job job-1 (pretrain-stage): Failed: job-1-master-0: OOMKilled" in argo("get", "-n", "argo", name)
    backend.states = ["Succeeded"]
    argo("retry", "-n", "argo", name)
    argo("wait", "-n", "argo", name)
    assert tasks(backend) == ["finetune-stage", "pretrain-stage", "pretrain-stage"]


def test_stopping_the_workflow_stops_its_job(argo: Argo, backend: CookerBackend) -> None:
    backend.states = ["Running"]
    name = argo("submit", "-n", "argo", *api(backend), "-o", "name", str(EXAMPLES / "pytorch.yaml")).strip()
    argo.until(lambda: "line 5" in argo("logs", "-n", "argo", name))
    argo("stop", "-n", "argo", name)
    argo("wait", "-n", "argo", name, fine=False)
    assert backend.stopped == ["job-1"]
    assert "The step was stopped, and training job job-1 with it" in argo("logs", "-n", "argo", name)


@pytest.fixture
def aihc(muster: Muster, argo: Argo) -> Iterator[AihcServer]:
    """With the ConfigMap of the guide, which holds the keys, too."""
    with AihcServer() as server:
        data = {"ak": AK, "sk": SK, "resource-pool-id": SERVERLESS, "queue-id": "q-1", "aihc-base-url": server.url}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "aihc-config"}, "data": data}
        muster("apply", "-n", "argo", "-f", argo.file("aihc-config.json", json.dumps(config))).ok()
        yield server
        argo("delete", "-n", "argo", "--all")


def test_the_whole_guide_on_aihc(argo: Argo, aihc: AihcServer) -> None:
    argo.file("config.json", '{"priority": "high", "wait": "true"}')
    name = argo(
        "submit", "-n", "argo", "--from", "workflowtemplate/aihc-training-job",
        "--parameter", "job-name=my-pytorch-training", "--parameter", "command=python train.py --lr 0.001 --epochs 100",
        "--parameter", "replicas=4", "--parameter-file", "config.json", "--wait", "-o", "name",
    ).strip()  # fmt: skip
    job = aihc.job("my-pytorch-training")
    assert job.body["command"] == "python train.py --lr 0.001 --epochs 100"
    assert (job.body["jobSpec"]["replicas"], job.body["priority"]) == (4, "high")
    assert (outputs(argo, name)["job-id"], outputs(argo, name)["status"]) == (job.job_id, "Succeeded")
    assert "my-pytorch-training-worker-2 | " in argo("logs", "-n", "argo", "@latest")
    for kind, command in (("PyTorchJob", "torchrun --nproc_per_node=8 train.py"), ("TensorFlowJob", "python train.py")):
        argo(
            "submit", "-n", "argo", "--from", "workflowtemplate/aihc-training-job", "--parameter", f"job-type={kind}",
            "--parameter", f"command={command}", "--wait",
        )  # fmt: skip
    kinds = [job.body["jobType"] for job in aihc.jobs.values() if job.body["name"] == "pytorch-training-job"]
    assert kinds == ["PyTorchJob", "TFJob"]


FLOW = """
    apiVersion: argoproj.io/v1alpha1
    kind: Workflow
    metadata: {generateName: guide-}
    spec:
      entrypoint: main
      templates:
      - name: main
        steps:
        - - name: validate-data
            template: data-validation
        - - name: pretrain
            templateRef: {name: aihc-training-job, template: create-training-job}
            arguments:
              parameters: [{name: job-name, value: "pretrain-stage"}, {name: command, value: "python pretrain.py"}]
        - - name: train-model
            templateRef: {name: aihc-training-job, template: create-training-job}
            when: "{{steps.validate-data.outputs.result}} == 'valid'"
          - name: train-model-a
            templateRef: {name: aihc-training-job, template: create-training-job}
            arguments: {parameters: [{name: job-name, value: "model-a-training"}]}
          - name: train-model-b
            templateRef: {name: aihc-training-job, template: create-training-job}
            arguments: {parameters: [{name: job-name, value: "model-b-training"}]}
      - name: data-validation
        script: {image: busybox, command: [sh], source: echo valid}
"""
"""The guide's workflows in stages, with a condition and in parallel. Their steps leave out most of the parameters."""


def test_steps_may_leave_out_parameters(argo: Argo, aihc: AihcServer) -> None:
    argo("submit", "-n", "argo", argo.file("flow.yaml", FLOW), "--wait")
    names = ["model-a-training", "model-b-training", "pretrain-stage", "pytorch-training-job"]
    assert dict(aihc.creations) == dict.fromkeys(names, 1)
    assert aihc.job("pretrain-stage").body["command"] == "python pretrain.py"
