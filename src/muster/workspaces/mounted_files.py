"""Event files that Pods write into their volumes, as far as this machine has the folders.

A person may read what their Pods may read. So only Pods that exist count: their volumes were checked when they were
created, and those of a job's template were not. Links are never followed (`kube.beneath`). In a folder of the machine
(a storage root, or a claim that an admin shares), only files are read that the Pods' user may read: in the sandbox that
user stands for the owner of the folder and for no other one.

A folder may be shared with other jobs. TensorBoard's writers put the host name into the name of a file, which is the
name of the Pod, and a file that was written before the Pod existed is not its own.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from errno import EACCES
from typing import IO, Any, Final, NamedTuple

import orjson

from muster.kube.beneath import Folder, UnsafeName, split_name
from muster.kube.builtin import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from muster.kube.cluster import KEEP_FILES_ANNOTATION, Cluster, NodeFiles, NodeFilesError
from muster.kube.errors import ApiError
from muster.kube.objects import Object, annotations_of, meta, name_of, namespace_of, parse_time, spec_of, status_of
from muster.workspaces.event_files import is_event_file

MAX_ENTRIES: Final = 20_000
"""Files and folders of one mounted folder that are looked at, those near the top first."""
MAX_ALL_ENTRIES: Final = 100_000
"""Of all folders of one search: a Pod may mount any number of them."""
MAX_DEPTH: Final = 12
MAX_EVENT_FILES: Final = 200
_HOST_NAME_LENGTH = 63
_STANDARD_NAME = re.compile(r"tfevents\.\d{9,11}\.(?P<host>.+)")


class MountedFolder(NamedTuple):
    """A folder of this machine that a container sees."""

    path: str
    """The volume's own folder. It belongs to the server or to an admin."""
    inside: str
    """What of it is mounted: the subPath. Users chose it, and what is there."""
    mount_path: str
    """Where the container sees it."""
    pod: str
    host: str
    """The Pod's host name."""
    since: float
    """When the Pod was created."""
    claim: str = ""
    """The claim of the volume; '' if it has none."""
    is_private: bool = False
    """Whether only this Pod has it, so that everything in it is its own."""
    reads_as: str = "anyone"
    """"anyone" (all files of a claim), "owner" (of the folder), or "others" (what everyone may read)."""


