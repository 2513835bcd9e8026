"""The rules of PersistentVolumes and their claims."""

from __future__ import annotations

from collections.abc import Iterator

from muster.kube.causes import forbidden, invalid, required
from muster.kube.errors import Cause
from muster.kube.names import dns_name
from muster.kube.objects import Object, spec_of
from muster.kube.placement_validation import validate_node_selector
from muster.kube.quantity import parse_quantity
from muster.kube.schemas_storage import PERSISTENT_VOLUME_SPEC
from muster.kube.validation import rule

_NOT_A_SOURCE = frozenset({
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
})  # fmt: skip
_SOURCES = tuple(sorted(PERSISTENT_VOLUME_SPEC["properties"].keys() - _NOT_A_SOURCE))
_CLAIM_IS_FIXED = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


@rule
def persistent_volume_rule(volume: Object, old: Object | None) -> Iterator[Cause]:
    spec, before = spec_of(volume), spec_of(old or {})
    if old is not None and spec is before:
        return
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "such as [ReadWriteOnce]")
    yield from _storage((spec.get("capacity") or {}).get("storage"), "spec.capacity[storage]")
    sources = [source for source in _SOURCES if spec.get(source) is not None]
    if not sources:
        yield required("spec", "must specify a volume type, such as hostPath")
    for extra in sources[1:]:
        yield forbidden(f"spec.{extra}", f"may not specify more than 1 volume type: there is {sources[0]} already")
    if spec.get("hostPath") and not spec["hostPath"]["path"]:
        yield required("spec.hostPath.path")
    elif spec.get("hostPath") and ".." in spec["hostPath"]["path"].split("/"):
        yield invalid("spec.hostPath.path", spec["hostPath"]["path"], "must not contain '..'")
    affinity = (spec.get("nodeAffinity") or {}).get("required")
    if affinity is not None:
        yield from validate_node_selector(affinity, "spec.nodeAffinity.required")
    elif spec.get("local"):
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
    if spec.get("storageClassName"):
        yield from dns_name("spec.storageClassName", spec["storageClassName"])
    if old is not None:
        for source in _SOURCES:
            if spec.get(source) != before.get(source):
                yield forbidden(f"spec.{source}", "spec.persistentvolumesource is immutable after creation")


@rule
def persistent_volume_claim_rule(claim: Object, old: Object | None) -> Iterator[Cause]:
    spec, before = spec_of(claim), spec_of(old or {})
    if old is not None and spec is before:
        return
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required, such as [ReadWriteOnce]")
    elif "ReadWriteOncePod" in spec["accessModes"] and len(spec["accessModes"]) > 1:
        why = "may not use ReadWriteOncePod with other access modes"
        yield forbidden("spec.accessModes", why)
    wanted = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    yield from _storage(wanted, "spec.resources.requests[storage]")
    if spec.get("storageClassName"):
        yield from dns_name("spec.storageClassName", spec["storageClassName"])
    if old is not None:
        yield from _claim_changes(spec, before)


def _storage(amount: str | None, field: str) -> Iterator[Cause]:
    if amount is None:
        yield required(field, "say how much, such as 1Gi")
    elif parse_quantity(amount) <= 0:
        yield invalid(field, amount, "must be greater than zero")


def _claim_changes(spec: Object, before: Object) -> Iterator[Cause]:
    for field in sorted({*spec, *before}):
        new, was = spec.get(field), before.get(field)
        if new == was or field == "volumeAttributesClassName":
            continue
        if field in ("volumeName", "storageClassName") and not was:  # how a claim is bound, or given the default class
            continue
        if field != "resources":
            yield forbidden(f"spec.{field}", _CLAIM_IS_FIXED)
            continue
        asked = parse_quantity(((new or {}).get("requests") or {}).get("storage") or 0)
        had = parse_quantity(((was or {}).get("requests") or {}).get("storage") or 0)
        if asked < had:
            yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
        elif not before.get("volumeName"):
            yield forbidden("spec.resources", _CLAIM_IS_FIXED)
