"""Runs the script of a bundled template as its container would, with the paths of the container moved into a folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.kube.objects import Object, name_of, spec_of
from muster.workflows.bundled import load_bundle

POD = "the-pod"


def template(name: str) -> Object:
    (found,) = (document.object for document in load_bundle("mlp-cooker") if name_of(document.object) == name)
    return found


def script(name: str) -> str:
    return str(spec_of(template(name))["templates"][0]["script"]["source"])


class Step:
    """A step that runs. `files` are those that volumes put into the container."""

    def __init__(
        self, folder: Path, name: str, parameters: Mapping[str, str], files: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        text = re.sub('"(?=/(mlp-cooker|aihc|tmp|dev/termination-log))', f'"{folder}', script(name))
        for path, content in {"/tmp/.keep": "", "/dev/.keep": "", **(files or {})}.items():
            (folder / path.strip("/")).parent.mkdir(parents=True, exist_ok=True)
            (folder / path.strip("/")).write_text(content)
        defaults = {each["name"]: each.get("value", "") for each in spec_of(template(name))["arguments"]["parameters"]}
        environment = {
            "PARAMETERS": json.dumps({**defaults, **parameters}),
            "POD_NAME": "the-pod",
            "PATH": "/usr/bin:/bin",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )

    def end(self) -> Step:
        self.logs, _ = self.process.communicate(timeout=60)
        self.ok = self.process.returncode == 0
        return self

    @property
    def message(self) -> str:
        """What the node of the workflow shows."""
        return self._file("dev/termination-log")

    @property
    def outputs(self) -> dict[str, str]:
        return {name: self._file(f"tmp/{name}") for name in ("response.json", "job-id", "status")}

    @property
    def response(self) -> Any:
        return json.loads(self.outputs["response.json"])

    def _file(self, path: str) -> str:
        file = self.folder / path
        return file.read_text() if file.exists() else ""
