"""What a Pod's volumes are on this machine: a plan, worked out without touching anything.

`payloads.py` says what the files of a ConfigMap, Secret or downward API volume hold; `mounting.py` makes it so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from muster.embedded.agent.payloads import Payload, payload_of
from muster.embedded.agent.surroundings import MountError, Reference, Surroundings
from muster.kube.objects import Object, name_of, namespace_of, spec_of
from muster.kube.quantity import whole

SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
SERVICE_ACCOUNT_VOLUME = "kube-api-access"


@dataclass(frozen=True, slots=True)
class EmptyDir:
    """A folder that goes away with the Pod."""

    path: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The same in memory: mounted once for the whole Pod, and seen by all its containers."""

    path: str
    size: int | None


@dataclass(frozen=True, slots=True)
class HostPath:
    """Something of this machine; `type` says what has to be there, or may be made."""

    path: str
    type: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Files:
    """A folder of files that the cluster fills, and fills again when their source changes. Always read-only."""

    path: str
    payload: Payload = field(hash=False)


Volume: TypeAlias = EmptyDir | Memory | HostPath | Files


def plan_volumes(pod: Object, around: Surroundings, folder: str, nfs: Mapping[str, str]) -> dict[str, Volume]:
    """Every volume of the Pod by name. Raises MountError when one cannot be had, as things are."""
    volumes = {v["name"]: _plan(pod, v, around, f"{folder}/volumes/{v['name']}", nfs) for v in _volumes(pod)}
    if mounts_service_account(pod, around):
        source = {"projected": {"sources": _SERVICE_ACCOUNT_SOURCES}}
        path = f"{folder}/volumes/{SERVICE_ACCOUNT_VOLUME}"
        volumes[SERVICE_ACCOUNT_VOLUME] = Files(path, payload_of(pod, SERVICE_ACCOUNT_VOLUME, source, around))
    return volumes


def mounts_service_account(pod: Object, around: Surroundings) -> bool:
    return around.api is not None and spec_of(pod).get("automountServiceAccountToken") is not False


def lacks_account(volumes: Mapping[str, Volume]) -> bool:
    """Whether a Pod with these volumes has no token because its service account is not there."""
    account = volumes.get(SERVICE_ACCOUNT_VOLUME)
    return isinstance(account, Files) and _FILE not in account.payload


def token_seconds(pod: Object, has_api: bool) -> int | None:
    """How long the first of the Pod's service account tokens lasts, if it has any."""
    sources = [source for v in _volumes(pod) for source in (v.get("projected") or {}).get("sources") or ()]
    if has_api and spec_of(pod).get("automountServiceAccountToken") is not False:
        sources += _SERVICE_ACCOUNT_SOURCES
    tokens = [source["serviceAccountToken"] for source in sources if "serviceAccountToken" in source]
    return min((int(token.get("expirationSeconds") or 3600) for token in tokens), default=None)


def references_of(pod: Object) -> set[Reference]:
    """The objects whose appearance or change matters to the Pod. Its claims' volumes are not among them: a claim
    changes when it is bound."""
    namespace, spec = namespace_of(pod), spec_of(pod)
    found: set[Reference] = set()
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in container.get("envFrom") or ():
            _add(found, namespace, source.get("configMapRef"), source.get("secretRef"))
        for variable in container.get("env") or ():
            source = variable.get("valueFrom")
            if source:
                _add(found, namespace, source.get("configMapKeyRef"), source.get("secretKeyRef"))
    for volume in _volumes(pod):
        secret = volume.get("secret")
        _add(found, namespace, volume.get("configMap"), secret and {"name": secret.get("secretName")})
        for source in (volume.get("projected") or {}).get("sources") or ():
            _add(found, namespace, source.get("configMap"), source.get("secret"))
        claim = claim_name(pod, volume)
        if claim:
            found.add(("PersistentVolumeClaim", namespace, claim))
    return found


def claim_name(pod: Object, volume: Mapping[str, Any]) -> str:
    """The claim behind a volume: named, or the Pod's own where it carries a template."""
    if "persistentVolumeClaim" in volume:
        return str(volume["persistentVolumeClaim"].get("claimName") or "")
    return f"{name_of(pod)}-{volume['name']}" if "ephemeral" in volume else ""


