"""Hooks on writes of Namespaces and CustomResourceDefinitions, and on everything that restricted namespaces confine.

A CustomResourceDefinition registers its kinds in the catalogue. A kind that a package has registered itself stays as
the package made it; the definition is stored all the same, so that manifests which bring their definitions along can be
applied unchanged.
"""

from __future__ import annotations

import logging

from muster.embedded.store.admission import warn
from muster.embedded.store.history import Change
from muster.embedded.store.quotas import QUOTAS, with_usage
from muster.embedded.store.store import Store
from muster.embedded.store.view import Transaction
from muster.kube.budgets import setting_name
from muster.kube.crd import kinds_from_crd, unsupported_crd_fields
from muster.kube.defaults import add_api_access, remove_api_access
from muster.kube.errors import Cause, Forbidden, Invalid, MethodNotAllowed, NotFound
from muster.kube.kinds import Catalogue, Kind
from muster.kube.objects import (
    Key,
    Object,
    is_deleting,
    name_of,
    namespace_of,
    set_condition,
    spec_of,
)
from muster.kube.pod_fields import (
    find_claim_violations,
    find_pod_group_violations,
    find_pod_violations,
    find_service_violations,
)
from muster.kube.pod_security import (
    Violation,
    find_changed_run,
    find_origin,
    grants_for,
    is_restricted,
    read_grants,
)

NAMESPACES = "namespaces"
PODS = "pods"
PERMANENT_NAMESPACES = ("default", "kube-system")
CONTENTS_FINALIZER = "kubernetes"
"""In `spec.finalizers` of a namespace: its deletion waits until it is empty."""

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""In `metadata.finalizers` of a definition: its deletion waits until its objects are gone."""


def check_can_create(tx: Transaction, kind: Kind, namespace: str) -> None:
    """Raises unless the namespace exists, and neither it nor the kind's definition is being deleted."""
    if namespace:
        found = tx.get(NAMESPACES, Key("", namespace))
        if found is None:
            raise NotFound(f'namespaces "{namespace}" not found')
        if is_deleting(found):
            raise Forbidden(f"unable to create new content in namespace {namespace} because it is being terminated")
        if tx.weight(namespace) > tx.member_megabytes << 20 and is_restricted(found):
            raise namespace_full(namespace, tx.member_megabytes)
    if "." in kind.group:
        definition = tx.get(CRDS, Key("", kind.resource))
        if definition is not None and is_deleting(definition):
            raise MethodNotAllowed(f"{kind.resource} cannot be created: the CustomResourceDefinition is being deleted")


def namespace_full(namespace: str, megabytes: int) -> Forbidden:
    return Forbidden(
        f'the objects of the namespace "{namespace}" take more than {megabytes} MB of memory '
        f"({setting_name('member_object_megabytes')}); delete some first"
    )


def before_create(kind: Kind, given: Object) -> Object:
    """Runs before defaults and checks."""
    if kind.resource == NAMESPACES:
        return {**given, "spec": {"finalizers": [CONTENTS_FINALIZER]}}
    if kind.resource == CRDS:
        metadata = given.get("metadata") or {}
        held = [f for f in metadata.get("finalizers") or () if f != CRD_FINALIZER]
        return {**given, "metadata": {**metadata, "finalizers": [*held, CRD_FINALIZER]}}
    if kind.resource == PODS and isinstance(given.get("spec"), dict):
        spec = remove_api_access(given["spec"])
        return given if spec is given["spec"] else {**given, "spec": spec}
    return given


