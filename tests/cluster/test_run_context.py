"""`muster run FILE --context NAME`: the same file and the same live output on a real cluster."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from muster.kube.manifests import dump
from muster.kube.objects import Object
from tests.cluster.conftest import Needs
from tools.cluster import images

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


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
        "metadata": {"generateName": "words-"},
        "spec": {"entrypoint": "main", "templates": templates},
    }


def test_a_workflow_prints_what_its_programs_write(needs: Needs, namespace: str, tmp_path: Path) -> None:
    real = needs("node", "argo")
    rights = ["--verb=create,patch", "--resource=workflowtaskresults.argoproj.io", f"--namespace={namespace}"]
    real.kubectl("create", "role", "executor", *rights)
    account = f"--serviceaccount={namespace}:default"
    real.kubectl("create", "rolebinding", "executor", "--role=executor", account, f"--namespace={namespace}")
    file = tmp_path / "workflow.yaml"
    file.write_text(dump(workflow()))
    context = real.kubectl("config", "current-context").strip()
    words = ["-m", "muster", "run", str(file), f"--context={context}", f"--namespace={namespace}"]
    done = real.run([sys.executable, *words], seconds=240)
    assert done.returncode == 0, done.stdout + done.stderr
    logged = re.findall(r"(?m)^(\S+) \| (.*)$", done.stdout)
    assert [text for _, text in logged] == ["said first", "said second"], "and nothing of Argo's executor"
    assert all("/" not in source for source, _ in logged)
    assert re.search(r"✔ words-\w+ +main", done.stdout)
    assert re.search(r"workflow.argoproj.io/words-\w+ succeeded in", done.stdout)
