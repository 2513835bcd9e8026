"""Finds the objects a command is about: by name, by selector or in files, and watches one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muster.cli.errors import CommandError
from muster.cli.output import warn
from muster.cli.session import Session, Target
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, Gone, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, namespace_of, version_of

if TYPE_CHECKING:
    from muster.kube.manifests import Document


@dataclass(slots=True)
class Selection:
    """The objects that were found, in the order of the request, and the errors for those that were not."""

    objects: list[tuple[Kind, Object]] = field(default_factory=list)
    errors: list[ApiError] = field(default_factory=list)
    by_name: bool = False
    """Whether the request names every object, rather than a type or a selector."""
    namespaced: bool = True
    """Whether any of the requested kinds is namespaced."""


async def select_objects(
    session: Session,
    words: Sequence[str],
    *,
    files: Sequence[str] = (),
    labels: str = "",
    fields: str = "",
    all_namespaces: bool = False,
    prefixes: bool = False,
) -> Selection:
    """Returns the objects that the words, files or selectors name.

    With `prefixes`, a name that does not exist selects all objects whose names start with it, as in `kubectl describe`.
    """
    namespace = "" if all_namespaces else session.namespace
    if files:
        if words or labels:
            raise CommandError("files cannot be combined with types, names or a selector")
        return await _select_from_files(session, files)
    targets = await session.targets(words)
    named = any(target.names for target in targets)
    if named and (labels or fields):
        raise CommandError("a selector cannot be combined with names; remove one of them")
    if named and all_namespaces:
        raise CommandError(
            "an object cannot be requested by name across all namespaces; use -n NAMESPACE instead of -A"
        )
    answer = Selection(by_name=named, namespaced=any(target.kind.namespaced for target in targets))
    for found in await asyncio.gather(
        *(_select_target(session, t, namespace, labels, fields, prefixes) for t in targets)
    ):
        answer.objects += found.objects
        answer.errors += found.errors
    return answer


def format_nothing_found(namespace: str) -> str:
    """Returns kubectl's message for an empty result. `namespace` is empty for cluster-scoped kinds and for -A."""
    return f"No resources found in {namespace} namespace." if namespace else "No resources found"


def namespace_for(kind: Kind, namespace: str) -> str:
    return namespace if kind.namespaced else ""


async def list_objects(
    session: Session, kind: Kind, namespace: str, labels: str = "", fields: str = ""
) -> list[Object]:
    """Lists all pages."""
    objects: list[Object] = []
    token = ""
    while True:
        page = await session.cluster.list(
            kind, namespace_for(kind, namespace), labels=labels, fields=fields, limit=500, continue_=token
        )
        objects += page.items
        token = page.continue_
        if not token:
            return objects


async def _select_target(
    session: Session, target: Target, namespace: str, labels: str, fields: str, prefixes: bool
) -> Selection:
    kind = target.kind
    found = Selection()
    if not target.names:
        objects = await list_objects(session, kind, namespace, labels, fields)
        found.objects = [(kind, obj) for obj in objects]
        return found
    for name in target.names:
        try:
            found.objects.append((kind, await session.cluster.get(kind, name, namespace_for(kind, namespace))))
        except NotFound as error:
            similar = await _list_by_prefix(session, kind, namespace, name) if prefixes else []
            found.objects += similar
            if not similar:
                found.errors.append(error)
        except ApiError as error:
            found.errors.append(error)
    return found


async def _list_by_prefix(session: Session, kind: Kind, namespace: str, prefix: str) -> list[tuple[Kind, Object]]:
    objects = await list_objects(session, kind, namespace)
    return [(kind, obj) for obj in objects if name_of(obj).startswith(prefix)]


async def _select_from_files(session: Session, files: Iterable[str]) -> Selection:

    answer = Selection(by_name=True)
    for document in read_manifests(files):
        kind = await session.kind_of(document.object)
        namespace = namespace_for(kind, namespace_of(document.object) or session.namespace)
        try:
            answer.objects.append((kind, await session.cluster.get(kind, name_of(document.object), namespace)))
        except ApiError as error:
            answer.errors.append(error)
    return answer


async def object_states(cluster: Cluster, kind: Kind, name: str, namespace: str) -> AsyncGenerator[Object | None, None]:
    """Yields the object now and after every change; then None, once, when it no longer exists."""
    while True:
        try:
            obj = await cluster.get(kind, name, namespace)
        except NotFound:
            yield None
            return
        yield obj
        watch = cluster.watch(kind, namespace, fields=f"metadata.name={name}", resource_version=version_of(obj))
        try:
            async for event in watch:
                if event.type == "DELETED":
                    yield None
                    return
                if event.type != "BOOKMARK":
                    yield event.object
        except Gone:
            continue


def watch_object(
    cluster: Cluster, kind: Kind, name: str, namespace: str
) -> aclosing[AsyncGenerator[Object | None, None]]:
    """Returns `object_states` for use with `async with`, so that the watch ends with the block."""
    return aclosing(object_states(cluster, kind, name, namespace))


def read_manifests(files: Iterable[str], *, named: bool = True) -> list[Document]:
    """Returns the documents of these files, in order, and prints their warnings to stderr.

    With `named=False`, an object may have no name yet.
    """
    from muster.kube.manifests import load_manifest_files  # YAML is slow to import, and most commands read no files

    documents = load_manifest_files(files, named=named)
    for document in documents:
        for warning in document.warnings:
            warn(f"Warning: {warning}")
    return documents
