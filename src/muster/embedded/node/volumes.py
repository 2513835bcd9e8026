"""A Pod's volumes: what they are on this machine, the files they contain, and how they are created and mounted."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeAlias

from muster.embedded.node.environment import expand, field_value, resource_value
from muster.embedded.node.pod_context import (
    ConfigError,
    ContainerError,
    MountError,
    PodContext,
    Reference,
    config_map_data,
    secret_data,
)
from muster.embedded.node.supervisor.contract import Mount
from muster.kube.beneath import Folder, split_name
from muster.kube.defaults import API_ACCESS_VOLUME
from muster.kube.errors import ApiError, NotFound
from muster.kube.file_names import path_component
from muster.kube.objects import Object, name_of, namespace_of, spec_of
from muster.kube.quantity import whole_value

SERVICE_ACCOUNT_VOLUME = "kube-api-access"
_MODE = 0o644
_DATA = "..data"


class File(NamedTuple):
    content: bytes
    mode: int


Payload: TypeAlias = dict[str, File]
"""Files by path, relative to the volume's folder."""


@dataclass(frozen=True, slots=True)
class EmptyDir:
    """A folder that is removed with the Pod."""

    path: str


@dataclass(frozen=True, slots=True)
class Memory:
    """An emptyDir in memory: mounted once for the whole Pod, and shared by its containers."""

    path: str
    size: int | None


@dataclass(frozen=True, slots=True)
class HostPath:
    """A path of this machine. `type` says what must exist, or may be created."""

    path: str
    type: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Files:
    """A read-only folder of files from ConfigMaps, Secrets and the like, updated when their source changes."""

    path: str
    payload: Payload = field(hash=False)
    is_atomic: bool = True
    """Whether all files change at the same time. That takes a folder and a link for each name, which cost time on the
    disk: those of the service account, which every Pod has, are replaced one by one."""


MAX_FILES_BYTES = 64 << 20
"""Of the files that the agent writes for one Pod from ConfigMaps, Secrets and fields. A Pod can name a key any number
of times, each under another path."""

Volume: TypeAlias = EmptyDir | Memory | HostPath | Files


def plan_volumes(pod: Object, context: PodContext, folder: str, nfs: Mapping[str, str]) -> dict[str, Volume]:
    """Returns every volume of the Pod by name. Raises MountError if one is not available."""
    volumes: dict[str, Volume] = {}
    size = 0
    for wanted in _volumes(pod):
        name = wanted["name"]
        volume = _plan(pod, wanted, context, f"{folder}/volumes/{path_component(name)}", nfs)
        if isinstance(volume, Files):
            size = _add_size(name, size, *volume.payload.values())
        volumes[name] = volume
    if mounts_service_account(pod, context):
        source = {"projected": {"sources": _SERVICE_ACCOUNT_SOURCES}}
        path = f"{folder}/volumes/{SERVICE_ACCOUNT_VOLUME}"
        payload = payload_of(pod, SERVICE_ACCOUNT_VOLUME, source, context)
        volumes[SERVICE_ACCOUNT_VOLUME] = Files(path, payload, is_atomic=False)
    return volumes


def mounts_service_account(pod: Object, context: PodContext) -> bool:
    return context.api is not None and spec_of(pod).get("automountServiceAccountToken") is not False


def lacks_service_account(volumes: Mapping[str, Volume]) -> bool:
    """Whether a Pod with these volumes has no token because its service account does not exist."""
    account = volumes.get(SERVICE_ACCOUNT_VOLUME)
    return isinstance(account, Files) and _ACCOUNT_FILE not in account.payload


def token_seconds(pod: Object, has_api: bool) -> int | None:
    """Returns the shortest lifetime of the Pod's service account tokens, or None if it has none."""
    sources = [source for v in _volumes(pod) for source in (v.get("projected") or {}).get("sources") or ()]
    if has_api and spec_of(pod).get("automountServiceAccountToken") is not False:
        sources += _SERVICE_ACCOUNT_SOURCES
    tokens = [source["serviceAccountToken"] for source in sources if "serviceAccountToken" in source]
    return min((int(token.get("expirationSeconds") or 3600) for token in tokens), default=None)


