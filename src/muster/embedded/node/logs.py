"""Reads a container's log: as it is, as it grows, and after its Pod is deleted."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from muster.embedded.node.log_files import (
    DroppedLog,
    LineReader,
    LogFile,
    LogPosition,
    find_since,
    find_tail,
    log_files,
    read_blocks,
    read_dropped,
    size_of,
)
from muster.kube.cluster import LogQuery
from muster.kube.errors import BadRequest, NotFound
from muster.kube.file_names import LONGEST, path_component

DEFAULT_CONTAINER_LINK = ".default"
"""A link in a Pod's log folder to the container that is meant if none is named."""
OWNER_LINK = ".owner"
"""A link in a Pod's log folder to the kind and the uid of the object that controlled the Pod: `Workflow@UID`."""
_MODIFY, _MOVED_TO, _CREATE, _IGNORED, _OVERFLOW = 0x2, 0x80, 0x100, 0x8000, 0x4000
_HEADER = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


def pod_log_folder(root: str, namespace: str, pod: str, uid: str) -> str:
    """Returns the folder of a Pod's logs. `root` is AgentSettings.log_folder."""
    return "/".join([root, *map(path_component, (namespace, pod, uid))])


def owned_logs(root: str, kind: str) -> Iterator[tuple[str, str, str]]:
    """Yields (namespace, uid of the owner, folder) for the logs of all Pods that an object of this kind controlled."""
    for namespace in _folders(root):
        for pod in _folders(namespace):
            for folder in _folders(pod):
                with suppress(OSError):
                    found, _, uid = os.readlink(f"{folder}/{OWNER_LINK}").partition("@")
                    if found == kind:
                        yield os.path.basename(namespace), uid, folder


def _controller_of(folder: str) -> str:
    try:
        return os.readlink(f"{folder}/{OWNER_LINK}").partition("@")[2]
    except OSError:
        return ""


def _folders(parent: str) -> list[str]:
    with suppress(OSError), os.scandir(parent) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []


class Logs:
    """The log files `<root>/<namespace>/<pod>/<uid>/<container>/<attempt>.log`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._changes = FileChanges()

    def folder(self, namespace: str, pod: str, uid: str) -> str:
        return pod_log_folder(self._root, namespace, pod, uid)

    def newest(self, namespace: str, pod: str, controller: str = "") -> str:
        """Returns the folder of the latest Pod with that name, if given of those that the object with the uid
        `controller` controlled. Raises NotFound."""
        try:
            parent = f"{self._root}/{path_component(namespace)}/{path_component(pod)}"
            with os.scandir(parent) as entries:
                folders = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.is_dir()]
            if controller:
                folders = [found for found in folders if _controller_of(found[1]) == controller]
        except (BadRequest, FileNotFoundError, NotADirectoryError):
            folders = []
        if not folders:
            raise NotFound(f'pods "{pod[:LONGEST]}" not found')
        return max(folders)[1]

    def container(self, folder: str, pod: str, wanted: str) -> str:
        """Returns the container of a deleted Pod whose log is meant. Raises BadRequest if that is ambiguous or there is
        no such container."""
        try:
            with os.scandir(folder) as entries:
                names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            names = []
        default = f"{folder}/{DEFAULT_CONTAINER_LINK}"
        if not wanted and os.path.islink(default):
            wanted = os.path.basename(os.readlink(default))
        if not wanted and len(names) == 1:
            return names[0]
        if not wanted:
            raise BadRequest(f"a container name must be specified for pod {pod}" + _choose(names))
        if wanted not in names:
            raise BadRequest(f"container {wanted} is not valid for pod {pod}" + _choose(names))
        return wanted

    def last_attempt(self, folder: str, container: str) -> int:
        """Returns the last attempt that has a file; an attempt without output has none."""
        return max((file.attempt for file in log_files(f"{folder}/{container}")), default=-1)

    async def read(
        self, place: str, attempt: int, query: LogQuery, ended: Callable[[], bool], changed: asyncio.Event
    ) -> AsyncIterator[bytes]:
        """Yields one attempt's log. `place` is the folder of its container. `ended()` returns whether nothing more will
        be written; `changed` is set when that may have changed."""
        with ExitStack() as stack:
            if query.follow:
                os.makedirs(place, exist_ok=True)
                stack.enter_context(self._changes.notify(changed, place))
            files = [file for file in log_files(place) if file.attempt == attempt]
            reader = _LimitedReader(LineReader(query.timestamps), query.limit_bytes)
            follower = _Follower(place, attempt, files, _start(files, query))
            stack.callback(follower.close)
            while not reader.full:
                # Asked before reading, so that everything that was written before the end is read.
                over = not query.follow or ended()
                changed.clear()
                async for block in follower.blocks():
                    output = reader.feed(block)
                    if output:
                        yield output
                    if reader.full:
                        return
                if over:
                    return
                await changed.wait()

    def close(self) -> None:
        self._changes.close()


class FileChanges:
    """Watches folders. `with changes.notify(changed, folder):` sets the event `changed` whenever a file in the folder
    is written, created or moved there. Costs nothing while nothing happens."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._listeners: dict[int, set[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def notify(self, changed: asyncio.Event, folder: str) -> Iterator[None]:
        self._open()
        watch = _libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _MODIFY | _MOVED_TO | _CREATE)
        if watch < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), folder)
        self._listeners.setdefault(watch, set()).add(changed)
        try:
            yield
        finally:
            listeners = self._listeners.get(watch)
            if listeners is not None:
                listeners.discard(changed)
                if not listeners:
                    del self._listeners[watch]
                    _libc.inotify_rm_watch(self._descriptor, watch)
            if not self._listeners:
                self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            if self._loop is not None:
                self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        if self._descriptor >= 0:
            return
        descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            error = ctypes.get_errno()
            raise OSError(error, f"{os.strerror(error)} (fs.inotify.max_user_instances may be too low)")
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return
        position = 0
        while position < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size + length
            if mask & _OVERFLOW:
                for listeners in self._listeners.values():
                    _set_all(listeners)
            elif mask & _IGNORED:
                _set_all(self._listeners.pop(watch, set()))
            else:
                _set_all(self._listeners.get(watch, ()))


