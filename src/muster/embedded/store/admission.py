"""What happens to an object between a request and the store: it is normalised, defaulted and checked.

Pure functions on plain data. They own what they are given: the caller hands in a private copy.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

import orjson

from muster.embedded.store.view import encode
from muster.kube.errors import (
    QUALIFIED_RULE,
    BadRequest,
    Cause,
    check_dns_label,
    check_dns_name,
    check_labels,
    duplicate,
    forbidden,
    invalid,
    is_qualified_name,
    required,
)
from muster.kube.kinds import Kind, invalid_object
from muster.kube.objects import Object
from muster.kube.schema import prune
from muster.kube.schema_validation import unknown_fields, validate

Metadata = dict[str, Any]

LONGEST_GENERATED_BASE = 58
LARGEST_ANNOTATIONS = 256 << 10

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, so that no name is a word
_SYSTEM = frozenset({
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "selfLink",
})  # fmt: skip

FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]
"""What happens to a field that the schema does not have: an error, a warning, or nothing. Warn and Ignore drop it."""

KEEPS_STATUS_ON_CREATE = frozenset({"nodes"})
"""A node registers itself with its status, as kubelets do."""

_warnings: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collects the warnings of all requests made inside the block."""
    collected: list[str] = []
    token = _warnings.set(collected)
    try:
        yield collected
    finally:
        _warnings.reset(token)


def warn(message: str) -> None:
    collected = _warnings.get()
    if collected is not None:
        collected.append(message)


def private_copy(kind: Kind, obj: Any, mode: FieldValidation) -> Object:
    """Returns a copy that the callee may change, without nulls and, unless `Strict`, without unknown fields."""
    packed = encode(obj)
    copied: Any = orjson.loads(packed)
    if not isinstance(copied, dict) or not isinstance(copied.get("metadata") or {}, dict):
        raise BadRequest("this is not an object: apiVersion, kind and metadata are required")
    if mode == "Strict" and b":null" not in packed:
        return copied
    unknown = unknown_fields(copied, kind.schema)
    if unknown and mode == "Strict":
        raise invalid_object(kind, copied, validate(copied, kind.schema))
    if mode == "Warn":
        for path in unknown:
            warn(f'unknown field "{path}"')
    if not unknown and b":null" not in packed:
        return copied
    pruned: Object = prune(copied, kind.schema)
    return pruned


def admit_new(kind: Kind, given: Object, name: str, namespace: str, now: str) -> Object:
    """Returns the object as it will be stored, with a uid and all defaults. Raises Invalid if it breaks a rule."""
    obj: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": None}
    dropped = "status" if kind.has_status and kind.resource not in KEEPS_STATUS_ON_CREATE else ""
    for field, value in given.items():
        if field != dropped and field not in obj:
            obj[field] = value
    obj["metadata"] = new_metadata(given.get("metadata") or {}, name, namespace, now, int("spec" in obj))
    obj = _with_defaults(kind, obj)
    _check(kind, obj, None, validate(obj, kind.schema))
    return obj


def admit_change(kind: Kind, old: Object, given: Object) -> Object:
    """Returns `old` as changed by an update, or `old` itself if nothing changes."""
    obj: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": None}
    for field, value in given.items():
        if field not in obj and not (field == "status" and kind.has_status):
            obj[field] = value
    if kind.has_status and "status" in old:
        obj["status"] = old["status"]
    obj["metadata"] = update_metadata(old["metadata"], given.get("metadata") or {})
    if kind.is_builtin:
        obj = _without_empty_structs(obj, old, _STRUCTS if kind.kind != "CustomResourceDefinition" else frozenset())
    if any(obj[field] is not old.get(field) for field in obj if field not in _NOT_SPEC) or len(obj) != len(old):
        obj = _with_defaults(kind, obj)  # what is as it was has its defaults
    _reuse(obj, old)
    if same_json(obj, old):
        return old
    changed = [field for field in obj if obj[field] is not old.get(field)]
    if "generation" in old["metadata"] and any(f not in _NOT_SPEC for f in (*changed, *(old.keys() - obj.keys()))):
        obj["metadata"] = {**obj["metadata"], "generation": old["metadata"]["generation"] + 1}
    _check(kind, obj, old, _validate_changed(kind, obj, old, changed))
    return obj


def admit_status(kind: Kind, old: Object, status: Any) -> Object:
    """Returns `old` with a new status, or `old` itself if the status is the same."""
    if same_json(status, old.get("status")):
        return old
    obj = {**old, "metadata": {**old["metadata"]}, "status": status}
    if status is None:
        del obj["status"]
        return obj
    fields = kind.schema.get("properties") or {}
    causes = validate(status, fields["status"], "status") if "status" in fields else validate(obj, kind.schema)
    if causes:
        raise invalid_object(kind, obj, causes)
    return obj


