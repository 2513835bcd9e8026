"""The chart, rendered by the real helm, which is built on first use."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from muster.kube.manifests import load_manifests
from muster.kube.objects import Object
from tools.cluster import network
from tools.cluster.build import build, program
from tools.cluster.sources import HELM
from tools.deploy import CHART, DEPLOY, PLATFORM_CHART

CHART_FOLDER = DEPLOY / CHART
PLATFORM_FOLDER = DEPLOY / PLATFORM_CHART


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    with network.left():
        build([HELM])
    return subprocess.run([str(program(HELM, "helm")), *arguments], capture_output=True, text=True)


def render(
    values: dict[str, Any], tmp_path: Path, namespace: str = "muster-system", chart: Path = CHART_FOLDER
) -> list[Object]:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    ran = helm("template", "any-name", str(chart), f"--namespace={namespace}", f"--values={file}")
    assert ran.returncode == 0, ran.stderr
    return [document.object for document in load_manifests(ran.stdout, "helm")]
