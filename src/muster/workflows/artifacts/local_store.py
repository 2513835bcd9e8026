"""The local repository: a folder for each namespace, how much a restricted namespace may keep in it, and which workflow
its artifacts belong to, so that they are deleted with it.

Keys come from users, and so do the folders that are stored under them, with the links in these folders. No link is
ever followed (`muster.kube.beneath`): a link is content, as in a tar archive.

The keys of a workflow begin with its name. Each key is recorded in a file before something is stored under it: after a
crash, the next server finds the artifacts of workflows that no longer exist. Artifacts under other keys stay.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar

from muster.kube import beneath
from muster.kube.beneath import TEMPORARY, Folder, UnsafeFile, UnsafeName
from muster.kube.budgets import Budgets, setting_name
from muster.kube.errors import BadRequest
from muster.kube.file_names import path_component
from muster.kube.objects import Key, Object, annotations_of, name_of, namespace_of, spec_of, status_of
from muster.workflows.artifacts.locations import ArtifactError, ArtifactMissing, Location, is_local, key_of
from muster.workflows.artifacts.stores import MOST_KEYS, check_keys
from muster.workflows.model import KEEP_ANNOTATION

P = ParamSpec("P")
T = TypeVar("T")

_THREADS, _PER_NAMESPACE = 16, 4


class ArtifactThreads:
    """Threads for blocking artifact work. No namespace can occupy them all, nor those of the rest of the server."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="artifacts")
        self._gates: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_PER_NAMESPACE))

    async def run(self, namespace: str, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        async with self._gates[namespace]:
            work = partial(function, *arguments, **options)
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)


_BLOCK = 1 << 16
_TRIES = 5
_LONGEST_SHOWN = 300
_NOT_THERE = (FileNotFoundError, NotADirectoryError, UnsafeFile)


