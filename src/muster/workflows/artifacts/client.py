"""Fetches, saves, lists, reads and deletes artifacts, whichever store holds them."""

from __future__ import annotations

import asyncio
import base64
import posixpath
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import yaml

from muster.kube import beneath
from muster.kube.beneath import Folder
from muster.kube.builtin import CONFIG_MAP, SECRET
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.file_names import path_component
from muster.kube.objects import Object, annotations_of, namespace_of, spec_of, status_of
from muster.workflows.artifacts.archives import Limits, form_of, pack, unpack
from muster.workflows.artifacts.errors import ArtifactError
from muster.workflows.artifacts.git_store import GitStore
from muster.workflows.artifacts.http_store import HttpStore
from muster.workflows.artifacts.local_store import LocalStore
from muster.workflows.artifacts.locations import (
    LOCAL,
    Artifact,
    Location,
    artifact_with_key,
    is_local,
    key_of,
    kind_of,
    location_of,
    new_key,
)
from muster.workflows.artifacts.object_store import ObjectArtifactStore
from muster.workflows.artifacts.stores import ArtifactStore, RawStore

CONFIG_MAP_NAME = "artifact-repositories"
DEFAULT_ANNOTATION = "workflows.argoproj.io/default-artifact-repository"


async def repository_of(
    cluster: Cluster, workflow: Object, default: Mapping[str, Any] = LOCAL, system_namespace: str = ""
) -> Mapping[str, Any]:
    """Returns the repository that the workflow uses.

    In this order: the one fixed in `status.artifactRepositoryRef`, the one named in `spec.artifactRepositoryRef` (in
    the workflow's or the system namespace), the ConfigMap `artifact-repositories` of the namespace, the default.
    """
    fixed = status_of(workflow).get("artifactRepositoryRef") or {}
    if fixed.get("artifactRepository"):
        found: Mapping[str, Any] = fixed["artifactRepository"]
        return found
    wanted = spec_of(workflow).get("artifactRepositoryRef")
    namespaces = [namespace_of(workflow), *([system_namespace] if wanted and system_namespace else [])]
    for namespace in namespaces:
        repository = await _parse_repository(cluster, namespace, wanted or {})
        if repository is not None:
            return repository if kind_of(repository) else {**LOCAL, **repository}
    if not wanted:
        return default
    name, key = wanted.get("configMap") or CONFIG_MAP_NAME, wanted.get("key") or "(its default)"
    raise ArtifactError(
        f'spec.artifactRepositoryRef: there is no ConfigMap "{name}" with the key "{key}" in the namespace '
        f'"{namespace_of(workflow)}"'
    )


