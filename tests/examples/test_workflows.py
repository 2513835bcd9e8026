"""The workflow examples, used as their comments say."""

from __future__ import annotations

import pytest

from tests.cli.commands import Muster

FOLDER = "examples/workflows"
TRAINING = """\
images:
  "muster-examples/pytorch*":
    path: [/usr/bin]
"""
ENVIRONMENT = 'echo "rank $RANK of $WORLD_SIZE"'


@pytest.fixture
def up(muster: Muster) -> Muster:
    (muster.home / "config.yaml").write_text(TRAINING)
    muster("up", "-d").ok()
    return muster


def test_artifacts_are_passed_between_steps_and_results_are_collected(up: Muster) -> None:
    up("submit", f"{FOLDER}/artifacts.yaml", "--wait").ok()
    assert "30 + 12 = 42 lines" in up("logs", "@latest").ok().out


def test_a_flaky_step_is_retried(up: Muster) -> None:
    up("submit", f"{FOLDER}/retry.yaml", "-p", "luck=1", "--wait").ok()
    tree = up("get", "@latest").ok().out
    assert "✖ train(0)" in tree
    assert "✔ train(1)" in tree


def test_a_schedule_can_be_run_at_once(up: Muster) -> None:
    up("apply", "-f", f"{FOLDER}/cron.yaml").ok()
    up("submit", "--from", "cronworkflow/nightly", "--wait").ok()
    assert "scheduled for" in up("logs", "@latest").ok().out


@pytest.mark.parametrize(("rows", "trained"), [("1000", "✔ train-model"), ("0", "○ train-model")])
def test_training_depends_on_the_data(up: Muster, rows: str, trained: str) -> None:
    up("apply", "-f", template(up)).ok()
    up("submit", f"{FOLDER}/training-job/conditional.yaml", "-p", f"rows={rows}", "--wait").ok()
    assert trained in up("get", "@latest").ok().out


@pytest.mark.parametrize("flow", ["multi-stage", "parallel"])
def test_training_jobs_in_sequence_and_in_parallel(up: Muster, flow: str) -> None:
    up("apply", "-f", template(up)).ok()
    up("submit", f"{FOLDER}/training-job/{flow}.yaml", "--wait").ok()
    jobs = up("get", "pytorchjobs", "--no-headers").ok().out.splitlines()
    assert len(jobs) == 2
    assert all("Succeeded" in job for job in jobs)


def template(muster: Muster) -> str:
    """The training job with a command that every machine has."""
    text = (muster.folder / FOLDER / "training-job" / "template.yaml").read_text()
    short = muster.home / "template.yaml"
    short.write_text(text.replace("{{=toJson(inputs.parameters.command)}}", f"'{ENVIRONMENT}'"))
    return str(short)
