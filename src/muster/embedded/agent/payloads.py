"""The files of configMap, secret, projected and downwardAPI volumes: which, with what in them, and with what mode.

Pure: writing them is `mounting.py`'s."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeAlias

from muster.embedded.agent.environment import field_value, resource_value
from muster.embedded.agent.surroundings import (
    ConfigError,
    MountError,
    Surroundings,
    config_map_data,
    secret_data,
)
from muster.kube.errors import ApiError, NotFound
from muster.kube.objects import Object, namespace_of, spec_of

_MODE = 0o644


class File(NamedTuple):
    content: bytes
    mode: int


Payload: TypeAlias = dict[str, File]
"""By path, relative to the volume's folder."""


def payload_of(pod: Object, volume: str, source: Mapping[str, Any], around: Surroundings) -> Payload:
    """`source` is the volume as the Pod's spec has it. Raises MountError when something it names is missing."""
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in source:
            return _one(pod, volume, kind, source[kind] or {}, around, _mode_of(source[kind]))
    files: Payload = {}
    projected = source.get("projected") or {}
    for part in projected.get("sources") or ():
        files.update(_projected(pod, volume, part, around, _mode_of(projected)))
    return files


def _mode_of(source: Mapping[str, Any] | None) -> int:
    mode = (source or {}).get("defaultMode")
    return _MODE if mode is None else int(mode)


def _projected(pod: Object, volume: str, part: Mapping[str, Any], around: Surroundings, mode: int) -> Payload:
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in part:
            return _one(pod, volume, kind, part[kind] or {}, around, mode)
    if "serviceAccountToken" in part:
        return _token(pod, volume, part["serviceAccountToken"], around)
    if "apiServerCertificate" in part:
        certificate = around.api.ca_certificate if around.api is not None else ""
        return {part["apiServerCertificate"]["path"]: File(certificate.encode(), mode)}
    kind = next(iter(part), "nothing")
    raise MountError(volume, f'projected sources of type "{kind}" are not available on this machine')


def _one(pod: Object, volume: str, kind: str, source: Mapping[str, Any], around: Surroundings, mode: int) -> Payload:
    if kind == "downwardAPI":
        return _downward(pod, volume, source, around, mode)
    namespace = namespace_of(pod)
    name = str(source.get("secretName") or source.get("name") or "")
    optional = bool(source.get("optional"))
    if kind == "configMap":
        found = around.config_map(namespace, name)
        data = config_map_data(found) if found is not None else None
    else:
        found = around.secret(namespace, name)
        data = secret_data(found) if found is not None else None
    if data is None:
        if optional:
            return {}
        raise MountError(volume, f'{kind.lower()} "{name}" not found')
    items = source.get("items")
    if not items:
        return {_safe(volume, key): File(content, mode) for key, content in data.items()}
    files: Payload = {}
    for item in items:
        key, path = str(item.get("key") or ""), _safe(volume, str(item.get("path") or ""))
        if key in data:
            files[path] = File(data[key], mode if item.get("mode") is None else int(item["mode"]))
        elif not optional:
            raise MountError(volume, f'{kind.lower()} "{namespace}/{name}" has no key "{key}"')
    return files


def _downward(pod: Object, volume: str, source: Mapping[str, Any], around: Surroundings, mode: int) -> Payload:
    files: Payload = {}
    for item in source.get("items") or ():
        path = _safe(volume, str(item.get("path") or ""))
        try:
            if "fieldRef" in item:
                text = field_value(pod, str(item["fieldRef"].get("fieldPath") or ""), around)
            else:
                text = _resource(pod, item.get("resourceFieldRef") or {}, around)
        except ConfigError as error:
            raise MountError(volume, error.message) from None
        files[path] = File(text.encode("utf-8", "surrogateescape"), mode if item.get("mode") is None else item["mode"])
    return files


def _resource(pod: Object, reference: Mapping[str, Any], around: Surroundings) -> str:
    spec, wanted = spec_of(pod), reference.get("containerName")
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if container.get("name") == wanted:
            return resource_value(container, reference, around)
    raise ConfigError(f'resourceFieldRef.containerName "{wanted}" is no container of this Pod')


def _token(pod: Object, volume: str, source: Mapping[str, Any], around: Surroundings) -> Payload:
    if around.api is None:
        raise MountError(volume, "service account tokens are not available: this cluster runs without an API server")
    try:
        token = around.api.token(pod, str(source.get("audience") or ""), int(source.get("expirationSeconds") or 3600))
    except NotFound as error:
        # The account that every namespace has may be a moment late; one that a cluster elsewhere has never comes.
        if source.get("optional") and spec_of(pod).get("serviceAccountName") not in (None, "", "default"):
            return {}
        raise MountError(volume, error.message) from None
    except ApiError as error:
        raise MountError(volume, error.message) from None
    return {_safe(volume, str(source.get("path") or "token")): File(token.encode(), 0o600)}


def _safe(volume: str, path: str) -> str:
    """Refuses what would leave the volume's folder, or meet the links that make updates atomic."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise MountError(volume, f'"{path}" is not a path inside the volume: it must be relative and without ".."')
    return "/".join(parts)
