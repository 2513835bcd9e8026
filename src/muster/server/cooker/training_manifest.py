"""Writes a job of MLP Cooker as a training job of this cluster: a PyTorchJob, TFJob, MPIJob, ... Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from muster.kube.objects import Object
from muster.platform.errors import InvalidProblem
from muster.platform.graphs.bindings import escape_dollars
from muster.platform.graphs.model import Role, Training
from muster.platform.graphs.templates import find_job_kind, training_job, waits_for_launcher
from muster.platform.messages import FieldError, field_error
from muster.platform.records.resources import StorageRoot
from muster.server.cooker.task_params import AIHC_ONLY, TaskParams, has_parent_folder
from muster.server.dispatch.settings import CookerSettings, SourcePlace
from muster.training.kinds.base import KubeflowJobKind
from muster.training.registry import JOB_KINDS

SHELL: Final = ("sh", "-c", 'command -v bash >/dev/null 2>&1 && exec bash -c "$0"; exec sh -c "$0"')
"""AIHC runs a command in bash. An image without one gets its sh. The command follows as an argument of its own."""

_UNITS: Final = {"memory": "Gi", "sharedMemory": "Gi", "ephemeral-storage": "Gi"}
_WITH_MASTER: Final = ("PyTorchJob", "XGBoostJob")


@dataclass(frozen=True, slots=True)
class ClusterPlaces:
    """What of this cluster stands for what of AIHC."""

    sources: Mapping[str, SourcePlace]
    """By `type:name`; * and ? match, and the longest pattern wins."""
    roots: Mapping[str, StorageRoot]
    """The storage roots that the user may use, by name."""
    queues: frozenset[str] = frozenset()
    """The queues of the cluster."""
    accelerators: Mapping[str, str] = field(default_factory=lambda: CookerSettings().accelerators)


def training_manifest(params: TaskParams, places: ClusterPlaces) -> tuple[Object, list[str]]:
    """Returns the object, without name and namespace, and warnings about what has no effect here. Raises
    InvalidProblem with everything that cannot be expressed on this cluster."""
    errors: list[FieldError] = [
        field_error(f"taskParams.{name}", "cooker.only-aihc", field=name) for name in AIHC_ONLY if params.get(name)
    ]
    job_kind = find_job_kind(Training(kind=params["jobType"], api_version="kubeflow.org/v1"))
    if job_kind is None:
        known = [each.kind.kind for each in JOB_KINDS if isinstance(each, KubeflowJobKind)]
        errors.append(field_error("taskParams.jobType", "cooker.no-kind", type=params["jobType"], types=known))
    queue = params["queue"]
    if queue and queue not in places.queues:
        errors.append(field_error("taskParams.queue", "cooker.queue", name=queue, queues=sorted(places.queues)))
    volumes, mounts = _volumes(params["datasources"], places, errors)
    if errors or job_kind is None:
        raise InvalidProblem.fields(errors)

    spec: Mapping[str, Any] = params["jobSpec"]
    amounts, shared_memory = _amounts(spec["resources"], places.accelerators)
    if shared_memory:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shared_memory}})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 (in the container)
    container: Object = {
        "name": job_kind.container,
        "image": spec["image"],
        "env": [dict(each) for each in spec["envs"]],
        "resources": {"limits": amounts, "requests": amounts} if amounts else {},
        "volumeMounts": mounts,
    }
    labels = {each["key"]: each["value"] for each in params["labels"]}
    roles = _roles(params["jobType"], spec["replicas"])
    pods: dict[str, Object] = {}
    for role in roles:
        is_idle = waits_for_launcher(job_kind, role.name)
        command = {} if is_idle else {"command": [*map(escape_dollars, SHELL), escape_dollars(params["command"])]}
        pod: Object = {"containers": [_without_empty({**container, **command})]}
        if volumes:
            pod["volumes"] = volumes
        if spec["hostNetwork"]:
            pod["hostNetwork"] = True
        pods[role.name] = {"metadata": {"labels": labels}, "spec": pod} if labels else {"spec": pod}
    training = Training(kind=params["jobType"], api_version=job_kind.kind.api_version, roles=roles)
    manifest = training_job(training, job_kind, pods, {"labels": labels} if labels else {}, queue)
    warnings = ["enableRDMA has no effect on this cluster"] if spec["enableRDMA"] else []
    return manifest, warnings


def _roles(job_type: str, replicas: int) -> tuple[Role, ...]:
    """AIHC counts machines. An MPIJob has a launcher besides, which takes no part in the computation."""
    if job_type == "MPIJob":
        return Role(name="Launcher", replicas=1), Role(name="Worker", replicas=replicas)
    if job_type in _WITH_MASTER:
        master = Role(name="Master", replicas=1)
        return (master, Role(name="Worker", replicas=replicas - 1)) if replicas > 1 else (master,)
    return (Role(name="Worker", replicas=replicas),)


def _amounts(resources: Iterable[Mapping[str, Any]], accelerators: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Returns requests in Kubernetes' units, and the size of the shared memory, '' for the usual one."""
    amounts: dict[str, str] = {}
    for each in resources:
        name = best_match(accelerators, each["name"]) or each["name"]
        amounts[name] = f"{each['quantity']}{_UNITS.get(name, '')}"
    return amounts, amounts.pop("sharedMemory", "")


