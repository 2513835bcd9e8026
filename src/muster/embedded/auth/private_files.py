"""Files that only their owner can read, replaced atomically."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Replaces the file atomically. Others can never read it, not even while it is written."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def ensure_private_key(path: Path, length: int = 32) -> bytes:
    """Returns the random key in a file. Creates it the first time."""
    if path.exists():
        key = path.read_bytes()
        if len(key) == length:
            return key
    key = secrets.token_bytes(length)
    write_private(path, key)
    return key
