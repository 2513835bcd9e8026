"""Workflows from the command line, from submission to deletion, on a real embedded cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.cli.commands import Muster, read_until

WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: story-}
spec:
  entrypoint: main
  arguments: {parameters: [{name: end, value: "true"}]}
  templates:
  - name: main
    dag:
      tasks:
      - {name: prepare, template: say}
      - {name: fit, template: say, dependencies: [prepare], withItems: [1, 2]}
      - {name: judge, template: judge, dependencies: [fit]}
  - name: say
    container: {image: busybox, command: [sh, -c, "echo working on {{tasks.name}}"]}
  - name: judge
    container: {image: busybox, command: [sh, -c, "echo judging; {{workflow.parameters.end}}"]}
""".replace("{{tasks.name}}", "it")
WAITING = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: waiting}
spec:
  entrypoint: main
  templates:
  - name: main
    steps: [[{name: approve, template: approve}]]
  - {name: approve, suspend: {}}
"""


@pytest.fixture(scope="module")
def box(cluster: Muster) -> Iterator[Muster]:
    cluster.file("story.yaml", WORKFLOW)
    yield cluster
    cluster("delete", "workflows", "--all")


def submit(box: Muster, *words: str) -> str:
    """Returns the name of a new workflow."""
    return box("submit", "story.yaml", "-o", "name", *words).ok().out.strip().removeprefix("workflow.argoproj.io/")


def test_latest_needs_a_workflow(muster: Muster) -> None:
    muster("up", "-d").ok()
    for words in (("get", "@latest"), ("logs", "@latest"), ("stop", "@latest"), ("delete", "@latest")):
        told = muster(*words)
        assert told.code == 1
        assert "@latest: there are no workflows in namespace" in told.err


def test_a_parameter_that_the_workflow_does_not_have(box: Muster) -> None:
    told = box("submit", "story.yaml", "-o", "name", "-p", "ends=false", "-p", "end=true").ok()
    assert told.err == 'Warning: story.yaml: has no parameter "ends" in spec.arguments; did you mean "end"?\n'
    box("delete", told.out.strip()).ok()


def test_submit_and_get(box: Muster) -> None:
    done = box("submit", "story.yaml", "--watch").ok()
    assert "prepare Running" in done.out or "prepare Succeeded" in done.out
    assert re.search(r"└─✔ judge", done.out)
    name = box("list", "-o", "name").ok().out.split()[0].partition("/")[2]
    assert re.search(rf"{name}\s+Succeeded", box("list").ok().out)
    for words in (("describe", "wf", "@latest"), ("get", "wf", "@latest"), ("get", "wf/@latest")):
        assert name in box(*words).ok().out
    assert "condition met" in box("wait", "wf/@latest", "--for=condition=Completed", "--timeout=60s").ok().out
    for word in ("@latest", name, f"wf/{name}"):
        tree = box("get", word).ok().out
        assert f"Name:                {name}" in tree
        assert re.search(r"├─✔ fit\(0:1\)|│ ├─✔ fit\(0:1\)", tree)
    assert json.loads(box("get", "@latest", "-o", "json").ok().out)["metadata"]["name"] == name
    assert box("get", "workflows").ok().out.startswith("NAME")
    assert box("get", "workflow", name).ok().out.startswith("NAME"), "with its type, it is an object like others"


def test_logs_of_a_workflow_include_those_of_its_jobs(box: Muster) -> None:
    job = """
        apiVersion: argoproj.io/v1alpha1
        kind: Workflow
        metadata: {name: trains}
        spec:
          entrypoint: both
          templates:
          - name: both
            dag: {tasks: [{name: fit, template: train}, {name: other, template: other}]}
          - {name: other, container: {image: busybox, command: [echo, beside]}}
          - name: train
            resource:
              action: create
              successCondition: status.replicaStatuses.Worker.succeeded == 1
              manifest: |
                apiVersion: kubeflow.org/v1
                kind: JAXJob
                metadata: {name: trained}
                spec:
                  jaxReplicaSpecs:
                    Worker:
                      template: {spec: {containers: [{name: jax, image: busybox, command: [echo, fitted]}]}}
        """
    shown = box("submit", box.file("trains.yaml", job), "--log").ok().out
    assert re.search("^trained-worker-0: fitted$", shown, re.MULTILINE)
    both = sorted(line.partition(": ")[2] for line in box("logs", "trains").ok().out.splitlines())
    assert both == ["beside", "fitted"]
    assert box("logs", "trains", "fit").ok().out == "trained-worker-0: fitted\n"
    assert box("logs", "trains", "fit", "--follow").ok().out == "trained-worker-0: fitted\n"
    assert box("logs", "trains", "other").ok().out.endswith(": beside\n")


def test_logs_of_a_workflow_and_of_a_node(box: Muster) -> None:
    name = submit(box)
    followed = box("logs", name, "--follow").ok().out
    assert followed.count("working on it") == 3
    assert followed.endswith("judging\n")
    assert box("logs", "@latest").ok().out.count("working on it") == 3
    assert box("logs", name, "fit").ok().out.count("working on it") == 2
    assert re.fullmatch(rf"{name}-judge-\d+: judging\n", box("logs", f"wf/{name}", "judge").ok().out)
    wrong = box("logs", name, "jugde")
    assert (wrong.code, "did you mean judge?" in wrong.err) == (1, True)


def test_exit_codes_of_logs_and_wait(box: Muster) -> None:
    failed = box("submit", "story.yaml", "-p", "end=exit 3", "--log")
    assert failed.code == 1
    assert "judging" in failed.out
    why = r"story-\w+ Failed at \S+: judge: .*exit code 3.*; `muster describe workflow story-\w+` shows more"
    assert re.search(why, failed.out)
    assert re.search(why, box("submit", "story.yaml", "-p", "end=exit 3", "--wait").out)
    assert box("submit", "story.yaml", "--wait").code == 0


def test_retry_runs_only_failed_nodes(box: Muster) -> None:
    failed = box("submit", "story.yaml", "-p", "end=false", "-o", "name", "--wait")
    assert failed.code == 1
    name = failed.out.split()[0].partition("/")[2]
    before = json.loads(box("get", name, "-o", "json").ok().out)["status"]["nodes"]
    box("retry", name, "-p", "end=true", "--wait").ok()
    after = json.loads(box("get", name, "-o", "json").ok().out)["status"]["nodes"]
    for node in before.values():
        if node["type"] == "Pod" and node["phase"] == "Succeeded":
            assert after[node["id"]]["finishedAt"] == node["finishedAt"]
    again = box("resubmit", name, "--wait").ok().out
    assert f"workflow {name} resubmitted" in again


def test_a_suspended_step(box: Muster) -> None:
    box("submit", box.file("waiting.yaml", WAITING)).ok()
    box("wait", "wf/waiting", "--for=jsonpath={.status.phase}=Running").ok()
    watching = box.start("get", "waiting", "--watch")
    read_until(watching, "approve Running")
    assert "Running (Suspended)" in box("list", "--running").ok().out or "‖ approve" in box("get", "waiting").ok().out
    assert box("resume", "waiting").ok().out == "workflow waiting resumed\n"
    assert "✔ approve" in watching.communicate(timeout=60)[0]
    box("delete", "waiting").ok()
    box("submit", "waiting.yaml").ok()
    box("stop", "waiting").ok()
    box("wait", "wf/waiting", "--for=jsonpath={.status.phase}=Failed").ok()
    assert "Failed (Terminated)" in box("list").ok().out
    again = box("terminate", "waiting")
    assert (again.code, "completed workflow" in again.err) == (1, True)


def test_submit_from_a_template_with_a_parameter_file(box: Muster) -> None:
    template = WORKFLOW.replace("kind: Workflow", "kind: WorkflowTemplate").replace(
        "generateName: story-", "name: kept"
    )
    box("apply", "-f", box.file("template.yaml", template)).ok()
    box.file("values.json", '{"end": "echo from a file"}')
    done = box("submit", "--from", "workflowtemplate/kept", "--parameter-file", "values.json", "--log").ok()
    assert "from a file" in done.out
    assert "kept-" in done.out
    unknown = box("submit", "--from", "workflowtemplate/nope")
    assert (unknown.code, "not found" in unknown.err) == (1, True)
    assert "KIND/NAME" in box("submit", "--from", "kept").err


def test_install_the_templates_that_come_with_muster(box: Muster) -> None:
    install = ("templates", "install", "mlp-cooker")
    names = [f"workflowtemplate.argoproj.io/{name}" for name in ("aihc-training-job", "mlp-cooker-training-job")]
    said = [f"{name} created (server dry run)" for name in names]
    assert box(*install, "--dry-run").ok().out.splitlines() == said
    assert box(*install).ok().out.splitlines() == [f"{name} created" for name in names]
    assert box(*install).ok().out.splitlines() == [f"{name} unchanged" for name in names]
    failed = box(*install, "-n", "nowhere")
    assert failed.code == 1
    assert 'namespace "nowhere" does not exist; create it with `muster create namespace nowhere`' in failed.err


def test_dry_runs_and_errors(box: Muster) -> None:
    assert "entrypoint: main" in box("submit", "story.yaml", "--dry-run", "-o", "yaml").ok().out
    wrong = box("submit", box.file("wrong.yaml", WORKFLOW.replace("template: judge,", "template: jugde,")))
    assert wrong.code == 1
    assert re.search(r"wrong.yaml:\d+ spec.templates\[0\]", wrong.err)
    linted = box("lint", "wrong.yaml", "story.yaml")
    assert linted.code == 1
    assert "jugde" in linted.out
    assert box("lint", "story.yaml").ok().out == "1 object, no mistakes\n"
    other = box("submit", box.file("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"))
    assert "is not a Workflow" in other.err
    misspelt = box("submit", box.file("misspelt.yaml", WORKFLOW.replace("kind: Workflow", "kind: Workflw")))
    assert 'unknown kind "Workflw"; did you mean "Workflow"?' in misspelt.err


def test_similar_names_are_suggested(box: Muster) -> None:
    name = submit(box, "--name", "misspelled")
    assert name == "misspelled"
    for words in (("get", "mispelled"), ("stop", "mispelled"), ("get", "wf/mispelled")):
        told = box(*words)
        assert told.code == 1
        assert "did you mean misspelled" in told.err
    assert box("delete", "misspelled").ok().out == 'workflow.argoproj.io "misspelled" deleted\n'


def test_run_follows_a_workflow_to_its_end(box: Muster) -> None:
    done = box("run", "story.yaml").ok()
    assert "└─✔ judge" in done.out
    failed = box("run", box.file("failing.yaml", WORKFLOW.replace('value: "true"', 'value: "exit 4"')))
    assert failed.code == 1
    assert "✖ judge" in failed.out
    assert "exited with code 4" in failed.out
