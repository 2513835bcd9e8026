"""The last word of a container: what it has written to its terminationMessagePath."""

from __future__ import annotations

import os
from contextlib import suppress

_BYTES = 4096


def empty(path: str | None, attempt: int) -> None:
    """What an earlier attempt said is not this one's last word."""
    if path and attempt:
        with suppress(OSError):
            os.truncate(path, 0)


def message(path: str | None) -> str:
    if not path:
        return ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
