"""`manifestFrom`: a manifest that is an artifact."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from tempfile import mkdtemp

from muster.kube.objects import Object
from muster.workflows.artifacts.artifacts import Artifacts
from muster.workflows.artifacts.problems import ArtifactError
from muster.workflows.model import Launch
from muster.workflows.resources.errors import ResourceError
from muster.workflows.resources.leaves import ReadArtifact

LARGEST = 2 * 1024 * 1024


def from_artifacts(artifacts: Artifacts, folder: Path) -> ReadArtifact:
    """Reads input artifacts of a launch; `folder` is for what is on its way."""

    async def read(workflow: Object, launch: Launch, name: str) -> bytes:
        inputs = (launch.template.get("inputs") or {}).get("artifacts") or ()
        artifact = next(a for a in inputs if a.get("name") == name)
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(mkdtemp(dir=folder))
        try:
            await artifacts.fetch(workflow, artifact, work / "manifest")
            return _content(work / "manifest", name)
        except ArtifactError as error:
            raise ResourceError(f'resource.manifestFrom.artifact.name: artifact "{name}": {error}') from None
        finally:
            await asyncio.to_thread(shutil.rmtree, work, True)

    return read


def _content(path: Path, name: str) -> bytes:
    where = f'resource.manifestFrom.artifact.name: artifact "{name}"'
    if not path.is_file():
        raise ResourceError(f"{where} is a folder; a manifest is one file")
    if path.stat().st_size > LARGEST:
        raise ResourceError(f"{where} is larger than {LARGEST} bytes")
    return path.read_bytes()
