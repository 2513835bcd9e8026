"""Fetches a template's input artifacts before its Pod is made."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path

from muster.kube.objects import Key, Object, namespace_of
from muster.workflows.artifacts.artifacts import Artifacts
from muster.workflows.artifacts.locations import is_supplied
from muster.workflows.artifacts.problems import ArtifactError, ArtifactMissing, ArtifactUnreachable
from muster.workflows.model import Launch
from muster.workflows.pods.building import Staged
from muster.workflows.pods.templates import CannotRun, input_artifacts


class Inputs:
    """`<folder>/<namespace>/<Pod>/<number of the artifact>`: there from before the Pod until it has ended."""

    def __init__(self, folder: Path, artifacts: Artifacts) -> None:
        self._folder = folder
        self._artifacts = artifacts

    async def stage(self, workflow: Object, launch: Launch) -> Staged | None:
        """Raises CannotRun, or ArtifactUnreachable where trying again may help."""
        wanted = input_artifacts(launch.template)
        if not wanted:
            return None
        place = self._place(Key(namespace_of(workflow), launch.pod_name))
        await asyncio.to_thread(_make_anew, place)
        ready: list[int] = []
        for index, artifact in enumerate(wanted):
            name, optional = artifact.get("name"), bool(artifact.get("optional"))
            if not is_supplied(artifact):
                if optional:
                    continue
                raise CannotRun(f"required artifact '{name}' not supplied")
            try:
                await self._artifacts.fetch(workflow, artifact, place / str(index))
            except ArtifactMissing as error:
                if not optional:
                    raise CannotRun(f"artifact {name} failed to load: {error}") from None
            except ArtifactUnreachable as error:
                raise ArtifactUnreachable(f"artifact {name} failed to load: {error}") from None
            except (ArtifactError, OSError) as error:
                raise CannotRun(f"artifact {name} failed to load: {error}") from None
            else:
                ready.append(index)
        return Staged(str(place), frozenset(ready))

    async def forget(self, pod: Key) -> None:
        place = self._place(pod)
        if place.exists():
            await asyncio.to_thread(shutil.rmtree, place, True)

    def sweep(self, pods: Collection[Key]) -> None:
        """Removes what was staged for others than these."""
        for namespace in self._folder.iterdir() if self._folder.is_dir() else ():
            for place in namespace.iterdir():
                if Key(namespace.name, place.name) not in pods:
                    shutil.rmtree(place, ignore_errors=True)

    def _place(self, pod: Key) -> Path:
        return self._folder / pod.namespace / pod.name


def _make_anew(place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(parents=True)
