"""Finds the objects a command is about: by name, by selector or in files, and watches one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from muster.cli.errors import CommandError
from muster.cli.output import warn
from muster.cli.session import Session
from muster.cli.targets import Target
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, Gone, NotFound
from muster.kube.kinds import Kind
from muster.kube.manifests import Document, load_manifest_files
from muster.kube.objects import Object, name_of, namespace_of, version_of

# Merged from selection: From the words of a command line to objects: those named, those in files, or all of a kind
# that match.


@dataclass(slots=True)
class Selection:
    """What was found, in the order asked for, and what was not."""

    objects: list[tuple[Kind, Object]] = field(default_factory=list)
    errors: list[ApiError] = field(default_factory=list)
    by_name: bool = False
    """Whether every object was named, rather than found."""
    namespaced: bool = True
    """Whether any of the kinds asked for lives in namespaces."""


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
    """`prefixes`: a name that nothing has stands for all that begin with it, as `describe` takes it."""
    namespace = "" if all_namespaces else session.namespace
    if files:
        if words or labels:
            raise CommandError("give either files or types and names, not both")
        return await _from_files(session, files)
    targets = await session.targets(words)
    named = any(target.names for target in targets)
    if named and (labels or fields):
        raise CommandError("selectors choose among all objects of a type; leave out either them or the names")
    if named and all_namespaces:
        raise CommandError("an object cannot be fetched by its name across all namespaces; use -n")
    answer = Selection(by_name=named, namespaced=any(target.kind.namespaced for target in targets))
    for found in await asyncio.gather(
        *(_select_target(session, t, namespace, labels, fields, prefixes) for t in targets)
    ):
        answer.objects += found.objects
        answer.errors += found.errors
    return answer


def format_nothing_found(namespace: str) -> str:
    """What to say instead of an empty answer; '' for objects outside of namespaces, or in all of them."""
    return f"No resources found in {namespace} namespace." if namespace else "No resources found"


def namespace_for(kind: Kind, namespace: str) -> str:
    return namespace if kind.namespaced else ""


async def list_objects(
    session: Session, kind: Kind, namespace: str, labels: str = "", fields: str = ""
) -> list[Object]:
    """All pages."""
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
            similar = await _beginning_with(session, kind, namespace, name) if prefixes else []
            found.objects += similar
            if not similar:
                found.errors.append(error)
        except ApiError as error:
            found.errors.append(error)
    return found


async def _beginning_with(session: Session, kind: Kind, namespace: str, prefix: str) -> list[tuple[Kind, Object]]:
    objects = await list_objects(session, kind, namespace)
    return [(kind, obj) for obj in objects if name_of(obj).startswith(prefix)]


async def _from_files(session: Session, files: Iterable[str]) -> Selection:
    # gone  # YAML takes a while to import

    answer = Selection(by_name=True)
    for document in read_manifests(files):
        kind = await session.kind_of(document.object)
        namespace = namespace_for(kind, namespace_of(document.object) or session.namespace)
        try:
            answer.objects.append((kind, await session.cluster.get(kind, name_of(document.object), namespace)))
        except ApiError as error:
            answer.errors.append(error)
    return answer


# Merged from observe: One object over time.


async def object_states(cluster: Cluster, kind: Kind, name: str, namespace: str) -> AsyncGenerator[Object | None, None]:
    """The object as it is, and again after every change. None, and no more, once it is gone."""
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
    """The same for `async with`, so that the watch ends with the block."""
    return aclosing(object_states(cluster, kind, name, namespace))


# Merged from manifests: The files a command is given: read, and what is odd about them told.


def read_manifests(files: Iterable[str], *, named: bool = True) -> list[Document]:
    """Everything in these files, in order. What was read but is hardly what was meant goes to stderr. With
    `named=False`, an object may have no name yet."""
    documents = load_manifest_files(files, named=named)
    for document in documents:
        for warning in document.warnings:
            warn(f"Warning: {warning}")
    return documents
