"""What one `muster run` brought into a cluster: put there in an order that works, and taken away again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from muster.cli.apply import placed, put
from muster.cli.delete import until_gone
from muster.cli.failures import Failure, explain_document
from muster.cli.outcome import is_done, is_work
from muster.cli.session import Session
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, ApiError, NotFound
from muster.kube.kinds import Kind
from muster.kube.manifests import Document
from muster.kube.objects import Object, name_of, namespace_of, uid_of

Change: TypeAlias = Literal["created", "configured", "unchanged", "replaced"]
_FIRST = ("Namespace", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True)
class Applied:
    kind: Kind
    object: Object
    change: Change

    @property
    def ours(self) -> bool:
        """Whether it came with this run. What was there before is not taken away in the end."""
        return self.change in ("created", "replaced")


def in_order(documents: Sequence[Document]) -> list[Document]:
    """Namespaces and definitions first, work last, and otherwise as they stand in the files."""
    return sorted(documents, key=lambda d: 0 if d.object.get("kind") in _FIRST else 2 if is_work(d.object) else 1)


async def make_namespaces(session: Session, documents: Sequence[Document]) -> list[Applied]:
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
            made.append(Applied(kind, await session.cluster.create(namespace), "created"))
    return made


async def check(session: Session, documents: Sequence[Document]) -> None:
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
            _, obj = await placed(document, session)
            await session.cluster.create(obj, dry_run=True)
        except AlreadyExists:
            continue
        except NotFound:
            # Its namespace may well be among the documents; if not, storing it will say so.
            continue
        except ApiError as error:
            complaints.append(explain_document(error, document))
        except Failure as failure:
            complaints.append(failure.message)
    if complaints:
        raise Failure("\n".join(complaints))


async def store(session: Session, document: Document) -> Applied:
    """Creates or changes the object. Finished work of the same name makes way: whoever runs a file twice means it."""
    cluster = session.cluster
    try:
        kind, obj = await placed(document, session)
        if not name_of(obj):
            return Applied(kind, await cluster.create(obj), "created")
        replaced = is_work(obj) and await _make_way(cluster, kind, obj)
        change, stored = await put(cluster, kind, obj)
        if change == "serverside-applied":
            raise AssertionError(change)
        return Applied(kind, stored, "replaced" if replaced else change)
    except ApiError as error:
        raise Failure(explain_document(error, document)) from None


async def remove(cluster: Cluster, applied: Sequence[Applied], *, grace_seconds: int | None = None) -> list[Applied]:
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
    await until_gone(cluster, [(one.kind, one.object) for one in deleted], timeout=60.0)
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
    if is_done(there) is None:
        return False
    await cluster.delete(kind, name_of(obj), namespace_of(obj), propagation="Foreground", uid=uid_of(there))
    await asyncio.wait_for(until_gone(cluster, [(kind, there)]), 60.0)
    return True
