"""What the API tells clients about itself: versions, groups and resources, group by group or all at once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from muster.embedded.api.negotiation import JSON, clauses_of
from muster.embedded.api.resources import GroupVersion, Resource
from muster.kube.objects import join_api_version

KUBERNETES_VERSION = (1, 35)
"""The version whose manners the API has. Clients look at it to decide what to ask for."""

_AGGREGATED = "APIGroupDiscoveryList"


def version_info(product: str) -> dict[str, str]:
    major, minor = KUBERNETES_VERSION
    return {
        "major": str(major),
        "minor": str(minor),
        "gitVersion": f"v{major}.{minor}.0+muster-{product}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def aggregated_version(accept: str) -> str:
    """`v2` or `v2beta1` if the client asks for everything at once before it asks for anything else we have, else ''."""
    for media, parameters in clauses_of(accept):
        if media != JSON:
            continue
        if not parameters.get("as"):
            return ""
        group, version = parameters.get("g"), parameters.get("v", "")
        if parameters["as"] == _AGGREGATED and group == "apidiscovery.k8s.io" and version in ("v2", "v2beta1"):
            return version
    return ""


def aggregated_media(version: str) -> str:
    return f"{JSON};g=apidiscovery.k8s.io;v={version};as={_AGGREGATED}"


def core_versions(served: Iterable[GroupVersion], address: str) -> dict[str, Any]:
    """/api"""
    return {
        "kind": "APIVersions",
        "versions": [gv.version for gv in served if not gv.group],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def groups(served: Iterable[GroupVersion]) -> list[dict[str, Any]]:
    """The named groups, as /apis lists them."""
    found = []
    for group, members in groupby((gv for gv in served if gv.group), key=lambda gv: gv.group):
        versions = [{"groupVersion": join_api_version(group, gv.version), "version": gv.version} for gv in members]
        found.append({"name": group, "versions": versions, "preferredVersion": versions[0]})
    return found


def group_list(served: Iterable[GroupVersion]) -> dict[str, Any]:
    """/apis"""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(served)}


def group(served: Iterable[GroupVersion], name: str) -> dict[str, Any] | None:
    """/apis/batch"""
    found = next((g for g in groups(served) if g["name"] == name), None)
    return found and {"kind": "APIGroup", "apiVersion": "v1", **found}


def resource_list(served: Iterable[GroupVersion], group: str, version: str) -> dict[str, Any] | None:
    """/api/v1, /apis/batch/v1"""
    found = next((gv for gv in served if (gv.group, gv.version) == (group, version)), None)
    return found and {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": join_api_version(group, version),
        "resources": [_line(resource) for resource in found.resources],
    }


def aggregated(served: Iterable[GroupVersion], version: str, *, core: bool) -> dict[str, Any]:
    """/api or /apis with everything in it."""
    members = groupby((gv for gv in served if core == (not gv.group)), key=lambda gv: gv.group)
    return {
        "kind": _AGGREGATED,
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
                "versions": [
                    {"version": gv.version, "resources": _nested(gv.resources), "freshness": "Current"}
                    for gv in versions
                ],
            }
            for name, versions in members
        ],
    }


def _line(resource: Resource) -> dict[str, Any]:
    line: dict[str, Any] = {
        "name": resource.name,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.kind_version:
        line["group"] = resource.kind_group or ""
        line["version"] = resource.kind_version
    if resource.short_names:
        line["shortNames"] = list(resource.short_names)
    if resource.categories:
        line["categories"] = list(resource.categories)
    return line


def _nested(resources: tuple[Resource, ...]) -> list[dict[str, Any]]:
    """Subresources inside their parents."""
    found = []
    for resource in resources:
        if resource.is_subresource:
            continue
        nested: dict[str, Any] = {
            "resource": resource.name,
            "responseKind": _kind(resource),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            nested["shortNames"] = list(resource.short_names)
        if resource.categories:
            nested["categories"] = list(resource.categories)
        parts = [
            {"subresource": part.name.partition("/")[2], "responseKind": _kind(part), "verbs": list(part.verbs)}
            for part in resources
            if part.name.startswith(resource.name + "/")
        ]
        if parts:
            nested["subresources"] = parts
        found.append(nested)
    return found


def _kind(resource: Resource) -> dict[str, str]:
    if resource.kind_version:
        return {"group": resource.kind_group or "", "version": resource.kind_version, "kind": resource.kind}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}
