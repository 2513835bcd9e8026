"""The embedded cluster: the `Cluster` protocol on top of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import orjson

from muster.embedded.store import status_rows, writes
from muster.embedded.store.admission import FieldValidation, private_copy
from muster.embedded.store.database import Durability
from muster.embedded.store.list_watch import list_objects, selector_predicate, watch_history
from muster.embedded.store.shared_parts import weigh
from muster.embedded.store.store import Store
from muster.embedded.store.view import Transaction, encode
from muster.embedded.store.write_hooks import PERMANENT_NAMESPACES, CustomKinds, namespace_full
from muster.embedded.store.writes import to_scale
from muster.kube.cluster import Endpoint, Listing, LogQuery, PatchType, Process, Propagation, Subresource, WatchEvent
from muster.kube.encryption import KeyRing
from muster.kube.errors import AlreadyExists, BadRequest, Conflict, Unavailable, is_count
from muster.kube.kinds import Catalogue, Kind, invalid_object
from muster.kube.metrics_api import UsageByPod
from muster.kube.objects import Key, Object, key_of, namespace_of, timestamp, uid_of, version_of
from muster.kube.schema_validation import validate
from muster.kube.selectors import parse_fields

Objects: TypeAlias = list[Object]
Events: TypeAlias = list[WatchEvent]
WriteCheck: TypeAlias = Callable[[Object | None, Object], None]
"""Gets an object before (None if it is new) and after a write, inside its transaction. Raises to refuse the write."""
BOOKMARK_SECONDS = 30.0


class NodeOperations(Protocol):
    """Operations that only the node agent can do."""

    @property
    def name(self) -> str:
        """The name of the node that is this machine."""
        ...

    async def usage(self) -> tuple[UsageByPod, float]:
        """Returns the usage of Pods and of the machine, and the seconds over which it was measured."""
        ...

    def pods(self) -> Mapping[str, Object]:
        """Returns the Pods that run here, by uid."""
        ...

    def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]: ...

    async def exec(
        self, pod: str, namespace: str, command: Sequence[str], *, container: str, stdin: bool, tty: bool
    ) -> Process: ...

    async def attach(self, pod: str, namespace: str, *, container: str, stdin: bool) -> Process:
        """Connects to a container itself: what it writes from now on, and its standard input. Closing it leaves the
        container running."""
        ...

    def forward(self, pod: str, namespace: str) -> AbstractContextManager[str]:
        """Opens a session in which ports of a running Pod are forwarded. Yields its address, whatever its status says.
        Raises Conflict if it does not run here, and TooManyRequests."""
        ...

    def check_listener(self, pod: str, namespace: str, port: int) -> None:
        """Raises Conflict if nothing listens at the address of a running Pod, or another namespace does. Pods share the
        machine's network, so check before every connection."""
        ...


class PodAddresses(Protocol):
    """Knows where a Pod's port can be reached."""

    async def endpoint(self, pod: str, namespace: str, port: int, *, owner: Object, attempt: int = 0) -> Endpoint: ...


