"""Virtual clusters and storage roots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from muster.platform.records.resources import SkuUse, StorageRoot, VirtualCluster, VirtualClusterDetail
from muster.sdk.transport import Transport, parse_record


class Clusters:
    """Virtual clusters are named by id or name."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, q: str = "", most: int | None = None) -> Iterator[VirtualCluster]:
        return (parse_record(VirtualCluster, item) for item in self._transport.pages("clusters", {"q": q}, most))

    def get(self, cluster: str) -> VirtualCluster:
        return parse_record(VirtualCluster, self._transport.request("GET", _path("clusters", cluster)))

    def uses(self, cluster: str) -> tuple[list_[SkuUse], list_[SkuUse]]:
        """Returns the nodes of runs that use SKUs now, and those that wait for them."""
        found = parse_record(VirtualClusterDetail, self._transport.request("GET", _path("clusters", cluster)))
        return found.uses, found.waiting

    def create(self, name: str, sku: Mapping[str, str | int], **more: Any) -> VirtualCluster:
        """`more`: description, node_selector, tolerations, total, team."""
        body = {"name": name, "sku": dict(sku), **more}
        return parse_record(VirtualCluster, self._transport.request("POST", "clusters", body))

    def edit(self, cluster: str, **changes: Any) -> VirtualCluster:
        return parse_record(VirtualCluster, self._transport.request("PATCH", _path("clusters", cluster), changes))

    def delete(self, cluster: str) -> None:
        self._transport.request("DELETE", _path("clusters", cluster))


class Storage:
    """Storage roots are named by id or name."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, q: str = "", most: int | None = None) -> Iterator[StorageRoot]:
        return (parse_record(StorageRoot, item) for item in self._transport.pages("storage", {"q": q}, most))

    def get(self, root: str) -> StorageRoot:
        return parse_record(StorageRoot, self._transport.request("GET", _path("storage", root)))

    def create(self, name: str, path: str, **more: Any) -> StorageRoot:
        """`more`: description, host_path, claim, read_only, team."""
        return parse_record(
            StorageRoot, self._transport.request("POST", "storage", {"name": name, "path": path, **more})
        )

    def edit(self, root: str, **changes: Any) -> StorageRoot:
        return parse_record(StorageRoot, self._transport.request("PATCH", _path("storage", root), changes))

    def delete(self, root: str) -> None:
        self._transport.request("DELETE", _path("storage", root))


list_ = list
"""`list` is a method above."""


def _path(kind: str, name: str) -> str:
    return f"{kind}/{quote(name, safe='')}"
