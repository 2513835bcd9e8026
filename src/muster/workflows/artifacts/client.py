"""Fetches, saves, lists, reads and deletes artifacts, whichever store holds them."""

from __future__ import annotations

import asyncio
import base64
import posixpath
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from muster.kube import beneath
from muster.kube.beneath import Folder
from muster.kube.budgets import Budgets
from muster.kube.builtin import CONFIG_MAP, NAMESPACE, SECRET
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.manifests import ManifestError, parse_setting
from muster.kube.objects import Key, Object, annotations_of, name_of, namespace_of, spec_of, status_of
from muster.kube.pod_security import is_restricted, is_run_secret
from muster.kube.service_names import resolve_service
from muster.workflows.artifacts.archives import Limits, form_of, is_packed, pack, unpack
from muster.workflows.artifacts.local_store import ArtifactOwners, ArtifactQuota, ArtifactThreads, LocalStore, split_key
from muster.workflows.artifacts.locations import (
    LOCAL,
    Artifact,
    ArtifactError,
    Location,
    artifact_with_key,
    has_location,
    is_local,
    key_of,
    kind_of,
    location_of,
    location_problem,
    new_key,
    plain_address,
    plain_url_address,
    prefixed_key,
    url_with_address,
    with_address,
    with_key,
)
from muster.workflows.artifacts.member_jobs import ConfinedStore, ConfinedWork, MemberAccess
from muster.workflows.artifacts.stores import ArtifactStore, StoreAccess, open_store
from muster.workflows.controller_config import CONFIG_KEY, parse_controller_config

CONFIG_MAP_NAME = "artifact-repositories"
DEFAULT_ANNOTATION = "workflows.argoproj.io/default-artifact-repository"


async def repository_of(
    cluster: Cluster, workflow: Object, default: Mapping[str, Any] = LOCAL, system_namespace: str = ""
) -> Mapping[str, Any]:
    """Returns the repository that the workflow uses: the one fixed in `status.artifactRepositoryRef`, the one that
    `find_repository` finds, the default."""
    fixed = status_of(workflow).get("artifactRepositoryRef") or {}
    if not fixed.get("artifactRepository"):
        fixed = await find_repository(cluster, workflow, system_namespace)
    found: Mapping[str, Any] = fixed.get("artifactRepository") or default
    return found


async def find_repository(cluster: Cluster, workflow: Object, system_namespace: str = "") -> dict[str, Any]:
    """Returns the repository of a workflow as Argo writes it to `status.artifactRepositoryRef`; without a repository if
    the default is used.

    In this order: the one named in `spec.artifactRepositoryRef` (in the workflow's or the system namespace), the
    ConfigMap `artifact-repositories` of the namespace, the one in the settings of Argo's controller.
    """
    wanted = spec_of(workflow).get("artifactRepositoryRef")
    namespaces = [namespace_of(workflow), *([system_namespace] if wanted and system_namespace else [])]
    for namespace in namespaces:
        found = await _parse_repository(cluster, namespace, wanted or {})
        if found is not None:
            return found
    if not wanted:
        configured = await _configured_repository(cluster, namespace_of(workflow))
        return {"default": True, **({"artifactRepository": configured} if configured else {})}
    name, key = wanted.get("configMap") or CONFIG_MAP_NAME, wanted.get("key") or "(its default)"
    raise ArtifactError(
        f'spec.artifactRepositoryRef: there is no ConfigMap "{name}" with the key "{key}" in the namespace '
        f'"{namespace_of(workflow)}"'
    )


async def _configured_repository(cluster: Cluster, namespace: str) -> Mapping[str, Any]:
    """Returns what the settings of Argo's controller name; nothing if they cannot be read, or in the namespace of a
    member, who does not have its keys."""
    try:
        if is_restricted(await cluster.get(NAMESPACE, namespace)):
            return {}
        config = parse_controller_config(await cluster.get(CONFIG_MAP, CONFIG_KEY.name, CONFIG_KEY.namespace))
    except NotFound:
        return {}
    repository = config.artifact_repository
    return repository if not repository or kind_of(repository) else {**LOCAL, **repository}


