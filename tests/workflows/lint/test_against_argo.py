"""Argo's own `lint --offline` rejects what the tables say it does. Skipped without argo."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.workflows.lint.samples import SHARED, Sample, samples

ARGO = Path(os.environ.get("MUSTER_ARGO") or Path.home() / ".cache" / "muster" / "bin" / "argo-4.0.7")


@pytest.mark.skipif(not ARGO.exists(), reason="no argo to compare with (set MUSTER_ARGO)")
def test_refuses_what_the_tables_say(tmp_path: Path) -> None:
    bad, good = list(samples("bad")), list(samples("good"))
    refused = _refused_by_argo([*bad, *good], tmp_path)
    differences = [s.name for s in bad if (s.name in refused) != s.upstream]
    differences += [s.name for s in good if (s.name in refused) == s.upstream]
    assert differences == [], {name: refused.get(name) for name in differences}


def _refused_by_argo(all_samples: list[Sample], folder: Path) -> dict[str, str]:
    """Returns the workflows with an error, and its message. One file each, one run for all."""
    names: dict[str, str] = {}
    for number, obj in enumerate(SHARED):
        (folder / f"shared-{number}.json").write_text(json.dumps(obj))
    for number, sample in enumerate(all_samples):
        file = folder / f"sample-{number:03}.json"
        obj = sample.object
        if obj["metadata"].get("name") and len(obj["metadata"]["name"]) < 50:
            obj = {**obj, "metadata": {**obj["metadata"], "name": f"{obj['metadata']['name']}-{number}"}}
        file.write_text(json.dumps(obj))
        names[str(file)] = sample.name
    run = subprocess.run(
        [ARGO, "lint", "--offline", "-o", "simple", str(folder)], capture_output=True, text=True, timeout=60
    )
    refused: dict[str, str] = {}
    for line in run.stdout.splitlines():
        file_name, _, message = line.partition(": ")
        if file_name in names:
            refused[names[file_name]] = message
    assert refused, run.stdout + run.stderr
    return refused
