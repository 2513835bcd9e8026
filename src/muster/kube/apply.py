"""Server-side apply: everyone who applies a configuration owns the fields in it, and nobody changes another's unasked.

`server_side_apply` is the apply patch. `track_update` keeps the record right when somebody changes an applied object in
another way; for an object that nobody ever applied there is no record, and nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from muster.kube.errors import BadRequest, Cause, Conflict
from muster.kube.fieldsets import Path, from_fields_v1, spell, to_fields_v1
from muster.kube.granular import BRANCH, merge_config, owned_fields, without_fields
from muster.kube.kinds import Schema
from muster.kube.objects import Object, meta
from muster.kube.patches import same_json
from muster.kube.schema import OBJECT_META

BEFORE_FIRST_APPLY = "before-first-apply"
"""Owns, as in Kubernetes, all that an object had when it was applied for the first time."""

CLIENT_SIDE_APPLY = "kubectl-client-side-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Owner(NamedTuple):
    """Who: one manager may own fields by applying and others by updating, and some of a subresource."""

    manager: str
    operation: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Holding:
    """What an owner has, and since when."""

    fields: frozenset[Path]
    time: str
    api_version: str


Record = dict[Owner, Holding]


def server_side_apply(
    current: Object | None,
    config: Object,
    schema: Schema,
    manager: str,
    force: bool,
    now: str,
    *,
    subresource: str = "",
) -> Object:
    """`current` with `config` applied by `manager`: the very object `current` if that changes nothing. Raises Conflict
    naming the owners if others own what would change, unless `force` takes it from them. What the manager applied
    before and now leaves out goes, unless others own it too. A null in `config` counts as left out.

    With a subresource, `config` must hold nothing but its part of the object."""
    if not manager:
        raise BadRequest("fieldManager is required for an apply patch: it says who owns the fields")
    if meta(config).get("managedFields"):
        raise BadRequest("metadata.managedFields must not be set in what is applied; the server writes it")
    schema = _with_metadata(schema)
    wanted = owned_fields(config, schema)
    me = Owner(manager, "Apply", subresource)
    if current is None:
        created = merge_config({}, config, schema)
        return _with_record(created, {me: Holding(frozenset(wanted), now, str(config.get("apiVersion", "")))})
    _check_same_object(current, config)
    record = _record_of(current) or _first_record(current, schema)
    before = record.pop(me, None)
    merged = merge_config(current, config, schema)
    if before is not None:
        held = frozenset().union(wanted, *(other.fields for other in record.values()))
        merged = without_fields(merged, (before.fields - held) & owned_fields(merged, schema).keys(), held, schema)
    changed, removed = _changes(owned_fields(current, schema), owned_fields(merged, schema))
    if not force:
        _refuse_conflicts(record, changed)
    record = {owner: replace(h, fields=h.fields - changed - removed) for owner, h in record.items()}
    mine = frozenset(wanted)
    since = before.time if before is not None and before.fields == mine else now
    record[me] = Holding(mine, since, str(config.get("apiVersion") or current.get("apiVersion", "")))
    applied = _with_record(_with_note(merged, config, manager), record)
    return current if same_json(applied, current) else applied


def track_update(
    old: Object | None, new: Object, schema: Schema, manager: str, now: str, *, subresource: str = ""
) -> Object:
    """`new` with a record of who owns what, after `manager` turned `old` into it by other means than apply. An object
    that nobody ever applied has no record and gets none: that is the quick way out. Whoever sends
    `managedFields: [{}]` erases the record."""
    kept = (meta(old).get("managedFields") or []) if old is not None else []
    sent = meta(new).get("managedFields")
    if old is None or not kept or sent == [{}]:
        return new if sent is None else _with_record(new, {})
    record = _record_of(new) or _record_of(old)
    touched = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    schema = _with_metadata(schema)
    changed, removed = _changes(
        owned_fields({name: old[name] for name in touched if name in old}, schema),
        owned_fields({name: new[name] for name in touched if name in new}, schema),
    )
    if not changed and not removed:
        return new if sent == kept else _with_record(new, record)
    me = Owner(manager, "Update", subresource)
    before = record.pop(me, None)
    record = {owner: replace(h, fields=h.fields - changed - removed) for owner, h in record.items()}
    mine = ((before.fields if before is not None else frozenset()) | changed) - removed
    since = before.time if before is not None and before.fields == mine else now
    record[me] = Holding(mine, since, str(new.get("apiVersion", "")))
    return _with_record(new, record)


def _changes(before: Mapping[Path, Any], after: Mapping[Path, Any]) -> tuple[frozenset[Path], frozenset[Path]]:
    """(those that are new or have another value, those that are gone)"""
    changed = frozenset(
        path for path, value in after.items() if path not in before or not _unchanged(before[path], value)
    )
    return changed, frozenset(before.keys() - after.keys())


def _unchanged(before: Any, after: Any) -> bool:
    return before is after or (BRANCH not in (before, after) and same_json(before, after))


def _refuse_conflicts(record: Record, changed: frozenset[Path]) -> None:
    conflicts = {
        owner: sorted(held.fields & changed) for owner, held in sorted(record.items()) if held.fields & changed
    }
    if not conflicts:
        return
    causes = [
        Cause(spell(path), f"conflict with {_introduce(owner, record)}", "FieldManagerConflict")
        for owner, paths in conflicts.items()
        for path in paths
    ]
    if len(causes) == 1:
        details = f"conflict: {causes[0].message}: {causes[0].field}"
    else:
        listed = "\n".join(
            f"conflicts with {_introduce(owner, record)}:\n" + "\n".join(f"- {spell(path)}" for path in paths)
            for owner, paths in conflicts.items()
        )
        details = f"conflicts: {listed}"
    raise Conflict(f"Apply failed with {len(causes)} {details}", causes=causes)


def _introduce(owner: Owner, record: Record) -> str:
    subresource = f' with subresource "{owner.subresource}"' if owner.subresource else ""
    version = f" using {record[owner].api_version}" if owner.operation == "Update" else ""
    return f'"{owner.manager}"{subresource}{version}'


def _check_same_object(current: Object, config: Object) -> None:
    for name in ("resourceVersion", "uid"):
        asked = meta(config).get(name)
        if asked and asked != meta(current).get(name):
            raise Conflict(
                f"the object to apply to has {name} {meta(current).get(name)}, not {asked}; read it again, or leave"
                f" metadata.{name} out"
            )


def _record_of(obj: Object) -> Record:
    record: Record = {}
    for entry in meta(obj).get("managedFields") or ():
        owner = Owner(entry.get("manager", ""), entry.get("operation", "Update"), entry.get("subresource", ""))
        record[owner] = Holding(
            frozenset(from_fields_v1(entry.get("fieldsV1") or {})), entry.get("time", ""), entry.get("apiVersion", "")
        )
    return record


def _first_record(current: Object, schema: Schema) -> Record:
    """The status is left out: its writers show themselves with their next update. What kubectl applied by itself, it
    has left a note about; when it moves on to server-side apply, it takes over what the owner of the note owns."""
    fields = frozenset(owned_fields({name: value for name, value in current.items() if name != "status"}, schema))
    kubectls = fields & _applied_by_kubectl(current, schema)
    since, version = meta(current).get("creationTimestamp", ""), str(current.get("apiVersion", ""))
    holdings = {BEFORE_FIRST_APPLY: fields - kubectls, CLIENT_SIDE_APPLY: kubectls}
    return {Owner(name, "Update"): Holding(held, since, version) for name, held in holdings.items() if held}


def _with_note(merged: Object, config: Object, manager: str) -> Object:
    """kubectl's note must not fall behind what kubectl applies on the server: somebody may apply from a client again,
    and would delete what the note says they once had."""
    annotations = meta(merged).get("annotations") or {}
    if manager != "kubectl" or LAST_APPLIED not in annotations:
        return merged
    others = {name: value for name, value in (meta(config).get("annotations") or {}).items() if name != LAST_APPLIED}
    metadata = {name: value for name, value in meta(config).items() if name != "annotations"}
    noted = {**config, "metadata": {**metadata, **({"annotations": others} if others else {})}}
    note = orjson.dumps(noted, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE).decode()
    return {**merged, "metadata": {**meta(merged), "annotations": {**annotations, LAST_APPLIED: note}}}


def _applied_by_kubectl(current: Object, schema: Schema) -> frozenset[Path]:
    note = (meta(current).get("annotations") or {}).get(LAST_APPLIED)
    try:
        config = orjson.loads(note or b"null")
    except orjson.JSONDecodeError:
        return frozenset()
    if not isinstance(config, dict):
        return frozenset()
    noted = {"metadata": {"annotations": {LAST_APPLIED: note}}}
    return frozenset((*owned_fields(config, schema), *owned_fields(noted, schema)))


def _with_record(obj: Object, record: Record) -> Object:
    metadata = {name: value for name, value in meta(obj).items() if name != "managedFields"}
    if entries := list(_entries(record)):
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}


def _entries(record: Record) -> Iterable[dict[str, Any]]:
    ordered = sorted(record.items(), key=lambda held: (held[0].operation, held[1].time, held[0]))
    for owner, held in ordered:
        if not held.fields:
            continue
        entry = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": held.api_version,
            "time": held.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(held.fields),
            "subresource": owner.subresource,
        }
        yield {name: value for name, value in entry.items() if value}


def _with_metadata(schema: Schema) -> Schema:
    """A custom kind's schema says nothing of metadata, which is the same everywhere."""
    properties = schema.get("properties") or {}
    if (properties.get("metadata") or {}).get("properties"):
        return schema
    return {**schema, "properties": {"apiVersion": {}, "kind": {}, **properties, "metadata": OBJECT_META}}