async def _parse_repository(cluster: Cluster, namespace: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
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
        repository = parse_setting(text, f'ConfigMap "{name}", key "{key}"')
    except ManifestError as error:
        raise ArtifactError(str(error)) from None
    if not isinstance(repository, dict):
        raise ArtifactError(
            f'ConfigMap "{name}", key "{key}": expected an artifact repository such as s3: {{bucket: ...}}'
        )
    repository = repository if kind_of(repository) else {**LOCAL, **repository}
    return {"configMap": name, "key": key, "namespace": namespace, "artifactRepository": repository}


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
        if is_run_secret(name):
            raise ArtifactError(f'the Secret "{name}" belongs to a run of the platform; use a Secret of your own')
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
    """`home` holds the local repository and files in transit.

    In a restricted namespace (`muster.kube.pod_security`), locations are checked, and the work is done in confined
    processes (`muster.workflows.artifacts.member_jobs`).
    """

    def __init__(
        self,
        cluster: Cluster,
        home: Path,
        *,
        default: Mapping[str, Any] = LOCAL,
        system_namespace: str = "",
        limits: Limits = Limits(),  # noqa: B008
        members: MemberAccess = MemberAccess(Budgets()),  # noqa: B008
    ) -> None:
        self._cluster = cluster
        self._local_folder = home / "artifacts"
        self._transit = home / "passing"
        self._left = list(self._transit.iterdir()) if self._transit.is_dir() else []
        """What was in transit when the last server ended."""
        self._default = default
        self._system_namespace = system_namespace
        self._limits = limits
        self._confined = ConfinedWork(self._transit, members)
        self._threads = ArtifactThreads()
        self._quota = ArtifactQuota(self._local_folder, members.budgets)
        self.owners = ArtifactOwners(home)
        self.on_release: Callable[[Key], None] = lambda workflow: None
        """Called when the artifacts of a workflow do not have to outlive it any more."""

    async def repository(self, workflow: Object) -> Mapping[str, Any]:
        """Returns the repository that this workflow's keys refer to and its new artifacts go to."""
        return await repository_of(self._cluster, workflow, self._default, self._system_namespace)

    async def repository_status(self, workflow: Object) -> dict[str, Any]:
        """Returns what `status.artifactRepositoryRef` of a new workflow says. Raises ArtifactError."""
        return await find_repository(self._cluster, workflow, self._system_namespace)

    async def fetch(self, workflow: Object, artifact: Artifact, target: Path) -> None:
        """Fetches the artifact to `target`, unpacked and with the mode it asks for."""
        namespace = namespace_of(workflow)
        coming, form = target.with_name(f"{target.name}.coming"), form_of(artifact)
        await self.fetch_packed(workflow, artifact, coming)
        if await self._is_restricted(workflow) and await self._threads.run(namespace, is_packed, coming, form):
            await self._confined.unpack(namespace, coming, target, form)
        else:
            await self._threads.run(namespace, unpack, coming, target, form, self._limits)
        mode = artifact.get("mode")
        if mode is not None:
            await self._threads.run(namespace, _set_mode, target, int(mode), bool(artifact.get("recurseMode")))

    async def fetch_packed(self, workflow: Object, artifact: Artifact, target: Path) -> None:
        """Fetches the artifact as its store holds it: an archive, a file or a folder."""
        async with self._store(workflow, artifact) as (store, location):
            await store.load(location, target)

    async def save(
        self, workflow: Object, artifact: Artifact, source: Path, scope: Mapping[str, Any],
        repository: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Packs and stores `source`, and returns the artifact as `status.nodes` records it.

        The variables of `scope` fill the key pattern of an artifact without a key. Repeating the call with the same
        content changes nothing.
        """
        namespace = namespace_of(workflow)
        repository = repository if repository is not None else await self.repository(workflow)
        name = posixpath.basename(str(artifact.get("path") or "").rstrip("/")) or str(artifact["name"])
        form = form_of(artifact) or "tar"
        file_name = {"tar": f"{artifact['name']}.tgz", "zip": f"{artifact['name']}.zip", "none": name}[form]
        done: dict[str, Any] = dict(artifact)
        if not key_of(artifact) and not kind_of(artifact):
            done = artifact_with_key(artifact, repository, new_key(repository, scope, file_name))
        self._transit.mkdir(parents=True, exist_ok=True)
        work = Path(mkdtemp(dir=self._transit))
        try:
            async with self._store(workflow, done, repository) as (store, location):
                _check_run(workflow, location)
                ready = work / "packed"
                if form == "none":
                    await self._threads.run(namespace, _copy, source, ready)
                elif await self._is_restricted(workflow):
                    await self._confined.pack(namespace, source, name, ready, artifact)
                else:
                    await self._threads.run(namespace, pack, source, name, ready, artifact)
                if is_local(location) and await self._is_restricted(workflow):
                    await self._threads.run(namespace, self._quota.take, namespace, ready)
                await self._threads.run(namespace, self.owners.record, workflow, location)
                await store.save(ready, location)
        finally:
            await self._threads.run(namespace, _remove, work)
        return done

    async def delete(self, workflow: Object, artifact: Artifact) -> None:
        async with self._store(workflow, artifact) as (store, location):
            _check_run(workflow, location)
            await store.delete(location)

    async def kept(self) -> list[Key]:
        """Returns the workflows whose artifacts outlive them (`KEEP_ANNOTATION`)."""
        return await asyncio.to_thread(self.owners.kept)

    async def release(self, workflow: Key) -> None:
        """Lets the artifacts of such a workflow be deleted with it, or at once if it is gone already."""
        await self._threads.run(workflow.namespace, self.owners.release, workflow)
        self.on_release(workflow)

    async def keys(self, workflow: Object, artifact: Artifact) -> list[str]:
        """Returns all keys below the artifact's key."""
        async with self._store(workflow, artifact) as (store, location):
            return await store.keys(location)

    async def read(self, workflow: Object, artifact: Artifact) -> AsyncIterator[bytes]:
        """Reads the artifact as its store holds it. Raises ArtifactError before the first byte if it is not
        available."""
        async with self._store(workflow, artifact) as (store, location):
            async for block in store.read(location):
                yield block

    def sweep(self) -> None:
        """Removes what was in transit when the last server ended."""
        while self._left:
            _remove(self._left.pop())

    async def _is_restricted(self, workflow: Object) -> bool:
        try:
            return is_restricted(await self._cluster.get(NAMESPACE, namespace_of(workflow)))
        except NotFound:
            return False

    @asynccontextmanager
    async def _store(
        self, workflow: Object, artifact: Artifact, repository: Mapping[str, Any] | None = None
    ) -> AsyncIterator[tuple[ArtifactStore, Location]]:
        """Opens the store of an artifact, and yields it with the location. Secret values are removed from its
        errors."""
        namespace = namespace_of(workflow)
        repository = repository if repository is not None else await self.repository(workflow)
        location = location_of(artifact, repository)
        is_shared = repository is self._default and not is_local(location) and not has_location(artifact)
        secrets = Secrets(self._cluster, self._system_namespace or namespace if is_shared else namespace)
        try:
            if await self._is_restricted(workflow):
                location = _member_location(location, namespace, is_shared=is_shared)
                yield self._open_for_member(namespace, location, secrets), location
            else:
                location = await self._resolve_address(namespace, location)
                yield self._open(namespace, location, secrets), location
        except ArtifactError as error:
            raise type(error)(secrets.scrub(str(error))) from None

    async def _resolve_address(self, namespace: str, location: Location) -> Location:
        """Returns the location with the address of a Pod if it names a Service of the cluster, such as `minio:9000`."""
        found = plain_address(location)
        if found is None or is_local(location):
            return location
        pod = await resolve_service(self._cluster, namespace, *found)
        return location if pod is None else with_address(location, *pod)

    async def _resolve_url(self, namespace: str, url: str) -> str:
        found = plain_url_address(url)
        pod = await resolve_service(self._cluster, namespace, *found) if found is not None else None
        return url if pod is None else url_with_address(url, *pod)

    def _open(self, namespace: str, location: Location, secrets: Secrets) -> ArtifactStore:
        if is_local(location):
            return LocalStore(self._local_folder, namespace, self._threads)
        return open_store(location, secrets.get, StoreAccess(resolve=partial(self._resolve_url, namespace)))

    def _open_for_member(self, namespace: str, location: Location, secrets: Secrets) -> ArtifactStore:
        if is_local(location) or kind_of(location) == "raw":
            return self._open(namespace, location, secrets)
        return ConfinedStore(self._confined, namespace, secrets.get)


def _member_location(location: Location, namespace: str, *, is_shared: bool) -> Location:
    """Returns the location as a member may use it. Raises ArtifactError."""
    if is_shared:
        try:
            return with_key(location, prefixed_key(key_of(location), namespace))
        except ValueError as error:
            raise ArtifactError(str(error)) from None
    problem = location_problem(location)
    if problem:
        raise ArtifactError(problem)
    return location


def _check_run(workflow: Object, location: Location) -> None:
    """Raises ArtifactError if a workflow would change what a run of the platform stored. Others may read it."""
    owner = split_key(key_of(location))[0] if is_local(location) else ""
    if is_run_secret(owner) and owner != name_of(workflow):
        raise ArtifactError(f'keys that begin with "{owner}/" belong to another run: choose another key')


def _copy(source: Path, target: Path) -> None:
    with Folder.at(source.parent) as beside, Folder.at(target.parent) as place:
        beneath.copy(beside, source.name, place, target.name)


def _set_mode(target: Path, mode: int, recurse: bool) -> None:
    with Folder.at(target.parent) as beside:
        beneath.set_mode(beside, target.name, mode, recurse=recurse)


def _remove(place: Path) -> None:
    with suppress(OSError), Folder.at(place.parent) as above:
        above.remove([place.name])
