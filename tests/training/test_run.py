"""`muster run` of training jobs, with programs that need no framework."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Muster


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    command = Muster(tmp_path / "home", tmp_path)
    yield command
    command.end()
    command("down").ok()


def tf_job(**commands: str) -> str:
    roles = "".join(
        f"""
    {role}:
      template:
        spec:
          containers:
            - name: tensorflow
              image: busybox
              command: [sh, -c, "{command}"]"""
        for role, command in commands.items()
    )
    return f"apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {{name: tf}}\nspec:\n  tfReplicaSpecs:{roles}\n"


def test_servers_do_not_outlive_the_job_they_served(muster: Muster) -> None:
    file = muster.file("tf.yaml", tf_job(Chief="echo trained", PS="sleep 300"))
    out = muster("run", file).ok().out
    assert "tf-chief-0 | trained" in out
    muster("up", "-d").ok()
    assert muster("get", "pods", "-o", "name").ok().out == "pod/tf-chief-0\n"
    assert muster("get", "tfjob", "tf", "--no-headers").ok().out.split()[1] == "Succeeded"


def test_a_job_that_fails_says_why_at_once_and_later(muster: Muster) -> None:
    file = muster.file("tf.yaml", tf_job(Chief="echo 'ValueError: no data' >&2; exit 3", Worker="sleep 300"))
    out = muster("run", file)
    assert out.code == 1
    assert 'container "tensorflow" exited with code 3' in out.out
    muster("up", "-d").ok()
    told = muster("describe", "tfjob", "tf").ok().out
    assert re.search(r"^State: +Failed$", told, re.MULTILINE), told
    assert "Pod tf-chief-0, container tensorflow: exit code 3" in told
    assert "ValueError: no data" in told
    assert len(told.splitlines()) < 40, "one screen"
