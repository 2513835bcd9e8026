"""The cluster objects a Pod refers to, kept current by informers, and the errors that say what is missing."""

from __future__ import annotations

import asyncio
import base64
import posixpath
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from muster.embedded.node.hosts import HostsFiles
from muster.embedded.node.supervisor.contract import ContainerOrder
from muster.embedded.node.supervisor.output_files import is_kernel_path
from muster.embedded.settings import ApiAccess
from muster.kube.builtin import CONFIG_MAP, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, SECRET, SERVICE
from muster.kube.cluster import CONTAINERS_ANNOTATION, KEEP_FILES_ANNOTATION, STOP_ANNOTATION, Cluster
from muster.kube.controller import Informer
from muster.kube.file_names import fit_component, path_component
from muster.kube.kinds import Kind
from muster.kube.objects import Object, annotations_of, name_of, namespace_of, spec_of, status_of

Lookup: TypeAlias = Callable[[str, str], Object | None]
"""(namespace, name) -> the object or None. The namespace of cluster-scoped objects is ''."""

ReferenceKind: TypeAlias = Literal["ConfigMap", "Secret", "PersistentVolumeClaim"]
Reference: TypeAlias = tuple[ReferenceKind, str, str]
"""(kind, namespace, name) of an object that a Pod depends on."""


def _nothing(_namespace: str, _name: str) -> Object | None:
    return None


def _none_of(_namespace: str) -> list[Object]:
    return []


@dataclass(frozen=True, slots=True)
class PodContext:
    """The objects that one Pod can refer to. `pod_ip` is the Pod's own address; `allocatable` are the resources of its
    node."""

    pod_ip: str = ""
    host_ip: str = "127.0.0.1"
    config_map: Lookup = _nothing
    secret: Lookup = _nothing
    claim: Lookup = _nothing
    persistent_volume: Lookup = _nothing
    services: Callable[[str], list[Object]] = _none_of
    allocatable: Mapping[str, str] = field(default_factory=dict)
    api: ApiAccess | None = None
    restricted: bool = False
    """Whether the Pod's namespace belongs to people who are not admins."""


