"""The bundled templates and their examples with the real `argo` command, as MLP Cooker's own guide uses them: against
our own REST API, whose jobs really run, and against a loopback AIHC."""

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

pytestmark = pytest.mark.skipif(not ARGO, reason="there is no argo: python -m tools.argo_cli builds one (with Go)")

EXAMPLES = Path(__file__).parents[3] / "examples" / "cooker"
TEMPLATE = "workflowtemplate/mlp-cooker-training-job"
TASK = (
    '{"name":"my-job","jobType":"PyTorchJob","command":"python train.py","jobSpec":{"replicas":1,"image":'
    '"registry.baidubce.com/aihc-aiak/pytorch:latest","resources":[],"envs":[],"enableRDMA":true}}'
)
PROGRAM = 'import os\nprint("trained with", "TF_CONFIG" in os.environ and "TensorFlow" or os.environ["WORLD_SIZE"])\n'
SETTINGS = """
    images:
      "python:*": {{path: [{programs}]}}   # the Python of these tests has Baidu's SDK
      "muster-examples/*": {{path: [{programs}], workingDir: {folder}}}
"""


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    folder = tmp_path_factory.mktemp("cooker")
    muster = Muster(folder / "home", folder)
    muster.home.mkdir()
    muster.file("train.py", PROGRAM)
    muster.file("home/config.yaml", SETTINGS.format(programs=Path(sys.executable).parent, folder=folder))
    muster("up", "-d").ok()
    muster("create", "namespace", "argo").ok()
    muster("templates", "install", "mlp-cooker", "-n", "argo").ok()
    token = muster("tokens", "create", "cooker").ok().out.split()[-1]
    create(muster, "Secret", "mlp-cooker-credentials", stringData={"token": token})
    yield muster
    muster("down").ok()


def create(muster: Muster, kind: str, name: str, **content: Any) -> None:
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "argo"}, **content}
    muster("apply", "-f", muster.file(f"{name}.json", json.dumps(obj))).ok()


@pytest.fixture(scope="module")
def argo(muster: Muster) -> Argo:
    told = muster("env", "-n", "argo").ok().out
    settings = dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in told.splitlines())
    return Argo(muster.folder, {"PATH": os.environ["PATH"], "HOME": str(muster.folder), **settings})


def outputs(argo: Argo, name: str) -> dict[str, Any]:
    (node,) = (node for node in argo.nodes(name) if node["type"] == "Pod")
    return {each["name"]: each["value"] for each in node["outputs"]["parameters"]}


def test_submit_from_the_template_with_parameters(argo: Argo) -> None:
    name = argo(
        "submit", "-n", "argo", "--from", TEMPLATE, "--parameter", "mlp-cooker-api=http://mlp-cooker-backend:5002",
        "--parameter", f"task-params={TASK}", "--wait", "-o", "name",
    ).strip()  # fmt: skip
    created = outputs(argo, name)
    response = json.loads(created["response"])
    assert (response["success"], response["data"]["jobName"]) == (True, "my-job")
    assert response["data"]["jobId"] == created["job-id"]
    assert re.search(rf"{name}\s+Succeeded", argo("list", "-n", "argo"))
    assert re.search(r"Status:\s+Succeeded", argo("get", "-n", "argo", "@latest"))
    assert f"Created training job {created['job-id']} (my-job)" in argo("logs", "-n", "argo", "@latest")
    again = argo("resubmit", "-n", "argo", name, "--wait", "-o", "name").strip()
    assert outputs(argo, again)["job-id"] != created["job-id"]
    argo("delete", "-n", "argo", name)
    assert "not found" in argo("get", "-n", "argo", name, fine=False)


TEXT = """$HOME $$ $(PATH) `id` "quoted" \\ %s 中文 }} '''"""
"""Upstream's template pastes it into a shell script."""


def test_a_parameter_file_holds_the_task_as_an_object(argo: Argo) -> None:
    parameters = json.loads((EXAMPLES / "params.json").read_text())
    parameters["task-params"]["command"] = f"cat <<'END'\n{TEXT}\nEND\necho rank $RANK"
    argo.file("my-config.json", json.dumps(parameters))
    argo("submit", "-n", "argo", "--from", TEMPLATE, "--parameter-file", "my-config.json", "--wait")
    printed = re.findall(r" \| (.*)", argo("logs", "-n", "argo", "@latest"))
    assert printed == [TEXT, "rank 0"], "wait is true"


def test_the_examples(argo: Argo) -> None:
    submit = ("submit", "-n", "argo", "-o", "name")
    examples = ("pytorch", "tensorflow", "multi-stage", "conditional", "parallel")
    names = {example: argo(*submit, str(EXAMPLES / f"{example}.yaml")).strip() for example in examples}
    skipped = argo(*submit, str(EXAMPLES / "conditional.yaml"), "-p", "rows=0").strip()
    argo("wait", "-n", "argo", *names.values(), skipped)
    logs = {example: argo("logs", "-n", "argo", name) for example, name in names.items()}
    trained = {example: re.findall(r"trained with (.*)", log) for example, log in logs.items()}
    # A job has succeeded when its first replica has. The second may be stopped before it prints anything.
    assert set(trained.pop("pytorch")) == {"2"}
    assert set(trained.pop("tensorflow")) == {"TensorFlow"}
    assert trained == {"multi-stage": ["1", "1"], "conditional": ["1"], "parallel": ["1", "1"]}
    assert "model-a-training Succeeded" in logs["parallel"]
    assert "model-b-training Succeeded" in logs["parallel"]
    assert "○ train-model" in argo("get", "-n", "argo", skipped)


STAGES = str(EXAMPLES / "multi-stage.yaml")


def test_a_failed_job_is_retried(argo: Argo) -> None:
    name = argo("submit", "-n", "argo", STAGES, "-p", "command=exit 3", "-o", "name").strip()
    argo("wait", "-n", "argo", name, fine=False)
    assert re.search(r"Training job \S+ \(pretrain-stage\): Failed: .*exit.*code 3", argo("get", "-n", "argo", name))
    argo("retry", "-n", "argo", name, "-p", "command=echo better")
    argo("wait", "-n", "argo", name)
    assert argo("logs", "-n", "argo", name).count("| better") == 2


def test_stopping_the_workflow_stops_its_job(muster: Muster, argo: Argo) -> None:
    command = "command=echo started; sleep 600"
    name = argo("submit", "-n", "argo", STAGES, "-p", command, "-o", "name").strip()
    argo.until(lambda: "| started" in argo("logs", "-n", "argo", name))
    argo("stop", "-n", "argo", name)
    argo("wait", "-n", "argo", name, fine=False)
    assert re.search(r"The step was stopped, and training job \S+ with it", argo("logs", "-n", "argo", name))
    running = ("get", "pods", "-A", "-l", "training.kubeflow.org/job-name", "--field-selector", "status.phase=Running")
    argo.until(lambda: not muster(*running, "-o", "name").ok().out)


@pytest.fixture
def aihc(muster: Muster) -> Iterator[AihcServer]:
    """With the ConfigMap of the guide, which holds the keys, too."""
    with AihcServer() as server:
        data = {"ak": AK, "sk": SK, "resource-pool-id": SERVERLESS, "queue-id": "q-1", "aihc-base-url": server.url}
        create(muster, "ConfigMap", "aihc-config", data=data)
        yield server


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
