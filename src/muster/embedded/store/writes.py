"""The writes of the API, each a function of one transaction: all of it happens, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from muster.embedded.store import quotas, status_rows, write_hooks
from muster.embedded.store.admission import (
    KEEPS_STATUS_ON_CREATE,
    FieldValidation,
    admit_change,
    admit_new,
    admit_status,
    check_metadata,
    generate_name,
    private_copy,
)
from muster.embedded.store.deletion import is_released, plan_deletion
from muster.embedded.store.view import Transaction
from muster.kube.cluster import PatchType, Propagation, Subresource
from muster.kube.errors import (
    AlreadyExists,
    BadRequest,
    Cause,
    Conflict,
    Invalid,
    NotFound,
    UnsupportedMediaType,
    required,
)
from muster.kube.kinds import Kind, Scale, Schema, invalid_object
from muster.kube.objects import Key, Object, is_deleting, set_condition, spec_of, status_of, uid_of, version_of
from muster.kube.patches import json_patch, merge_patch, strategic_merge
from muster.kube.schema import OBJECT_META, STRING
from muster.kube.schema_validation import validate
from muster.kube.server_side_apply import server_side_apply, track_update

NAMES_TO_TRY = 8


class WriteOptions(NamedTuple):
    """What all writes of an object have in common: who writes, how, and when."""

    now: str
    subresource: Subresource = ""
    manager: str = "muster"
    force: bool = False
    mode: FieldValidation = "Strict"
    has_null: bool = False
    """Whether the body contains a null, which is rare and needs an extra pass."""


def create(tx: Transaction, kind: Kind, given: Object, now: str) -> Object:
    """`given` must be a private copy."""
    if "managedFields" in (given.get("metadata") or {}):
        del given["metadata"]["managedFields"]
    return _create(tx, kind, given, now)


def _create(tx: Transaction, kind: Kind, given: Object, now: str) -> Object:
    metadata = given.get("metadata") or {}
    if metadata.get("resourceVersion"):
        raise BadRequest("metadata.resourceVersion must not be set on an object to be created")
    namespace = _namespace_for(kind, metadata.get("namespace") or "")
    write_hooks.check_can_create(tx, kind, namespace)
    name = _free_name(tx, kind, namespace, given)
    obj = admit_new(kind, write_hooks.before_create(kind, given), name, namespace, now)
    made = quotas.apply_limit_ranges(tx, kind, write_hooks.after_create(kind, obj, now))
    write_hooks.check_confined(tx, kind, None, made)
    quotas.charge_quotas(tx, kind, None, made)
    return status_rows.put_object(tx, kind, write_hooks.before_store(tx, kind, made))


def update(tx: Transaction, kind: Kind, given: Object, request: WriteOptions) -> Object:
    """`given` must be a private copy."""
    metadata = given.get("metadata") or {}
    name = metadata.get("name")
    if not name:
        raise BadRequest("metadata.name: an update requires the name of the object")
    old = get_existing(tx, kind, object_key(kind, name, metadata.get("namespace") or ""))
    check_preconditions(kind, old, metadata.get("uid") or "", metadata.get("resourceVersion") or "")
    if request.subresource == "status":
        new = _new_status(kind, old, given)
    elif request.subresource == "scale":
        scale = given if given.get("kind") == "Scale" else to_scale(kind, given)
        new = admit_change(kind, old, apply_scale(kind, old, scale))
    else:
        new = admit_change(kind, old, write_hooks.before_update(kind, old, given))
    return store_or_remove(tx, kind, old, _track_fields(kind, old, new, request))


def patch(tx: Transaction, kind: Kind, key: Key, body: Any, type: PatchType, request: WriteOptions) -> Object:
    """`body` must be a private copy. Runs against the newest state, so it never has to be retried."""
    old = tx.get(kind.resource, key)
    if type == "apply":
        return _apply(tx, kind, key, old, body, request)
    if old is None:
        raise not_found(kind, key.name)
    if request.subresource == "scale":
        scale = apply_patch(to_scale(kind, old), body, type, {})
        check_preconditions(kind, old, uid_of(scale), version_of(scale))
        new = admit_change(kind, old, apply_scale(kind, old, scale))
        return to_scale(kind, store_or_remove(tx, kind, old, _track_fields(kind, old, new, request)))
    given = apply_patch(status_rows.patch_base(tx, kind, old, body), body, type, kind.schema)
    _check_identity(kind, old, given)
    check_preconditions(kind, old, uid_of(given), version_of(given))
    if request.mode != "Strict" or request.has_null:
        given = private_copy(kind, given, request.mode)
    if request.subresource == "status":
        new = _new_status(kind, old, given)
    else:
        new = admit_change(kind, old, write_hooks.before_update(kind, old, given))
    return store_or_remove(tx, kind, old, _track_fields(kind, old, new, request))


def delete(
    tx: Transaction,
    kind: Kind,
    key: Key,
    propagation: Propagation,
    grace_seconds: int | None,
    uid: str,
    version: str,
    now: datetime,
) -> Object:
    old = get_existing(tx, kind, key)
    check_preconditions(kind, old, uid, version)
    write_hooks.before_delete(kind, old)
    plan = plan_deletion(kind, old, propagation, grace_seconds, now)
    if plan.remove:
        return status_rows.remove_object(tx, kind, plan.object)
    return store_or_remove(tx, kind, old, plan.object)


def bind(tx: Transaction, kind: Kind, bindings: Sequence[tuple[Key, str, str]], now: str) -> list[Object]:
    """Assigns every Pod to its node, or raises and assigns none."""
    bound = []
    for key, uid, node in bindings:
        pod = tx.get(kind.resource, key)
        if pod is None or (uid and uid_of(pod) != uid):
            raise Conflict(f'pod "{key}" cannot be bound to {node}: it is gone')
        if is_deleting(pod):
            raise Conflict(f'pod "{key}" cannot be bound to {node}: it is being deleted')
        if taken := spec_of(pod).get("nodeName"):
            raise Conflict(f'pod "{key}" cannot be bound to {node}: it is already bound to {taken}')
        status = status_of(pod)
        conditions = set_condition(status.get("conditions"), "PodScheduled", "True", now=now)
        bound.append(
            tx.put(
                kind.resource,
                {
                    **pod,
                    "metadata": {**pod["metadata"]},
                    "spec": {**spec_of(pod), "nodeName": node},
                    "status": {**status, "conditions": conditions},
                },
            )
        )
    return bound


def store_or_remove(tx: Transaction, kind: Kind, old: Object, new: Object) -> Object:
    """Stores the new state of `old`, or removes it if its deletion was only waiting for this change."""
    if new is old:
        return old
    if is_deleting(new) and is_released(kind, new):
        return status_rows.remove_object(tx, kind, new)
    write_hooks.check_confined(tx, kind, old, new)
    quotas.charge_quotas(tx, kind, old, new)
    if kind.resource == quotas.QUOTAS and spec_of(new) is not spec_of(old):
        new = quotas.with_usage(tx, new)
    return status_rows.put_object(tx, kind, {**new, "metadata": {**new["metadata"]}})


def get_existing(tx: Transaction, kind: Kind, key: Key) -> Object:
    found = tx.get(kind.resource, key)
    if found is None:
        raise not_found(kind, key.name)
    return found


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found')


def object_key(kind: Kind, name: str, namespace: str) -> Key:
    if kind.namespaced:
        return Key(namespace or "default", name)
    return Key("", name)


def check_preconditions(kind: Kind, obj: Object, uid: str, version: str) -> None:
    """Raises Conflict unless uid and version, where given, are those of the object."""
    found = obj["metadata"]
    prefix = f'Operation cannot be fulfilled on {kind.resource} "{found["name"]}": '
    if uid and uid != found["uid"]:
        raise Conflict(f"{prefix}Precondition failed: UID in precondition: {uid}, UID in object meta: {found['uid']}")
    if version and version != found["resourceVersion"]:
        raise Conflict(
            f"{prefix}the object has been modified; please apply your changes to the latest version and try again"
        )


def _namespace_for(kind: Kind, namespace: str) -> str:
    if not kind.namespaced:
        if namespace:
            raise BadRequest(f"metadata.namespace: a {kind.kind} is cluster-scoped; remove the namespace")
        return ""
    return namespace or "default"


def _free_name(tx: Transaction, kind: Kind, namespace: str, given: Object) -> str:
    metadata = given.get("metadata") or {}
    name, base = metadata.get("name"), metadata.get("generateName")
    for field, value in (("name", name), ("generateName", base)):
        if value and not isinstance(value, str):
            raise invalid_object(kind, given, validate(value, STRING, f"metadata.{field}"))
    if name:
        if tx.get(kind.resource, Key(namespace, name)) is None:
            return str(name)
        raise AlreadyExists(f'{kind.resource} "{name}" already exists')
    if not base:
        raise invalid_object(kind, given, [required("metadata.name", "name or generateName is required")])
    for _ in range(NAMES_TO_TRY):
        name = generate_name(base)
        if tx.get(kind.resource, Key(namespace, name)) is None:
            return name
    raise AlreadyExists(f'{kind.resource}: found no free name that begins with "{base}"; try again')


def _new_status(kind: Kind, old: Object, given: Object) -> Object:
    if not kind.has_status:
        raise NotFound(f"{kind.resource} have no status subresource; update the object itself")
    return admit_status(kind, _with_new_labels(kind, old, given), given.get("status"))


def _with_new_labels(kind: Kind, old: Object, given: Object) -> Object:
    """As in Kubernetes, the status of a built-in kind may be written together with labels and annotations. Custom kinds
    ignore them."""
    if not kind.is_builtin:
        return old
    new = given.get("metadata") or {}
    changed = {
        field: new[field]
        for field in ("labels", "annotations")
        if field in new and (new[field] or {}) != (old["metadata"].get(field) or {})
    }
    if not changed:
        return old
    metadata = {field: value for field, value in {**old["metadata"], **changed}.items() if value not in (None, {})}
    causes = validate(changed, OBJECT_META, "metadata") or check_metadata(kind, metadata, old["metadata"])
    if causes:
        raise invalid_object(kind, old, causes)
    return {**old, "metadata": metadata}


def _apply(tx: Transaction, kind: Kind, key: Key, old: Object | None, config: Any, request: WriteOptions) -> Object:
    if not isinstance(config, dict):
        raise BadRequest("an apply patch must be an object")
    if request.subresource == "scale":
        raise BadRequest("scale does not accept apply patches; send a merge patch")
    metadata = config.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata: must be an object")
    identity = {"name": key.name, "namespace": key.namespace} if kind.namespaced else {"name": key.name}
    config = {**config, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**metadata, **identity}}
    if request.subresource == "status":
        config = {field: config[field] for field in ("apiVersion", "kind", "status") if field in config}
        config["metadata"] = identity
    elif kind.has_status and (old is not None or kind.resource not in KEEPS_STATUS_ON_CREATE):
        config.pop(
            "status", None
        )  # only the subresource can write it, so an applier of the whole object does not own it
    config = private_copy(kind, config, request.mode)
    if old is None and request.subresource:
        raise not_found(kind, key.name)
    applied = server_side_apply(
        old, config, kind.schema, request.manager, request.force, request.now, subresource=request.subresource
    )
    if old is None:
        return _create(tx, kind, applied, request.now)
    if applied is old:
        return old
    if request.subresource != "status":
        return store_or_remove(tx, kind, old, admit_change(kind, old, write_hooks.before_update(kind, old, applied)))
    new = _new_status(kind, old, applied)
    managed = applied["metadata"].get("managedFields")
    return store_or_remove(tx, kind, old, {**new, "metadata": {**new["metadata"], "managedFields": managed}})


def _track_fields(kind: Kind, old: Object, new: Object, request: WriteOptions) -> Object:
    """Updates managedFields, for objects that have them."""
    if new is old or not ("managedFields" in old["metadata"] or "managedFields" in new["metadata"]):
        return new
    return track_update(old, new, kind.schema, request.manager, request.now, subresource=request.subresource)


def _check_identity(kind: Kind, old: Object, new: Object) -> None:
    metadata = new.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRequest("a patch cannot remove the metadata of an object")
    for field in ("name", "namespace"):
        if metadata.get(field, "") != old["metadata"].get(field, ""):
            raise BadRequest(f"metadata.{field}: a patch cannot change the {field} of an object")
    if new.get("kind") != kind.kind:
        raise BadRequest("kind: a patch cannot change the kind of an object")


def apply_patch(obj: Object, body: Any, type: PatchType, schema: Schema) -> Object:
    """Returns a new object. Parts that the patch does not change may be shared with `obj`."""
    if type == "json":
        if not isinstance(body, list):
            raise BadRequest("a JSON patch must be a list of operations; to send an object, use a merge patch")
        result = json_patch(obj, body)
    elif not isinstance(body, dict):
        raise BadRequest(f"a {type} patch must be an object")
    elif type == "merge":
        result = merge_patch(obj, body)
    elif type == "strategic":
        result = strategic_merge(obj, body, schema)
    else:
        raise UnsupportedMediaType(f'"{type}" is not a patch type: use merge, json, strategic or apply')
    if not isinstance(result, dict):
        raise BadRequest("the patch removes the whole object")
    return result


def to_scale(kind: Kind, obj: Object) -> Object:
    """Returns the autoscaling/v1 Scale of an object. Raises NotFound for a kind without replicas."""
    scale = _scale(kind)
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _get_path(obj, scale.status_replicas) or 0}
    if scale.selector and (selector := _get_path(obj, scale.selector)):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": _get_path(obj, scale.replicas) or 0},
        "status": status,
    }


def apply_scale(kind: Kind, obj: Object, wanted: Object) -> Object:
    """Returns the object with the number of replicas of a Scale."""
    scale = _scale(kind)
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if type(replicas) is not int or replicas < 0:
        why = f"Invalid value: {replicas!r}: must be a whole number, 0 or more"
        raise Invalid(
            f'Scale "{obj["metadata"]["name"]}" is invalid: spec.replicas: {why}', causes=[Cause("spec.replicas", why)]
        )
    result = _set_path(obj, _path_parts(scale.replicas), replicas)
    assert isinstance(result, dict)
    return result


def _scale(kind: Kind) -> Scale:
    if kind.scale is None:
        raise NotFound(f"{kind.resource} cannot be scaled: the kind has no replicas")
    return kind.scale


def _path_parts(path: str) -> list[str]:
    return [step for step in path.split(".") if step]


def _get_path(obj: Any, path: str) -> Any:
    for step in _path_parts(path):
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _set_path(obj: Any, steps: list[str], value: Any) -> Any:
    if not steps:
        return value
    inner = obj if isinstance(obj, dict) else {}
    return {**inner, steps[0]: _set_path(inner.get(steps[0]), steps[1:], value)}
