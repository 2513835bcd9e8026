"""Discovers the kinds of an API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from muster.kube.errors import ApiError, NotFound
from muster.kube.kinds import Kind, Scale
from muster.kube.objects import split_api_version
from muster.kube.remote.transport import Transport

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