def references_of(pod: Object) -> set[Reference]:
    """Returns the objects whose creation or change matters to the Pod. The volumes of its claims are not included: a
    claim changes when it is bound."""
    namespace, spec = namespace_of(pod), spec_of(pod)
    found: set[Reference] = set()
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in container.get("envFrom") or ():
            _add_references(found, namespace, source.get("configMapRef"), source.get("secretRef"))
        for variable in container.get("env") or ():
            source = variable.get("valueFrom")
            if source:
                _add_references(found, namespace, source.get("configMapKeyRef"), source.get("secretKeyRef"))
    for volume in _volumes(pod):
        secret = volume.get("secret")
        _add_references(found, namespace, volume.get("configMap"), secret and {"name": secret.get("secretName")})
        for source in (volume.get("projected") or {}).get("sources") or ():
            _add_references(found, namespace, source.get("configMap"), source.get("secret"))
        claim = claim_name(pod, volume)
        if claim:
            found.add(("PersistentVolumeClaim", namespace, claim))
    return found


def claim_name(pod: Object, volume: Mapping[str, Any]) -> str:
    """Returns the claim of a volume: the named one, or the Pod's own if the volume has a template."""
    if "persistentVolumeClaim" in volume:
        return str(volume["persistentVolumeClaim"].get("claimName") or "")
    return f"{name_of(pod)}-{volume['name']}" if "ephemeral" in volume else ""


def make_volume(name: str, volume: Volume, group: int | None = None) -> Mount | None:
    """Creates a volume's files; creating it again is harmless. Returns the mount that the whole Pod needs for it, or
    None. `group` is the Pod's fsGroup, which owns and may write the Pod's own volumes."""
    match volume:
        case EmptyDir(path):
            _make_folder(path, 0o777, group)
        case Memory(path, size):
            _make_folder(path, 0o777, group)
            mount: Mount = {"type": "tmpfs", "target": path}
            if size is not None:
                mount["size"] = size
            return mount
        case HostPath(path, kind):
            check_host_path(name, path, kind)
        case Files(path):
            _make_folder(path, 0o755, group)
            write_files(volume, group)
    return None


def container_mounts(
    container: Mapping[str, Any], volumes: Mapping[str, Volume], variables: Mapping[str, str]
) -> list[Mount]:
    """Returns the bind mounts of a container's volumeMounts, parents before what is mounted inside them."""
    name = str(container.get("name") or "")
    mounts: list[Mount] = []
    for wanted in container.get("volumeMounts") or ():
        if wanted["name"] == API_ACCESS_VOLUME and API_ACCESS_VOLUME not in volumes:
            continue  # mounted for every container that has nothing in its place
        target = str(wanted.get("mountPath") or "")
        if not target.startswith("/"):
            raise ContainerError(f'volumeMounts: mountPath "{target}" must be absolute', name)
        volume = volumes.get(wanted["name"])
        if volume is None:
            raise ContainerError(f'volumeMounts: this Pod has no volume "{wanted["name"]}"', name)
        source = volume.path
        inside = str(wanted.get("subPath") or "") or expand(str(wanted.get("subPathExpr") or ""), variables)
        if inside:
            source = sub_path(wanted["name"], volume, inside, name)
        mount: Mount = {"type": "bind", "source": source, "target": os.path.normpath(target)}
        if inside:
            mount["within"] = os.path.realpath(volume.path)
        if wanted.get("readOnly") or isinstance(volume, Files) or (isinstance(volume, HostPath) and volume.read_only):
            mount["readOnly"] = True
        mounts.append(mount)
    return sorted(mounts, key=lambda m: m["target"].count("/") if m["target"] != "/" else 0)


def sub_path(name: str, volume: Volume, inside: str, container: str) -> str:
    """Returns the place inside a volume that a subPath refers to; creates a folder if nothing is there. Refuses to
    leave the volume, by `..` or through a symbolic link."""
    if inside.startswith("/") or ".." in inside.split("/"):
        raise ConfigError(f'subPath "{inside}" of volume "{name}" must be relative and without ".."', container)
    if "$(" in inside:
        raise ConfigError(f'subPathExpr "{inside}" of volume "{name}" uses a variable that is not set', container)
    if isinstance(volume, Memory):
        return os.path.normpath(f"{volume.path}/{inside}")
    root = os.path.realpath(volume.path)
    real = os.path.realpath(f"{root}/{inside}")
    if real != root and not real.startswith(root + "/"):
        raise ConfigError(f'subPath "{inside}" of volume "{name}" leaves the volume through a symbolic link', container)
    if not os.path.lexists(real):
        if isinstance(volume, Files):
            raise ConfigError(f'volume "{name}" has no file "{inside}" for subPath', container)
        _make_sub_path(root, os.path.relpath(real, root))
    return real


