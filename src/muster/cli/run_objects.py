"""The objects of a `muster run`: creates them in order, finds their outcome, and deletes them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from muster.cli.apply import apply_object, resolve_document, wait_until_deleted
from muster.cli.errors import CommandError, format_document_error
from muster.cli.session import Session
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, ApiError, NotFound
from muster.kube.kinds import Kind
from muster.kube.manifests import Document
from muster.kube.objects import Object, name_of, namespace_of, spec_of, split_api_version, status_of, uid_of

_SUCCEEDED = frozenset({"succeeded", "succeed", "complete", "completed"})
_FAILED = frozenset({"failed", "error", "aborted", "terminated"})
_WORK_SUFFIXES = ("Job", "JobSet", "Workflow", "Run")
_SERVICES = frozenset({
    "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "CronJob", "CronWorkflow", "Notebook", "Tensorboard",
})  # fmt: skip


class Outcome(NamedTuple):
    succeeded: bool
    reason: str = ""
    message: str = ""


def is_workload(obj: Mapping[str, Any]) -> bool:
    """Whether the object finishes by itself, whatever its kind. Others (ConfigMap, PVC, Service, PodGroup, a Pod that
    always restarts) only support workloads."""
    kind = str(obj.get("kind") or "")
    if kind == "Pod" and obj.get("apiVersion") == "v1":
        return bool(spec_of(obj).get("restartPolicy", "Always") != "Always")
    group, _ = split_api_version(str(obj.get("apiVersion") or ""))
    return bool(group) and kind.endswith(_WORK_SUFFIXES) and not kind.startswith("Cron")


def find_outcome(obj: Mapping[str, Any]) -> Outcome | None:
    """Returns how a workload ended; None while it runs, and for other objects."""
    if not is_workload(obj):
        return None
    status = status_of(obj)
    # The phase comes first: a failed Workflow has the condition Completed, too.
    return _find_outcome_by_phase(status) or _find_outcome_by_conditions(status)


def is_service(obj: Mapping[str, Any]) -> bool:
    """Whether the object runs until it is stopped, so that `muster run` stays with it."""
    kind = str(obj.get("kind") or "")
    if kind == "Pod":
        return not is_workload(obj)
    return kind in _SERVICES


def _find_outcome_by_phase(status: Mapping[str, Any]) -> Outcome | None:
    state = status.get("state")
    holder = state if isinstance(state, Mapping) and "phase" in state else status
    phase = str(holder.get("phase") or "")
    reason, message = str(holder.get("reason") or ""), str(holder.get("message") or "")
    if phase.lower() in _SUCCEEDED:
        return Outcome(True, reason or phase, message)
    if phase.lower() in _FAILED:
        return Outcome(False, reason or phase, message)
    return None


def _find_outcome_by_conditions(status: Mapping[str, Any]) -> Outcome | None:
    true = [c for c in status.get("conditions") or () if c.get("status") == "True"]
    for names, succeeded in ((_FAILED, False), (_SUCCEEDED, True)):
        for condition in true:
            kind = str(condition.get("type") or "")
            if kind.lower() in names:
                return Outcome(succeeded, str(condition.get("reason") or kind), str(condition.get("message") or ""))
    return None


Change: TypeAlias = Literal["created", "configured", "unchanged", "replaced"]
_FIRST = ("Namespace", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True)
class AppliedObject:
    kind: Kind
    object: Object
    change: Change

    @property
    def ours(self) -> bool:
        """Whether this run created it. Objects that existed before are not deleted at the end."""
        return self.change in ("created", "replaced")


def sort_for_apply(documents: Sequence[Document]) -> list[Document]:
    """Sorts namespaces and definitions first and workloads last; otherwise keeps the order of the files."""
    return sorted(documents, key=lambda d: 0 if d.object.get("kind") in _FIRST else 2 if is_workload(d.object) else 1)


async def create_namespaces(session: Session, documents: Sequence[Document]) -> list[AppliedObject]:
    """Creates the missing namespaces of the documents on the embedded cluster: manifests from another cluster name its
    namespaces. On a real cluster, a missing namespace is an error when the first object is stored."""
    if not session.in_the_box:
        return []
    kind = session.cluster.catalogue.of("v1", "Namespace")
    coming = {name_of(d.object) for d in documents if d.object.get("kind") == "Namespace"}
    made = []
    for name in dict.fromkeys([await _namespace(session, document) for document in documents]):
        if not name or name in coming:
            continue
        try:
            await session.cluster.get(kind, name)
        except NotFound:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            made.append(AppliedObject(kind, await session.cluster.create(namespace), "created"))
    return made


async def check_documents(session: Session, documents: Sequence[Document]) -> None:
    """Validates all documents before any is stored. Raises an error that lists every mistake."""
    defined = {
        ((d.object.get("spec") or {}).get("names") or {}).get("kind")
        for d in documents
        if d.object.get("kind") == "CustomResourceDefinition"
    }
    complaints = []
    for document in documents:
        if document.object.get("kind") in defined:
            continue
        try:
            _, obj = await resolve_document(document, session)
            await session.cluster.create(obj, dry_run=True)
        except AlreadyExists:
            continue
        except NotFound:
            # The documents may contain its namespace. If not, storing the object fails.
            continue
        except ApiError as error:
            complaints.append(format_document_error(error, document))
        except CommandError as failure:
            complaints.append(failure.message)
    if complaints:
        raise CommandError("\n".join(complaints))


async def apply_document(session: Session, document: Document) -> AppliedObject:
    """Creates or updates the object. A finished workload of the same name is replaced: a file can be run twice."""
    cluster = session.cluster
    try:
        kind, obj = await resolve_document(document, session)
        if not name_of(obj):
            return AppliedObject(kind, await cluster.create(obj), "created")
        replaced = is_workload(obj) and await _delete_finished(cluster, kind, obj)
        change, stored = await apply_object(cluster, kind, obj)
        if change == "serverside-applied":
            raise AssertionError(change)
        return AppliedObject(kind, stored, "replaced" if replaced else change)
    except ApiError as error:
        raise CommandError(format_document_error(error, document)) from None


async def delete_applied(
    cluster: Cluster, applied: Sequence[AppliedObject], *, grace_seconds: int | None = None
) -> list[AppliedObject]:
    """Deletes these objects in reverse order, waits until they are gone, and returns those that could be deleted."""
    deleted = []
    for one in reversed(applied):
        try:
            await cluster.delete(
                one.kind,
                name_of(one.object),
                namespace_of(one.object),
                propagation="Foreground",
                grace_seconds=grace_seconds if one.kind.kind == "Pod" else None,
                uid=uid_of(one.object),
            )
        except ApiError:
            continue
        deleted.append(one)
    await wait_until_deleted(cluster, [(one.kind, one.object) for one in deleted], timeout=60.0)
    return deleted


async def _namespace(session: Session, document: Document) -> str:
    """Returns the namespace of the object; '' if its kind is not namespaced or not known yet."""
    try:
        kind = await session.kind_of(document.object)
    except NotFound:
        return ""
    return (namespace_of(document.object) or session.namespace) if kind.namespaced else ""


async def _delete_finished(cluster: Cluster, kind: Kind, obj: Object) -> bool:
    try:
        there = await cluster.get(kind, name_of(obj), namespace_of(obj))
    except NotFound:
        return False
    if find_outcome(there) is None:
        return False
    await cluster.delete(kind, name_of(obj), namespace_of(obj), propagation="Foreground", uid=uid_of(there))
    await asyncio.wait_for(wait_until_deleted(cluster, [(kind, there)]), 60.0)
    return True
