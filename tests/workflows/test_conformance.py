"""Argo's own examples end on this machine as their authors say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.conformance import SUBSTITUTES, Case, Outcome, default_folder, report, run, substitute_images, substitutes_in

FOLDER = default_folder()


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the conformance manifests are not here (set MUSTER_CONFORMANCE)")
async def test_every_workflow_that_is_to_be_tested() -> None:
    outcomes = await run(FOLDER)
    lacking = ("curl",) if shutil.which("curl") is None else ()
    wrong = [
        f"{outcome.case.file}: {outcome.result} {outcome.why}"
        for outcome in outcomes
        if not outcome.is_right and not any(program in str(outcome.case.workflow) for program in lacking)
    ]
    assert not wrong, "\n".join(wrong)
    assert sum(outcome.result == "Succeeded" for outcome in outcomes) > 40
    assert sum(outcome.result == "Succeeded" and not outcome.substitutes for outcome in outcomes) > 30


def test_substitutes_are_declared_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    for image, substitute in substitute_images().items():
        assert all(Path(folder).is_dir() for folder in substitute["path"]), image
    programs = {path.parent.name for path in SUBSTITUTES.parent.glob("programs/*/*")}
    assert programs == {Path(folder).name for image in substitute_images().values() for folder in image["path"]}
    says = {"spec": {"templates": [{"container": {"image": "argoproj/argosay:v2"}}]}}
    plain = {"spec": {"templates": [{"container": {"image": "alpine:3.23", "command": ["sh"]}}]}}
    installs = {"spec": {"templates": [{"script": {"image": "alpine:3.23", "source": "apk add curl"}}]}}
    assert [substitutes_in(workflow) for workflow in (says, plain, installs)] == [
        ("argoproj/argosay:v2",),
        (),
        ("alpine:3.23",),
    ]
    report([Outcome(Case("a.yaml", says), "Succeeded", 1.0, substitutes=("argoproj/argosay:v2",))])
    assert "ran with a substitute: 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "args", "code", "out"),
    [
        ("argosay/argosay", [], 0, "hello argo\n"),
        ("argosay/argosay", ["echo", "a b"], 0, "a b\n"),
        ("argosay/argosay", ["cat", "{folder}/given"], 0, "it is here\n"),
        ("argosay/argosay", ["assert_contains", "{folder}/given", "is he"], 0, "it is here\n"),
        ("argosay/argosay", ["assert_contains", "{folder}/given", "nothing"], 1, ""),
        ("argosay/argosay", ["exit", "3"], 3, ""),
        ("argosay/argosay", ["dance"], 1, ""),
        ("whalesay/cowsay", ["moo"], 0, "< moo >"),
        ("alpine/apk", ["update"], 0, ""),
        ("alpine/apk", ["add", "--no-cache", "sed", "grep"], 0, ""),
        ("alpine/apk", ["add", "no-such-thing"], 1, ""),
    ],
)
def test_programs(tmp_path: Path, program: str, args: list[str], code: int, out: str) -> None:
    (tmp_path / "given").write_text("it is here\n")
    command = [str(SUBSTITUTES.parent / "programs" / program), *(arg.format(folder=tmp_path) for arg in args)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert out in done.stdout