def _volumes(pod: Object) -> list[dict[str, Any]]:
    return spec_of(pod).get("volumes") or []


def _add(
    found: set[Reference], namespace: str, config_map: Mapping[str, Any] | None, secret: Mapping[str, Any] | None
) -> None:
    if config_map:
        found.add(("ConfigMap", namespace, str(config_map.get("name") or "")))
    if secret:
        found.add(("Secret", namespace, str(secret.get("name") or "")))


def _plan(pod: Object, volume: Mapping[str, Any], around: Surroundings, path: str, nfs: Mapping[str, str]) -> Volume:
    name = volume["name"]
    if "emptyDir" in volume:
        return _empty_dir(volume["emptyDir"] or {}, path)
    if "hostPath" in volume:
        return HostPath(str(volume["hostPath"].get("path") or ""), str(volume["hostPath"].get("type") or ""))
    if any(kind in volume for kind in ("configMap", "secret", "projected", "downwardAPI")):
        return Files(path, payload_of(pod, name, volume, around))
    if "persistentVolumeClaim" in volume or "ephemeral" in volume:
        return _claimed(pod, volume, around, nfs)
    if "nfs" in volume:
        return _nfs(name, volume["nfs"], nfs)
    kind = next((key for key in volume if key != "name"), "")
    if not kind:
        return _empty_dir({}, path)
    raise MountError(
        name,
        f'volumes of type "{kind}" are not available on this machine; use emptyDir, hostPath, configMap, secret, '
        "projected, downwardAPI, nfs or persistentVolumeClaim",
    )


def _empty_dir(source: Mapping[str, Any], path: str) -> Volume:
    if source.get("medium") != "Memory":
        return EmptyDir(path)
    limit = source.get("sizeLimit")
    return Memory(path, whole(limit) if limit else None)


def _claimed(pod: Object, volume: Mapping[str, Any], around: Surroundings, nfs: Mapping[str, str]) -> Volume:
    name, claim = volume["name"], claim_name(pod, volume)
    found = around.claim(namespace_of(pod), claim)
    if found is None:
        raise MountError(name, f'persistentvolumeclaim "{claim}" not found')
    bound = str(spec_of(found).get("volumeName") or "")
    source = around.persistent_volume("", bound) if bound else None
    if source is None:
        raise MountError(name, f'persistentvolumeclaim "{claim}" is not bound to a volume yet')
    spec = spec_of(source)
    read_only = bool((volume.get("persistentVolumeClaim") or {}).get("readOnly")) or list(
        spec.get("accessModes") or ()
    ) == ["ReadOnlyMany"]
    if "hostPath" in spec or "local" in spec:
        kind = (spec.get("hostPath") or {}).get("type") or ""
        place = (spec.get("hostPath") or spec.get("local") or {}).get("path") or ""
        return HostPath(str(place), str(kind), read_only)
    if "nfs" in spec:
        mapped = _nfs(name, spec["nfs"], nfs)
        return HostPath(mapped.path, mapped.type, read_only or mapped.read_only)
    raise MountError(
        name, f'persistentvolume "{bound}" has no hostPath, local or nfs source, and nothing else is available here'
    )


def _nfs(name: str, source: Mapping[str, Any], mapped: Mapping[str, str]) -> HostPath:
    wanted = f"{source.get('server', '')}:{source.get('path', '')}"
    local = mapped.get(wanted)
    if local is None:
        raise MountError(
            name,
            f"NFS is not mounted by this machine's agent; mount {wanted} yourself and say where in config.yaml:\n"
            f'  nfs:\n    "{wanted}": /mnt/FOLDER',
        )
    return HostPath(local, "Directory", bool(source.get("readOnly")))


_FILE = "token"
_SERVICE_ACCOUNT_SOURCES: list[dict[str, Any]] = [
    {"serviceAccountToken": {"path": _FILE, "expirationSeconds": 3607, "optional": True}},
    {"apiServerCertificate": {"path": "ca.crt"}},
    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
]
