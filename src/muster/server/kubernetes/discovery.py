"""Discovery: the groups and resources that the API serves, and the paths of its OpenAPI documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, NamedTuple

from muster import __version__
from muster.kube.errors import NotFound
from muster.kube.kinds import Catalogue, Kind
from muster.kube.metrics_api import GROUP as METRICS
from muster.kube.objects import join_api_version
from muster.server.kubernetes import openapi
from muster.server.kubernetes.request import JSON, ApiRequest, ApiResponse, json_response, parse_accept

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CHANGE = ("get", "patch", "update")


class Resource(NamedTuple):
    """One resource in discovery. The name of a subresource includes its parent: `pods/log`."""

    name: str
    kind: str
    group: str
    version: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    kind_group: str | None = None
    kind_version: str = ""

    @property
    def is_subresource(self) -> bool:
        return "/" in self.name


class GroupVersion(NamedTuple):
    group: str
    version: str
    resources: tuple[Resource, ...]


_SUBRESOURCES: dict[tuple[str, str], tuple[tuple[str, str, str, str, tuple[str, ...]], ...]] = {
    # (group, plural) -> (subresource, kind, its group, its version, verbs)
    ("", "pods"): (
        ("attach", "PodAttachOptions", "", "v1", ("create", "get")),
        ("binding", "Binding", "", "v1", ("create",)),
        ("eviction", "Eviction", "policy", "v1", ("create",)),
        ("exec", "PodExecOptions", "", "v1", ("create", "get")),
        ("log", "Pod", "", "v1", ("get",)),
        ("portforward", "PodPortForwardOptions", "", "v1", ("create", "get")),
        ("proxy", "PodProxyOptions", "", "v1", ("create", "delete", "get", "patch", "update")),
    ),
    ("", "services"): (("proxy", "ServiceProxyOptions", "", "v1", ("create", "delete", "get", "patch", "update")),),
    ("", "namespaces"): (("finalize", "Namespace", "", "v1", ("update",)),),
    ("", "serviceaccounts"): (("token", "TokenRequest", "authentication.k8s.io", "v1", ("create",)),),
}

REVIEWS: tuple[tuple[str, str, str, bool], ...] = (
    # (group, plural, kind, namespaced)
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", False),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", False),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", False),
)


def group_versions(kinds: Iterable[Kind]) -> list[GroupVersion]:
    """Returns everything that is served: the core group first, then by name, with the preferred version first."""
    found: dict[tuple[str, str], list[Resource]] = defaultdict(list)
    for kind in kinds:
        found[kind.group, kind.version].extend(_of_kind(kind))
    for group, plural, name, namespaced in REVIEWS:
        found[group, "v1"].append(Resource(plural, name, group, "v1", namespaced, ("create",), name.lower()))
    return [
        GroupVersion(group, version, tuple(sorted(resources, key=lambda r: r.name)))
        for (group, version), resources in sorted(found.items(), key=lambda f: (f[0][0], _preference(f[0][1])))
    ]


def _of_kind(kind: Kind) -> list[Resource]:
    where = (kind.group, kind.version, kind.namespaced)
    verbs = ("get", "list") if kind.group == METRICS else ALL_VERBS
    found = [
        Resource(kind.plural, kind.kind, *where, verbs, kind.singular, tuple(kind.short_names), tuple(kind.categories))
    ]
    if kind.has_status:
        found.append(Resource(f"{kind.plural}/status", kind.kind, *where, _CHANGE))
    if kind.scale is not None:
        found.append(
            Resource(f"{kind.plural}/scale", "Scale", *where, _CHANGE, kind_group="autoscaling", kind_version="v1")
        )
    found.extend(
        Resource(f"{kind.plural}/{name}", of, *where, allowed, kind_group=group, kind_version=version)
        for name, of, group, version, allowed in _SUBRESOURCES.get((kind.group, kind.plural), ())
    )
    return found


def _preference(version: str) -> tuple[int, int, int, str]:
    """The order of Kubernetes: v2, v1, v1beta2, v1beta1, v1alpha1, then all other names."""
    digits = version[1:]
    for rank, stage in enumerate(("beta", "alpha"), start=1):
        if stage in digits:
            major, _, minor = digits.partition(stage)
            if major.isdigit():
                return rank, -int(major), -int(minor or 0), version
    if version[:1] == "v" and digits.isdigit():
        return 0, -int(digits), 0, version
    return 3, 0, 0, version


KUBERNETES_VERSION = (1, 35)
"""The version that the API behaves like. Clients use it to decide which features to use."""

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
    """Returns `v2` or `v2beta1` if the client prefers aggregated discovery over everything else we serve, or ''."""
    for media, parameters in parse_accept(accept):
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


def api_groups(served: Iterable[GroupVersion]) -> list[dict[str, Any]]:
    """Returns the named groups, as in /apis."""
    found = []
    for group, members in groupby((gv for gv in served if gv.group), key=lambda gv: gv.group):
        versions = [{"groupVersion": join_api_version(group, gv.version), "version": gv.version} for gv in members]
        found.append({"name": group, "versions": versions, "preferredVersion": versions[0]})
    return found


def group_list(served: Iterable[GroupVersion]) -> dict[str, Any]:
    """/apis"""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": api_groups(served)}


def api_group(served: Iterable[GroupVersion], name: str) -> dict[str, Any] | None:
    """/apis/batch"""
    found = next((g for g in api_groups(served) if g["name"] == name), None)
    return found and {"kind": "APIGroup", "apiVersion": "v1", **found}


def resource_list(served: Iterable[GroupVersion], group: str, version: str) -> dict[str, Any] | None:
    """/api/v1, /apis/batch/v1"""
    found = next((gv for gv in served if (gv.group, gv.version) == (group, version)), None)
    return found and {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": join_api_version(group, version),
        "resources": [_resource_json(resource) for resource in found.resources],
    }


def aggregated_discovery(served: Iterable[GroupVersion], version: str, *, core: bool) -> dict[str, Any]:
    """/api or /apis with all resources."""
    members = groupby((gv for gv in served if core == (not gv.group)), key=lambda gv: gv.group)
    return {
        "kind": _AGGREGATED,
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
                "versions": [
                    {"version": gv.version, "resources": _nested_resources(gv.resources), "freshness": "Current"}
                    for gv in versions
                ],
            }
            for name, versions in members
        ],
    }


def _resource_json(resource: Resource) -> dict[str, Any]:
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


def _nested_resources(resources: tuple[Resource, ...]) -> list[dict[str, Any]]:
    """Returns resources with their subresources nested in them."""
    found = []
    for resource in resources:
        if resource.is_subresource:
            continue
        nested: dict[str, Any] = {
            "resource": resource.name,
            "responseKind": _response_kind(resource),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            nested["shortNames"] = list(resource.short_names)
        if resource.categories:
            nested["categories"] = list(resource.categories)
        parts = [
            {
                "subresource": part.name.partition("/")[2],
                "responseKind": _response_kind(part),
                "verbs": list(part.verbs),
            }
            for part in resources
            if part.name.startswith(resource.name + "/")
        ]
        if parts:
            nested["subresources"] = parts
        found.append(nested)
    return found


def _response_kind(resource: Resource) -> dict[str, str]:
    if resource.kind_version:
        return {"group": resource.kind_group or "", "version": resource.kind_version, "kind": resource.kind}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


class ApiDescription:
    """Serves discovery and OpenAPI requests. It follows the catalogue, where kinds may be registered at any time.

    Documents are rendered once per set of kinds."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._kinds: tuple[Kind, ...] = ()
        self._served: list[GroupVersion] = []
        self._rendered: dict[str, ApiResponse] = {}

    def respond(self, request: ApiRequest) -> ApiResponse:
        """Returns the document of a path. Raises NotFound."""
        self._refresh()
        match request.path.strip("/").split("/"):
            case [""]:
                return json_response({"paths": self._paths()}, request)
            case ["version"]:
                return json_response(version_info(__version__), request)
            case ["api"]:
                return self._groups(request, core=True)
            case ["apis"]:
                return self._groups(request, core=False)
            case ["api", version]:
                return self._found(request, resource_list(self._served, "", version))
            case ["apis", group]:
                return self._found(request, api_group(self._served, group))
            case ["apis", group, version]:
                return self._found(request, resource_list(self._served, group, version))
            case ["openapi", "v2"]:
                return self._openapi_v2(request)
            case ["openapi", "v3"]:
                return self._cached(request, "openapi/v3", lambda: openapi.v3_index(self._kinds))
            case ["openapi", "v3", *rest]:
                path = "/".join(rest)
                return self._cached(request, f"openapi/v3/{path}", lambda: openapi.v3_document(self._kinds, path))
        raise NotFound("the server could not find the requested resource")

    def _refresh(self) -> None:
        kinds = tuple(self._catalogue)
        if kinds != self._kinds:
            self._kinds = kinds
            self._served = group_versions(kinds)
            self._rendered = {}

    def _groups(self, request: ApiRequest, *, core: bool) -> ApiResponse:
        version = aggregated_version(request.header(b"accept"))
        if version:
            response = json_response(aggregated_discovery(self._served, version, core=core))
            response.media = aggregated_media(version)
            return response
        if core:
            host, port = (request.scope.get("server") or ("127.0.0.1", 0))[:2]
            return json_response(core_versions(self._served, f"{host}:{port}"), request)
        return json_response(group_list(self._served), request)

    def _openapi_v2(self, request: ApiRequest) -> ApiResponse:
        wanted = parse_accept(request.header(b"accept"))
        if wanted and wanted[0].media == openapi.PROTOBUF_ACCEPT:
            found = self._rendered.get("openapi/v2 protobuf")
            if found is None:
                content = openapi.encode_v2_protobuf(openapi.v2_document(self._kinds))
                found = self._rendered["openapi/v2 protobuf"] = _with_etag(
                    ApiResponse(content, media=openapi.PROTOBUF_MEDIA)
                )
            return _or_not_modified(request, found)
        return self._cached(request, "openapi/v2", lambda: openapi.v2_document(self._kinds))

    def _cached(self, request: ApiRequest, key: str, make: Callable[[], dict[str, Any] | None]) -> ApiResponse:
        found = self._rendered.get(key)
        if found is None:
            found = self._rendered[key] = _with_etag(self._found(None, make()))
        return _or_not_modified(request, found)

    def _found(self, request: ApiRequest | None, document: dict[str, Any] | None) -> ApiResponse:
        if document is None:
            raise NotFound("the server could not find the requested resource")
        return json_response(document, request)

    def _paths(self) -> list[str]:
        always = ("/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
        return sorted({*always, *(f"/{openapi.group_path(kind)}" for kind in self._kinds)})


def _with_etag(response: ApiResponse) -> ApiResponse:
    response.headers.append((b"etag", f'"{openapi.digest(response.body)}"'.encode()))
    return response


def _or_not_modified(request: ApiRequest, found: ApiResponse) -> ApiResponse:
    """Returns 304 if the client already has this response."""
    if request.headers.get(b"if-none-match") == found.headers[0][1]:
        return ApiResponse(b"", 304, found.media, found.headers)
    return found