class EmbeddedCluster:
    """Use it with `async with`: that creates the default namespaces, and closes the store at the end.

    In addition to the parameters of the protocol, `field_validation` says what happens to fields that a kind does not
    have. Collect the warnings of `Warn` with `admission.collect_warnings`.
    """

    def __init__(
        self,
        directory: Path,
        catalogue: Catalogue,
        *,
        durability: Durability = "power",
        keys: KeyRing | None = None,
        history: int = 5000,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store = Store(directory, durability=durability, keys=keys, history=history)
        self.node: NodeOperations | None = None
        self.addresses: PodAddresses | None = None
        self.custom_kinds = CustomKinds(self.store, catalogue)
        self._catalogue = catalogue
        self._clock = clock
        self._now_second, self._now_text = -1, ""

    def check_growth(self, old: Object, new: Object) -> None:
        """Raises Forbidden if an object of a restricted namespace grows beyond what the namespace may take in memory.
        New objects are checked by the store."""
        namespace, megabytes = namespace_of(new), self.store.member_megabytes
        if self.store.view.weight(namespace) > megabytes << 20 and weigh(encode(new)) > weigh(encode(old)):
            raise namespace_full(namespace, megabytes)

    @property
    def catalogue(self) -> Catalogue:
        return self._catalogue

    async def __aenter__(self) -> EmbeddedCluster:
        try:
            await asyncio.gather(*(self._ensure_namespace(name) for name in PERMANENT_NAMESPACES))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.store.close()

    async def create(
        self,
        obj: Object,
        *,
        dry_run: bool = False,
        field_validation: FieldValidation = "Strict",
        check: WriteCheck | None = None,
    ) -> Object:
        kind = self._kind_of(obj)
        given = private_copy(kind, obj, field_validation)
        if kind.conversion is not None:
            made = await self.create(_to_stored(kind, given, None), dry_run=dry_run, check=check)
            return kind.conversion.from_stored(made)
        now = self._now()

        def write(tx: Transaction) -> Object:
            new = writes.create(tx, kind, given, now)
            if check is not None:
                check(None, new)
            return new

        return await self.store.write(write, dry_run=dry_run)

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        found = self.store.get(kind.stored_resource, writes.object_key(kind, name, namespace))
        if found is None:
            raise writes.not_found(kind, name)
        return found if found["apiVersion"] == kind.api_version and not kind.is_defined else _in_version(kind, found)

    async def get_scale(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return to_scale(kind, await self.get(kind, name, namespace))

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
        """Lists objects. An empty namespace means all namespaces."""
        page = self._page(kind, namespace, labels, fields, limit, continue_)
        api_version = kind.api_version
        if not kind.is_defined and all(obj["apiVersion"] == api_version for obj in page.items):
            return page
        return page._replace(items=[_in_version(kind, obj) for obj in page.items])

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
        batches = self.watch_batches(
            kind,
            namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            bookmarks=BOOKMARK_SECONDS if bookmarks else None,
        )
        async for batch in batches:
            for event in batch:
                yield event

    async def watch_batches(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: float | None = None,
    ) -> AsyncIterator[Events]:
        """Like `watch`, but yields all available events at once. `bookmarks` is in seconds."""
        matches = selector_predicate(kind, labels, fields)
        scope = _scope(kind, namespace)
        if resource_version in ("", "0"):
            version = self.store.version
            page = self._page(kind, namespace, labels, fields)
            if page.items:
                yield [WatchEvent("ADDED", _in_version(kind, obj)) for obj in page.items]
        else:
            version = _version(resource_version)
        api_version = kind.api_version
        async for events in watch_history(self.store, kind, scope, matches, version, bookmarks):
            if not kind.is_defined and all(event.object["apiVersion"] == api_version for event in events):
                yield events
            else:
                yield [
                    event if event.type == "BOOKMARK" else WatchEvent(event.type, _in_version(kind, event.object))
                    for event in events
                ]

    async def update(
        self,
        obj: Object,
        *,
        subresource: Subresource = "",
        dry_run: bool = False,
        kind: Kind | None = None,
        field_manager: str = "muster",
        field_validation: FieldValidation = "Strict",
        check: WriteCheck | None = None,
    ) -> Object:
        """`kind` is required only for a Scale, which does not name its kind. The result is then a Scale, too."""
        is_scale = subresource == "scale" and obj.get("kind") == "Scale"
        target = kind or self._kind_of(obj)
        if target.conversion is not None:
            given = _to_stored(target, private_copy(target, obj, field_validation), obj)
            updated = await self.update(given, dry_run=dry_run, field_manager=field_manager, check=check)
            return target.conversion.from_stored(updated)
        given = orjson.loads(encode(obj)) if is_scale else private_copy(target, obj, field_validation)
        request = writes.WriteOptions(self._now(), subresource, field_manager, mode=field_validation)

        def write(tx: Transaction) -> Object:
            old = tx.get(target.resource, key_of(given)) if check is not None else None
            new = writes.update(tx, target, given, request)
            if check is not None:
                check(old, new)
            return new

        new = await self.store.write(write, dry_run=dry_run)
        return to_scale(target, new) if is_scale else new

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        patch: Object | Sequence[Object],
        *,
        type: PatchType = "merge",
        subresource: Subresource = "",
        field_manager: str = "muster",
        force: bool = False,
        dry_run: bool = False,
        field_validation: FieldValidation = "Strict",
        check: WriteCheck | None = None,
    ) -> Object:
        """Patches an object. `apply` creates it if it does not exist."""
        packed = encode(patch)
        body: Any = orjson.loads(packed)
        key = writes.object_key(kind, name, namespace)
        request = writes.WriteOptions(
            self._now(), subresource, field_manager, force, field_validation, has_null=b":null" in packed
        )

        def write(tx: Transaction) -> Object:
            old = tx.get(kind.stored_resource, key) if check is not None else None
            apply = writes.patch if kind.conversion is None else _patch_converted
            new = apply(tx, kind, key, body, type, request)
            if check is not None:
                check(old, new)
            return new

        new = await self.store.write(write, dry_run=dry_run)
        return new if kind.conversion is None else kind.conversion.from_stored(new)

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
        dry_run: bool = False,
    ) -> Object:
        if kind.conversion is not None:
            kind = kind.conversion.stored
        key = writes.object_key(kind, name, namespace)
        return await self.store.write(
            lambda tx: writes.delete(tx, kind, key, propagation, grace_seconds, uid, resource_version, self._clock()),
            dry_run=dry_run,
        )

    def peek(self, kind: Kind, key: Key) -> Object | None:
        """Returns an object from memory, without its status rows; None if it does not exist."""
        return self.store.get(kind.stored_resource, key)

    def with_status_rows(self, obj: Object, kind: Kind | None = None) -> Object:
        """Returns the object with its status rows, as clients see it."""
        return status_rows.with_rows(self.store.view, kind or self._kind_of(obj), obj)

    def status_rows(self, kind: Kind, uid: str) -> dict[str, Any]:
        """Returns the status rows of an object."""
        return status_rows.read_rows(self.store.view, kind, uid)

    async def write_status_rows(
        self,
        kind: Kind,
        obj: Object,
        changed: Mapping[str, Any],
        *,
        update: Object | None = None,
        rebase: Callable[[Object, dict[str, Any]], Object | None] | None = None,
    ) -> Object:
        """Stores status rows of `obj` and, with `update`, the new state of the object: all or nothing.

        Watchers see a change only with `update`. `update` may share unchanged parts with `obj`; the store takes over
        the rest.

        If the object has changed since `obj` was read, `rebase` gets its current state and rows, and returns the update
        for that (the object itself for none). Raises Conflict if it returns None, or if there is no `rebase`."""
        key, now = key_of(obj), self._now()

        def write(tx: Transaction) -> Object:
            old, new = writes.get_existing(tx, kind, key), update
            if rebase is not None and version_of(old) != version_of(obj):
                writes.check_preconditions(kind, old, uid_of(obj), "")
                new = rebase(old, status_rows.read_rows_in(tx, kind, uid_of(obj)))
                if new is None:
                    raise Conflict(f"{kind.resource} {key} was changed by another writer")
            else:
                writes.check_preconditions(kind, old, uid_of(obj), version_of(obj))
            status_rows.write_rows(tx, kind, uid_of(obj), changed, ())
            if new is None or new is old:
                return old
            stored = writes.update(tx, kind, {**new, "metadata": {**new["metadata"]}}, writes.WriteOptions(now))
            return stored if stored is not old else tx.put(kind.resource, {**old, "metadata": {**old["metadata"]}})

        return await self.store.write(write)

    async def bind(self, bindings: Sequence[tuple[Key, str, str]]) -> Objects:
        """Binds Pods, each (key, uid, node name): all of them, or none and raises Conflict."""
        kind = self._catalogue.of("v1", "Pod")
        now = self._now()
        return await self.store.write(lambda tx: writes.bind(tx, kind, bindings, now))

    async def finalize_namespace(self, name: str, finalizers: Sequence[str]) -> Object:
        """Replaces `spec.finalizers` of a namespace, which an update does not change."""
        kind = self._catalogue.of("v1", "Namespace")

        def write(tx: Transaction) -> Object:
            old = writes.get_existing(tx, kind, Key("", name))
            return writes.store_or_remove(tx, kind, old, {**old, "spec": {"finalizers": list(finalizers)}})

        return await self.store.write(write)

    async def logs(self, pod: str, namespace: str, query: LogQuery = LogQuery()) -> AsyncIterator[bytes]:  # noqa: B008
        if self.node is None:
            raise Unavailable("this cluster has no node agent yet, so there are no logs")
        async for piece in self.node.logs(pod, namespace, query):
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
        if self.node is None:
            raise Unavailable("this cluster has no node agent yet, so nothing can be run in a Pod")
        return await self.node.exec(pod, namespace, command, container=container, stdin=stdin, tty=tty)

    async def attach(self, pod: str, namespace: str, *, container: str = "", stdin: bool = False) -> Process:
        if self.node is None:
            raise Unavailable("this cluster has no node agent yet, so there is nothing to attach to")
        return await self.node.attach(pod, namespace, container=container, stdin=stdin)

    async def endpoint(self, pod: str, namespace: str, port: int, *, owner: Object, attempt: int = 0) -> Endpoint:
        if self.addresses is None:
            raise Unavailable("this cluster does not assign addresses to Pods yet")
        return await self.addresses.endpoint(pod, namespace, port, owner=owner, attempt=attempt)

    def _page(
        self, kind: Kind, namespace: str, labels: str, fields: str, limit: int = 0, continue_: str = ""
    ) -> Listing:
        matches, scope = selector_predicate(kind, labels, fields), _scope(kind, namespace)
        name = parse_fields(fields).exact("metadata.name") if fields and not continue_ else None
        if name is None or (kind.namespaced and not scope):
            return list_objects(self.store, kind.stored_resource, scope, matches, limit, continue_)
        found = self.store.get(kind.stored_resource, Key(scope, name))
        fits = found is not None and (matches is None or matches(found))
        return Listing([found] if found is not None and fits else [], str(self.store.version))

    def now(self) -> datetime:
        return self._clock()

    def _now(self) -> str:
        """Returns the current time as text, cached for a second: `strftime` is expensive compared to a small write."""
        second = int(self._clock().timestamp())
        if second != self._now_second:
            self._now_second, self._now_text = second, timestamp(datetime.fromtimestamp(second, UTC))
        return self._now_text

    def _kind_of(self, obj: Any) -> Kind:
        if not isinstance(obj, dict) or not obj.get("kind") or not obj.get("apiVersion"):
            raise BadRequest("kind and apiVersion are required")
        return self._catalogue.of_object(obj)

    async def _ensure_namespace(self, name: str) -> None:
        if self.store.get("namespaces", Key("", name)) is None:
            try:
                await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            except AlreadyExists:
                return