class _Follower:
    """Reads one attempt's files, and continues with the next one when the current one is rotated. If files were dropped
    before they could be read, a line says so."""

    def __init__(self, folder: str, attempt: int, files: list[LogFile], start: LogPosition) -> None:
        self._folder = folder
        self._attempt = attempt
        self._descriptor = -1
        self._offset = 0
        self._begin = 0
        """The offset of the current file in everything that was ever written."""
        self._note = b""
        if start == LogPosition(0, 0):
            self._open_next()
            return
        for file in files[start.file :]:
            with suppress(FileNotFoundError):
                self._descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
                self._offset = start.offset
                self._begin = read_dropped(folder, attempt).size + sum(size_of(f.path) for f in files[: start.file])
                break

    async def blocks(self) -> AsyncIterator[bytes]:
        """Yields everything that is there now."""
        while True:
            if self._descriptor < 0 and not self._open_next():
                return
            if self._note:
                yield self._note
                self._note = b""
            for block in read_blocks(self._descriptor, self._offset):
                self._offset += len(block)
                yield block
                await asyncio.sleep(0)
            if self._is_current():
                return
            # It was rotated. It may have grown between the last read and the rotation.
            for block in read_blocks(self._descriptor, self._offset):
                self._offset += len(block)
                yield block
            if not self._open_next():
                return

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open_next(self) -> bool:
        """Opens the next newer file. The current one stays open until then, so that its inode cannot be reused: its
        position among the others shows which files are newer."""
        while True:
            gone, files_now = self._list_files()
            next_one, end = 0, 0
            if self._descriptor >= 0:
                present = os.fstat(self._descriptor)
                inodes = [file.inode for file in files_now]
                next_one = inodes.index(present.st_ino) + 1 if present.st_ino in inodes else 0
                end = self._begin + present.st_size
            if next_one >= len(files_now):
                return False
            with suppress(FileNotFoundError):
                descriptor = os.open(files_now[next_one].path, os.O_RDONLY | os.O_CLOEXEC)
                if os.fstat(descriptor).st_ino == files_now[next_one].inode:
                    self.close()
                    self._descriptor, self._offset = descriptor, 0
                    self._begin = gone.size + sum(file.size for file in files_now[:next_one])
                    if next_one == 0 and self._begin > end:
                        self._note = gone._replace(size=self._begin - end).line(os.pread(descriptor, 64, 0))
                    return True
                os.close(descriptor)  # rotated between listing and opening

    def _list_files(self) -> tuple[DroppedLog, list[_FileState]]:
        """Returns the attempt's files, the oldest first, and what was dropped before them. Lists them until two
        listings agree."""
        before: tuple[DroppedLog, list[_FileState]] | None = None
        while True:
            found = list[_FileState]()
            for file in log_files(self._folder):
                if file.attempt == self._attempt:
                    with suppress(FileNotFoundError):
                        status = os.stat(file.path)
                        found.append(_FileState(status.st_ino, file.path, status.st_size if file.age else 0))
            now = read_dropped(self._folder, self._attempt), found
            if now == before:
                return now
            before = now

    def _is_current(self) -> bool:
        try:
            return os.stat(f"{self._folder}/{self._attempt}.log").st_ino == os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return True


class _FileState(NamedTuple):
    inode: int
    path: str
    size: int
    """0 for the file that is being written; no file comes after it."""


class _LimitedReader:
    """Stops after a number of bytes."""

    def __init__(self, reader: LineReader, limit: int | None) -> None:
        self._reader = reader
        self._left = limit
        self.full = limit == 0

    def feed(self, block: bytes) -> bytes:
        output = self._reader.feed(block)
        if self._left is None:
            return output
        output = output[: self._left]
        self._left -= len(output)
        self.full = self._left == 0
        return output


def _start(files: list[LogFile], query: LogQuery) -> LogPosition:
    start = LogPosition(0, 0)
    if query.since_seconds is not None:
        start = find_since(files, time.time() - query.since_seconds)
    if query.tail_lines is not None:
        start = max(start, find_tail(files, max(query.tail_lines, 0)))
    return start


def _choose(names: list[str]) -> str:
    return f", choose one of: [{' '.join(names)}]" if names else ": it has left no logs"


def _set_all(events: set[asyncio.Event] | tuple[()]) -> None:
    for event in events:
        event.set()