def _volumes(
    sources: Iterable[Mapping[str, Any]], places: ClusterPlaces, errors: list[FieldError]
) -> tuple[list[Object], list[Object]]:
    volumes: list[Object] = []
    mounts: list[Object] = []
    for index, source in enumerate(sources):
        found = _locate(source, places, f"taskParams.datasources[{index}]")
        if isinstance(found, FieldError):
            errors.append(found)
            continue
        volume, mount = found
        name = f"data-{index}"
        volumes.append({"name": name, **volume})
        mounts.append({
            "name": name,
            "mountPath": source["mountPath"],
            **mount,
            **({"readOnly": True} if source["options"]["readOnly"] else {}),
        })  # fmt: skip
    return volumes, mounts


def _locate(source: Mapping[str, Any], places: ClusterPlaces, path: str) -> tuple[Object, Object] | FieldError:
    """Returns the volume, and what its mount needs besides the path."""
    kind = source["type"]
    if kind == "emptydir":
        return {"emptyDir": {}}, {}
    if kind == "hostpath":
        return _host_path(source["sourcePath"], places.roots.values(), path)
    name, inside = source_name(source)
    place = best_match(places.sources, f"{kind}:{name}")
    if place is None:
        return field_error(path, "cooker.no-source", type=kind, name=name)
    folder = posixpath.normpath(posixpath.join("/", place.path.strip("/"), inside.strip("/"))).strip("/")
    if place.claim:
        return _claim(place.claim, folder)
    root = places.roots.get(place.storage_root)
    if root is None:
        return field_error(path, "cooker.no-root", type=kind, name=name, root=place.storage_root)
    if root.read_only and not source["options"]["readOnly"]:
        return field_error(path, "storage.read-only", root=root.name)
    if root.claim:
        return _claim(root.claim, folder)
    return _root_folder(root, folder)


def source_name(source: Mapping[str, Any]) -> tuple[str, str]:
    """The name by which the settings know a data source, and the folder in it. A BOS path begins with its bucket."""
    if source["type"] == "bos" and not source["name"]:
        bucket, _, inside = source["sourcePath"].lstrip("/").partition("/")
        return bucket, inside
    return source["name"], source["sourcePath"]


def _claim(name: str, folder: str) -> tuple[Object, Object]:
    return {"persistentVolumeClaim": {"claimName": name}}, {"subPath": folder} if folder else {}


def _root_folder(root: StorageRoot, folder: str) -> tuple[Object, Object]:
    """The rules for Pods of members allow a storage root itself as a volume, and folders in it as subPath."""
    volume = {"hostPath": {"path": posixpath.normpath(root.host_path or root.path)}}
    return volume, {"subPath": folder} if folder else {}


def _host_path(folder: str, roots: Iterable[StorageRoot], path: str) -> tuple[Object, Object] | FieldError:
    if not folder.startswith("/") or has_parent_folder(folder):
        return field_error(f"{path}.sourcePath", "cooker.source-path", path=folder[:200])
    folder = posixpath.normpath(folder)
    places = {posixpath.normpath(root.host_path or root.path): root for root in roots if not root.claim}
    around = [place for place in places if folder.startswith(f"{place}/")]
    if folder not in places and around:
        place = max(around, key=len)
        return _root_folder(places[place], folder.removeprefix(f"{place}/"))
    # Whether users may have a folder outside of their storage roots, the rules for their Pods decide.
    return {"hostPath": {"path": folder}}, {}


def best_match(patterns: Mapping[str, Any], name: str) -> Any:
    """The value of the longest pattern that matches; None if none does."""
    matching = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
    return patterns[max(matching, key=len)] if matching else None


def _without_empty(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if value not in ({}, [])}
