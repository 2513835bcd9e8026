"""The job examples of the web UI are valid and run on a machine without frameworks."""

from __future__ import annotations

from pathlib import Path

from muster.kube.manifests import load_manifests
from muster.platform.database.database import sqlite_url
from muster.platform.jobs.jobs import job_kind_of, word_of
from muster.training.registry import JOB_KINDS
from tests.server.platform.whole import eventually, whole_muster

FOLDER = Path(__file__).parents[3] / "ui/src/pages/jobs/examples"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))


def test_every_kind_has_an_example() -> None:
    found = [
        job_kind_of(document.object) for path in EXAMPLES for document in load_manifests(path.read_text(), path.name)
    ]
    assert {word_of(job_kind.kind) for job_kind in found if job_kind} == {
        word_of(job_kind.kind) for job_kind in JOB_KINDS
    } - {"tensorflowjob"}  # a TFJob under another name


async def test_members_can_submit_all_examples_and_they_succeed(tmp_path: Path) -> None:
    async with whole_muster(tmp_path / "home", sqlite_url(tmp_path / "platform.db")) as muster:
        ann = await muster.member("ann")
        together = "---\n".join(path.read_text() for path in EXAMPLES)
        assert (await ann.post("jobs/validate", {"manifest": together}))["problems"] == []
        made = await ann.post("jobs", {"manifest": together})

        async def all_succeeded() -> bool:
            found = (await ann.get("jobs"))["items"]
            assert not [job["name"] for job in found if job["state"] == "failed"]
            return [job["state"] for job in found] == ["succeeded"] * len(made)

        await eventually(all_succeeded)
