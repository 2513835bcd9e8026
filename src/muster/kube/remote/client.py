"""`RemoteCluster`: the `Cluster` protocol on any Kubernetes API server, and discovery of its kinds."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, TypeAlias
from urllib.parse import quote

import orjson

from muster.kube.builtin import new_catalogue
from muster.kube.cluster import (
    Endpoint,
    Listing,
    LogQuery,
    PatchType,
    Process,
    Propagation,
    Subresource,
    WatchEvent,
)
from muster.kube.errors import ApiError, Gone, NotFound, Unavailable, from_status
from muster.kube.kinds import Catalogue, Kind, Scale
from muster.kube.objects import Object, meta, name_of, namespace_of, split_api_version, version_of
from muster.kube.remote.exec_stream import V4, V5, RemoteProcess
from muster.kube.remote.kubeconfig import Access
from muster.kube.remote.transport import OnAnswer, Transport

# Discovers the kinds of an API server.


_AGGREGATED_DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


async def discover(transport: Transport) -> list[Kind]:
    """Returns every kind that can be listed, in the server's preferred version first. They have no schema."""
    found: list[Kind] = []
    for path in ("/api", "/apis"):
        document = orjson.loads(await transport.request("GET", path, accept=_AGGREGATED_DISCOVERY))
        if document.get("kind") == "APIGroupDiscoveryList":
            found += kinds_in_aggregate(document)
        else:
            found += await _discover_by_group(transport, document)
    return found


def kinds_in_aggregate(document: Mapping[str, Any]) -> list[Kind]:
    found = []
    for group in document.get("items") or ():
        name = (group.get("metadata") or {}).get("name") or ""
        for version in group.get("versions") or ():
            for resource in version.get("resources") or ():
                parts = [part.get("subresource") for part in resource.get("subresources") or ()]
                kind = (resource.get("responseKind") or {}).get("kind")
                if kind and "list" in (resource.get("verbs") or ()):
                    found.append(
                        _kind(name, version["version"], kind, resource["resource"], resource["scope"] == "Namespaced",
                              resource, parts)
                    )  # fmt: skip
    return found


def kinds_in_list(document: Mapping[str, Any]) -> list[Kind]:
    """Reads an APIResourceList."""
    group, version = split_api_version(str(document.get("groupVersion") or ""))
    resources = document.get("resources") or ()
    parts: dict[str, list[str]] = {}
    for resource in resources:
        name, slash, part = str(resource["name"]).partition("/")
        if slash:
            parts.setdefault(name, []).append(part)
    return [
        _kind(group, version, r["kind"], r["name"], bool(r.get("namespaced")), r, parts.get(r["name"], ()))
        for r in resources
        if "/" not in r["name"] and "list" in (r.get("verbs") or ())
    ]


async def _discover_by_group(transport: Transport, document: Mapping[str, Any]) -> list[Kind]:
    """For servers before Kubernetes 1.27: one request for every group and version. A broken one, which is common for
    aggregated APIs, does not hide the others."""
    if document.get("kind") == "APIVersions":
        paths = [f"/api/{version}" for version in document.get("versions") or ()]
    else:
        paths = [f"/apis/{v['groupVersion']}" for g in document.get("groups") or () for v in g.get("versions") or ()]
    results = await asyncio.gather(*(transport.request("GET", path) for path in paths), return_exceptions=True)
    found: list[Kind] = []
    for result in results:
        if isinstance(result, bytes):
            found += kinds_in_list(orjson.loads(result))
        elif not isinstance(result, ApiError):
            raise result
    if paths and not found:
        raise NotFound("the API server names no resources; does the kubeconfig's server point at a Kubernetes API?")
    return found


def _kind(
    group: str,
    version: str,
    kind: str,
    plural: str,
    namespaced: bool,
    names: Mapping[str, Any],
    parts: Iterable[str | None],
) -> Kind:
    subresources = set(parts)
    return Kind(
        group,
        version,
        kind,
        plural,
        namespaced,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        has_status="status" in subresources,
        scale=Scale() if "scale" in subresources else None,
    )


Parameters: TypeAlias = list[tuple[str, str]]

Gate: TypeAlias = Callable[[str], AbstractAsyncContextManager[None]]
"""Wraps a request of that HTTP method until its response."""

