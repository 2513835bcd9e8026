"""What the namespace of a user or a team holds so that runs can run in it: a service account with its role, the
artifact repository with its keys, and the queues or quotas of virtual clusters.

The functions are pure, except `sync_objects`, which makes the cluster as they say. It is level-triggered: every object
carries a hash of its content.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import orjson

from muster.kube.builtin import CONFIG_MAP, LIMIT_RANGE, RESOURCE_QUOTA, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.kube.kinds import Kind
from muster.kube.manifests import dump
from muster.kube.objects import Object, annotations_of, meta, name_of, namespace_of, uid_of
from muster.platform.records.resources import QueueSystem, VirtualCluster
from muster.platform.resources import kueue, resource_quotas
from muster.platform.settings import S3Settings
from muster.training.registry import training_kinds
from muster.workflows.artifacts.client import CONFIG_MAP_NAME, DEFAULT_ANNOTATION
from muster.workflows.backend import KEY_FORMAT, RUN_ACCOUNT

log = logging.getLogger(__name__)

MANAGED_LABEL: Final = "muster.dev/namespace-part"
HASH_ANNOTATION: Final = "muster.dev/content"
REPOSITORY_SECRET: Final = "muster-artifacts"  # noqa: S105  (the name of one)
POD_SECURITY: Final[Mapping[str, str]] = {"pod-security.kubernetes.io/enforce": "baseline"}
"""On a real cluster, its own admission keeps the Pods of members from the node: no host paths, no privileges."""

_REPOSITORY_KEY = "muster"
_KINDS: Final[Sequence[Kind]] = (
    SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET, CONFIG_MAP, LIMIT_RANGE, RESOURCE_QUOTA,
)  # fmt: skip
_IMMUTABLE = ("roleRef", "type")


@dataclass(frozen=True, slots=True)
class NamespaceParts:
    """What is in a namespace besides what users create."""

    restricted_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of namespaces whose Pods are restricted."""
    has_members: bool = True
    """Whether tokens of the platform are valid for the API of the cluster, so that members need rights there."""
    run_account: bool = False
    """Whether Pods of runs have a service account of their own: Argo's executor needs rights."""
    repository: S3Settings | None = None
    queue_system: QueueSystem = "embedded"
    local_queue: Kind | None = None
    """The kind of Kueue's LocalQueues, in the version that the cluster has; None without Kueue."""

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds of all objects. What is not wanted of them is removed."""
        return (*_KINDS, self.local_queue) if self.local_queue is not None else _KINDS

    def objects(self, namespace: str, clusters: Iterable[VirtualCluster] = ()) -> list[Object]:
        """`clusters` are those that may be used in the namespace."""
        made = run_account(namespace) if self.run_account else []
        if self.repository is not None:
            made += artifact_repository(namespace, self.repository)
        limited = [each for each in clusters if each.queue_in(self.queue_system)]
        if self.queue_system == "kueue" and self.local_queue is not None:
            made += [local_queue(namespace, each, self.local_queue) for each in limited]
        elif self.queue_system == "quota" and limited:
            made += resource_limits(namespace, limited)
        return made


EMBEDDED_PARTS: Final = NamespaceParts()


def run_account(namespace: str) -> list[Object]:
    """The service account of runs. Argo's executor reports results with it, and creates the jobs of training nodes."""
    binding: Object = {
        "roleRef": {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": RUN_ACCOUNT},
        "subjects": [{"kind": SERVICE_ACCOUNT.kind, "name": RUN_ACCOUNT, "namespace": namespace}],
    }
    return [
        _managed(SERVICE_ACCOUNT, RUN_ACCOUNT, namespace, {}),
        _managed(ROLE, RUN_ACCOUNT, namespace, {"rules": run_rules()}),
        _managed(ROLE_BINDING, RUN_ACCOUNT, namespace, binding),
    ]


def run_rules() -> list[Object]:
    """What Pods of runs may do in their namespace. The server needs these rights itself to grant them."""
    groups: dict[str, set[str]] = {}
    for kind in training_kinds():
        groups.setdefault(kind.group, set()).add(kind.plural)
    jobs = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": ["create", "get", "list", "watch", "patch"]}
        for group, plurals in sorted(groups.items())
    ]
    results = {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}
    return [results, *jobs]


def local_queue(namespace: str, cluster: VirtualCluster, kind: Kind) -> Object:
    return _managed(kind, cluster.queue, namespace, {"spec": kueue.local_queue_spec(cluster)})


def resource_limits(namespace: str, clusters: Iterable[VirtualCluster]) -> list[Object]:
    """A quota for each virtual cluster, and what makes every container request something."""
    defaults = _managed(
        LIMIT_RANGE, resource_quotas.LIMIT_RANGE_NAME, namespace, {"spec": resource_quotas.limit_range_spec()}
    )
    quotas = (
        _managed(RESOURCE_QUOTA, each.queue, namespace, {"spec": resource_quotas.quota_spec(each)}) for each in clusters
    )
    return [defaults, *quotas]


