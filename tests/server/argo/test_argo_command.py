"""The real `argo` command works unchanged over Argo Server's API and over the Kubernetes API. The commands are from a
team's own notes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.cli.commands import PATIENCE, Muster

CACHE = Path.home() / ".cache" / "muster"
BUILT = [path for path in (CACHE / "cluster/argo-v4.0.7/bin/argo", CACHE / "bin/argo-4.0.7") if path.exists()]
ARGO = os.environ.get("MUSTER_TEST_ARGO") or (str(BUILT[0]) if BUILT else shutil.which("argo") or "")
pytestmark = pytest.mark.skipif(
    not ARGO, reason="there is no argo: python -m tools.argo_cli builds one (with Go), or name it in MUSTER_TEST_ARGO"
)

SAY = "container: {image: busybox, command: [sh, -c, 'echo {{inputs.parameters.text}}']}"
TRAINING = f"""
    apiVersion: argoproj.io/v1alpha1
    kind: WorkflowTemplate
    metadata: {{name: training-job}}
    spec:
      entrypoint: train
      arguments:
        parameters: [{{name: job-name}}, {{name: command, value: "true"}}, {{name: task-params, value: "{{}}"}}]
      templates:
      - name: train
        inputs: {{parameters: [{{name: text, value: "training {{{{workflow.parameters.job-name}}}} with {{{{workflow.parameters.task-params}}}}"}}]}}
        {SAY}
"""  # noqa: E501 (a line of YAML)
STAGES = f"""
    apiVersion: argoproj.io/v1alpha1
    kind: Workflow
    metadata: {{generateName: stages-}}
    spec:
      entrypoint: main
      arguments: {{parameters: [{{name: last, value: "false"}}]}}
      templates:
      - name: main
        steps:
        - - {{name: pretrain, template: say, arguments: {{parameters: [{{name: text, value: pretrained}}]}}}}
        - - {{name: finetune, template: maybe, arguments: {{parameters: [{{name: text, value: "{{{{workflow.parameters.last}}}}"}}]}}}}
      - name: say
        inputs: {{parameters: [{{name: text}}]}}
        {SAY}
      - name: maybe
        inputs: {{parameters: [{{name: text}}]}}
        container: {{image: busybox, command: [sh, -c, "echo finetuning; {{{{inputs.parameters.text}}}}"]}}
"""  # noqa: E501
WAITING = """
    apiVersion: argoproj.io/v1alpha1
    kind: Workflow
    metadata: {generateName: waiting-}
    spec:
      entrypoint: main
      onExit: bye
      templates:
      - name: main
        steps:
        - - {name: approve, template: approve}
      - {name: approve, suspend: {}}
      - name: bye
        container: {image: busybox, command: [echo, good-bye]}
