"""`muster run` with a Kubeflow pipeline, and `muster pipelines | experiments | recurring`, as users run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Muster
from tests.server.pipelines.test_runs import GREET


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "greet.json"
    path.write_text(json.dumps(GREET))
    return path


def test_a_compiled_pipeline_is_run_as_a_file(cluster: Muster, file: Path) -> None:
    done = cluster("run", str(file), "-p", "who=ann").ok()
    assert "hello ann!" in done.out


@pytest.mark.slow
@pytest.mark.smoke
def test_the_life_of_a_pipeline_on_the_platform(cluster: Muster, file: Path, tmp_path: Path) -> None:
    missing = cluster("run", str(file))
    assert (missing.code, 'the parameter "who" is required' in missing.err) == (1, True)
    wrong = cluster("run", str(file), "-p", "who=ann", "-p", "times=often")
    assert (wrong.code, "is not JSON, and the parameter is a NUMBER_INTEGER" in wrong.err) == (1, True)
    refused = cluster("apply", "-f", str(file))
    assert (refused.code, "run it with `muster run FILE`" in refused.err) == (1, True)
    (tmp_path / "pipeline.py").write_text("import nothing_of_this_name\n")
    assert "pipeline.py" in cluster("run", str(tmp_path / "pipeline.py")).err

    cluster("pipelines", "create", str(file), "--name", "greet").ok()
    cluster("pipelines", "add-version", "greet", str(file), "--name", "v2").ok()
    assert cluster("pipelines", "list").ok().out.splitlines()[1].split()[0] == "greet"
    about = json.loads(cluster("pipelines", "get", "greet").ok().out)
    assert [each["display_name"] for each in about["versions"]] == ["v2", "greet"]
    cluster("experiments", "create", "mine").ok()
    said = cluster("pipelines", "run", "greet", "-p", "who=bob", "--experiment", "mine", "--wait").ok().out
    run = said.split()[1]
    assert said.splitlines()[-1] == f"run {run} succeeded"
    assert cluster("pipelines", "logs", run, "shout").ok().out == "hello bob!\nnoted\n"
    assert "greeting=hello bob, note=(artifact)" in cluster("pipelines", "tasks", run).ok().out
    assert cluster("pipelines", "runs", "--experiment", "mine").ok().out.splitlines()[1].split()[1:3] == [
        run,
        "SUCCEEDED",
    ]
    made = cluster("recurring", "create", "greet", "--cron", "0 0 9 * * *", "-p", "who=ann").ok().out
    identifier = made.rpartition("(")[2].strip(")\n")
    assert cluster("recurring", "list").ok().out.splitlines()[1].split()[2:5] == ["ENABLED", "0", "0"]
    cluster("recurring", "disable", identifier).ok()
    assert json.loads(cluster("recurring", "get", identifier).ok().out)["status"] == "DISABLED"
    cluster("recurring", "delete", identifier).ok()
    cluster("pipelines", "delete-run", run).ok()
    cluster("pipelines", "delete", "greet").ok()
    cluster("experiments", "archive", "mine").ok()
    cluster("experiments", "delete", "mine").ok()
    assert cluster("pipelines", "get", "greet").code == 1