class NotReady(Exception):
    """The Pod cannot start now. It waits, with this reason and message in its status, and is tried again when an object
    that it refers to changes."""

    reason = "CreateContainerConfigError"
    event = "Failed"
    event_type: Literal["Normal", "Warning"] = "Warning"
    retry_seconds: float | None = None
    """When to try again even if nothing has changed; None if only a change can help."""
    fails_pod = False
    """Whether nothing can help, so that the Pod fails."""

    def __init__(self, message: str, container: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.container = container
        """'' if the problem concerns the whole Pod."""

    @property
    def event_message(self) -> str:
        return f"Error: {self.message}"


class ConfigError(NotReady):
    """The environment refers to an object that does not exist yet, or a mount to a place outside of its volume."""


class InvalidAnnotation(ConfigError):
    """An annotation by which the Pod asks this agent for something cannot be read. Waiting does not help, so the Pod
    fails."""

    reason = "InvalidAnnotation"
    fails_pod = True


class SysctlForbidden(NotReady):
    """The Pod wants another value of a kernel parameter. As on a node that does not allow it, the Pod fails."""

    reason = event = "SysctlForbidden"
    fails_pod = True


class MountError(NotReady):
    """A volume is not available yet."""

    reason = "ContainerCreating"
    event = "FailedMount"
    retry_seconds = 10.0

    def __init__(self, volume: str, message: str) -> None:
        super().__init__(f'MountVolume.SetUp failed for volume "{volume}" : {message}')

    @property
    def event_message(self) -> str:
        return self.message


class ContainerError(NotReady):
    """A container cannot be created as its spec says."""

    reason = "CreateContainerError"


class EngineNotReady(ContainerError):
    """The image engine does not work here yet."""

    retry_seconds = 30.0


class MachineError(NotReady):
    """This machine cannot create what the Pod needs, for example because its disk is full."""

    reason = "CreateContainerError"
    event = "FailedCreatePodSandBox"
    retry_seconds = 10.0


class ImageNeedsCommand(NotReady):
    """The container names no command, and no image engine can ask the image for its own."""

    reason = "ImageNeedsCommand"


def config_map_data(config_map: Object) -> dict[str, bytes]:
    data = {key: str(value).encode() for key, value in (config_map.get("data") or {}).items()}
    data.update((key, base64.b64decode(value)) for key, value in (config_map.get("binaryData") or {}).items())
    return data


def secret_data(secret: Object) -> dict[str, bytes]:
    data = {key: base64.b64decode(value or "") for key, value in (secret.get("data") or {}).items()}
    data.update((key, str(value).encode()) for key, value in (secret.get("stringData") or {}).items())
    return data


class ReferencedObjects:
    """Informers for the objects that Pods refer to. `changed(uid)` is called for every Pod that refers to an object
    that was created, changed or deleted."""

    def __init__(
        self, cluster: Cluster, hosts: HostsFiles, api: ApiAccess | None, changed: Callable[[str], None]
    ) -> None:
        self._hosts = hosts
        self._api = api
        self._changed = changed
        self._users: dict[Reference, set[str]] = {}
        self._references: dict[str, set[Reference]] = {}
        self._config_maps = self._watch(cluster, CONFIG_MAP, "ConfigMap")
        self._secrets = self._watch(cluster, SECRET, "Secret")
        self._claims = self._watch(cluster, PERSISTENT_VOLUME_CLAIM, "PersistentVolumeClaim")
        self._volumes = Informer(cluster, PERSISTENT_VOLUME, on_change=self._volume_changed)
        self._services = Informer(cluster, SERVICE, on_change=self._service_changed, indexers={"namespace": _namespace})

    @property
    def informers(self) -> list[Informer]:
        return [self._config_maps, self._secrets, self._claims, self._volumes, self._services]

    async def synced(self) -> None:
        await asyncio.gather(*(informer.synced.wait() for informer in self.informers))

    def context_for(self, node: Object | None, pod_ip: str, *, restricted: bool = False) -> PodContext:
        return PodContext(
            pod_ip=pod_ip,
            config_map=self._config_maps.get,
            secret=self._secrets.get,
            claim=self._claims.get,
            persistent_volume=self._volumes.get,
            services=lambda namespace: self._services.by("namespace", namespace),
            allocatable=(status_of(node).get("allocatable") or {}) if node is not None else {},
            api=self._api,
            restricted=restricted,
        )

    def register(self, uid: str, references: Iterable[Reference]) -> None:
        """Notifies the Pod of changes of these objects."""
        found = set(references)
        if found:
            self._references[uid] = found
            for reference in found:
                self._users.setdefault(reference, set()).add(uid)

    def unregister(self, uid: str) -> None:
        for reference in self._references.pop(uid, ()):
            users = self._users[reference]
            users.discard(uid)
            if not users:
                del self._users[reference]

    def _watch(self, cluster: Cluster, kind: Kind, named: ReferenceKind) -> Informer:
        def on_change(before: Object | None, after: Object | None) -> None:
            obj = after or before
            if obj is not None and self._users:
                self._notify((named, namespace_of(obj), name_of(obj)))

        return Informer(cluster, kind, on_change=on_change)

    def _notify(self, reference: Reference) -> None:
        for uid in tuple(self._users.get(reference, ())):
            self._changed(uid)

    def _volume_changed(self, before: Object | None, after: Object | None) -> None:
        claim = spec_of(after or before or {}).get("claimRef") or {}
        if claim:
            self._notify(("PersistentVolumeClaim", str(claim.get("namespace") or ""), str(claim.get("name") or "")))

    def _service_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._hosts.set_service(after)
        elif before is not None:
            self._hosts.remove_service(namespace_of(before), name_of(before))


def _namespace(obj: Object) -> Collection[Hashable]:
    return (namespace_of(obj),)


# The annotations by which a Pod asks this agent for more than Kubernetes offers.


OUTPUTS = "kept"
_MOST_PATHS, _LONGEST_PATH = 1000, 4096
_MOST_RETRIES, _LONGEST_PAUSE, _LONGEST_SECONDS = 1000, 86400, 365 * 86400.0


def output_folder(pods: Path, uid: str, container: str) -> Path:
    """Returns the folder with the copies of the container's output paths, named by their index. `pods` is
    AgentSettings.pods."""
    return pods / path_component(uid) / OUTPUTS / path_component(container)


def output_paths(pod: Object, container: str) -> list[str]:
    """Returns the paths of a container to copy when it has ended. Raises InvalidAnnotation."""
    text = annotations_of(pod).get(KEEP_FILES_ANNOTATION)
    if not text:
        return []
    paths = _parse_annotation(KEEP_FILES_ANNOTATION, text).get(container) or []
    if not isinstance(paths, list) or not all(isinstance(p, str) and p.startswith("/") for p in paths):
        message = f"{KEEP_FILES_ANNOTATION}: a list of absolute paths is needed for {container}"
        raise InvalidAnnotation(message, container)
    if len(paths) > _MOST_PATHS:
        message = f"{KEEP_FILES_ANNOTATION}: {len(paths)} paths for {container}; at most {_MOST_PATHS} are possible"
        raise InvalidAnnotation(message, container)
    return [_check_output_path(path, container) for path in paths]


def _check_output_path(path: str, container: str) -> str:
    if "\0" in path or len(path.encode("utf-8", "surrogatepass")) > _LONGEST_PATH:
        raise InvalidAnnotation(f"{KEEP_FILES_ANNOTATION}: {path[:64]!r} is not a valid path", container)
    plain = posixpath.normpath(f"/{path.lstrip('/')}")
    if is_kernel_path(plain):
        why = "/proc, /sys and /dev contain no files of the Pod"
        raise InvalidAnnotation(f"{KEEP_FILES_ANNOTATION}: {plain} cannot be an output: {why}", container)
    return plain


def container_order_of(pod: Object) -> ContainerOrder | None:
    """Returns the order of the main containers, if the Pod sets one. Raises InvalidAnnotation."""
    text = annotations_of(pod).get(CONTAINERS_ANNOTATION)
    if not text:
        return None
    value = _parse_annotation(CONTAINERS_ANNOTATION, text)
    names = {str(container.get("name")) for container in spec_of(pod).get("containers") or ()}
    leading = _names(value.get("leading") or [], "leading")
    given = value.get("after") or {}
    if not isinstance(given, dict):
        raise InvalidAnnotation(f"{CONTAINERS_ANNOTATION}: after: an object is needed")
    after = {name: _names(awaited or [], f"after.{name}") for name, awaited in given.items()}
    named = {*leading, *after, *(name for awaited in after.values() for name in awaited)}
    if not leading or not named <= names:
        unknown = ", ".join(sorted(named - names))[:200]
        problem = f"the Pod has no container {unknown}" if unknown else "leading: at least one container is needed"
        raise InvalidAnnotation(f"{CONTAINERS_ANNOTATION}: {problem}")
    if _has_cycle(after):
        raise InvalidAnnotation(f"{CONTAINERS_ANNOTATION}: after: containers wait for each other")
    return {
        "leading": leading,
        "after": after,
        "retries": int(_number(value, "retries", _MOST_RETRIES)),
        "retrySeconds": _number(value, "retrySeconds", _LONGEST_PAUSE),
    }


def requested_stop_grace(pod: Object) -> float | None:
    """Returns the grace period if the annotation asks the Pod to stop."""
    text = annotations_of(pod).get(STOP_ANNOTATION)
    if text is None:
        return None
    try:
        return min(max(0.0, float(text)), _LONGEST_SECONDS)
    except ValueError:
        return 0.0


def scratch_folder(folder: str, container: str) -> str:
    """Returns the folder that a container sees as /tmp. `folder` is the Pod's."""
    return f"{folder}/{fit_component(f'tmp-{container}')}"


def container_output_folder(folder: str, container: str) -> str:
    return f"{folder}/{OUTPUTS}/{path_component(container)}"


def paths_outside_mounts(paths: list[str], targets: list[str]) -> list[str]:
    """Returns the paths that are neither in a mount nor in a file system of the kernel."""
    inside = tuple(f"{target.rstrip('/')}/" for target in (*targets, "/proc", "/sys", "/dev"))
    return [path for path in paths if not f"{path}/".startswith(inside)]


def _parse_annotation(annotation: str, text: str) -> Mapping[str, Any]:
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise InvalidAnnotation(f"{annotation} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidAnnotation(f"{annotation}: a JSON object is needed, not {text[:40]}")
    return value


def _names(value: Any, field: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidAnnotation(f"{CONTAINERS_ANNOTATION}: {field}: a list of container names is needed")
    return value


def _number(value: Mapping[str, Any], field: str, most: int) -> float:
    given = value.get(field) or 0
    try:
        number = float(given) if isinstance(given, int | float | str) else -1.0
    except (ValueError, OverflowError):
        number = -1.0
    if not 0 <= number <= most:
        message = f"{CONTAINERS_ANNOTATION}: {field}: a number from 0 to {most} is needed"
        raise InvalidAnnotation(message)
    return number


def _has_cycle(after: Mapping[str, list[str]]) -> bool:
    """Whether some containers wait for each other, so that none of them would ever start."""
    waiting = {name: set(awaited) for name, awaited in after.items()}
    while waiting:
        ready = [name for name, awaited in waiting.items() if not awaited & waiting.keys()]
        if not ready:
            return True
        for name in ready:
            del waiting[name]
    return False
