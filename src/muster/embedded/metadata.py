"""The rules of `metadata`: what a user may say there, and what only the cluster does."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from typing import Any

from muster.kube.causes import duplicate, forbidden, invalid, required
from muster.kube.errors import Cause
from muster.kube.kinds import Kind
from muster.kube.names import QUALIFIED_RULE, dns_label, dns_name, is_qualified, labels
from muster.kube.objects import Object

Metadata = dict[str, Any]

LONGEST_GENERATED_BASE = 58
LARGEST_ANNOTATIONS = 256 << 10

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, so that no name is a word
_SYSTEM = frozenset({
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "selfLink",
})  # fmt: skip


def generated_name(base: str) -> str:
    return base[:LONGEST_GENERATED_BASE] + "".join(random.choices(_ALPHABET, k=5))  # noqa: S311 (not a secret)


def new_uid() -> str:
    """A UUID of our own making (version 8): random at both ends, with the time in between, which tells who came first
    within a second. Written by hand because one is needed for every object."""
    chance, time_ = os.urandom(8).hex(), f"{time.time_ns() // 1000:015x}"
    return f"{chance[:8]}-{time_[:4]}-8{time_[4:7]}-8{time_[7:10]}-{time_[10:]}{chance[9:]}"


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
        return list(dns_label("metadata.name", name))
    return list(dns_name("metadata.name", name))


def _check_labels(given: Mapping[str, str]) -> list[Cause]:
    return list(labels("metadata.labels", given))


def _check_annotations(annotations: Mapping[str, str]) -> list[Cause]:
    causes = [
        invalid("metadata.annotations", key, QUALIFIED_RULE) for key in annotations if not is_qualified(key.lower())
    ]
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > LARGEST_ANNOTATIONS:
        why = f"Too long: annotations may have {LARGEST_ANNOTATIONS} bytes in all, these have {size}"
        causes.append(Cause("metadata.annotations", why, "FieldValueTooLong"))
    return causes


def _check_finalizers(finalizers: list[str]) -> list[Cause]:
    return [
        invalid(f"metadata.finalizers[{number}]", finalizer, QUALIFIED_RULE)
        for number, finalizer in enumerate(finalizers)
        if not is_qualified(finalizer)
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
