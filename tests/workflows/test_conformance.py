"""Argo's own examples end on this machine as their authors say."""

from __future__ import annotations

import shutil

import pytest

from tools.conformance import default_folder, run

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
