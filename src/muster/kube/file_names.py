"""Names that become files and folders of the data directory.

A name of an object, or of a request, must not lead to another folder than its own. Every path that contains such a name
is built with `path_component`.
"""

from __future__ import annotations

import hashlib
import os

from muster.kube.errors import BadRequest

LONGEST = 255
"""Bytes of one component, on every file system that matters."""


def path_component(name: str) -> str:
    """Returns the name if it is one plain component of a path. Raises BadRequest for everything else: `..`, `a/b`, a
    NUL, an empty name, a name that no file system takes."""
    if not name or name in (".", "..") or "/" in name or "\0" in name or len(_encode(name)) > LONGEST:
        raise BadRequest(f"{name[:64]!r} is not a valid name")
    return name


def fit_component(name: str) -> str:
    """Like `path_component`, but shortens a name that is too long. Different names stay different."""
    encoded = _encode(name)
    if len(encoded) <= LONGEST:
        return path_component(name)
    digest = hashlib.sha256(encoded).hexdigest()[:32]
    return path_component(f"{encoded[: LONGEST - 33].decode('utf-8', 'ignore')}-{digest}")


def _encode(name: str) -> bytes:
    try:
        return os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate cannot be in a path
        raise BadRequest(f"{name[:64]!r} is not a valid name") from None
