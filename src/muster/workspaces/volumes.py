"""Volumes: PersistentVolumeClaims as people see them. What uses a claim, where its files are, how paths are written.

Everything here is a pure function on objects. volume_files.py reads and writes the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    is_deleting,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owners_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)
from muster.kube.quantity import whole_value
from muster.workspaces.kinds import read_logs

AccessMode: TypeAlias = Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"]
ACCESS_MODES: Final[tuple[AccessMode, ...]] = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
VolumeState: TypeAlias = Literal["pending", "bound", "lost", "deleting"]
UseKind: TypeAlias = Literal["pod", "notebook", "tensorboard", "job", "run", "workflow", "storage root"]
EntryKind: TypeAlias = Literal["file", "folder", "link", "other"]

UPLOAD_PREFIX: Final = ".muster-upload-"
"""How the names of files begin that are not complete yet. Such names are reserved."""
LONGEST_PATH: Final = 4000
"""Bytes. The operating system takes paths of up to 4095."""
MOST_LEVELS: Final = 100
"""Folders within folders that can be reached by a path."""

_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_FOLDER_PROVISIONER: Final = "muster.dev/folder"
_ENDED: Final = frozenset({"Succeeded", "Failed", "Error", "Completed"})
_END_CONDITIONS: Final = frozenset({"Succeeded", "Failed", "Complete"})
_RUN_PREFIX: Final = "run-"


@dataclass(frozen=True, slots=True)
class VolumeUse:
    """Something that uses a volume, and for which the volume cannot be deleted."""

    kind: UseKind
    namespace: str
    name: str
    resource: str = ""
    """Of a job: its kind in URLs, as `pytorchjob`."""
    run_id: str = ""
    """Of a run: its id."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Volume:
    uid: str
    namespace: str
    name: str
    state: VolumeState
    size: str
    """As a quantity, as in `10Gi`: what it has, or what it asks for while it is pending."""
    size_bytes: int
    access_modes: list[str]
    storage_class: str
    shared: bool
    """Whether it is a copy of a claim that an admin shares."""
    owner_id: str | None
    owner_name: str | None
    team_id: str | None
    team_name: str | None
    created: datetime
    used_by: list[VolumeUse]
    may: list[str]
    """What the caller may do: write, delete."""


@dataclass(frozen=True, slots=True)
class VolumeEntry:
    """A file or folder in a volume."""

    name: str
    """To show. Bytes that are not UTF-8 are replaced."""
    path: str
    """For requests. A percent sign is written %25, and a byte that is not UTF-8 %XX."""
    kind: EntryKind
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class VolumeFolder:
    """One page of a folder: folders first, then by name."""

    path: str
    items: list[VolumeEntry]
    next: str | None
    total: int
    complete: bool
    """False if the folder has more entries than are read; `total` counts only those that were."""


@dataclass(frozen=True, slots=True)
class VolumeUsage:
    """What is stored below a path."""

    bytes: int
    files: int
    folders: int
    complete: bool
    """False if counting stopped because there are too many files, or folders that are nested too deeply."""