class LocalFolder:
    """The repository of one namespace. Files and folders appear under their key atomically. All calls block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, key: str, target: Path) -> None:
        """Copies what the key holds to `target`, which does not exist yet."""
        parts = split_key(key)
        with _translate_errors(key), self._root() as root, Folder.at(target.parent) as beside:
            if root.kind(parts) not in ("file", "folder"):
                raise _missing(key)
            beneath.copy(root, "/".join(parts), beside, target.name)

    def open(self, key: str) -> IO[bytes]:
        parts = split_key(key)
        with _translate_errors(key), self._root() as root:
            if root.kind(parts) == "folder":
                raise ArtifactError(f'"{key}" is a folder: read its files one by one')
            return root.file(parts)

    def save(self, source: Path, key: str) -> None:
        """Moves the source if both are on one file system, else copies it."""
        *above, name = split_key(key)
        self.folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(_TRIES):
            try:
                with _translate_errors(key), self._root() as root, self._make_folders(root, above, key) as parent:
                    _replace(source, parent, name, key)
                return
            except ArtifactMissing:  # a folder became empty and was deleted meanwhile
                if attempt == _TRIES - 1:
                    raise

    def delete(self, key: str) -> None:
        """Deletes the key if it exists, and the folders that become empty."""
        parts = split_key(key)
        with _translate_errors(key), suppress(ArtifactMissing, *_NOT_THERE), self._root() as root:
            root.remove(parts)
            with suppress(OSError):  # it is not empty
                for depth in range(len(parts) - 1, 0, -1):
                    with root.folder(parts[: depth - 1]) as above:
                        os.rmdir(parts[depth - 1], dir_fd=above.descriptor)

    def keys(self, prefix: str) -> Iterator[str]:
        """Returns this key and all below it."""
        parts = split_key(prefix) if prefix.strip("/") else ()
        with _translate_errors(prefix), suppress(*_NOT_THERE), self._root() as root:
            if root.kind(parts) == "file":
                yield "/".join(parts)
                return
            for entry in root.walk(parts):
                if entry.kind == "file" and TEMPORARY not in entry.name:
                    yield "/".join((*parts, entry.name))

    def _root(self) -> Folder:
        return Folder.at(self.folder)

    def _make_folders(self, root: Folder, parts: list[str], key: str) -> Folder:
        try:
            return root.make_folders(parts)
        except (NotADirectoryError, UnsafeFile):
            raise ArtifactError(f'"{key}" cannot be stored: a prefix of it is the key of another artifact') from None


class LocalStore:
    """The same as an `ArtifactStore`, in threads, so that the event loop is not blocked."""

    def __init__(self, folder: Path, namespace: str, threads: ArtifactThreads) -> None:
        self._folder, self._namespace, self._threads = (
            LocalFolder(folder / path_component(namespace)),
            namespace,
            threads,
        )

    async def load(self, location: Location, target: Path) -> None:
        await self._threads.run(self._namespace, self._folder.load, key_of(location), target)

    async def save(self, source: Path, location: Location) -> None:
        await self._threads.run(self._namespace, self._folder.save, source, key_of(location))

    async def delete(self, location: Location) -> None:
        await self._threads.run(self._namespace, self._folder.delete, key_of(location))

    async def keys(self, location: Location) -> list[str]:
        found = islice(self._folder.keys(key_of(location)), MOST_KEYS + 1)
        return check_keys(await self._threads.run(self._namespace, lambda: list(found)))

    async def read(self, location: Location) -> AsyncIterator[bytes]:
        with await asyncio.to_thread(self._folder.open, key_of(location)) as file:
            while block := await asyncio.to_thread(file.read, _BLOCK):
                yield block


def split_key(key: str) -> tuple[str, ...]:
    """Returns the parts of a key. Raises ArtifactError."""
    try:
        parts = beneath.split_name(key.lstrip("/"))
    except UnsafeName:
        parts = ()
    if not parts or any(part.startswith(TEMPORARY) for part in parts):
        raise ArtifactError(f'"{_shown(key)}" is not a valid key: write a path without ".."')
    return parts


def _replace(source: Path, parent: Folder, name: str, key: str) -> None:
    with Folder.at(source.parent) as beside:
        kind = parent.kind(name)
        if kind == "folder" and beside.kind(source.name) != "folder":
            raise ArtifactError(f'"{key}" cannot be a file: it is a prefix of the keys of other artifacts')
        coming = parent.temporary()
        try:
            with parent.folder(coming) as new:
                beneath.move(beside, source.name, new, "it")
                if kind == "folder":
                    os.rename(name, "old", src_dir_fd=parent.descriptor, dst_dir_fd=new.descriptor)
                os.replace("it", name, src_dir_fd=new.descriptor, dst_dir_fd=parent.descriptor)
        finally:
            parent.remove(coming)


@contextmanager
def _translate_errors(key: str) -> Iterator[None]:
    """Errors for users never name a path of this machine."""
    try:
        yield
    except _NOT_THERE:
        raise _missing(key) from None
    except OSError as error:
        raise ArtifactError(f'"{_shown(key)}": {error.strerror or "the operating system refused it"}') from None


def _missing(key: str) -> ArtifactMissing:
    return ArtifactMissing(f'the artifact repository contains nothing under "{_shown(key)}"')


def _shown(key: str) -> str:
    return key if len(key) <= _LONGEST_SHOWN else f"{key[:_LONGEST_SHOWN]}..."


class ArtifactOwners:
    """`home` holds the local repository. All calls block.

    The artifacts of a workflow with the annotation `KEEP_ANNOTATION` outlive it: something else refers to them, such as
    the record of a pipeline run, and releases them when it is deleted itself.
    """

    def __init__(self, home: Path) -> None:
        self._artifacts = home / "artifacts"
        self._owners = home / "artifact-owners"
        self._kept = home / "artifacts-kept"
        """Records of the same form, of workflows whose artifacts outlive them."""

    def record(self, workflow: Object, location: Mapping[str, Any]) -> None:
        """Called before something is stored."""
        if not is_owned(workflow, location):
            return
        top = self._kept if KEEP_ANNOTATION in annotations_of(workflow) else self._owners
        record = _record(top, Key(namespace_of(workflow), name_of(workflow)))
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("ab") as file:
            file.write(json.dumps(key_of(location)).encode() + b"\n")

    def has_stored(self, workflow: Key) -> bool:
        """Whether artifacts have to be deleted with the workflow."""
        with suppress(BadRequest):
            return _record(self._owners, workflow).exists()
        return False

    def all(self) -> list[Key]:
        """Returns the workflows whose artifacts have to be deleted with them, and are not deleted yet."""
        return _workflows(self._owners)

    def kept(self) -> list[Key]:
        """Returns the workflows whose artifacts outlive them."""
        return _workflows(self._kept)

    def release(self, workflow: Key) -> None:
        """The artifacts of a workflow do not have to outlive it any more. May be repeated."""
        with suppress(BadRequest, FileNotFoundError):
            kept, record = _record(self._kept, workflow), _record(self._owners, workflow)
            lines = kept.read_bytes()
            record.parent.mkdir(parents=True, exist_ok=True)
            with record.open("ab") as file:
                file.write(lines)
            kept.unlink()

    def namespaces(self) -> list[str]:
        """Returns the namespaces that have artifacts."""
        tops = (self._artifacts, self._owners, self._kept)
        return sorted({folder.name for top in tops for folder in _folders(top)})

    def delete(self, workflow: Key, used: Collection[str] = ()) -> bool:
        """Deletes the artifacts of a workflow that is gone, except keys that others use. Returns whether none is
        left."""
        with suppress(BadRequest, FileNotFoundError):
            record = _record(self._owners, workflow)
            store = LocalFolder(self._artifacts / path_component(workflow.namespace))
            kept = False
            for key in _read_keys(record):
                if any(each == key or each.startswith(f"{key}/") for each in used):
                    kept = True
                    continue
                with suppress(ArtifactError):
                    store.delete(key)
            if kept:
                return False
            record.unlink(missing_ok=True)
        return True

    def delete_namespace(self, namespace: str) -> None:
        """Deletes everything that was stored in a namespace that is gone."""
        for top in (self._artifacts, self._owners, self._kept):
            with suppress(FileNotFoundError), Folder.at(top) as folder:
                folder.remove([namespace])


def _record(top: Path, workflow: Key) -> Path:
    return top / path_component(workflow.namespace) / path_component(workflow.name)


def _workflows(top: Path) -> list[Key]:
    return [Key(folder.name, each.name) for folder in _folders(top) for each in folder.iterdir()]


def is_owned(workflow: Object, location: Mapping[str, Any]) -> bool:
    """Whether an artifact is deleted with its workflow: its key begins with the workflow's name, and the workflow does
    not say that artifacts stay (`artifactGC: {strategy: Never}`)."""
    spec: Mapping[str, Any] = status_of(workflow).get("storedWorkflowTemplateSpec") or spec_of(workflow)
    if (spec.get("artifactGC") or {}).get("strategy") == "Never" or not is_local(location):
        return False
    return key_of(location).lstrip("/").startswith(f"{name_of(workflow)}/")


def keys_used(nodes: Mapping[str, Any], owner: str) -> set[str]:
    """Returns the keys of a workflow that nodes of another one refer to. Pure."""
    found = set()
    for node in nodes.values():
        for direction in ("inputs", "outputs"):
            for artifact in (node.get(direction) or {}).get("artifacts") or ():
                key = key_of(artifact).lstrip("/")
                if key.startswith(f"{owner}/") and not artifact.get("deleted"):
                    found.add(key)
    return found


def _read_keys(record: Path) -> Iterator[str]:
    """The last line may be incomplete: the server was killed before it stored anything under that key."""
    found: set[str] = set()
    with record.open("rb") as file:
        for line in file:
            with suppress(ValueError):
                key = str(json.loads(line)).lstrip("/")
                if key not in found:
                    found.add(key)
                    yield key


def _folders(top: Path) -> list[Path]:
    with suppress(FileNotFoundError), os.scandir(top) as found:
        return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]
    return []


_FRESH_SECONDS = 600.0
_AGAIN_SECONDS = 10.0
"""A namespace that is full is measured again after this time: something may have been deleted."""


@dataclass(slots=True)
class _Use:
    files: int
    size: int
    measured: float


class ArtifactQuota:
    """Counts what is stored, and measures it now and then. All calls block; they are safe in threads."""

    def __init__(self, folder: Path, budgets: Budgets, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._budgets, self._clock = folder, budgets, clock
        self._uses: dict[str, _Use] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def take(self, namespace: str, path: Path) -> None:
        """Makes room for a file or folder that is about to be stored. Raises ArtifactError."""
        files, size = measure(path)
        with self._locks[namespace]:
            use = self._uses.get(namespace)
            age = self._clock() - use.measured if use is not None else _FRESH_SECONDS
            if use is None or age >= _FRESH_SECONDS or (age >= _AGAIN_SECONDS and self._problem(use, files, size)):
                found = measure(self._folder / path_component(namespace))
                use = self._uses[namespace] = _Use(*found, self._clock())
            problem = self._problem(use, files, size)
            if problem:
                raise ArtifactError(problem)
            use.files += files
            use.size += size

    def _problem(self, use: _Use, files: int, size: int) -> str:
        most = self._budgets.member_artifact_megabytes
        if use.size + size > most << 20:
            return (
                f"the artifacts of the namespace would exceed {setting_name('member_artifact_megabytes')} ({most}): "
                "delete runs that are no longer needed"
            )
        if use.files + files > self._budgets.member_artifact_files:
            return (
                f"the artifacts of the namespace would exceed {setting_name('member_artifact_files')} "
                f"({self._budgets.member_artifact_files}): delete runs that are no longer needed"
            )
        return ""


def measure(path: Path) -> tuple[int, int]:
    """Returns the number of entries and their bytes. Follows no link."""
    with suppress(FileNotFoundError), Folder.at(path.parent) as beside:
        kind, size = beside.look([path.name])
        if kind != "folder":
            return (1, size) if kind else (0, 0)
        files = size = 0
        for entry in beside.walk([path.name]):
            files += 1
            size += entry.size if entry.kind == "file" else 0
        return files, size
    return 0, 0
