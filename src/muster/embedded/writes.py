"""The writes of the API, each as a function of one transaction: all of it happens, or none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from muster.embedded import apart, special
from muster.embedded.admission import (
    KEEPS_STATUS_ON_CREATE,
    FieldValidation,
    admit_change,
    admit_new,
    admit_status,
    invalid_object,
    private_copy,
)
from muster.embedded.deletion import decide, is_released
from muster.embedded.metadata import generated_name
from muster.embedded.patching import patched
from muster.embedded.scale import scale_of, scaled
from muster.embedded.transaction import Transaction
from muster.kube.apply import server_side_apply, track_update
from muster.kube.causes import required
from muster.kube.cluster import PatchType, Propagation, Subresource
from muster.kube.conditions import set_condition
from muster.kube.errors import AlreadyExists, BadRequest, Conflict, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, is_deleting, spec_of, status_of, uid_of, version_of
from muster.kube.schema import STRING, validate

NAMES_TO_TRY = 8


class Request(NamedTuple):
    """What the writes of an object share: by whom, how, and when."""

    now: str
    subresource: Subresource = ""
    manager: str = "muster"
    force: bool = False
    mode: FieldValidation = "Strict"
    has_null: bool = False
    """Whether there is a null in the body: rare, and then it is worth a second look."""


def create(tx: Transaction, kind: Kind, given: Object, now: str) -> Object:
    """`given` must be a private copy."""
    if "managedFields" in (given.get("metadata") or {}):
        del given["metadata"]["managedFields"]
    return _create(tx, kind, given, now)


def _create(tx: Transaction, kind: Kind, given: Object, now: str) -> Object:
    metadata = given.get("metadata") or {}
    if metadata.get("resourceVersion"):
        raise BadRequest("metadata.resourceVersion must not be set on an object that is to be created")
    namespace = _namespace_for(kind, metadata.get("namespace") or "")
    special.require_room(tx, kind, namespace)
    name = _free_name(tx, kind, namespace, given)
    obj = admit_new(kind, special.before_create(kind, given), name, namespace, now)
    return apart.put(tx, kind, special.after_create(kind, obj, now))


def update(tx: Transaction, kind: Kind, given: Object, request: Request) -> Object:
    """`given` must be a private copy."""
    metadata = given.get("metadata") or {}
    name = metadata.get("name")
    if not name:
        raise BadRequest("metadata.name: an update needs the name of the object")
    old = existing(tx, kind, key_for(kind, name, metadata.get("namespace") or ""))
    require(kind, old, metadata.get("uid") or "", metadata.get("resourceVersion") or "")
    if request.subresource == "status":
        new = _new_status(kind, old, given)
    elif request.subresource == "scale":
        scale = given if given.get("kind") == "Scale" else scale_of(kind, given)
        new = admit_change(kind, old, scaled(kind, old, scale))
    else:
        new = admit_change(kind, old, special.before_update(kind, old, given))
    return finish(tx, kind, old, _tracked(kind, old, new, request))


def patch(tx: Transaction, kind: Kind, key: Key, body: Any, type: PatchType, request: Request) -> Object:
    """`body` must be a private copy. Runs against the newest state, so it never needs to be repeated."""
    old = tx.get(kind.resource, key)
    if type == "apply":
        return _apply(tx, kind, key, old, body, request)
    if old is None:
        raise missing(kind, key.name)
    if request.subresource == "scale":
        scale = patched(scale_of(kind, old), body, type, {})
        require(kind, old, uid_of(scale), version_of(scale))
        new = admit_change(kind, old, scaled(kind, old, scale))
        return scale_of(kind, finish(tx, kind, old, _tracked(kind, old, new, request)))
    given = patched(apart.base_of(tx, kind, old, body), body, type, kind.schema)
    _same_identity(kind, old, given)
    require(kind, old, uid_of(given), version_of(given))
    if request.mode != "Strict" or request.has_null:
        given = private_copy(kind, given, request.mode)
    if request.subresource == "status":
        new = _new_status(kind, old, given)
    else:
        new = admit_change(kind, old, special.before_update(kind, old, given))
    return finish(tx, kind, old, _tracked(kind, old, new, request))


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
    old = existing(tx, kind, key)
    require(kind, old, uid, version)
    special.before_delete(kind, old)
    verdict = decide(kind, old, propagation, grace_seconds, now)
    if verdict.remove:
        return apart.remove(tx, kind, old)
    return finish(tx, kind, old, verdict.object)


def bind(tx: Transaction, kind: Kind, bindings: Sequence[tuple[Key, str, str]], now: str) -> list[Object]:
    """Gives every Pod its node, or raises and gives none."""
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


def finish(tx: Transaction, kind: Kind, old: Object, new: Object) -> Object:
    """Stores what became of `old`, or removes it if that was all it was waiting for."""
    if new is old:
        return old
    if is_deleting(new) and is_released(kind, new):
        return apart.remove(tx, kind, new)
    return apart.put(tx, kind, {**new, "metadata": {**new["metadata"]}})


def existing(tx: Transaction, kind: Kind, key: Key) -> Object:
    found = tx.get(kind.resource, key)
    if found is None:
        raise missing(kind, key.name)
    return found


def missing(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found')


def key_for(kind: Kind, name: str, namespace: str) -> Key:
    if kind.namespaced:
        return Key(namespace or "default", name)
    return Key("", name)


def require(kind: Kind, obj: Object, uid: str, version: str) -> None:
    """What the caller believes of the object must still be so."""
    found = obj["metadata"]
    refused = f'Operation cannot be fulfilled on {kind.resource} "{found["name"]}": '
    if uid and uid != found["uid"]:
        raise Conflict(f"{refused}Precondition failed: UID in precondition: {uid}, UID in object meta: {found['uid']}")
    if version and version != found["resourceVersion"]:
        raise Conflict(
            f"{refused}the object has been modified; please apply your changes to the latest version and try again"
        )


def _namespace_for(kind: Kind, namespace: str) -> str:
    if not kind.namespaced:
        if namespace:
            raise BadRequest(f"metadata.namespace: a {kind.kind} belongs to no namespace; leave it out")
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
        name = generated_name(base)
        if tx.get(kind.resource, Key(namespace, name)) is None:
            return name
    raise AlreadyExists(f'{kind.resource}: no free name that begins with "{base}" was found; try again')


def _new_status(kind: Kind, old: Object, given: Object) -> Object:
    if not kind.has_status:
        raise NotFound(f"{kind.resource} have no status of their own; update the object itself")
    return admit_status(kind, old, given.get("status"))


def _apply(tx: Transaction, kind: Kind, key: Key, old: Object | None, config: Any, request: Request) -> Object:
    if not isinstance(config, dict):
        raise BadRequest("an apply patch is an object")
    if request.subresource == "scale":
        raise BadRequest("scale takes no apply patch; send a merge patch")
    metadata = config.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata: must be an object")
    identity = {"name": key.name, "namespace": key.namespace} if kind.namespaced else {"name": key.name}
    config = {**config, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**metadata, **identity}}
    if request.subresource == "status":
        config = {field: config[field] for field in ("apiVersion", "kind", "status") if field in config}
        config["metadata"] = identity
    elif kind.has_status and (old is not None or kind.resource not in KEEPS_STATUS_ON_CREATE):
        config.pop("status", None)  # an applier of the whole object does not own what only the subresource can write
    config = private_copy(kind, config, request.mode)
    if old is None and request.subresource:
        raise missing(kind, key.name)
    applied = server_side_apply(
        old, config, kind.schema, request.manager, request.force, request.now, subresource=request.subresource
    )
    if old is None:
        return _create(tx, kind, applied, request.now)
    if applied is old:
        return old
    if request.subresource != "status":
        return finish(tx, kind, old, admit_change(kind, old, special.before_update(kind, old, applied)))
    new = _new_status(kind, old, applied)
    managed = applied["metadata"].get("managedFields")
    return finish(tx, kind, old, {**new, "metadata": {**new["metadata"], "managedFields": managed}})


def _tracked(kind: Kind, old: Object, new: Object, request: Request) -> Object:
    """Keeps the record of who owns which field, for objects that have one."""
    if new is old or not ("managedFields" in old["metadata"] or "managedFields" in new["metadata"]):
        return new
    return track_update(old, new, kind.schema, request.manager, request.now, subresource=request.subresource)


def _same_identity(kind: Kind, old: Object, new: Object) -> None:
    metadata = new.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRequest("a patch cannot take away the metadata of an object")
    for field in ("name", "namespace"):
        if metadata.get(field, "") != old["metadata"].get(field, ""):
            raise BadRequest(f"metadata.{field}: a patch cannot give an object another {field}")
    if new.get("kind") != kind.kind:
        raise BadRequest("kind: a patch cannot make an object one of another kind")
