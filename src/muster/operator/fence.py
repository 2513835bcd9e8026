"""What stands between the controllers and the API server: no write without the lease, and not too much at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from muster.kube.cluster import (
    Cluster,
    Endpoint,
    Listing,
    LogQuery,
    PatchType,
    Process,
    Propagation,
    Subresource,
    WatchEvent,
)
from muster.kube.errors import ApiError
from muster.kube.kinds import Catalogue, Kind
from muster.kube.objects import Object

T = TypeVar("T")


class NotLeading(ApiError):
    """Somebody else may be writing by now."""

    code, reason = 403, "NotLeading"


class Fenced:
    """A cluster that is written to only while `may_write` says so. Reading is free, but as limited in number."""

    def __init__(self, cluster: Cluster, may_write: Callable[[], bool], requests: int) -> None:
        self._cluster = cluster
        self._may_write = may_write
        self._room = asyncio.Semaphore(requests)

    @property
    def catalogue(self) -> Catalogue:
        return self._cluster.catalogue

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._write(lambda: self._cluster.create(obj, dry_run=dry_run))

    async def update(self, obj: Object, *, subresource: Subresource = "", dry_run: bool = False) -> Object:
        return await self._write(lambda: self._cluster.update(obj, subresource=subresource, dry_run=dry_run))

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        patch: Object | Sequence[Object],
        *,
        type: PatchType = "merge",
        subresource: Subresource = "",
        field_manager: str = "muster-operator",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        return await self._write(
            lambda: self._cluster.patch(
                kind, name, namespace, patch, type=type, subresource=subresource, field_manager=field_manager,
                force=force, dry_run=dry_run,
            )
        )  # fmt: skip

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
        return await self._write(
            lambda: self._cluster.delete(
                kind, name, namespace, propagation=propagation, grace_seconds=grace_seconds, uid=uid,
                resource_version=resource_version,
            )
        )  # fmt: skip

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        async with self._room:
            return await self._cluster.get(kind, name, namespace)

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
        async with self._room:
            return await self._cluster.list(
                kind, namespace, labels=labels, fields=fields, limit=limit, continue_=continue_
            )

    def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        return self._cluster.watch(
            kind, namespace, labels=labels, fields=fields, resource_version=resource_version, bookmarks=bookmarks
        )

    def logs(self, pod: str, namespace: str, query: LogQuery = LogQuery()) -> AsyncIterator[bytes]:  # noqa: B008
        return self._cluster.logs(pod, namespace, query)

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
        return await self._write(
            lambda: self._cluster.exec(pod, namespace, command, container=container, stdin=stdin, tty=tty)
        )

    async def endpoint(self, pod: str, namespace: str, port: int, *, owner: Object, attempt: int = 0) -> Endpoint:
        return await self._cluster.endpoint(pod, namespace, port, owner=owner, attempt=attempt)

    async def _write(self, call: Callable[[], Awaitable[T]]) -> T:
        async with self._room:
            if not self._may_write():
                raise NotLeading("this operator does not lead any more: nothing is written")
            return await call()
