"""Waiting for files to change without looking at them: Linux's inotify, one instance for everybody on the loop."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_MODIFY, _MOVED_TO, _CREATE, _IGNORED, _OVERFLOW = 0x2, 0x80, 0x100, 0x8000, 0x4000
_HEADER = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)


class FileChanges:
    """`with changes.tell(changed, folder):` sets the event `changed` whenever a file in that folder is written to, made
    or moved there. Costs nothing while nothing happens."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._listeners: dict[int, set[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def tell(self, changed: asyncio.Event, folder: str) -> Iterator[None]:
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


def _set_all(events: set[asyncio.Event] | tuple[()]) -> None:
    for event in events:
        event.set()