"""


class Argo:
    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.folder = folder
        self.settings = settings

    def __call__(self, *words: str, fine: bool = True) -> str:
        done = subprocess.run(
            [ARGO, *words], cwd=self.folder, env=self.settings, capture_output=True, text=True, timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (done.returncode == 0) is fine, (words, done.returncode, done.stdout, done.stderr)
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout if fine else done.stdout + done.stderr)

    def until_suspended(self, name: str) -> None:
        """Waits until a step is suspended."""
        self.until(lambda: "Suspend" in [node["type"] for node in self.nodes(name)])

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def nodes(self, name: str) -> list[dict[str, Any]]:
        return list((json.loads(self("get", name, "-o", "json"))["status"].get("nodes") or {}).values())

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(dedent(text))
        return name


@pytest.fixture(scope="module", params=["argo server", "kubernetes"])
def argo(request: pytest.FixtureRequest, cluster: Muster) -> Argo:
    """Finds the cluster as with `eval "$(muster env)"`, or by its kubeconfig alone."""
    told = cluster("env", "-n", "argo").ok().out
    settings = dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in told.splitlines())
    if request.param == "kubernetes":
        settings = {"KUBECONFIG": settings["KUBECONFIG"], "ARGO_NAMESPACE": "argo"}
    folder = cluster.folder / request.param.replace(" ", "-")
    folder.mkdir()
    return Argo(folder, {"PATH": os.environ["PATH"], "HOME": str(folder), **settings})


@pytest.fixture(autouse=True)
def delete_workflows_after_each_test(argo: Argo) -> Iterator[None]:
    """Over the Kubernetes API, argo itself finds @latest, and cannot order two workflows of the same second."""
    yield
    argo("delete", "-n", "argo", "--all")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    folder = tmp_path_factory.mktemp("argo")
    command = Muster(folder / "home", folder)
    command("up", "-d").ok()
    command.file("namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: argo}\n")
    command("create", "-f", "namespace.yaml").ok()
    yield command
    command("down").ok()


def status(argo: Argo, name: str) -> str:
    return str(json.loads(argo("get", name, "-o", "json"))["status"].get("phase"))


def test_submit_a_file_and_get_it(argo: Argo) -> None:
    name = argo(
        "submit", "-n", "argo", argo.file("stages.yaml", STAGES), "-p", "last=true", "--wait", "-o", "name"
    ).strip()
    assert re.search(rf"{name}\s+Succeeded", argo("list", "-n", "argo"))
    assert name in argo("list", "--completed")
    assert name not in argo("list", "--running")
    shown = argo("get", "-n", "argo", "@latest")
    assert re.search(r"Status:\s+Succeeded", shown)
    assert "✔ pretrain" in shown
    assert "✔ finetune" in shown
    logs = argo("logs", "-n", "argo", "@latest")
    assert "pretrained" in logs
    assert "finetuning" in logs
    argo("delete", "-n", "argo", name)
    assert "not found" in argo("get", name, fine=False)


def test_submit_from_a_template_with_parameters(argo: Argo) -> None:
    argo("template", "create", argo.file("template.yaml", TRAINING))
    assert "training-job" in argo("template", "list")
    params = '{"name":"my-job","jobSpec":{"replicas":1,"envs":[]}}'
    argo(
        "submit", "-n", "argo", "--from", "workflowtemplate/training-job", "--parameter", "job-name=my-training",
        "--parameter", f"task-params={params}", "--wait",
    )  # fmt: skip
    assert "training my-training with" in argo("logs", "-n", "argo", "@latest")
    argo.file("my-config.json", '{"job-name": "from-a-file", "command": "python train.py"}')
    submit = ("submit", "--from", "workflowtemplate/training-job")
    name = argo(*submit, "--parameter-file", "my-config.json", "--wait", "-o", "name").strip()
    assert "training from-a-file" in argo("logs", name)
    assert "job-name" in argo(*submit, fine=False)
    argo("template", "delete", "training-job")


def test_fail_then_retry_and_resubmit(argo: Argo) -> None:
    name = argo("submit", argo.file("stages.yaml", STAGES), "-o", "name").strip()
    argo("wait", name, fine=False)
    assert status(argo, name) == "Failed"
    before = json.loads(argo("get", name, "-o", "json"))["status"]["nodes"]
    argo("retry", "-n", "argo", name, "-p", "last=true")
    argo("wait", name)
    after = json.loads(argo("get", name, "-o", "json"))["status"]["nodes"]
    pretrained = next(node for node in before.values() if node["displayName"] == "pretrain")
    assert after[pretrained["id"]]["finishedAt"] == pretrained["finishedAt"], "succeeded nodes do not run again"
    assert "already" in argo("retry", name, fine=False) or status(argo, name) == "Succeeded"
    again = argo("resubmit", "-n", "argo", name, "--wait", "-o", "name").strip()
    assert again != name
    assert status(argo, again) == "Succeeded"


def test_submit_with_log_shows_every_line_and_a_memoized_resubmission_ends(argo: Argo) -> None:
    said = argo("submit", argo.file("stages.yaml", STAGES), "--log")
    assert re.search(r"^stages-\w+-say-\d+: pretrained$", said, re.MULTILINE)
    if "ARGO_SERVER" in argo.settings:
        # Over the Kubernetes API, argo watches workflow and Pods itself, and does not read the log of a Pod whose first
        # event it gets after the end of the workflow.
        assert re.search(r"^stages-\w+-maybe-\d+: finetuning$", said, re.MULTILINE)
    (failed,) = set(re.findall(r"^(stages-\w+)-say-\d+: ", said, re.MULTILINE))
    argo("wait", failed, fine=False)
    again = argo("resubmit", failed, "--memoized", "-p", "last=true", "-o", "name").strip()
    argo("wait", again)
    kept = {node["displayName"]: node for node in argo.nodes(again)}["pretrain"]
    assert "original pod" in kept["message"], "what has succeeded does not run again"
    assert "finetuning" in argo("logs", again)


def test_stop_runs_exit_handlers_and_terminate_does_not(argo: Argo) -> None:
    waiting = argo.file("waiting.yaml", WAITING)
    stopped = argo("submit", waiting, "-o", "name").strip()
    argo.until_suspended(stopped)
    argo("stop", "-n", "argo", stopped)
    argo("wait", stopped, fine=False)
    assert "good-bye" in argo("logs", stopped)
    ended = argo("submit", waiting, "-o", "name").strip()
    argo.until_suspended(ended)
    argo("terminate", ended)
    argo("wait", ended, fine=False)
    assert "good-bye" not in argo("logs", ended)
    assert "Failed (Terminated)" in argo("list")


def test_suspend_and_resume(argo: Argo) -> None:
    name = argo("submit", argo.file("waiting.yaml", WAITING), "-o", "name").strip()
    argo.until_suspended(name)
    assert f"{name} suspended" in argo("suspend", name)
    assert "Suspended" in argo("get", name)
    assert f"{name} resumed" in argo("resume", name)
    argo("wait", name)
    assert status(argo, name) == "Succeeded"
    assert "Succeeded" in argo("watch", name)
    assert "good-bye" in argo("logs", name, "--follow")


def test_supply_outputs_of_a_suspended_step(argo: Argo) -> None:
    asking = """
        apiVersion: argoproj.io/v1alpha1
        kind: Workflow
        metadata: {generateName: asking-}
        spec:
          entrypoint: main
          templates:
          - name: main
            steps:
            - - {name: ask, template: ask}
            - - name: tell
                template: tell
                arguments: {parameters: [{name: word, value: "{{steps.ask.outputs.parameters.word}}"}]}
          - name: ask
            suspend: {}
            outputs: {parameters: [{name: word, valueFrom: {supplied: {}}}]}
          - name: tell
            inputs: {parameters: [{name: word}]}
            container: {image: busybox, command: [echo, "the word is {{inputs.parameters.word}}"]}
    """
    name = argo("submit", argo.file("asking.yaml", asking), "-o", "name").strip()
    asked = ("--node-field-selector", "displayName=ask")
    argo.until_suspended(name)
    argo("node", "set", name, "--output-parameter", "word=go", *asked)
    argo("resume", name, *asked)
    argo("wait", name)
    assert "the word is go" in argo("logs", name)


def test_limits_of_semaphores(argo: Argo) -> None:
    where = ("gpu", "--type", "configmap", "--cm-name", "limits")
    argo("sync", "create", *where, "--limit", "2")
    assert "2" in argo("sync", "get", *where)
    argo("sync", "update", *where, "--limit", "3")
    argo("sync", "delete", *where)
    argo("sync", "get", *where, fine=False)


def test_cron_workflows(argo: Argo) -> None:
    cron = """
        apiVersion: argoproj.io/v1alpha1
        kind: CronWorkflow
        metadata: {name: nightly}
        spec:
          schedules: ["0 3 * * *"]
          workflowSpec:
            entrypoint: main
            templates: [{name: main, container: {image: busybox, command: [echo, night]}}]
    """
    argo("cron", "create", argo.file("cron.yaml", cron))
    assert "nightly" in argo("cron", "list")
    argo("cron", "suspend", "nightly")
    assert re.search(r"Suspended:\s+true", argo("cron", "get", "nightly"))
    argo("cron", "resume", "nightly")
    name = argo("submit", "--from", "cronwf/nightly", "--wait", "-o", "name").strip()
    assert "night" in argo("logs", name)
    argo("cron", "delete", "nightly")


def test_lint(argo: Argo) -> None:
    assert "no linting errors" in argo("lint", argo.file("stages.yaml", STAGES))
    wrong = STAGES.replace("template: maybe", "template: nowhere")
    assert "nowhere" in argo("lint", argo.file("wrong.yaml", wrong), fine=False)
    assert "nowhere" in argo("submit", "wrong.yaml", fine=False)
