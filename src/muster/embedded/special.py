"""What sets Namespaces and CustomResourceDefinitions apart from all other objects when they are written."""

from __future__ import annotations

from muster.kube.errors import Forbidden
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, spec_of

NAMESPACES = "namespaces"
PERMANENT_NAMESPACES = ("default", "kube-system")
NAMESPACE_FINALIZER = "kubernetes"


def on_create(kind: Kind, given: Object, name: str) -> Object:
    """Before defaults and checks."""
    if kind.resource != NAMESPACES:
        return given
    metadata = given.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}
    return {**given, "metadata": {**metadata, "labels": labels}, "spec": {"finalizers": [NAMESPACE_FINALIZER]}}


def created(kind: Kind, obj: Object, now: str) -> Object:
    """After defaults and checks."""
    if kind.resource == NAMESPACES:
        return {**obj, "status": {"phase": "Active"}}
    return obj


def on_update(kind: Kind, old: Object, given: Object) -> Object:
    """A namespace's finalizers end with its contents, not by an update."""
    if kind.resource == NAMESPACES:
        return {**given, "spec": spec_of(old)}
    return given


def on_delete(kind: Kind, old: Object) -> None:
    if kind.resource == NAMESPACES and name_of(old) in PERMANENT_NAMESPACES:
        raise Forbidden(f'namespaces "{name_of(old)}" is forbidden: this namespace may not be deleted')