def _make_sub_path(root: str, inside: str) -> None:
    """Creates folders with the mode and the owner of the volume's own folder. Containers may replace any part of the
    path by a link at the same time: no link is followed."""
    with Folder.at(root) as top:
        status, parts = os.fstat(top.descriptor), split_name(inside)
        for end in range(1, len(parts) + 1):
            if not top.kind(parts[:end]):
                with top.make_folders(parts[:end]) as made:
                    if os.geteuid() == 0:
                        os.fchown(made.descriptor, status.st_uid, status.st_gid)
                    os.fchmod(made.descriptor, stat.S_IMODE(status.st_mode))


def check_host_path(volume: str, path: str, kind: str) -> None:
    if not path.startswith("/"):
        raise MountError(volume, f'hostPath.path "{path}" must be absolute')
    if kind == "DirectoryOrCreate":
        os.makedirs(path, mode=0o755, exist_ok=True)
    elif kind == "FileOrCreate" and not os.path.exists(path):
        with open(path, "ab"):
            pass
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if kind == "":
            os.makedirs(path, mode=0o755)
            return
        raise MountError(volume, f"hostPath type check failed: {path} does not exist") from None
    except OSError as error:
        raise MountError(volume, f"hostPath {path}: {error.strerror}") from None
    required = _HOST_PATH_TYPES.get(kind.removesuffix("OrCreate"))
    if required is not None and not required[0](mode):
        raise MountError(volume, f"hostPath type check failed: {path} is not a {required[1]}")


def payload_of(pod: Object, volume: str, source: Mapping[str, Any], context: PodContext) -> Payload:
    """Returns the files of a volume. `source` is the volume in the Pod's spec. Raises MountError if an object it refers
    to is missing."""
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in source:
            return _files_of_source(pod, volume, kind, source[kind] or {}, context, _mode_of(source[kind]))
    files: Payload = {}
    projected = source.get("projected") or {}
    size = 0
    for part in projected.get("sources") or ():
        added = _projected(pod, volume, part, context, _mode_of(projected))
        size = _add_size(volume, size, *added.values())
        files.update(added)
    return files


def _add_size(volume: str, size: int, *files: File) -> int:
    """Raises MountError beyond MAX_FILES_BYTES."""
    size += sum(len(file.content) for file in files)
    if size > MAX_FILES_BYTES:
        most = MAX_FILES_BYTES >> 20
        raise MountError(volume, f"the files of all ConfigMaps, Secrets and fields of a Pod may have {most} MiB")
    return size


def write_files(volume: Files, group: int | None = None) -> None:
    """Brings the files of a volume up to date."""
    if volume.is_atomic:
        write_payload(volume.path, volume.payload, group)
        return
    for name, file in _for_group(volume.payload, group).items():
        path = f"{volume.path}/{name}"
        try:
            _write_file(path, file.content, file.mode, group)
        except FileExistsError:
            if _read_file(path) != file:
                fresh = f"{path}.new"
                with suppress(FileNotFoundError):
                    os.unlink(fresh)
                _write_file(fresh, file.content, file.mode, group)
                os.rename(fresh, path)


def write_payload(folder: str, payload: Payload, group: int | None = None) -> bool:
    """Writes the files so that a reader sees either all old or all new ones: they are in a folder of their own, which
    the link `..data` points at, and each name is a link through it. Returns whether anything changed."""
    data = f"{folder}/{_DATA}"
    payload = _for_group(payload, group)
    if _read_payload(data) == payload:
        return False
    fresh = f"..{time.strftime('%Y_%m_%d_%H_%M_%S', time.gmtime())}.{time.monotonic_ns()}"
    os.mkdir(f"{folder}/{fresh}", 0o755)
    for path, file in payload.items():
        target = f"{folder}/{fresh}/{path}"
        if "/" in path:
            os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        _write_file(target, file.content, file.mode, group)
    before = os.readlink(data) if os.path.islink(data) else None
    with suppress(FileNotFoundError):
        os.unlink(f"{folder}/..data_tmp")
    os.symlink(fresh, f"{folder}/..data_tmp")
    os.rename(f"{folder}/..data_tmp", data)
    names = {path.partition("/")[0] for path in payload}
    for name in names:
        if not os.path.lexists(f"{folder}/{name}"):
            os.symlink(f"{_DATA}/{name}", f"{folder}/{name}")
    for name in os.listdir(folder):
        if not name.startswith("..") and name not in names:
            os.unlink(f"{folder}/{name}")
    if before is not None:
        shutil.rmtree(f"{folder}/{before}", ignore_errors=True)
    return True