PAGE = 1000
"""The page size for a whole list."""

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_PATCHES: dict[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_SHORTEST_WATCH, _LONGEST_WATCH = 300, 600


class RemoteCluster:
    """Use it with `async with`. Until `discover` is called, its catalogue holds the kinds that Muster knows."""

    def __init__(
        self,
        access: Access,
        *,
        on_warning: Callable[[str], None] | None = None,
        on_answer: OnAnswer | None = None,
        field_manager: str = "muster",
        field_validation: str = "Strict",
    ) -> None:
        self.access = access
        self._transport = Transport(access, on_warning=on_warning, on_answer=on_answer, agent=field_manager)
        self._catalogue = new_catalogue()
        self._discovered = False
        self._field_manager = field_manager
        self._validating = ("fieldValidation", field_validation)
        self._gate: Gate = _open_gate

    def with_gate(self, gate: Gate) -> RemoteCluster:
        """Returns the same cluster over the same connections, with every request in the gate, except watches and logs,
        which last."""
        gated = copy.copy(self)
        gated._gate = gate
        return gated

    async def __aenter__(self) -> RemoteCluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    @property
    def catalogue(self) -> Catalogue:
        return self._catalogue

    async def discover(self, *, again: bool = False) -> Catalogue:
        """Returns the catalogue with exactly the kinds of the server. Asks the server once, unless `again`."""
        if self._discovered and not again:
            return self._catalogue
        served = await discover(self._transport)
        known = {(kind.api_version, kind.kind): kind for kind in self._catalogue}
        for kind in known.values():
            self._catalogue.unregister(kind)
        for kind in served:
            # A kind that Muster knows stays the same, with its columns and rules.
            self._catalogue.register(known.get((kind.api_version, kind.kind), kind))
        self._discovered = True
        return self._catalogue

    async def find(self, word: str) -> Kind:
        """Finds a kind by any name a user may type; asks the server about kinds that Muster does not know."""
        return (await self.discover()).find(word)

    async def version(self) -> Object:
        return await self._object("GET", "/version")

    async def raw(self, path: str, *, accept: str = "application/json") -> bytes:
        return await self._transport.request("GET", path, accept=accept)

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        kind = await self._kind_of(obj)
        path = _path(kind, namespace_of(obj) or self._default_namespace(kind))
        return await self._object("POST", path, self._writing(dry_run=dry_run), body=obj)

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return await self._object("GET", _path(kind, namespace or self._default_namespace(kind), name))

    async def list(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
    ) -> Listing:
        """An empty namespace means all namespaces. Without a limit, returns the whole list, fetched in pages."""
        scope = (kind, namespace, labels, fields)
        if limit or continue_:
            return await self._page(*scope, limit, continue_)
        items: list[Object] = []
        page = await self._page(*scope, PAGE, "")
        while True:
            items += page.items
            if not page.continue_:
                return Listing(items, page.resource_version)
            try:
                page = await self._page(*scope, PAGE, page.continue_)
            except Gone:
                # The pages took longer than the server's history; a single request is always consistent.
                return await self._page(*scope, 0, "")

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        parameters = [*_selectors(labels, fields), *_nonempty(resourceVersion=resource_version)]
        if bookmarks:
            parameters.append(("allowWatchBookmarks", "true"))
        async with aclosing(self._events(_path(kind, namespace), parameters)) as events:
            async for event in events:
                _add_type(kind, event.object)
                yield event

    async def update(self, obj: Object, *, subresource: Subresource = "", dry_run: bool = False) -> Object:
        kind = await self._kind_of(obj)
        path = _path(kind, namespace_of(obj) or self._default_namespace(kind), name_of(obj), subresource)
        return await self._object("PUT", path, self._writing(dry_run=dry_run), body=obj)

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        patch: Object | Sequence[Object],
        *,
        type: PatchType = "merge",
        subresource: Subresource = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        parameters = self._writing(field_manager, dry_run=dry_run)
        if type == "apply" and force:
            parameters.append(("force", "true"))
        path = _path(kind, namespace or self._default_namespace(kind), name, subresource)
        return await self._object("PATCH", path, parameters, body=patch, content_type=_PATCHES[type])

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
        uid: str = "",
        resource_version: str = "",
    ) -> Object:
        """If the server only confirms the deletion, the result has just the object's name and uid."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        preconditions = dict(_nonempty(uid=uid, resourceVersion=resource_version))
        if preconditions:
            options["preconditions"] = preconditions
        where = namespace or self._default_namespace(kind)
        last = await self._object("DELETE", _path(kind, where, name), body=options)
        if last.get("kind") != "Status":
            return last
        metadata = {"name": name, "uid": (last.get("details") or {}).get("uid", uid)}
        if kind.namespaced:
            metadata["namespace"] = where
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}

    async def logs(self, pod: str, namespace: str, query: LogQuery = LogQuery()) -> AsyncIterator[bytes]:  # noqa: B008
        numbers = {"tailLines": query.tail_lines, "limitBytes": query.limit_bytes}
        if query.since_seconds is not None:
            numbers["sinceSeconds"] = max(1, round(query.since_seconds))
        flags = {"follow": query.follow, "previous": query.previous, "timestamps": query.timestamps}
        parameters = [
            *_nonempty(container=query.container),
            *((name, "true") for name, given in flags.items() if given),
            *((name, str(number)) for name, number in numbers.items() if number is not None),
        ]
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/log"
        async with self._transport.stream(path, parameters, accept="*/*") as pieces:
            async for piece in pieces:
                yield piece

    async def exec(
        self,
        pod: str,
        namespace: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> Process:
        parameters = [
            *(("command", word) for word in command),
            *_nonempty(container=container),
            ("stdin", str(stdin).lower()),
            ("stdout", "true"),
            # A terminal has one output.
            ("stderr", str(not tty).lower()),
            ("tty", str(tty).lower()),
        ]
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/exec"
        async with self._gate("POST"):
            return RemoteProcess(await self._transport.websocket(path, parameters, (V5, V4)))

    async def endpoint(self, pod: str, namespace: str, port: int, *, owner: Object, attempt: int = 0) -> Endpoint:
        return Endpoint(pod, port, f".{namespace}.svc")

    async def table(
        self, kind: Kind, namespace: str = "", *, name: str = "", labels: str = "", fields: str = "", limit: int = 0,
        include: str = "Metadata",
    ) -> Object:  # fmt: skip
        """Returns the server's `meta.k8s.io/v1` Table of one object or a list. A server without a table for the kind
        returns the objects. `include`: None, Metadata or Object, what each row carries."""
        parameters = [("includeObject", include), *_selectors(labels, fields)]
        if limit:
            parameters.append(("limit", str(limit)))
        where = (namespace or self._default_namespace(kind)) if name else namespace
        return await self._object("GET", _path(kind, where, name), parameters, accept=_TABLE)

    async def watch_table(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", resource_version: str = "",
        include: str = "Metadata",
    ) -> AsyncIterator[WatchEvent]:  # fmt: skip
        """Like `watch`, with one-row tables for objects. Only the first has the columns."""
        parameters = [
            ("includeObject", include), *_selectors(labels, fields), *_nonempty(resourceVersion=resource_version),
        ]  # fmt: skip
        async with aclosing(self._events(_path(kind, namespace), parameters, accept=_TABLE)) as events:
            async for event in events:
                yield event

    async def _object(self, method: str, path: str, parameters: Sequence[tuple[str, str]] = (), **more: Any) -> Object:
        async with self._gate(method):
            content = await self._transport.request(method, path, parameters, **more)
        try:
            found = orjson.loads(content)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise Unavailable(f"{self.access.server}{path} sent a response that is not a Kubernetes object")
        return found

    async def _page(self, kind: Kind, namespace: str, labels: str, fields: str, limit: int, continue_: str) -> Listing:
        parameters = [*_selectors(labels, fields), *_nonempty(limit=str(limit or ""), **{"continue": continue_})]
        answer = await self._object("GET", _path(kind, namespace), parameters)
        items: list[Object] = answer.get("items") or []
        for item in items:
            _add_type(kind, item)
        told = meta(answer)
        return Listing(items, version_of(answer), str(told.get("continue") or ""), told.get("remainingItemCount"))

    async def _events(
        self, path: str, parameters: Parameters, *, accept: str = "application/json"
    ) -> AsyncGenerator[WatchEvent, None]:
        # The server ends every watch after a while; a connection that it has lost ends soon after.
        seconds = random.randint(_SHORTEST_WATCH, _LONGEST_WATCH)  # noqa: S311 (not a secret)
        asked = [("watch", "true"), ("timeoutSeconds", str(seconds)), *parameters]
        async with self._transport.stream(path, asked, accept=accept, seconds=seconds + 30.0) as pieces:
            rest = b""
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line:
                        yield _event(line)

    def _writing(self, field_manager: str = "", *, dry_run: bool) -> Parameters:
        whole = [("fieldManager", field_manager or self._field_manager), self._validating]
        return [*whole, ("dryRun", "All")] if dry_run else whole

    async def _kind_of(self, obj: Object) -> Kind:
        try:
            return self._catalogue.of_object(obj)
        except NotFound:
            if self._discovered:
                raise
        return (await self.discover()).of_object(obj)

    def _default_namespace(self, kind: Kind) -> str:
        return self.access.namespace if kind.namespaced else ""


def _path(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    parts = ["/apis", kind.group, kind.version] if kind.group else ["/api", kind.version]
    if kind.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(kind.plural)
    if name:
        parts.append(quote(name, safe=":"))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def _event(line: bytes) -> WatchEvent:
    try:
        told = orjson.loads(line)
        type_, obj = told["type"], told["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise Unavailable("the watch failed: the server sent something that is not an event") from None
    if type_ == "ERROR":
        raise from_status(obj)
    return WatchEvent(type_, obj)


def _add_type(kind: Kind, obj: Object) -> None:
    """Adds apiVersion and kind, which the items of a list lack."""
    obj.setdefault("apiVersion", kind.api_version)
    obj.setdefault("kind", kind.kind)


def _selectors(labels: str, fields: str) -> Parameters:
    return _nonempty(labelSelector=labels, fieldSelector=fields)


def _nonempty(**parameters: str) -> Parameters:
    """Returns the parameters that are not empty."""
    return [(name, value) for name, value in parameters.items() if value]


def _open_gate(_: str) -> AbstractAsyncContextManager[None]:
    return nullcontext()