def artifact_repository(namespace: str, settings: S3Settings) -> list[Object]:
    """The default repository of the namespace, as Argo reads it, and the Secret with its keys. If the settings name a
    Secret of the namespace, only the repository."""
    repository = {"archiveLogs": True, "s3": s3_location(namespace, settings)}
    config = _managed(
        CONFIG_MAP, CONFIG_MAP_NAME, namespace, {"data": {_REPOSITORY_KEY: dump(repository)}},
        {DEFAULT_ANNOTATION: _REPOSITORY_KEY},
    )  # fmt: skip
    if settings.secret_name:
        return [config]
    keys = {"accessKey": settings.access_key, "secretKey": settings.secret_key}
    data = {name: b64encode(value.encode()).decode() for name, value in keys.items()}
    return [_managed(SECRET, REPOSITORY_SECRET, namespace, {"type": "Opaque", "data": data}), config]


def s3_location(namespace: str, settings: S3Settings) -> dict[str, Any]:
    """The `s3` of Argo's artifact repository."""
    secret = settings.secret_name or REPOSITORY_SECRET
    return {
        "endpoint": settings.endpoint,
        "bucket": settings.bucket.replace("{namespace}", namespace),
        **({"region": settings.region} if settings.region else {}),
        **({"insecure": True} if settings.insecure else {}),
        "keyFormat": KEY_FORMAT,
        "accessKeySecret": {"name": secret, "key": "accessKey"},
        "secretKeySecret": {"name": secret, "key": "secretKey"},
    }


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    create: list[Object]
    patch: list[Object]
    replace: list[Object]
    """They exist with another value of a field that cannot be changed."""
    delete: list[Object]


def plan_objects(there: Iterable[Object], wanted: Iterable[Object]) -> ObjectChanges:
    """Compares what a namespace has with what it should have."""
    found = {_identity(obj): obj for obj in there}
    changes = ObjectChanges([], [], [], [])
    for obj in wanted:
        old = found.pop(_identity(obj), None)
        if old is None:
            changes.create.append(obj)
        elif _hash_of(old) != _hash_of(obj):
            fixed = all(old.get(name) == obj.get(name) for name in _IMMUTABLE)
            (changes.patch if fixed else changes.replace).append(obj)
    changes.delete.extend(found.values())
    return changes


async def sync_objects(
    cluster: Cluster, wanted: Iterable[Object], namespaces: Container[str], kinds: Sequence[Kind] = _KINDS
) -> dict[str, str]:
    """Makes what these namespaces hold as it should be. Others are left alone: they may be those of another platform on
    the same cluster, or not be ready. Returns why namespaces do not have all that they should, by namespace."""
    by_kind: dict[str, list[Object]] = {kind.kind: [] for kind in kinds}
    for obj in wanted:
        by_kind[obj["kind"]].append(obj)
    failed: dict[str, str] = {}
    for kind in kinds:
        listed = (await cluster.list(kind, labels=MANAGED_LABEL)).items
        there = [obj for obj in listed if namespace_of(obj) in namespaces]
        changes = plan_objects(there, by_kind[kind.kind])
        for obj in (*changes.delete, *changes.replace):
            await _try(failed, obj, cluster.delete(kind, name_of(obj), namespace_of(obj), uid=uid_of(obj)))
        for obj in (*changes.create, *changes.replace):
            await _try(failed, obj, cluster.create(obj))
        old = {_identity(obj): obj for obj in there}
        for obj in changes.patch:
            patch = patch_for(old[_identity(obj)], obj)
            await _try(failed, obj, cluster.patch(kind, name_of(obj), namespace_of(obj), patch))
    return failed


def patch_for(old: Object, wanted: Object) -> Object:
    """Returns the merge patch that gives an object the wanted content. Labels and annotations that others have set
    stay."""
    content = {name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")}
    metadata = {name: meta(wanted)[name] for name in ("labels", "annotations")}
    return {"metadata": metadata, **{name: _replacing(old.get(name), value) for name, value in content.items()}}


def _replacing(old: Any, new: Any) -> Any:
    """A merge patch keeps what it does not name, so it names what goes."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    gone = {name: None for name in old if name not in new}
    return {**gone, **{name: _replacing(old.get(name), value) for name, value in new.items()}}


async def _try(failed: dict[str, str], obj: Object, work: Any) -> None:
    try:
        await work
    except ApiError as error:
        namespace = namespace_of(obj)
        log.warning("%s %s/%s is not as it should be: %s", obj.get("kind"), namespace, name_of(obj), error)
        failed[namespace] = error.message


def _managed(
    kind: Kind, name: str, namespace: str, content: Object, annotations: Mapping[str, str] | None = None
) -> Object:
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {MANAGED_LABEL: "run"},
        "annotations": {**(annotations or {}), HASH_ANNOTATION: content_hash(content)},
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}


def content_hash(content: Object) -> str:
    return sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _identity(obj: Object) -> tuple[str, str, str]:
    return str(obj["kind"]), namespace_of(obj), name_of(obj)


def _hash_of(obj: Object) -> str:
    return annotations_of(obj).get(HASH_ANNOTATION, "")