class EventFile(NamedTuple):
    folder: MountedFolder
    name: str
    """Relative to what is mounted."""
    size: int

    @property
    def seen_as(self) -> str:
        """The path in the container, as text: names need not be UTF-8."""
        path = f"{self.folder.mount_path.rstrip('/')}/{self.name}"
        return os.fsencode(path).decode(errors="replace")

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Opens the file. Raises OSError, also if it is not what was found any more and the Pod may not read it."""
        with Folder.at(self.folder.path) as top, top.folder(self.folder.inside) as mounted:
            owner = os.fstat(top.descriptor).st_uid
            with mounted.file(self.name) as file:
                if not _may_read(self.folder.reads_as, owner, os.fstat(file.fileno())):
                    raise PermissionError(EACCES, "the Pod may not read this file", self.name)
                yield file


class EventFiles(NamedTuple):
    files: list[EventFile]
    is_complete: bool
    """False if a folder contains more than is looked at."""


async def event_folders_of(cluster: Cluster, files: NodeFiles, pod: Object) -> list[MountedFolder]:
    """Returns the folders in which containers of the Pod may have written event files: /tmp, the volumes that are
    mounted and, of a Pod that has ended, the copies of its outputs. It does not look into them."""
    found: dict[tuple[str, str], MountedFolder] = {}
    has_ended = status_of(pod).get("phase") in ("Succeeded", "Failed")
    if has_ended:
        found = {(output.path, ""): output for output in _output_folders(files, pod)}
    volumes = {str(volume.get("name")): volume for volume in spec_of(pod).get("volumes") or ()}
    for container in spec_of(pod).get("containers") or ():
        if not has_ended:  # then it is about to be removed
            scratch = files.scratch_folder(pod, str(container.get("name") or ""))
            found[scratch, ""] = _own_folder(pod, scratch, "/tmp")  # noqa: S108  (the container's)
        for mount in container.get("volumeMounts") or ():
            source = volumes.get(str(mount.get("name")))
            inside = str(mount.get("subPath") or "")
            if source is None or mount.get("subPathExpr") or not _is_relative(inside):
                continue
            folder = await _volume_folder(cluster, files, pod, source, str(mount.get("mountPath") or "/"), inside)
            if folder is not None:
                found.setdefault((folder.path, inside), folder)
    return list(found.values())


def event_files_of(folders: Iterable[MountedFolder]) -> EventFiles:
    """Finds the event files of Pods in their folders, each file once. It reads folders, so call it on a thread."""
    found: dict[tuple[int, int], EventFile] = {}
    is_complete = True
    left = MAX_ALL_ENTRIES
    for folder in folders:
        try:
            with Folder.at(folder.path) as top, top.folder(folder.inside) as mounted:
                most = min(MAX_ENTRIES, left)
                is_whole, seen = _search(folder, mounted, os.fstat(top.descriptor).st_uid, found, most)
                is_complete &= is_whole
                left -= seen
        except OSError:
            continue  # removed with its Pod, or replaced by a link
    return EventFiles(sorted(found.values(), key=lambda file: file.seen_as)[:MAX_EVENT_FILES], is_complete)


def is_own_file(folder: MountedFolder, name: str, modified: float) -> bool:
    """Whether the Pod of the folder may have written an event file of this name."""
    if folder.is_private:
        return True
    standard = _STANDARD_NAME.search(name.rpartition("/")[2])
    if standard is not None and not f"{standard['host']}.".startswith(f"{folder.host}."):
        return False
    return modified >= folder.since - 1


def _search(
    folder: MountedFolder, mounted: Folder, owner: int, found: dict[tuple[int, int], EventFile], most: int
) -> tuple[bool, int]:
    """Adds event files by device and inode, level by level. Returns whether it has seen everything, and how many
    entries it has looked at."""
    left = most
    pending: deque[tuple[str, ...]] = deque([()])
    is_complete = True
    while pending:
        inside = pending.popleft()
        try:
            with mounted.folder(inside) as opened, os.scandir(opened.descriptor) as entries:
                for entry in entries:
                    if left <= 0 or len(found) >= MAX_EVENT_FILES:
                        return False, most - left
                    left -= 1
                    wanted = is_event_file(entry.name)
                    if not wanted and not entry.is_dir(follow_symlinks=False):
                        continue
                    status = entry.stat(follow_symlinks=False)
                    if not _may_read(folder.reads_as, owner, status):
                        continue
                    path = (*inside, entry.name)
                    if stat.S_ISDIR(status.st_mode):
                        if len(path) <= MAX_DEPTH:
                            pending.append(path)
                        else:
                            is_complete = False
                    elif stat.S_ISREG(status.st_mode) and is_own_file(folder, entry.name, status.st_mtime):
                        file = EventFile(folder, "/".join(path), status.st_size)
                        found.setdefault((status.st_dev, status.st_ino), file)
        except OSError:
            continue  # removed meanwhile
    return is_complete, most - left


def _may_read(reads_as: str, owner: int, status: os.stat_result) -> bool:
    if reads_as == "anyone":
        return True
    needed = 0o5 if stat.S_ISDIR(status.st_mode) else 0o4
    if reads_as == "owner" and status.st_uid == owner:
        return status.st_mode >> 6 & needed == needed
    return status.st_mode & needed == needed


async def _volume_folder(
    cluster: Cluster, files: NodeFiles, pod: Object, volume: Mapping[str, Any], mount_path: str, inside: str
) -> MountedFolder | None:
    if "emptyDir" in volume:
        own = _own_folder(pod, files.volume_folder(pod, str(volume["name"])), mount_path)
        return own._replace(inside=inside)
    claim = ""
    if "persistentVolumeClaim" in volume or "ephemeral" in volume:
        named = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        claim = str(named or f"{name_of(pod)}-{volume['name']}")
        try:
            bound = str(spec_of(await cluster.get(PERSISTENT_VOLUME_CLAIM, claim, namespace_of(pod))).get("volumeName"))
            volume = spec_of(await cluster.get(PERSISTENT_VOLUME, bound))
        except ApiError:
            return None
    host_path = volume.get("hostPath") or volume.get("local")
    if host_path:
        path = str(host_path.get("path") or "")
        # A claim may be the copy of one that an admin shares, with files of other people.
        reads_as = "anyone" if claim and files.is_own(path) else "owner"
    elif volume.get("nfs"):
        path, reads_as = files.nfs_folder(str(volume["nfs"].get("server")), str(volume["nfs"].get("path"))), "others"
    else:
        return None
    if not path.startswith("/"):
        return None
    return MountedFolder(path, inside, mount_path, name_of(pod), _host(pod), _created(pod), claim, False, reads_as)


def _output_folders(files: NodeFiles, pod: Object) -> Iterator[MountedFolder]:
    """The folders among the outputs of a Pod, which the node keeps as long as the Pod object exists."""
    for container, index, path in kept_paths(pod):
        try:
            copy = files.output(pod, container, index)
        except NodeFilesError:
            continue
        if copy is not None and copy.is_dir():
            yield _own_folder(pod, str(copy), path)


def kept_paths(pod: Object) -> list[tuple[str, int, str]]:
    """The container, index and path of what the Pod asks the node to keep."""
    try:
        asked = orjson.loads(annotations_of(pod).get(KEEP_FILES_ANNOTATION) or "{}")
    except orjson.JSONDecodeError:
        return []
    if not isinstance(asked, dict):
        return []
    lists = {container: paths for container, paths in asked.items() if isinstance(paths, list)}
    return [
        (container, index, path)
        for container, paths in lists.items()
        for index, path in enumerate(paths)
        if isinstance(path, str) and path.startswith("/")
    ]


def _own_folder(pod: Object, path: str, mount_path: str) -> MountedFolder:
    return MountedFolder(path, "", mount_path, name_of(pod), _host(pod), _created(pod), is_private=True)


def _host(pod: Object) -> str:
    return str(spec_of(pod).get("hostname") or name_of(pod)[:_HOST_NAME_LENGTH].rstrip("-."))


def _created(pod: Object) -> float:
    created = meta(pod).get("creationTimestamp")
    return parse_time(str(created)).timestamp() if created else 0.0


def _is_relative(inside: str) -> bool:
    try:
        split_name(inside)
    except UnsafeName:
        return False
    return True
