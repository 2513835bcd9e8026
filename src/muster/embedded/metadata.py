"""The rules of `metadata`: what a user may say there, and what only the cluster does."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from muster.kube.causes import duplicate, forbidden, invalid, required
from muster.kube.errors import Cause
from muster.kube.kinds import Kind
from muster.kube.objects import Object

Metadata = dict[str, Any]

LONGEST_GENERATED_BASE = 58
LARGEST_ANNOTATIONS = 256 << 10

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, so that no name is a word
_SYSTEM = frozenset({
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "selfLink",
})  # fmt: skip
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def generated_name(base: str) -> str:
    return base[:LONGEST_GENERATED_BASE] + "".join(random.choices(_ALPHABET, k=5))  # noqa: S311 (not a secret)


def new_uid() -> str:
    """A random UUID (version 4), written by hand because one is needed for every object."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def new_metadata(given: Mapping[str, Any], name: str, namespace: str, now: str, generation: int) -> Metadata:
    """The metadata of an object that is about to exist."""
    metadata: Metadata = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now
    if generation:
        metadata["generation"] = generation
    for field, value in given.items():
        if field not in _SYSTEM and field not in metadata and value not in (None, "", {}, []):
            metadata[field] = value
    return metadata


def changed_metadata(old: Metadata, given: Mapping[str, Any]) -> Metadata:
    """What an update makes of the metadata: what belongs to the cluster stays as it was."""
    metadata: Metadata = {}
    for field, value in old.items():
        kept = value if field in _SYSTEM or field in _FIXED else given.get(field)
        if field == "managedFields" and not kept:
            kept = value
        if kept not in (None, "", {}, []):
            metadata[field] = kept
    for field, value in given.items():
        if field not in old and field not in _SYSTEM and field not in _FIXED and value not in (None, "", {}, []):
            metadata[field] = value
    return metadata


_FIXED = frozenset({"name", "namespace", "generateName"})


def check_metadata(kind: Kind, metadata: Metadata, old: Metadata | None = None) -> list[Cause]:
    """What is wrong with it. What has not changed is not looked at again."""
    causes: list[Cause] = []
    before: Mapping[str, Any] = old or {}
    if old is None:
        causes += check_name(kind, metadata["name"])
    for field, check in _CHECKS.items():
        value = metadata.get(field)
        if value and value is not before.get(field):
            causes += check(value)
    if before.get("deletionTimestamp"):
        added = [f for f in metadata.get("finalizers") or () if f not in (before.get("finalizers") or ())]
        if added:
            why = f"no new finalizers can be added while the object is being deleted: {', '.join(added)}"
            causes.append(forbidden("metadata.finalizers", why))
    return causes


def check_name(kind: Kind, name: str) -> list[Cause]:
    if kind.group == "rbac.authorization.k8s.io":
        if name in (".", "..") or "/" in name or "%" in name:
            return [invalid("metadata.name", name, 'may not be "." or "..", nor contain "/" or "%"')]
        return []
    if kind.resource in ("namespaces", "services"):
        if len(name) <= 63 and _DNS_LABEL.fullmatch(name):
            return []
        why = "use lower case letters, digits and '-', at most 63; it starts and ends with a letter or digit"
        return [invalid("metadata.name", name, why)]
    if _is_subdomain(name):
        return []
    why = "use lower case letters, digits, '-' and '.', at most 253; it starts and ends with a letter or digit"
    return [invalid("metadata.name", name, why)]


def _check_labels(labels: Mapping[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in labels.items():
        if not _is_qualified(key):
            causes.append(invalid("metadata.labels", key, _QUALIFIED_RULE))
        if value and not (len(value) <= 63 and _is_label(value)):
            why = "a label's value has at most 63 letters, digits, '-', '_', '.', and a letter or digit at either end"
            causes.append(invalid(f"metadata.labels[{key}]", value, why))
    return causes


def _check_annotations(annotations: Mapping[str, str]) -> list[Cause]:
    causes = [
        invalid("metadata.annotations", key, _QUALIFIED_RULE) for key in annotations if not _is_qualified(key.lower())
    ]
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > LARGEST_ANNOTATIONS:
        why = f"Too long: annotations may have {LARGEST_ANNOTATIONS} bytes in all, these have {size}"
        causes.append(Cause("metadata.annotations", why, "FieldValueTooLong"))
    return causes


def _check_finalizers(finalizers: list[str]) -> list[Cause]:
    return [
        invalid(f"metadata.finalizers[{number}]", finalizer, _QUALIFIED_RULE)
        for number, finalizer in enumerate(finalizers)
        if not _is_qualified(finalizer)
    ]


def _check_owners(references: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    controllers = 0
    for number, reference in enumerate(references):
        at = f"metadata.ownerReferences[{number}]"
        causes += [required(f"{at}.{f}") for f in ("apiVersion", "kind", "name", "uid") if not reference.get(f)]
        uid = str(reference.get("uid"))
        if uid in seen:
            causes.append(duplicate(f"{at}.uid", uid))
        seen.add(uid)
        controllers += bool(reference.get("controller"))
    if controllers > 1:
        causes.append(invalid("metadata.ownerReferences", references, "only one owner can have controller: true"))
    return causes


_CHECKS: dict[str, Any] = {
    "labels": _check_labels,
    "annotations": _check_annotations,
    "finalizers": _check_finalizers,
    "ownerReferences": _check_owners,
}

_QUALIFIED_RULE = (
    "a name has at most 63 letters, digits, '-', '_', '.', with a letter or digit at either end, and may have a "
    "prefix in lower case that is a DNS name, as in example.com/name"
)


@lru_cache(maxsize=4096)
def _is_qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return _LABEL.fullmatch(name) is not None and (not slash or _is_subdomain(prefix))


@lru_cache(maxsize=4096)
def _is_label(value: str) -> bool:
    return _LABEL.fullmatch(value) is not None


def _is_subdomain(name: str) -> bool:
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None
