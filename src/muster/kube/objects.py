"""Kubernetes objects as plain dictionaries, and accessors for their common fields and status conditions.

Objects are read-only by convention: many readers share one. To change one, create a new dictionary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

Object: TypeAlias = dict[str, Any]


class Key(NamedTuple):
    """Identifies an object among those of its kind. Cluster-scoped objects have the namespace ''."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def meta(obj: Mapping[str, Any]) -> dict[str, Any]:
    return obj.get("metadata") or {}


# These functions are called hundreds of times for each Pod. That is why they do not call one another.


def name_of(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("namespace") or "")


def key_of(obj: Mapping[str, Any]) -> Key:
    m = obj.get("metadata") or {}
    return Key(m.get("namespace") or "", m.get("name") or "")


def uid_of(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("uid") or "")


def creation_order(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Returns a sort key by creation. A creationTimestamp has whole seconds; in the embedded cluster, the uid orders
    objects within a second."""
    m = meta(obj)
    return str(m.get("creationTimestamp") or ""), str(m.get("uid") or "")[9:]


def version_of(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("resourceVersion") or "")


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def is_deleting(obj: Mapping[str, Any]) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def spec_of(obj: Mapping[str, Any]) -> dict[str, Any]:
    return obj.get("spec") or {}


def status_of(obj: Mapping[str, Any]) -> dict[str, Any]:
    return obj.get("status") or {}


def split_api_version(api_version: str) -> tuple[str, str]:
    """`batch/v1` -> (`batch`, `v1`); `v1` -> (``, `v1`)."""
    group, _, version = api_version.rpartition("/")
    return group, version


def join_api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def copy_of(obj: Object) -> Object:
    """Returns a deep copy that may be changed. A JSON round trip is the fastest way."""
    copied: Object = orjson.loads(orjson.dumps(obj))
    return copied


def owner_reference(owner: Object, *, controller: bool = True, block_deletion: bool = True) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": controller,
        "blockOwnerDeletion": block_deletion,
    }


def owners_of(obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def controller_of(obj: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the controlling owner, if any."""
    for owner in (obj.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            found: dict[str, Any] = owner
            return found
    return None


def owned_by(objects: Iterable[Object], owner: Object) -> list[Object]:
    uid = uid_of(owner)
    return [o for o in objects if (ref := controller_of(o)) is not None and ref.get("uid") == uid]


def timestamp(moment: datetime | None = None) -> str:
    """RFC 3339 in whole seconds, like `metav1.Time`."""
    return (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")[:-6] + "Z"


def micro_timestamp(moment: datetime | None = None) -> str:
    """RFC 3339 in microseconds, like `metav1.MicroTime`."""
    return (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def parse_time(text: str) -> datetime:
    """Parses both forms. The result is in UTC, which is also assumed for a time without a zone. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text} is before the year 1 or after 9999 in UTC") from None


# Status conditions: one entry per type.


Condition: TypeAlias = dict[str, Any]
ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]


def get_condition(conditions: Iterable[Condition] | None, type: str) -> Condition | None:
    return next((c for c in conditions or () if c.get("type") == type), None)


def is_condition_true(conditions: Iterable[Condition] | None, type: str) -> bool:
    found = get_condition(conditions, type)
    return found is not None and found.get("status") == "True"


def set_condition(
    conditions: Iterable[Condition] | None,
    type: str,
    status: ConditionStatus | bool,
    reason: str = "",
    message: str = "",
    now: str = "",
    **more: Any,
) -> list[Condition]:
    """Returns a new list with this condition, at its old position if it had one. `lastTransitionTime` becomes `now`
    only if the status changes. The other fields always take the new values, and a field that is not given is removed.
    `more` are fields that some kinds add: `lastUpdateTime`, `observedGeneration`."""
    before = list(conditions or ())
    truth = status if isinstance(status, str) else str(status)
    old = get_condition(before, type)
    kept = old is not None and old.get("status") == truth and old.get("lastTransitionTime")
    fields = {"type": type, "status": truth, "lastTransitionTime": kept or now, "reason": reason, "message": message}
    new = {name: value for name, value in {**fields, **more}.items() if value}
    if old is None:
        return [*before, new]
    return [new if c is old else c for c in before]
