"""What becomes of an object between a request and the store: normalised, defaulted, checked.

Pure functions on plain data. They own what they are given: the caller hands in a private copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

import orjson

from muster.embedded.metadata import changed_metadata, check_metadata, new_metadata
from muster.embedded.transaction import encode
from muster.kube.errors import BadRequest, Cause, Invalid
from muster.kube.kinds import Kind
from muster.kube.objects import Object
from muster.kube.schema import prune, unknown_fields, validate

FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]
"""What happens to a field that the schema does not have: an error, a warning, or nothing. All but the first drop it."""

KEEPS_STATUS_ON_CREATE = frozenset({"nodes"})
"""A node registers itself whole, as kubelets do."""

_warnings: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Gathers what is worth telling the user about the requests made inside."""
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
    """A copy that is the callee's to change, without nulls and, unless `Strict`, without unknown fields."""
    packed = encode(obj)
    copied: Any = orjson.loads(packed)
    if not isinstance(copied, dict) or not isinstance(copied.get("metadata") or {}, dict):
        raise BadRequest("this is not an object: it needs apiVersion, kind and metadata")
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
    """The object as it will be stored, with a uid and all defaults; Invalid if it breaks a rule."""
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
    """What an update makes of `old`: `old` itself if it changes nothing."""
    obj: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": None}
    for field, value in given.items():
        if field not in obj and not (field == "status" and kind.has_status):
            obj[field] = value
    if kind.has_status and "status" in old:
        obj["status"] = old["status"]
    obj["metadata"] = changed_metadata(old["metadata"], given.get("metadata") or {})
    obj = _with_defaults(kind, obj)
    _reuse(obj, old)
    if same(obj, old):
        return old
    changed = [field for field in obj if obj[field] is not old.get(field)]
    if "generation" in old["metadata"] and any(f not in _NOT_SPEC for f in (*changed, *(old.keys() - obj.keys()))):
        obj["metadata"] = {**obj["metadata"], "generation": old["metadata"]["generation"] + 1}
    _check(kind, obj, old, _validate_changed(kind, obj, old, changed))
    return obj


def admit_status(kind: Kind, old: Object, status: Any) -> Object:
    """`old` with a new status; `old` itself if it is the same."""
    if same(status, old.get("status")):
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


def invalid_object(kind: Kind, obj: Object, causes: list[Cause]) -> Invalid:
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    wrong = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]
    text = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
    return Invalid(f'{title} "{name}" is invalid: {text}', causes=causes)


def same(a: Any, b: Any) -> bool:
    """Equality as JSON has it, where `true` is not 1. The common cases are quick."""
    if a is b:
        return True
    return bool(a == b) and orjson.dumps(a, option=orjson.OPT_SORT_KEYS) == orjson.dumps(b, option=orjson.OPT_SORT_KEYS)


_NOT_SPEC = frozenset({"apiVersion", "kind", "metadata", "status"})


def _with_defaults(kind: Kind, obj: Object) -> Object:
    """A defaulter may trip over a field of the wrong type; then what the schema says of it is the better message."""
    if kind.default is None:
        return obj
    try:
        return kind.default(obj)
    except (TypeError, AttributeError, KeyError, IndexError, ValueError):
        causes = validate(obj, kind.schema)
        if not causes:
            raise
        raise invalid_object(kind, obj, causes) from None


def _reuse(obj: Object, old: Object) -> None:
    """Takes over the parts that have not changed, so that versions of an object share them in memory."""
    for field, value in obj.items():
        before = old.get(field)
        if before is not None and before is not value and same(before, value):
            obj[field] = before


def _validate_changed(kind: Kind, obj: Object, old: Object, changed: list[str]) -> list[Cause]:
    """Only what is new needs the schema's eye, unless a field came or went."""
    fields = kind.schema.get("properties") or {}
    if obj.keys() < old.keys() or any(field not in fields for field in changed):
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