def _scope(kind: Kind, namespace: str) -> str:
    return namespace if kind.namespaced else ""


def _version(text: str) -> int:
    if not is_count(text):
        raise BadRequest(f'resourceVersion: "{text}" is not from this cluster')
    return int(text)


def _in_version(kind: Kind, obj: Object) -> Object:
    """Returns the object in the requested version. Versions of one kind differ only in apiVersion, unless the kind has
    a conversion. A defined kind may have new defaults since the object was written."""
    if kind.conversion is not None:
        return obj if obj["apiVersion"] == kind.api_version else kind.conversion.from_stored(obj)
    found = obj if obj["apiVersion"] == kind.api_version else {**obj, "apiVersion": kind.api_version}
    return kind.default(found) if kind.is_defined and kind.default is not None else found


def _to_stored(kind: Kind, obj: Object, old: Object | None) -> Object:
    """Returns the object as it is stored. Raises Invalid if it breaks a rule of the kind in which it was sent."""
    assert kind.conversion is not None
    causes = validate(obj, kind.schema) or (kind.validate(obj, old) if kind.validate is not None else [])
    if causes:
        raise invalid_object(kind, obj, causes)
    return kind.conversion.to_stored(obj)


def _patch_converted(
    tx: Transaction, kind: Kind, key: Key, body: Any, type: PatchType, request: writes.WriteOptions
) -> Object:
    """Patches an object in the form of the kind, which is not the stored one."""
    assert kind.conversion is not None
    if type == "apply":
        raise BadRequest(f"{kind.resource} cannot be applied; apply {kind.conversion.stored.api_version} instead")
    old = writes.get_existing(tx, kind.conversion.stored, key)
    shown = kind.conversion.from_stored(old)
    given = private_copy(kind, writes.apply_patch(shown, body, type, kind.schema), request.mode)
    return writes.update(tx, kind.conversion.stored, _to_stored(kind, given, shown), request)
