"""Which run of the platform a Pod belongs to, and what the run lets it use.

Labels prove nothing: any Pod may have them. What counts are the objects that own the Pod, in its own namespace and
with the uids that it names, up to a Workflow that the platform made. Users cannot write ownerReferences, or labels and
annotations of the platform, into objects of restricted namespaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import orjson

from muster.kube.objects import (
    Object,
    annotations_of,
    controller_of,
    labels_of,
    name_of,
    owners_of,
    split_api_version,
    uid_of,
)
from muster.kube.pod_security import MOUNTS_ANNOTATION, RUN_LABEL

Lookup: TypeAlias = Callable[[str, str], Object | None]
"""(resource, name) -> the object in the Pod's namespace."""

_WORKFLOW: Final = ("argoproj.io", "Workflow")
_LAUNCHER: Final = ("kubeflow.org", "MPIJob")
_MOST_LEVELS = 4


class PodOrigin(NamedTuple):
    run: str = ""
    """The id of the run; '' if the Pod belongs to none."""
    read_only: tuple[str, ...] = ()
    """Host paths that the platform lets the run read."""
    account: str = ""
    """The service account that the Pod's controller made for it."""


def find_origin(pod: Object, lookup: Lookup) -> PodOrigin:
    controller = controller_of(pod) or {}
    group = split_api_version(str(controller.get("apiVersion") or ""))[0]
    account = f"{controller.get('name')}-launcher" if (group, controller.get("kind")) == _LAUNCHER else ""
    workflow = _find_workflow(pod, lookup)
    if workflow is None:
        return PodOrigin(account=account)
    run = labels_of(workflow).get(RUN_LABEL, "")
    if not run or name_of(workflow) != f"run-{run}":
        return PodOrigin(account=account)
    return PodOrigin(run, _paths(annotations_of(workflow).get(MOUNTS_ANNOTATION)), account)


def _find_workflow(obj: Object, lookup: Lookup) -> Object | None:
    for _ in range(_MOST_LEVELS):
        owner = _owner(obj, lookup)
        if owner is None:
            return None
        if (split_api_version(str(owner.get("apiVersion")))[0], owner.get("kind")) == _WORKFLOW:
            return owner
        obj = owner
    return None


def _owner(obj: Object, lookup: Lookup) -> Object | None:
    """Returns the first owner that exists."""
    for reference in owners_of(obj):
        group = split_api_version(str(reference.get("apiVersion") or ""))[0]
        plural = f"{str(reference.get('kind') or '').lower()}s"
        found = lookup(f"{plural}.{group}" if group else plural, str(reference.get("name") or ""))
        if found is not None and uid_of(found) == reference.get("uid"):
            return found
    return None


def _paths(text: str | None) -> tuple[str, ...]:
    try:
        found = orjson.loads(text) if text else ()
    except orjson.JSONDecodeError:
        return ()
    return tuple(str(path) for path in found) if isinstance(found, list) else ()