async def _parse_repository(cluster: Cluster, namespace: str, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    name = wanted.get("configMap") or CONFIG_MAP_NAME
    try:
        config_map = await cluster.get(CONFIG_MAP, name, namespace)
    except NotFound:
        return None
    key = wanted.get("key") or annotations_of(config_map).get(DEFAULT_ANNOTATION) or ""
    text = (config_map.get("data") or {}).get(key)
    if text is None:
        return None
    try:
        repository = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ArtifactError(f'ConfigMap "{name}", key "{key}": invalid YAML: {error}') from None
    if not isinstance(repository, dict):
        raise ArtifactError(
            f'ConfigMap "{name}", key "{key}": expected an artifact repository such as s3: {{bucket: ...}}'
        )
    return repository if kind_of(repository) else {**LOCAL, **repository}


_SHORTEST = 4
"""Shorter secrets would match too much text."""


class Secrets:
    """The Secrets of one namespace, for one operation."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._values: list[str] = []

    async def get(self, selector: Mapping[str, Any]) -> str:
        """Returns the value of `{name, key}`. Raises ArtifactError."""
        name, key = str(selector.get("name") or ""), str(selector.get("key") or "")
        try:
            secret = await self._cluster.get(SECRET, name, self._namespace)
        except NotFound:
            raise ArtifactError(f'there is no Secret "{name}" in the namespace "{self._namespace}"') from None
        value = (secret.get("data") or {}).get(key)
        if value is None:
            raise ArtifactError(f'the Secret "{name}" has no key "{key}"')
        text = base64.b64decode(value).decode("utf-8", "surrogateescape")
        self._values.append(text)
        return text

    def scrub(self, text: str) -> str:
        """Removes every secret value that was read from the text."""
        for value in self._values:
            for part in {value, value.strip()}:
                if len(part) >= _SHORTEST:
                    text = text.replace(part, "***")
        return text


class ArtifactClient:
    """`home` holds the local repository and files in transit."""

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
        self._local_folder = home / "artifacts"
        self._transit = home / "passing"
        self._default = default
        self._system_namespace = system_namespace
        self._limits = limits

    async def repository(self, workflow: Object) -> Mapping[str, Any]:
        """Returns the repository that this workflow's keys refer to and its new artifacts go to."""
        return await repository_of(self._cluster, workflow, self._default, self._system_namespace)

    async def fetch(self, workflow: Object, artifact: Artifact, target: Path) -> None:
        """Fetches the artifact to `target`, unpacked and with the mode it asks for."""
        coming = target.with_name(f"{target.name}.coming")
        await self.fetch_packed(workflow, artifact, coming)
        await asyncio.to_thread(unpack, coming, target, form_of(artifact), self._limits)
        mode = artifact.get("mode")
        if mode is not None:
            await asyncio.to_thread(_set_mode, target, int(mode), bool(artifact.get("recurseMode")))

    async def fetch_packed(self, workflow: Object, artifact: Artifact, target: Path) -> None:
        """Fetches the artifact as its store holds it: an archive, a file or a folder."""
        location = await self._locate(workflow, artifact)
        async with self._store(workflow, location) as store:
            await store.load(location, target)

    async def save(
        self, workflow: Object, artifact: Artifact, source: Path, scope: Mapping[str, Any],
        repository: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Packs and stores `source`, and returns the artifact as `status.nodes` records it.

        The variables of `scope` fill the key pattern of an artifact without a key. Repeating the call with the same
        content changes nothing.
        """
        repository = repository if repository is not None else await self.repository(workflow)
        name = posixpath.basename(str(artifact.get("path") or "").rstrip("/")) or str(artifact["name"])
        form = form_of(artifact) or "tar"
        file_name = {"tar": f"{artifact['name']}.tgz", "zip": f"{artifact['name']}.zip", "none": name}[form]
        done: dict[str, Any] = dict(artifact)
        if not key_of(artifact) and not kind_of(artifact):
            done = artifact_with_key(artifact, repository, new_key(repository, scope, file_name))
        location = location_of(done, repository)
        self._transit.mkdir(parents=True, exist_ok=True)
        work = Path(mkdtemp(dir=self._transit))
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
        """Returns all keys below the artifact's key."""
        location = await self._locate(workflow, artifact)
        async with self._store(workflow, location) as store:
            return await store.keys(location)

    async def read(self, workflow: Object, artifact: Artifact) -> AsyncIterator[bytes]:
        """Reads the artifact as its store holds it. Raises ArtifactError before the first byte if it is not
        available."""
        location = await self._locate(workflow, artifact)
        async with self._store(workflow, location) as store:
            async for block in store.read(location):
                yield block

    async def _locate(self, workflow: Object, artifact: Artifact) -> Location:
        return location_of(artifact, await self.repository(workflow))

    @asynccontextmanager
    async def _store(self, workflow: Object, location: Location) -> AsyncIterator[ArtifactStore]:
        """Opens the store of a location. Secret values are removed from its errors."""
        secrets = Secrets(self._cluster, namespace_of(workflow))
        try:
            yield self._open(namespace_of(workflow), location, secrets)
        except ArtifactError as error:
            raise type(error)(secrets.scrub(str(error))) from None

    def _open(self, namespace: str, location: Location, secrets: Secrets) -> ArtifactStore:
        if is_local(location):
            return LocalStore(self._local_folder / path_component(namespace))
        match kind_of(location):
            case "raw":
                return RawStore()
            case "s3" | "gcs" | "azure" | "oss":
                return ObjectArtifactStore(secrets.get)
            case "http" | "artifactory":
                return HttpStore(secrets.get)
            case "git":
                return GitStore(secrets.get)
            case "hdfs":
                raise ArtifactError(
                    "hdfs artifacts are not supported here. To fetch one, use an http artifact and WebHDFS: "
                    "http: {url: http://NAMENODE:9870/webhdfs/v1/PATH?op=OPEN}; to store one, use s3, gcs or azure"
                )
            case "plugin":
                raise ArtifactError(
                    "artifact plugins are not supported here: use s3, gcs, azure, oss, http, artifactory or git"
                )
            case kind:
                raise ArtifactError(f"there is no store for {kind or 'an artifact without a location'}")


def _copy(source: Path, target: Path) -> None:
    with Folder.at(source.parent) as beside, Folder.at(target.parent) as place:
        beneath.copy(beside, source.name, place, target.name)


def _set_mode(target: Path, mode: int, recurse: bool) -> None:
    with Folder.at(target.parent) as beside:
        beneath.set_mode(beside, target.name, mode, recurse=recurse)
