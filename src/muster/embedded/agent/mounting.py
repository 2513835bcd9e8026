"""Makes a Pod's planned volumes real, and says which part of which is bound where in a container."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from muster.embedded.agent.contract import Mount
from muster.embedded.agent.environment import expand
from muster.embedded.agent.payloads import File, Payload
from muster.embedded.agent.surroundings import ContainerError, MountError
from muster.embedded.agent.volumes import EmptyDir, Files, HostPath, Memory, Volume

_DATA = "..data"


def make_volume(name: str, volume: Volume, group: int | None = None) -> Mount | None:
    """Creates what a volume needs; again is harmless. Answers the mount that the whole Pod needs for it, if any.
    `group` is the Pod's fsGroup: it gets to own, and may write, what is the Pod's own."""
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
        case Files(path, payload):
            _make_folder(path, 0o755, group)
            write_payload(path, payload, group)
    return None


def container_mounts(
    container: Mapping[str, Any], volumes: Mapping[str, Volume], variables: Mapping[str, str]
) -> list[Mount]:
    """The binds of a container's volumeMounts, parents before what is mounted inside them."""
    name = str(container.get("name") or "")
    mounts: list[Mount] = []
    for wanted in container.get("volumeMounts") or ():
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
            mount["within"] = volume.path
        if wanted.get("readOnly") or isinstance(volume, Files) or (isinstance(volume, HostPath) and volume.read_only):
            mount["readOnly"] = True
        mounts.append(mount)
    return sorted(mounts, key=lambda m: m["target"].count("/") if m["target"] != "/" else 0)


def sub_path(name: str, volume: Volume, inside: str, container: str) -> str:
    """The place inside a volume that a subPath means; a folder is made if nothing is there. Refuses to leave the
    volume, by `..` as well as over a symbolic link that somebody has put there."""
    if inside.startswith("/") or ".." in inside.split("/"):
        raise ContainerError(f'subPath "{inside}" of volume "{name}" must be relative and without ".."', container)
    if "$(" in inside:
        raise ContainerError(f'subPathExpr "{inside}" of volume "{name}" uses a variable that is not set', container)
    if isinstance(volume, Memory):
        return os.path.normpath(f"{volume.path}/{inside}")
    root = os.path.realpath(volume.path)
    real = os.path.realpath(f"{root}/{inside}")
    if real != root and not real.startswith(root + "/"):
        raise ContainerError(
            f'subPath "{inside}" of volume "{name}" leads out of the volume over a symbolic link', container
        )
    if not os.path.lexists(real):
        if isinstance(volume, Files):
            raise ContainerError(f'volume "{name}" has no file "{inside}" for subPath', container)
        os.makedirs(real, mode=0o755)
    return real


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


def write_payload(folder: str, payload: Payload, group: int | None = None) -> bool:
    """Writes the files so that a reader sees all of the old ones or all of the new ones: they lie in a folder of their
    own that the link `..data` points at, and each name is a link through it. Answers whether anything changed."""
    data = f"{folder}/{_DATA}"
    if group is not None:
        payload = {path: File(file.content, file.mode | 0o040) for path, file in payload.items()}
    if _present(data) == payload:
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


def _present(data: str) -> dict[str, tuple[bytes, int]] | None:
    """What is there now, as a payload."""
    if not os.path.isdir(data):
        return None
    found: dict[str, tuple[bytes, int]] = {}
    for folder, _, names in os.walk(data):
        for name in names:
            path = f"{folder}/{name}"
            with open(path, "rb") as file:
                found[os.path.relpath(path, data)] = (file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    return found


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


_HOST_PATH_TYPES = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}
