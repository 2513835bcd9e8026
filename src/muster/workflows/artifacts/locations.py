"""Where an artifact is: a full location, or a key in the workflow's artifact repository; and why it cannot be fetched
or stored. Pure.

Members may keep artifacts in the repository of the installation, in the folder of their own namespace, or in a store of
their own, with credentials of their own. The server's credentials are never used for a member: a field that names a
Secret has to name one, not merely be there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit, urlunsplit


class ArtifactError(Exception):
    """The artifact cannot be fetched or stored. The message is for the user and never contains secret values."""


class ArtifactMissing(ArtifactError):
    """Nothing is stored there. An optional artifact may be missing."""


class ArtifactUnreachable(ArtifactError):
    """The store did not respond. Retrying may help."""


Artifact: TypeAlias = Mapping[str, Any]
Location: TypeAlias = dict[str, Any]
"""The field of an artifact that says where it is: `{"s3": {"bucket": ..., "key": ...}}`."""

DEFAULT_KEY = "{{workflow.name}}/{{pod.name}}"
LOCAL: Mapping[str, Any] = {"s3": {}}
"""The repository that is used when none is configured. Its keys look like keys in a bucket, so manifests and tools that
do not know about it find what they expect."""

_KEY_FIELDS = {
    "artifactory": "url", "azure": "blob", "git": "", "gcs": "key", "hdfs": "path", "http": "url", "oss": "key",
    "raw": "", "s3": "key", "plugin": "key",
}  # fmt: skip
"""The kinds of locations, in the order in which they are looked up."""
_NEEDED = {
    "artifactory": ("url", "usernameSecret"), "azure": ("endpoint", "container", "blob"), "git": ("repo",),
    "gcs": ("bucket", "key"), "hdfs": ("addresses",), "http": ("url",), "oss": ("bucket", "endpoint", "key"),
    "raw": (), "s3": ("endpoint", "bucket", "key"), "plugin": ("name", "configuration", "key"),
}  # fmt: skip
_FORMATS = {"azure": "blobNameFormat", "hdfs": "pathFormat"}


def kind_of(artifact: Artifact) -> str:
    """Returns `s3`, `git` ..., or '' for an artifact without a location."""
    return next((kind for kind in _KEY_FIELDS if artifact.get(kind) is not None), "")


def has_location(artifact: Artifact) -> bool:
    """Whether the artifact has every field needed to find it."""
    kind = kind_of(artifact)
    return bool(kind) and all(artifact[kind].get(field) for field in _NEEDED[kind])


def key_of(artifact: Artifact) -> str:
    """Returns the key, or the path of the URL; '' if there is none."""
    kind = kind_of(artifact)
    field = _KEY_FIELDS.get(kind, "")
    value = str(artifact[kind].get(field) or "") if field else ""
    return urlsplit(value).path if field == "url" else value


def is_supplied(artifact: Artifact) -> bool:
    """Whether the artifact has a location, or a key in the repository."""
    return has_location(artifact) or bool(key_of(artifact))


def location_of(artifact: Artifact, repository: Mapping[str, Any]) -> Location:
    """Returns the full location. An artifact that has only a key is in the repository, whatever its kind."""
    kind = kind_of(artifact)
    if has_location(artifact):
        return {kind: dict(artifact[kind])}
    return with_key(_bare(repository), key_of(artifact))


def with_key(location: Location, key: str) -> Location:
    kind = kind_of(location)
    field = _KEY_FIELDS.get(kind, "")
    if not field:
        raise ArtifactError(f"key unsupported: cannot set key on {kind or 'an artifact without a'} location")
    if field == "url":
        parts = urlsplit(str(location[kind].get("url") or ""))
        return {kind: {**location[kind], "url": urlunsplit(parts._replace(path=f"/{key.lstrip('/')}"))}}
    return {kind: {**location[kind], field: key}}


def artifact_with_key(artifact: Artifact, repository: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Returns an artifact whose key comes from the repository, as `status.nodes` records it: without the repository's
    settings, which may change."""
    kind = kind_of(repository)
    return {**artifact, **with_key({kind: {}}, key)}


def new_key(repository: Mapping[str, Any], scope: Mapping[str, Any], file_name: str) -> str:
    """Returns the key for a new artifact in the repository."""
    from muster.workflows.lang.tags import substitute  # confined processes that only fetch do without expressions

    kind = kind_of(repository)
    settings = repository[kind]
    pattern = settings.get(_FORMATS.get(kind, "keyFormat"))
    if not pattern:
        pattern = posixpath.join(settings.get("keyPrefix") or "", DEFAULT_KEY)
    if kind == "artifactory":
        pattern = posixpath.join(urlsplit(str(settings.get("repoURL") or "")).path.lstrip("/"), pattern)
    return posixpath.join(str(substitute(pattern, scope)), file_name)


def repository_for(template: Mapping[str, Any], repository: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the template's own `archiveLocation` as a repository if it has one, else the repository."""
    own = template.get("archiveLocation") or {}
    if not has_location(own):
        return repository
    kind = kind_of(own)
    field = _KEY_FIELDS[kind]
    settings = {name: value for name, value in own[kind].items() if name != field}
    return {kind: {**settings, _FORMATS.get(kind, "keyFormat"): key_of(own).lstrip("/"), **_url_of(own[kind])}}


def public_url(url: str) -> str:
    """Returns the URL without user, password and query, which may hold a signature."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "(no address)"
    return urlunsplit(parts._replace(netloc=host, query="", fragment=""))


def is_local(location: Mapping[str, Any]) -> bool:
    return kind_of(location) == "s3" and not location["s3"].get("bucket")


def _url_of(settings: Mapping[str, Any]) -> dict[str, str]:
    parts = urlsplit(str(settings.get("url") or ""))
    return {"repoURL": urlunsplit(parts._replace(path=""))} if parts.netloc else {}


def _bare(repository: Mapping[str, Any]) -> Location:
    kind = kind_of(repository)
    if not kind:
        raise ArtifactError("the artifact repository names no store: write s3, gcs, azure, artifactory, oss or hdfs")
    settings = dict(repository[kind])
    for field in ("keyFormat", "keyPrefix", "blobNameFormat", "pathFormat"):
        settings.pop(field, None)
    if kind == "artifactory":
        settings["url"] = settings.pop("repoURL", "")
    return {kind: settings}


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


def plain_address(location: Location) -> tuple[str, int] | None:
    """Returns the host and port of a store that is reached by plain HTTP."""
    kind = kind_of(location)
    settings = location.get(kind) or {}
    if kind == "s3" and settings.get("insecure"):
        url = f"http://{str(settings.get('endpoint') or '').removeprefix('http://')}"
    elif kind in ("http", "artifactory"):
        url = str(settings.get("url") or "")
    else:
        return None
    return plain_url_address(url)


def plain_url_address(url: str) -> tuple[str, int] | None:
    """Returns the host and port of a URL of plain HTTP."""
    try:
        parts = urlsplit(url)
        return (parts.hostname, parts.port or 80) if parts.scheme == "http" and parts.hostname else None
    except ValueError:
        return None


def with_address(location: Location, host: str, port: int) -> Location:
    """Returns a location of `plain_address` with another host and port."""
    kind = kind_of(location)
    if kind == "s3":
        return {**location, kind: {**location[kind], "endpoint": f"{host}:{port}"}}
    return {**location, kind: {**location[kind], "url": url_with_address(str(location[kind]["url"]), host, port)}}


def url_with_address(url: str, host: str, port: int) -> str:
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}:{port}"))