def _volumes(pod: Object) -> list[dict[str, Any]]:
    """Returns the volumes that the user wants. `plan_volumes` adds the one with the service account."""
    return [volume for volume in spec_of(pod).get("volumes") or () if not _is_api_access(volume)]


def _is_api_access(volume: Mapping[str, Any]) -> bool:
    return volume["name"] == API_ACCESS_VOLUME and "projected" in volume


def _add_references(
    found: set[Reference], namespace: str, config_map: Mapping[str, Any] | None, secret: Mapping[str, Any] | None
) -> None:
    if config_map:
        found.add(("ConfigMap", namespace, str(config_map.get("name") or "")))
    if secret:
        found.add(("Secret", namespace, str(secret.get("name") or "")))


def _plan(pod: Object, volume: Mapping[str, Any], context: PodContext, path: str, nfs: Mapping[str, str]) -> Volume:
    name = volume["name"]
    if "emptyDir" in volume:
        return _empty_dir(volume["emptyDir"] or {}, path)
    if "hostPath" in volume:
        return HostPath(str(volume["hostPath"].get("path") or ""), str(volume["hostPath"].get("type") or ""))
    if any(kind in volume for kind in ("configMap", "secret", "projected", "downwardAPI")):
        return Files(path, payload_of(pod, name, volume, context))
    if "persistentVolumeClaim" in volume or "ephemeral" in volume:
        return _plan_claim(pod, volume, context, nfs)
    if "nfs" in volume:
        return _plan_nfs(name, volume["nfs"], nfs)
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
    return Memory(path, whole_value(limit) if limit else None)


def _plan_claim(pod: Object, volume: Mapping[str, Any], context: PodContext, nfs: Mapping[str, str]) -> Volume:
    name, claim = volume["name"], claim_name(pod, volume)
    found = context.claim(namespace_of(pod), claim)
    if found is None:
        raise MountError(name, f'persistentvolumeclaim "{claim}" not found')
    bound = str(spec_of(found).get("volumeName") or "")
    source = context.persistent_volume("", bound) if bound else None
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
        mapped = _plan_nfs(name, spec["nfs"], nfs)
        return HostPath(mapped.path, mapped.type, read_only or mapped.read_only)
    raise MountError(
        name,
        f'persistentvolume "{bound}" has no hostPath, local or nfs source, and other sources are not available here',
    )


def _plan_nfs(name: str, source: Mapping[str, Any], mapped: Mapping[str, str]) -> HostPath:
    wanted = f"{source.get('server', '')}:{source.get('path', '')}"
    local = mapped.get(wanted)
    if local is None:
        raise MountError(
            name,
            f"NFS is not mounted automatically. Mount {wanted} and add the folder to config.yaml:\n"
            f'  nfs:\n    "{wanted}": /mnt/FOLDER',
        )
    return HostPath(local, "Directory", bool(source.get("readOnly")))


def _mode_of(source: Mapping[str, Any] | None) -> int:
    mode = (source or {}).get("defaultMode")
    return _MODE if mode is None else int(mode)


def _projected(pod: Object, volume: str, part: Mapping[str, Any], context: PodContext, mode: int) -> Payload:
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in part:
            return _files_of_source(pod, volume, kind, part[kind] or {}, context, mode)
    if "serviceAccountToken" in part:
        return _token_file(pod, volume, part["serviceAccountToken"], context)
    if "apiServerCertificate" in part:
        certificate = context.api.ca_certificate if context.api is not None else ""
        return {part["apiServerCertificate"]["path"]: File(certificate.encode(), mode)}
    kind = next(iter(part), "nothing")
    raise MountError(volume, f'projected sources of type "{kind}" are not available on this machine')