def new_claim(
    name: str, namespace: str, size: str, access_mode: AccessMode, labels: Mapping[str, str], storage_class: str = ""
) -> Object:
    spec: Object = {"accessModes": [access_mode], "resources": {"requests": {"storage": size}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": spec,
    }


def describe_volume(claim: Object, *, is_copy: bool, used_by: Iterable[VolumeUse]) -> Volume:
    """Returns a claim as a volume, without its owner and what the caller may do."""
    spec, status = spec_of(claim), status_of(claim)
    size = str(
        (status.get("capacity") or {}).get("storage")
        or ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        or "0"
    )
    return Volume(
        uid=uid_of(claim),
        namespace=namespace_of(claim),
        name=name_of(claim),
        state=_state_of(claim),
        size=size,
        size_bytes=whole_value(size),
        access_modes=[str(mode) for mode in status.get("accessModes") or spec.get("accessModes") or ()],
        storage_class=str(spec.get("storageClassName") or ""),
        shared=is_copy,
        owner_id=None,
        owner_name=None,
        team_id=None,
        team_name=None,
        created=parse_time(meta(claim)["creationTimestamp"]),
        used_by=list(used_by),
        may=[],
    )


def _state_of(claim: Object) -> VolumeState:
    if is_deleting(claim):
        return "deleting"
    match status_of(claim).get("phase"):
        case "Bound":
            return "bound"
        case "Lost":
            return "lost"
    return "pending"


# What uses a claim.


def find_uses(objects: Iterable[Object]) -> dict[Key, list[VolumeUse]]:
    """Returns what uses each claim, by the claim's namespace and name. `objects` are Pods, and objects with Pod
    templates. What has ended uses nothing. A Pod is left out if what controls it is there."""
    users = [obj for obj in objects if not _has_ended(obj)]
    known = {uid_of(obj) for obj in users}
    found: dict[Key, list[VolumeUse]] = {}
    for obj in users:
        if obj.get("kind") == "Pod" and any(owner.get("uid") in known for owner in owners_of(obj)):
            continue
        for claim in sorted(claims_in(obj)):
            found.setdefault(Key(namespace_of(obj), claim), []).append(_use_of(obj))
    return {key: sorted(uses, key=lambda use: (use.kind, use.name)) for key, uses in found.items()}


def claims_in(obj: Object) -> set[str]:
    """Returns the names of all claims that an object refers to, wherever its Pod templates are."""
    found = {
        str(value["claimName"]) for value in _values(spec_of(obj), "persistentVolumeClaim") if "claimName" in value
    }
    if obj.get("kind") == "Tensorboard":
        with suppress(ValueError):  # it was valid when it was stored
            found |= {source.root for source in read_logs(obj) if source.root}
    return found


def _values(value: Any, key: str) -> Iterator[Mapping[str, Any]]:
    """Yields every mapping that is the value of `key`, at any depth."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping):
            if isinstance(each.get(key), Mapping):
                yield each[key]
            pending += each.values()
        elif isinstance(each, (list, tuple)):
            pending += each


def _has_ended(obj: Object) -> bool:
    status = status_of(obj)
    return status.get("phase") in _ENDED or any(
        condition.get("type") in _END_CONDITIONS and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
        if isinstance(condition, Mapping)
    )


def _use_of(obj: Object) -> VolumeUse:
    namespace, name, kind = namespace_of(obj), name_of(obj), str(obj.get("kind"))
    match kind:
        case "Pod":
            return VolumeUse("pod", namespace, name)
        case "Notebook":
            return VolumeUse("notebook", namespace, name)
        case "Tensorboard":
            return VolumeUse("tensorboard", namespace, name)
        case "Workflow":
            if name.startswith(_RUN_PREFIX):
                return VolumeUse("run", namespace, name, run_id=name.removeprefix(_RUN_PREFIX))
            return VolumeUse("workflow", namespace, name)
    group = str(obj.get("apiVersion") or "").partition("/")[0]
    resource = kind.lower() if group == "kubeflow.org" else f"{kind.lower()}.{group}"
    return VolumeUse("job", namespace, name, resource)


# Where the files are.


class NoFiles(NamedTuple):
    """Why the server cannot show the files of a volume: a code of the platform's messages, and its values."""

    code: str
    arguments: Mapping[str, str]


def find_folder(claim: Object, volume: Object | None, root: str, *, is_admin: bool) -> str | NoFiles:
    """Returns the folder with the files of a claim on this machine. `volume` is the PersistentVolume that it is bound
    to. `root` is the folder with all volumes that Muster provisions.

    A volume with any other folder, such as a copy of a storage root, may contain files that the Pods of the namespace
    may not read, and may be read-only for them: only admins see its files here."""
    name = name_of(claim)
    if volume is None or _state_of(claim) not in ("bound", "deleting"):
        return NoFiles("volume.pending", {"name": name})
    spec = spec_of(volume)
    if (spec.get("claimRef") or {}).get("uid") not in (None, "", uid_of(claim)):
        return NoFiles("volume.pending", {"name": name})
    path = str((spec.get("hostPath") or spec.get("local") or {}).get("path") or "")
    if not path:
        return NoFiles("volume.source", {"name": name})
    if annotations_of(volume).get(_PROVISIONED_BY) == _FOLDER_PROVISIONER and _is_below(path, root):
        return path
    return path if is_admin else NoFiles("volume.foreign", {"name": name})


def _is_below(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(root) + "/")


def is_read_only(claim: Object) -> bool:
    return list(spec_of(claim).get("accessModes") or ()) == ["ReadOnlyMany"]


def copy_source(claim: Object, label: str) -> str:
    """Returns the uid of the claim that this one is a copy of; '' if it is none."""
    return labels_of(claim).get(label, "")


# Paths.


class InvalidPath(ValueError):
    """The path cannot be the name of something in a volume. The code is one of the platform's messages."""

    def __init__(self, code: str, path: str) -> None:
        super().__init__(f"{code}: {path!r}")
        self.code, self.path = code, path


def decode_path(text: str) -> tuple[str, ...]:
    """Returns the parts of a path in a request; () is the volume itself. Raises InvalidPath for a path that would leave
    the volume, and for what no file is called."""
    try:
        name = os.fsdecode(unquote_to_bytes(text))
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can express
        raise InvalidPath("volume.path", text.encode("utf-8", "replace").decode()) from None
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts or "\0" in name:
        raise InvalidPath("volume.path", text)
    if len(os.fsencode(name)) > LONGEST_PATH or len(parts) > MOST_LEVELS:
        raise InvalidPath("volume.path-long", text[:100])
    if any(len(os.fsencode(part)) > 255 for part in parts):
        raise InvalidPath("volume.name-long", text[:100])
    if any(part.startswith(UPLOAD_PREFIX) for part in parts):
        raise InvalidPath("volume.reserved", text)
    return parts


def encode_path(parts: Iterable[str]) -> str:
    """Returns the path for requests. `decode_path` returns the same parts for it."""
    return "/".join(_encode(part) for part in parts)


def shown_name(name: str) -> str:
    """Returns a name that can be shown and sent as JSON."""
    return os.fsencode(name).decode("utf-8", "replace")


def _encode(name: str) -> str:
    text = name.replace("%", "%25")
    return "".join(f"%{ord(char) - 0xDC00:02X}" if "\udc80" <= char <= "\udcff" else char for char in text)


# Ranges.


class ByteRange(NamedTuple):
    first: int
    last: int
    """Inclusive."""


def parse_range(header: str, size: int) -> ByteRange | Literal["unsatisfiable"] | None:
    """Returns the part of a file that a Range header asks for. None means the whole file: for a header that is not
    understood, and for several ranges, as RFC 9110 allows."""
    unit, _, wanted = header.partition("=")
    if unit.strip().lower() != "bytes" or "," in wanted or "-" not in wanted:
        return None
    first, _, last = (part.strip() for part in wanted.partition("-"))
    if any(part and not (part.isascii() and part.isdecimal() and len(part) < 20) for part in (first, last)):
        return None
    if not first:
        if not last:
            return None
        return ByteRange(max(size - int(last), 0), size - 1) if int(last) and size else "unsatisfiable"
    begin, end = int(first), min(int(last), size - 1) if last else size - 1
    if last and int(last) < begin:
        return None
    return ByteRange(begin, end) if begin < size else "unsatisfiable"
