"""Where an artifact is: a full location, or a key in the workflow's artifact repository. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from muster.workflows.lang.tags import substitute

# Merged from problems: What can go wrong with an artifact. Messages are for the user, and never hold what a Secret
# holds.


class ArtifactError(Exception):
    """It cannot be had, or kept, the way its fields say."""


class ArtifactMissing(ArtifactError):
    """Nothing is there. An optional artifact may be."""


class ArtifactUnreachable(ArtifactError):
    """The store did not answer. Trying again may help."""


# Merged from locations: Where an artifact is, as its fields say: a whole location, or a key in the workflow's
# artifact repository. Pure.


Artifact: TypeAlias = Mapping[str, Any]
Location: TypeAlias = dict[str, Any]
"""Of the fields of an artifact, the one that says where it is: `{"s3": {"bucket": ..., "key": ...}}`."""

DEFAULT_KEY = "{{workflow.name}}/{{pod.name}}"
LOCAL: Mapping[str, Any] = {"s3": {}}
"""The repository that is there when nobody has named one. A key in it looks like one in a bucket, so that manifests and
tools which know nothing of this machine find what they expect."""

_KEY_FIELDS = {
    "artifactory": "url", "azure": "blob", "git": "", "gcs": "key", "hdfs": "path", "http": "url", "oss": "key",
    "raw": "", "s3": "key", "plugin": "key",
}  # fmt: skip
"""The kinds, in the order in which they are looked for."""
_NEEDED = {
    "artifactory": ("url", "usernameSecret"), "azure": ("endpoint", "container", "blob"), "git": ("repo",),
    "gcs": ("bucket", "key"), "hdfs": ("addresses",), "http": ("url",), "oss": ("bucket", "endpoint", "key"),
    "raw": (), "s3": ("endpoint", "bucket", "key"), "plugin": ("name", "configuration", "key"),
}  # fmt: skip
_FORMATS = {"azure": "blobNameFormat", "hdfs": "pathFormat"}


def kind_of(artifact: Artifact) -> str:
    """`s3`, `git` ...; '' for one that has no location at all."""
    return next((kind for kind in _KEY_FIELDS if artifact.get(kind) is not None), "")


def has_location(artifact: Artifact) -> bool:
    """Whether it says all that is needed to find it."""
    kind = kind_of(artifact)
    return bool(kind) and all(artifact[kind].get(field) for field in _NEEDED[kind])


def key_of(artifact: Artifact) -> str:
    """Its key, or the path of its URL; '' if it has none."""
    kind = kind_of(artifact)
    field = _KEY_FIELDS.get(kind, "")
    value = str(artifact[kind].get(field) or "") if field else ""
    return urlsplit(value).path if field == "url" else value


def is_supplied(artifact: Artifact) -> bool:
    """Whether it has a location or a key in the repository."""
    return has_location(artifact) or bool(key_of(artifact))


def location_of(artifact: Artifact, repository: Mapping[str, Any]) -> Location:
    """The whole location. One that is only a key is looked for in the repository, whatever kind that is."""
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
    """An artifact that was given its key by the repository, as `status.nodes` has it: without the repository's
    settings, which may change."""
    kind = kind_of(repository)
    return {**artifact, **with_key({kind: {}}, key)}


def new_key(repository: Mapping[str, Any], scope: Mapping[str, Any], file_name: str) -> str:
    """The key under which the repository keeps a new artifact."""
    kind = kind_of(repository)
    settings = repository[kind]
    pattern = settings.get(_FORMATS.get(kind, "keyFormat"))
    if not pattern:
        pattern = posixpath.join(settings.get("keyPrefix") or "", DEFAULT_KEY)
    if kind == "artifactory":
        pattern = posixpath.join(urlsplit(str(settings.get("repoURL") or "")).path.lstrip("/"), pattern)
    return posixpath.join(str(substitute(pattern, scope)), file_name)


def repository_for(template: Mapping[str, Any], repository: Mapping[str, Any]) -> Mapping[str, Any]:
    """The repository, unless the template has an `archiveLocation` of its own."""
    own = template.get("archiveLocation") or {}
    if not has_location(own):
        return repository
    kind = kind_of(own)
    field = _KEY_FIELDS[kind]
    settings = {name: value for name, value in own[kind].items() if name != field}
    return {kind: {**settings, _FORMATS.get(kind, "keyFormat"): key_of(own).lstrip("/"), **_url_of(own[kind])}}


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
