"""`muster dispatch`, on a fake cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from muster.cli.main import run

Muster = Callable[..., tuple[int, str, str]]

SHOP = """
from muster.dispatch import Dispatcher
from muster.dispatch.testing import FakeAdapter
from tests.dispatch import shop

fake = FakeAdapter()
dispatcher = Dispatcher("sqlite:///{folder}/shop.db", adapters=[fake], folder="{folder}/jobs", interval=0.05)
dispatcher.function("add")(shop.add)
dispatcher.function("fail")(shop.fail)
number = 7
"""


@pytest.fixture
def muster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Muster]:
    (tmp_path / "cli_shop.py").write_text(SHOP.format(folder=tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_DISPATCHER", "cli_shop:dispatcher")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def command(*words: str) -> tuple[int, str, str]:
        code = run(["dispatch", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    yield command
    sys.modules.pop("cli_shop", None)


def test_submit_list_describe_and_cancel(muster: Muster) -> None:
    code, id, _ = muster("submit", "add", "-a", "a=1", "--priority", "3")
    assert code == 0
    id = id.strip()
    assert muster("list")[1].splitlines()[1].split()[:4] == [id, "add", "fake", "waiting"]
    described = muster("describe", "@latest")[1]
    assert "waits for a dispatcher" in described
    assert "a=1" in described
    (job,) = json.loads(muster("list", "-o", "json")[1])
    assert (job["id"], job["args"], job["priority"]) == (id, {"a": 1}, 3)
    assert "tracking" not in job
    assert muster("list", "--state", "failed", "-o", "name")[1].strip() == ""
    assert muster("cancel", id)[1] == f"{id} cancelled\n"
    assert muster("cancel", id)[1] == f"{id} cancelled\n"
    assert muster("restart", id)[1] == f"{id} waits\n"


def test_a_job_runs_and_its_failure_is_explained(muster: Muster) -> None:
    with import_module("cli_shop").dispatcher:
        assert muster("submit", "add", "-a", "a=1", "-a", "b=2", "--wait")[1] == "3\n"
        code, _, error = muster("submit", "fail", "-a", "message=disk on fire", "--wait")
        assert (code, error.splitlines()[-1]) == (1, "error: Job.Run: ValueError: disk on fire")
    described = muster("describe", "@latest")[1]
    assert "ValueError: disk on fire" in described
    assert "Job.Run" in described


def test_a_dry_run_submits_nothing(muster: Muster) -> None:
    shown = muster("submit", "add", "-a", "a=1", "--dry-run")[1]
    assert "muster.dispatch.run" in shown
    assert muster("list", "-o", "name")[1].strip() == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "-d", "nope:dispatcher"], "No module named 'nope'; run the command in the folder of your program"),
        (["list", "-d", "cli_shop"], '"cli_shop" is not a target; write MODULE:NAME'),
        (["list", "-d", "cli_shop:missing"], 'cli_shop has no "missing"'),
        (["list", "-d", "cli_shop:number"], "cli_shop:number is a int, not a Dispatcher"),
        (["list", "--state", "dead"], '"dead" is not a state; the states are waiting, starting'),
        (["list", "-o", "xml"], 'unable to print "xml"'),
        (["describe", "nope"], 'there is no job "nope"'),
        (["describe", "@latest"], "there are no jobs yet"),
        (["submit", "ad"], 'there is no type "ad"; did you mean "add"?'),
        (["submit", "add", "-a", "a"], '--arg must be NAME=VALUE, not "a"'),
        (["resolve", "x", "maybe"], '"maybe" is not a decision; use again, fail or adopt'),
    ],
)
def test_mistakes_are_explained(muster: Muster, words: list[str], message: str) -> None:
    code, _, error = muster(*words)
    assert code == 1
    assert message in error


def test_without_a_dispatcher_it_says_how_to_name_one(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_DISPATCHER")
    assert "--dispatcher shop.jobs:dispatcher, or set MUSTER_DISPATCHER" in muster("list")[2]
