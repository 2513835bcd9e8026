"""What the rest asks about artifacts: fetch one, keep one, list, read, delete, wherever their stores are."""

from __future__ import annotations

import asyncio
import os
import posixpath
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from muster.kube.cluster import Cluster
from muster.kube.objects import Object, namespace_of
from muster.workflows.artifacts.archives import Limits, form_of, pack, unpack
from muster.workflows.artifacts.git import GitStore
from muster.workflows.artifacts.local import LocalStore
from muster.workflows.artifacts.locations import (
    LOCAL,
    Artifact,
    Location,
    is_local,
    key_of,
    kind_of,
    location_of,
    new_key,
    recorded,
)
from muster.workflows.artifacts.objects import ObjectsStore
from muster.workflows.artifacts.problems import ArtifactError
from muster.workflows.artifacts.raw import RawStore
from muster.workflows.artifacts.repositories import repository_of
from muster.workflows.artifacts.secrets import Secrets
from muster.workflows.artifacts.stores import Store
from muster.workflows.artifacts.web import WebStore

_BLOCK = 1 << 16


class Artifacts:
    """`home` holds the box's own repository, and what is on its way to or from any."""

    def __init__(
        self,
        cluster: Cluster,
        home: Path,
        *,
        default: Mapping[str, Any] = LOCAL,
        system_namespace: str = "",
        limits: Limits = Limits(),  # noqa: B008
    ) -> None:
        self._cluster = cluster
        self._kept = home / "artifacts"
        self._passing = home / "passing"
        self._default = default
        self._system_namespace = system_namespace
        self._limits = limits

    async def repository(self, workflow: Object) -> Mapping[str, Any]:
        """The one that keys of this workflow mean, and that its new artifacts go to."""
        return await repository_of(self._cluster, workflow, self._default, self._system_namespace)

    async def fetch(self, workflow: Object, artifact: Artifact, target: Path) -> None:
        """Puts the artifact itself at `target`, unpacked and with the mode that it asks for."""
        coming = target.with_name(f"{target.name}.coming")
        await self.fetch_packed(workflow, artifact, coming)
        await asyncio.to_thread(unpack, coming, target, form_of(artifact), self._limits)
        mode = artifact.get("mode")
        if mode is not None:
            await asyncio.to_thread(_set_mode, target, int(mode), bool(artifact.get("recurseMode")))

    async def fetch_packed(self, workflow: Object, artifact: Artifact, target: Path) -> None:
        """The artifact as its store holds it: an archive, a file, or a folder."""
        location = await self._locate(workflow, artifact)
        async with self._store(workflow, location) as store:
            await store.load(location, target)

    async def keep(
        self, workflow: Object, artifact: Artifact, source: Path, scope: Mapping[str, Any],
        repository: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Packs what is at `source` and stores it; answers the artifact as `status.nodes` records it. The variables of
        `scope` name the key of one that has none of its own. Again, with the same content, changes nothing."""
        repository = repository if repository is not None else await self.repository(workflow)
        name = posixpath.basename(str(artifact.get("path") or "").rstrip("/")) or str(artifact["name"])
        form = form_of(artifact) or "tar"
        file_name = {"tar": f"{artifact['name']}.tgz", "zip": f"{artifact['name']}.zip", "none": name}[form]
        done: dict[str, Any] = dict(artifact)
        if not key_of(artifact) and not kind_of(artifact):
            done = recorded(artifact, repository, new_key(repository, scope, file_name))
        location = location_of(done, repository)
        self._passing.mkdir(parents=True, exist_ok=True)
        work = Path(mkdtemp(dir=self._passing))
        try:
            ready = work / "packed"
            if form == "none":
                await asyncio.to_thread(_copy, source, ready)
            else:
                await asyncio.to_thread(pack, source, name, ready, artifact)
            async with self._store(workflow, location) as store:
                await store.save(ready, location)
        finally:
            await asyncio.to_thread(shutil.rmtree, work, True)
        return done

    async def delete(self, workflow: Object, artifact: Artifact) -> None:
        location = await self._locate(workflow, artifact)
        async with self._store(workflow, location) as store:
            await store.delete(location)

    async def keys(self, workflow: Object, artifact: Artifact) -> list[str]:
        """All keys below the artifact's."""
        location = await self._locate(workflow, artifact)
        async with self._store(workflow, location) as store:
            return await store.keys(location)

    async def read(self, workflow: Object, artifact: Artifact) -> AsyncIterator[bytes]:
        """The artifact as its store holds it. Raises ArtifactError before the first byte if it cannot be had."""
        location = await self._locate(workflow, artifact)
        async with self._store(workflow, location) as store:
            async for block in store.read(location):
                yield block

    async def _locate(self, workflow: Object, artifact: Artifact) -> Location:
        return location_of(artifact, await self.repository(workflow))

    @asynccontextmanager
    async def _store(self, workflow: Object, location: Location) -> AsyncIterator[Store]:
        """The store that a location is in. What its Secrets hold does not show in any error."""
        secrets = Secrets(self._cluster, namespace_of(workflow))
        try:
            yield self._open(namespace_of(workflow), location, secrets)
        except ArtifactError as error:
            raise type(error)(secrets.scrubbed(str(error))) from None

    def _open(self, namespace: str, location: Location, secrets: Secrets) -> Store:
        if is_local(location):
            return _Local(LocalStore(self._kept / namespace))
        match kind_of(location):
            case "raw":
                return RawStore()
            case "s3" | "gcs" | "azure" | "oss":
                return ObjectsStore(secrets.get)
            case "http" | "artifactory":
                return WebStore(secrets.get)
            case "git":
                return GitStore(secrets.get)
            case "hdfs":
                raise ArtifactError(
                    "hdfs artifacts are not supported here. To fetch one, let an http artifact ask WebHDFS for it: "
                    "http: {url: http://NAMENODE:9870/webhdfs/v1/PATH?op=OPEN}; to keep one, use s3, gcs or azure"
                )
            case "plugin":
                raise ArtifactError(
                    "artifact plugins are not supported here: use s3, gcs, azure, oss, http, artifactory or git"
                )
            case kind:
                raise ArtifactError(f"there is no store for {kind or 'an artifact without a location'}")


class _Local:
    """The box's own repository, without holding up the loop."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store

    async def load(self, location: Location, target: Path) -> None:
        await asyncio.to_thread(self._store.load, key_of(location), target)

    async def save(self, source: Path, location: Location) -> None:
        await asyncio.to_thread(self._store.save, source, key_of(location))

    async def delete(self, location: Location) -> None:
        await asyncio.to_thread(self._store.delete, key_of(location))

    async def keys(self, location: Location) -> list[str]:
        return await asyncio.to_thread(lambda: list(self._store.keys(key_of(location))))

    async def read(self, location: Location) -> AsyncIterator[bytes]:
        with self._store.open(key_of(location)) as file:
            while block := await asyncio.to_thread(file.read, _BLOCK):
                yield block


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copyfile(source, target)


def _set_mode(target: Path, mode: int, recurse: bool) -> None:
    target.chmod(mode)
    if recurse and target.is_dir():
        for folder, folders, files in os.walk(target, topdown=False):
            for name in (*folders, *files):
                path = Path(folder, name)
                if not path.is_symlink():
                    path.chmod(mode)
