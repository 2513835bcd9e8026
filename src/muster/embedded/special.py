"""What sets Namespaces and CustomResourceDefinitions apart from all other objects when they are written."""

from __future__ import annotations

from muster.embedded.admission import warn
from muster.embedded.transaction import Transaction
from muster.kube.conditions import set_condition
from muster.kube.crd_validation import unheeded
from muster.kube.errors import Forbidden, MethodNotAllowed, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, is_deleting, name_of, spec_of

NAMESPACES = "namespaces"
PERMANENT_NAMESPACES = ("default", "kube-system")
CONTENTS = "kubernetes"
"""What a namespace waits for, in `spec.finalizers`, when it is deleted."""

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
CUSTOM_OBJECTS = "customresourcecleanup.apiextensions.k8s.io"
"""What a definition waits for, in `metadata.finalizers`, when it is deleted."""


def require_room(tx: Transaction, kind: Kind, namespace: str) -> None:
    """Where an object is to be created, there must be a namespace, and neither it nor the kind on its way out."""
    if namespace:
        found = tx.get(NAMESPACES, Key("", namespace))
        if found is None:
            raise NotFound(f'namespaces "{namespace}" not found')
        if is_deleting(found):
            raise Forbidden(f"unable to create new content in namespace {namespace} because it is being terminated")
    if "." in kind.group:
        definition = tx.get(CRDS, Key("", kind.resource))
        if definition is not None and is_deleting(definition):
            raise MethodNotAllowed(f"{kind.resource} cannot be created: their definition is being deleted")


def before_create(kind: Kind, given: Object) -> Object:
    """Before defaults and checks."""
    if kind.resource == NAMESPACES:
        return {**given, "spec": {"finalizers": [CONTENTS]}}
    if kind.resource == CRDS:
        metadata = given.get("metadata") or {}
        held = [f for f in metadata.get("finalizers") or () if f != CUSTOM_OBJECTS]
        return {**given, "metadata": {**metadata, "finalizers": [*held, CUSTOM_OBJECTS]}}
    return given


def after_create(kind: Kind, obj: Object, now: str) -> Object:
    """After defaults and checks."""
    if kind.resource != CRDS:
        return obj
    for cause in unheeded(obj):
        warn(f"{cause.field}: {cause.message}")
    spec = spec_of(obj)
    conditions = set_condition([], "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    conditions = set_condition(conditions, "Established", "True", "InitialNamesAccepted", "the kind can be used", now)
    stored = [version["name"] for version in spec["versions"] if version["storage"]]
    return {**obj, "status": {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}}


def before_update(kind: Kind, old: Object, given: Object) -> Object:
    """A namespace's finalizers end with its contents, not by an update."""
    return {**given, "spec": spec_of(old)} if kind.resource == NAMESPACES else given


def before_delete(kind: Kind, old: Object) -> None:
    if kind.resource == NAMESPACES and name_of(old) in PERMANENT_NAMESPACES:
        raise Forbidden(f'namespaces "{name_of(old)}" is forbidden: this namespace may not be deleted')
