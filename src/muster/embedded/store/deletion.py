"""What a delete request does to an object: it is removed at once, or marked until its finalizers are gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from muster.kube.cluster import Propagation
from muster.kube.kinds import Kind
from muster.kube.objects import Object, is_deleting, meta, parse_time, spec_of, status_of, timestamp

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
DEFAULT_GRACE = 30


class DeletionPlan(NamedTuple):
    """With `remove`, the object is removed. Otherwise, `object` is its new state, or itself if nothing changes."""

    remove: bool
    object: Object


def plan_deletion(
    kind: Kind, obj: Object, propagation: Propagation, grace_seconds: int | None, now: datetime
) -> DeletionPlan:
    finalizers = [f for f in obj["metadata"].get("finalizers") or () if f not in (FOREGROUND, ORPHAN)]
    if propagation == "Foreground":
        finalizers.append(FOREGROUND)
    elif propagation == "Orphan":
        finalizers.append(ORPHAN)
    grace = _grace(kind, obj, grace_seconds)
    has_contents = kind.resource == "namespaces" and bool(spec_of(obj).get("finalizers"))
    if not (grace or finalizers or has_contents):
        return DeletionPlan(True, _marked(obj, now) if kind.resource == "pods" and not is_deleting(obj) else obj)

    metadata = {**obj["metadata"]}
    _set_or_remove(metadata, "finalizers", finalizers)
    if not is_deleting(obj):
        metadata["deletionTimestamp"] = _format_time(now + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    elif grace < (before := metadata.get("deletionGracePeriodSeconds") or 0):
        began = parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=before)
        metadata["deletionTimestamp"] = _format_time(began + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace

    changed = {**obj, "metadata": metadata}
    if has_contents:
        changed["status"] = {**status_of(obj), "phase": "Terminating"}
    return DeletionPlan(False, obj if changed == obj else changed)


def _marked(pod: Object, now: datetime) -> Object:
    """Returns the last state of a Pod that is removed at once. Watchers see when, as of any other Pod."""
    mark = {"deletionTimestamp": _format_time(now), "deletionGracePeriodSeconds": 0}
    return {**pod, "metadata": {**pod["metadata"], **mark}}


def is_released(kind: Kind, obj: Object) -> bool:
    """Whether the object is being deleted and nothing holds it any more: no finalizer, and not the node it runs on."""
    metadata = meta(obj)
    if (
        not metadata.get("deletionTimestamp")
        or metadata.get("finalizers")
        or metadata.get("deletionGracePeriodSeconds")
    ):
        return False
    return not (kind.resource == "namespaces" and spec_of(obj).get("finalizers"))


def without_finalizer(obj: Object, finalizer: str) -> Object:
    metadata = {**obj["metadata"]}
    _set_or_remove(metadata, "finalizers", [f for f in metadata.get("finalizers") or () if f != finalizer])
    return {**obj, "metadata": metadata}


def _grace(kind: Kind, obj: Object, wanted: int | None) -> int:
    """Only a Pod that runs on a node needs a grace period. A second request may shorten it, but not extend it."""
    if kind.resource != "pods":
        return 0
    before = meta(obj).get("deletionGracePeriodSeconds") if is_deleting(obj) else None
    if wanted is None and before is not None:
        return int(before)
    if not spec_of(obj).get("nodeName") or status_of(obj).get("phase") in ("Succeeded", "Failed"):
        return 0
    if wanted is None:
        wanted = spec_of(obj).get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    grace = 1 if wanted < 0 else wanted
    return grace if before is None else min(grace, int(before))


def _format_time(moment: datetime) -> str:
    return timestamp(moment.astimezone(UTC))


def _set_or_remove(metadata: dict[str, object], field: str, value: list[str]) -> None:
    if value:
        metadata[field] = value
    else:
        metadata.pop(field, None)