def same_json(a: Any, b: Any) -> bool:
    """Compares as JSON does, where `true` is not 1. The common cases are fast."""
    if a is b:
        return True
    return bool(a == b) and orjson.dumps(a, option=orjson.OPT_SORT_KEYS) == orjson.dumps(b, option=orjson.OPT_SORT_KEYS)


_NOT_SPEC = frozenset({"apiVersion", "kind", "metadata", "status"})


def _with_defaults(kind: Kind, obj: Object) -> Object:
    """Applies defaults. If a defaulter fails on a field of the wrong type, the schema's message about it is raised."""
    if kind.default is None:
        return obj
    try:
        return kind.default(obj)
    except (TypeError, AttributeError, KeyError, IndexError, ValueError):
        causes = validate(obj, kind.schema)
        if not causes:
            raise
        raise invalid_object(kind, obj, causes) from None


_STRUCTS = frozenset({
    "daemonEndpoints", "deprecatedSource", "jobTemplate", "kubeletEndpoint", "lastState", "loadBalancer", "metadata",
    "nodeInfo", "resources", "source", "spec", "state", "template",
})  # fmt: skip
"""Fields that are structs in Go, not pointers: clients in Go send `{}` where there is nothing."""


def _without_empty_structs(new: Any, old: Any, names: frozenset[str]) -> Any:
    """Returns `new` without the `{}` that mean the same as the missing field in `old`."""
    if new is old:
        return new
    if isinstance(new, dict) and isinstance(old, dict):
        return {
            name: _without_empty_structs(value, old.get(name), names)
            for name, value in new.items()
            if value != {} or name in old or name not in names
        }
    if isinstance(new, list) and isinstance(old, list):
        return [
            _without_empty_structs(value, old[index] if index < len(old) else None, names)
            for index, value in enumerate(new)
        ]
    return new


def _reuse(obj: Object, old: Object) -> None:
    """Reuses the unchanged parts of `old`, so that versions of an object share them in memory."""
    for field, value in obj.items():
        before = old.get(field)
        if before is not None and before is not value and same_json(before, value):
            obj[field] = before


def _validate_changed(kind: Kind, obj: Object, old: Object, changed: list[str]) -> list[Cause]:
    """Validates only the changed fields, unless a field was added or removed."""
    fields = kind.schema.get("properties") or {}
    if not old.keys() <= obj.keys() or any(field not in fields for field in changed):
        return validate(obj, kind.schema)
    return [cause for field in changed for cause in validate(obj[field], fields[field], field)]


def _check(kind: Kind, obj: Object, old: Object | None, causes: list[Cause]) -> None:
    if not causes:
        if old is None or obj["metadata"] is not old["metadata"]:
            causes = check_metadata(kind, obj["metadata"], None if old is None else old["metadata"])
        if kind.validate is not None:
            causes = [*causes, *kind.validate(obj, old)]
    if causes:
        raise invalid_object(kind, obj, causes)
    if kind.warnings is not None and _warnings.get() is not None and _has_new_spec(obj, old):
        for cause in kind.warnings(obj):
            warn(f"{cause.field}: {cause.message}")


def _has_new_spec(obj: Object, old: Object | None) -> bool:
    return old is None or obj.get("spec") is not old.get("spec")


def generate_name(base: str) -> str:
    return base[:LONGEST_GENERATED_BASE] + "".join(random.choices(_ALPHABET, k=5))  # noqa: S311 (not a secret)


def new_uid() -> str:
    """Returns a UUID of version 8: random at both ends, with the time in between.

    The time gives the order of creation within a second. It is built by hand because every object needs one."""
    chance, time_ = os.urandom(8).hex(), f"{time.time_ns() // 1000:015x}"
    return f"{chance[:8]}-{time_[:4]}-8{time_[4:7]}-8{time_[7:10]}-{time_[10:]}{chance[9:]}"


def new_metadata(given: Mapping[str, Any], name: str, namespace: str, now: str, generation: int) -> Metadata:
    """Returns the metadata of an object that is about to be created."""
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


def update_metadata(old: Metadata, given: Mapping[str, Any]) -> Metadata:
    """Returns the metadata after an update. Fields that belong to the cluster stay as they were."""
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
    """Returns what is wrong with the metadata. Unchanged fields are not checked again."""
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
        return list(check_dns_label("metadata.name", name))
    return list(check_dns_name("metadata.name", name))


def _check_labels(given: Mapping[str, str]) -> list[Cause]:
    return list(check_labels("metadata.labels", given))


def _check_annotations(annotations: Mapping[str, str]) -> list[Cause]:
    causes = [
        invalid("metadata.annotations", key, QUALIFIED_RULE)
        for key in annotations
        if not is_qualified_name(key.lower())
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
        if not is_qualified_name(finalizer)
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
