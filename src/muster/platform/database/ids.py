"""Names for rows: 26 lower-case letters and digits that sort by when they were made, and that fit URLs, file names and
the names of Kubernetes objects."""

from __future__ import annotations

import secrets
import threading
import time

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Greater than every other that this process has made."""
    global _last
    with _lock:
        _last = max(_last + 1, (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS))
        number = _last
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(125, -1, -5))
