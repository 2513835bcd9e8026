"""Where members may keep artifacts: in the repository of the installation, in the folder of their own namespace, or in
a store of their own, with credentials of their own. Pure.

The server's credentials are never used for a member: a field that names a Secret has to name one, not merely be there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final

from muster.workflows.artifacts.locations import is_local, kind_of

CREDENTIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("accessKeySecret", "secretKeySecret"), "oss": ("accessKeySecret", "secretKeySecret"),
    "gcs": ("serviceAccountKeySecret",), "azure": ("accountKeySecret",),
    "artifactory": ("usernameSecret", "passwordSecret"), "http": (), "git": (), "raw": (),
}  # fmt: skip
"""The Secrets that a location needs. Anyone may read what http and git offer without."""
_SERVER_CREDENTIALS: Final = ("useSDKCreds", "roleARN")


def missing_credentials(kind: str, settings: Mapping[str, Any]) -> list[str]:
    """Returns the fields that have to name a key of a Secret and do not."""
    return [field for field in CREDENTIALS.get(kind, ()) if not _names_a_key(settings.get(field))]


def location_problem(location: Mapping[str, Any]) -> str:
    """Returns why a member may not use a location; '' if they may."""
    if is_local(location):
        return ""
    kinds = [kind for kind, settings in location.items() if settings is not None]
    kind = kind_of(location)
    if kind not in CREDENTIALS or len(kinds) > 1:
        return (
            f"{kind or 'this'} is not a store that can be used here: use s3, gcs, azure, oss, http, artifactory or git"
        )
    settings = location[kind]
    server = [field for field in _SERVER_CREDENTIALS if settings.get(field)]
    if server:
        return f"{kind}.{server[0]} would use the credentials of the server: use Secrets of your own namespace"
    missing = missing_credentials(kind, settings)
    if missing:
        return (
            f"{kind}.{missing[0]} is missing: a store of your own needs credentials of your own. Name a Secret of your "
            "namespace and its key, or use the repository of the installation and leave out everything but the key"
        )
    return ""


def prefixed_key(key: str, namespace: str) -> str:
    """Returns the key below the prefix of a namespace in a repository that namespaces share. Raises ValueError for a
    key that another namespace's could be."""
    parts = key.lstrip("/").split("/")
    if any(part in ("", ".", "..") for part in parts) or not key.isprintable() or "%" in key or "\\" in key:
        raise ValueError(f'"{key}" is not a valid key: write a path without "..", "//" and "%"')
    clean = posixpath.join(*parts)
    return clean if clean.startswith(f"{namespace}/") else f"{namespace}/{clean}"


def _names_a_key(selector: Any) -> bool:
    return isinstance(selector, Mapping) and bool(selector.get("name")) and bool(selector.get("key"))