def _files_of_source(
    pod: Object, volume: str, kind: str, source: Mapping[str, Any], context: PodContext, mode: int
) -> Payload:
    if kind == "downwardAPI":
        return _downward_files(pod, volume, source, context, mode)
    namespace = namespace_of(pod)
    name = str(source.get("secretName") or source.get("name") or "")
    optional = bool(source.get("optional"))
    if kind == "configMap":
        found = context.config_map(namespace, name)
        data = config_map_data(found) if found is not None else None
    else:
        found = context.secret(namespace, name)
        data = secret_data(found) if found is not None else None
    if data is None:
        if optional:
            return {}
        raise MountError(volume, f'{kind.lower()} "{name}" not found')
    items = source.get("items")
    if not items:
        return {_check_path(volume, key): File(content, mode) for key, content in data.items()}
    files: Payload = {}
    size = 0
    for item in items:
        key, path = str(item.get("key") or ""), _check_path(volume, str(item.get("path") or ""))
        if key in data:
            files[path] = File(data[key], mode if item.get("mode") is None else int(item["mode"]))
            size = _add_size(volume, size, files[path])
        elif not optional:
            raise MountError(volume, f'{kind.lower()} "{namespace}/{name}" has no key "{key}"')
    return files


def _downward_files(pod: Object, volume: str, source: Mapping[str, Any], context: PodContext, mode: int) -> Payload:
    files: Payload = {}
    size = 0
    for item in source.get("items") or ():
        path = _check_path(volume, str(item.get("path") or ""))
        try:
            if "fieldRef" in item:
                text = field_value(pod, str(item["fieldRef"].get("fieldPath") or ""), context)
            else:
                text = _resource_text(pod, item.get("resourceFieldRef") or {}, context)
        except ConfigError as error:
            raise MountError(volume, error.message) from None
        files[path] = File(text.encode("utf-8", "surrogateescape"), mode if item.get("mode") is None else item["mode"])
        size = _add_size(volume, size, files[path])
    return files


def _resource_text(pod: Object, reference: Mapping[str, Any], context: PodContext) -> str:
    spec, wanted = spec_of(pod), reference.get("containerName")
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if container.get("name") == wanted:
            return resource_value(container, reference, context)
    raise ConfigError(f'resourceFieldRef.containerName "{wanted}" is not a container of this Pod')


def _token_file(pod: Object, volume: str, source: Mapping[str, Any], context: PodContext) -> Payload:
    if context.api is None:
        raise MountError(volume, "service account tokens are not available: this cluster runs without an API server")
    try:
        token = context.api.token(pod, str(source.get("audience") or ""), int(source.get("expirationSeconds") or 3600))
    except NotFound as error:
        # A namespace's default account may be a moment late. An account of another cluster never comes.
        if source.get("optional") and spec_of(pod).get("serviceAccountName") not in (None, "", "default"):
            return {}
        raise MountError(volume, error.message) from None
    except ApiError as error:
        raise MountError(volume, error.message) from None
    return {_check_path(volume, str(source.get("path") or "token")): File(token.encode(), 0o600)}


def _check_path(volume: str, path: str) -> str:
    """Refuses a path that leaves the volume's folder, or that collides with the links that make updates atomic."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise MountError(volume, f'"{path}" is not a path inside the volume: it must be relative and without ".."')
    return "/".join(parts)


def _for_group(payload: Payload, group: int | None) -> Payload:
    """The fsGroup may read the files."""
    if group is None:
        return payload
    return {path: File(file.content, file.mode | 0o040) for path, file in payload.items()}


def _read_payload(data: str) -> Payload | None:
    """Returns the current files as a payload."""
    if not os.path.isdir(data):
        return None
    found: Payload = {}
    for folder, _, names in os.walk(data):
        for name in names:
            path = f"{folder}/{name}"
            found[os.path.relpath(path, data)] = _read_file(path)
    return found


def _read_file(path: str) -> File:
    with open(path, "rb") as file:
        return File(file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode))


def _write_file(path: str, content: bytes, mode: int, group: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if group is not None:
            os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _make_folder(path: str, mode: int, group: int | None) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)
    if group is not None:
        os.chown(path, -1, group)
        mode |= 0o2070
    os.chmod(path, mode)


_ACCOUNT_FILE = "token"
_SERVICE_ACCOUNT_SOURCES: list[dict[str, Any]] = [
    {"serviceAccountToken": {"path": _ACCOUNT_FILE, "expirationSeconds": 3607, "optional": True}},
    {"apiServerCertificate": {"path": "ca.crt"}},
    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
]
_HOST_PATH_TYPES = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}