def after_create(kind: Kind, obj: Object, now: str) -> Object:
    """Runs after defaults and checks."""
    if kind.resource != CRDS:
        return obj
    for cause in unsupported_crd_fields(obj):
        warn(f"{cause.field}: {cause.message}")
    spec = spec_of(obj)
    conditions = set_condition([], "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    conditions = set_condition(conditions, "Established", "True", "InitialNamesAccepted", "the kind can be used", now)
    stored = [version["name"] for version in spec["versions"] if version["storage"]]
    return {**obj, "status": {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}}


def before_store(tx: Transaction, kind: Kind, obj: Object) -> Object:
    """Runs last, on a new object that is valid and allowed: adds what no user asked for."""
    if kind.resource == QUOTAS:
        return with_usage(tx, obj)
    if kind.resource != PODS:
        return obj
    spec = obj["spec"]
    account = tx.get("serviceaccounts", Key(namespace_of(obj), spec["serviceAccountName"]))
    if account is not None and account.get("automountServiceAccountToken") is False:
        spec = {"automountServiceAccountToken": False, **spec}
    return {**obj, "spec": add_api_access(spec)}


def before_update(kind: Kind, old: Object, given: Object) -> Object:
    """An update cannot remove the finalizers of a namespace."""
    return {**given, "spec": spec_of(old)} if kind.resource == NAMESPACES else given


def before_delete(kind: Kind, old: Object) -> None:
    if kind.resource == NAMESPACES and name_of(old) in PERMANENT_NAMESPACES:
        raise Forbidden(f'namespaces "{name_of(old)}" is forbidden: this namespace may not be deleted')


CONFINED = frozenset({
    "pods", "persistentvolumeclaims", "services", "podgroups.scheduling.volcano.sh", "podgroups.scheduling.x-k8s.io",
    "workflows.argoproj.io",
})  # fmt: skip
"""Resources that are checked in restricted namespaces."""
_MOST_SHOWN = 20


def check_confined(tx: Transaction, kind: Kind, old: Object | None, new: Object) -> None:
    """Raises Forbidden if an object of a restricted namespace reaches beyond it. It runs on every write of
    every user. Existing violations may stay, so that Pods from before a namespace was restricted can be stopped."""
    if kind.resource not in CONFINED:
        return
    if old is not None and new.get("spec") is old.get("spec") and _same_metadata(old["metadata"], new["metadata"]):
        return
    namespace = tx.get(NAMESPACES, Key("", namespace_of(new)))
    if namespace is None or not is_restricted(namespace):
        return
    if kind.resource == "workflows.argoproj.io":
        found = find_changed_run(old, new) if old is not None else []
    else:
        found = _violations(tx, kind, namespace, new)
    if found and old is not None and kind.resource != "workflows.argoproj.io":
        before = set(map(str, _violations(tx, kind, namespace, old)))
        found = [each for each in found if str(each) not in before]
    if found:
        told = "; ".join(map(str, found[:_MOST_SHOWN]))
        raise Forbidden(
            f'{kind.resource} "{name_of(new)}" is forbidden in the restricted namespace "{name_of(namespace)}": {told}',
            causes=[Cause(each.field, str(each), "FieldValueForbidden") for each in found[:_MOST_SHOWN]],
        )


def _same_metadata(old: Object, new: Object) -> bool:
    return all(old.get(name) is new.get(name) for name in ("labels", "annotations", "finalizers", "ownerReferences"))


def _violations(tx: Transaction, kind: Kind, namespace: Object, obj: Object) -> list[Violation]:
    match kind.resource:
        case "pods":
            origin = find_origin(obj, lambda resource, name: tx.get(resource, Key(name_of(namespace), name)))
            grants = grants_for(
                namespace,
                run=origin.run,
                read_only=origin.read_only,
                staged=f"{tx.input_folder}/{namespace_of(obj)}/{name_of(obj)}" if tx.input_folder else "",
                account=origin.account,
            )
            return find_pod_violations(obj, grants)
        case "persistentvolumeclaims":
            volume = tx.get("persistentvolumes", Key("", str(spec_of(obj).get("volumeName") or "")))
            return find_claim_violations(obj, spec_of(volume or {}).get("claimRef") or {})
        case "services":
            return find_service_violations(obj)
    return find_pod_group_violations(obj, read_grants(namespace))


log = logging.getLogger(__name__)


class CustomKinds:
    """Keeps the catalogue up to date with the CustomResourceDefinitions in the store."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._registered: dict[str, list[Kind]] = {}
        for definition in store.view.objects(CRDS):
            self._register(definition)
        store.listen(self._changed)

    def _changed(self, resource: str, change: Change) -> None:
        if resource != CRDS:
            return
        if change.after is None:
            self._unregister(change.key.name)
        elif change.before is None or change.after.get("spec") is not change.before.get("spec"):
            self._register(change.after)

    def _register(self, definition: Object) -> None:
        self._unregister(name_of(definition))
        try:
            kinds = kinds_from_crd(definition)
        except Invalid as error:
            log.warning("the kinds of %s cannot be used: %s", name_of(definition), error)
            return
        taken = {(kind.api_version, kind.kind) for kind in self._catalogue}
        ours = [kind for kind in kinds if (kind.api_version, kind.kind) not in taken]
        # The storage version comes first in the list. The kind that is registered last is found by the plain names.
        for kind in reversed(ours):
            self._catalogue.register(kind)
        self._registered[name_of(definition)] = ours

    def _unregister(self, name: str) -> None:
        for kind in self._registered.pop(name, ()):
            self._catalogue.unregister(kind)

    def kinds_of(self, name: str) -> list[Kind]:
        """Returns the kinds that this definition registered."""
        return self._registered.get(name, [])
