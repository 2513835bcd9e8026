"""The objects of one `muster run`: creates them in order, tells whether they are done, and deletes them."""

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

# Merged from outcome: Is a piece of work done, and how did it end? Answered from an object alone, whatever its kind.


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
    """Whether the object ends by itself one day. Everything else (ConfigMap, PVC, Service, PodGroup, a Pod that is
    restarted for ever) only supports the work."""
    kind = str(obj.get("kind") or "")
    if kind == "Pod" and obj.get("apiVersion") == "v1":
        return bool(spec_of(obj).get("restartPolicy", "Always") != "Always")
    group, _ = split_api_version(str(obj.get("apiVersion") or ""))
    return bool(group) and kind.endswith(_WORK_SUFFIXES) and not kind.startswith("Cron")


def find_outcome(obj: Mapping[str, Any]) -> Outcome | None:
    """None while it is under way, or if it is not work at all."""
    if not is_workload(obj):
        return None
    status = status_of(obj)
    # The phase goes first: a Workflow that failed has the condition Completed as well.
    return _by_phase(status) or _by_conditions(status)


def is_service(obj: Mapping[str, Any]) -> bool:
    """Whether it runs until somebody stops it, and so is worth staying for although it never ends."""
    kind = str(obj.get("kind") or "")
    if kind == "Pod":
        return not is_workload(obj)
    return kind in _SERVICES


def _by_phase(status: Mapping[str, Any]) -> Outcome | None:
    state = status.get("state")
    holder = state if isinstance(state, Mapping) and "phase" in state else status
    phase = str(holder.get("phase") or "")
    reason, message = str(holder.get("reason") or ""), str(holder.get("message") or "")
    if phase.lower() in _SUCCEEDED:
        return Outcome(True, reason or phase, message)
    if phase.lower() in _FAILED:
        return Outcome(False, reason or phase, message)
    return None


def _by_conditions(status: Mapping[str, Any]) -> Outcome | None:
    true = [c for c in status.get("conditions") or () if c.get("status") == "True"]
    for names, succeeded in ((_FAILED, False), (_SUCCEEDED, True)):
        for condition in true:
            kind = str(condition.get("type") or "")
            if kind.lower() in names:
                return Outcome(succeeded, str(condition.get("reason") or kind), str(condition.get("message") or ""))
    return None


# Merged from applied: What one `muster run` brought into a cluster: put there in an order that works, and taken away
# again.


Change: TypeAlias = Literal["created", "configured", "unchanged", "replaced"]
_FIRST = ("Namespace", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True)
class AppliedObject:
    kind: Kind
    object: Object
    change: Change

    @property
    def ours(self) -> bool:
        """Whether it came with this run. What was there before is not taken away in the end."""
        return self.change in ("created", "replaced")


def sort_for_apply(documents: Sequence[Document]) -> list[Document]:
    """Namespaces and definitions first, work last, and otherwise as they stand in the files."""
    return sorted(documents, key=lambda d: 0 if d.object.get("kind") in _FIRST else 2 if is_workload(d.object) else 1)


async def create_namespaces(session: Session, documents: Sequence[Document]) -> list[AppliedObject]:
    """Creates the namespaces that the documents are in and the box does not have: a manifest from a cluster names
    that cluster's. On any other cluster they are their owners' to make, and storing the first object says so."""
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
    """Refuses everything if anything is wrong, naming every mistake, before anything is stored."""
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
            # Its namespace may well be among the documents; if not, storing it will say so.
            continue
        except ApiError as error:
            complaints.append(format_document_error(error, document))
        except CommandError as failure:
            complaints.append(failure.message)
    if complaints:
        raise CommandError("\n".join(complaints))


async def apply_document(session: Session, document: Document) -> AppliedObject:
    """Creates or changes the object. Finished work of the same name makes way: whoever runs a file twice means it."""
    cluster = session.cluster
    try:
        kind, obj = await resolve_document(document, session)
        if not name_of(obj):
            return AppliedObject(kind, await cluster.create(obj), "created")
        replaced = is_workload(obj) and await _make_way(cluster, kind, obj)
        change, stored = await apply_object(cluster, kind, obj)
        if change == "serverside-applied":
            raise AssertionError(change)
        return AppliedObject(kind, stored, "replaced" if replaced else change)
    except ApiError as error:
        raise CommandError(format_document_error(error, document)) from None


async def delete_applied(
    cluster: Cluster, applied: Sequence[AppliedObject], *, grace_seconds: int | None = None
) -> list[AppliedObject]:
    """Deletes these, last come first gone, waits until they are, and answers those that could be deleted."""
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
    """Where it belongs; '' for what is in none, or of a kind that nobody knows yet."""
    try:
        kind = await session.kind_of(document.object)
    except NotFound:
        return ""
    return (namespace_of(document.object) or session.namespace) if kind.namespaced else ""


async def _make_way(cluster: Cluster, kind: Kind, obj: Object) -> bool:
    try:
        there = await cluster.get(kind, name_of(obj), namespace_of(obj))
    except NotFound:
        return False
    if find_outcome(there) is None:
        return False
    await cluster.delete(kind, name_of(obj), namespace_of(obj), propagation="Foreground", uid=uid_of(there))
    await asyncio.wait_for(wait_until_deleted(cluster, [(kind, there)]), 60.0)
    return True
