"""What is not about objects: the version, discovery and OpenAPI, rendered once per set of kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster import __version__
from muster.embedded.api import discovery, openapi, openapi_protobuf
from muster.embedded.api.calls import Answer, Call, answer
from muster.embedded.api.negotiation import clauses_of
from muster.embedded.api.resources import GroupVersion, group_versions
from muster.kube.errors import NotFound
from muster.kube.kinds import Catalogue, Kind


class Description:
    """Follows the catalogue: kinds may be registered while the API is served."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._kinds: tuple[Kind, ...] = ()
        self._served: list[GroupVersion] = []
        self._rendered: dict[str, Answer] = {}

    def answer(self, call: Call) -> Answer:
        """Raises NotFound for a path that nothing is known about."""
        self._refresh()
        match call.path.strip("/").split("/"):
            case [""]:
                return answer({"paths": self._paths()}, call)
            case ["version"]:
                return answer(discovery.version_info(__version__), call)
            case ["api"]:
                return self._groups(call, core=True)
            case ["apis"]:
                return self._groups(call, core=False)
            case ["api", version]:
                return self._found(call, discovery.resource_list(self._served, "", version))
            case ["apis", group]:
                return self._found(call, discovery.group(self._served, group))
            case ["apis", group, version]:
                return self._found(call, discovery.resource_list(self._served, group, version))
            case ["openapi", "v2"]:
                return self._openapi_v2(call)
            case ["openapi", "v3"]:
                return self._cached(call, "openapi/v3", lambda: openapi.index(self._kinds))
            case ["openapi", "v3", *rest]:
                path = "/".join(rest)
                return self._cached(call, f"openapi/v3/{path}", lambda: openapi.v3(self._kinds, path))
        raise NotFound("the server could not find the requested resource")

    def _refresh(self) -> None:
        kinds = tuple(self._catalogue)
        if kinds != self._kinds:
            self._kinds = kinds
            self._served = group_versions(kinds)
            self._rendered = {}

    def _groups(self, call: Call, *, core: bool) -> Answer:
        version = discovery.aggregated_version(call.header(b"accept"))
        if version:
            made = answer(discovery.aggregated(self._served, version, core=core))
            made.media = discovery.aggregated_media(version)
            return made
        if core:
            host, port = (call.scope.get("server") or ("127.0.0.1", 0))[:2]
            return answer(discovery.core_versions(self._served, f"{host}:{port}"), call)
        return answer(discovery.group_list(self._served), call)

    def _openapi_v2(self, call: Call) -> Answer:
        wanted = clauses_of(call.header(b"accept"))
        if wanted and wanted[0].media == openapi_protobuf.ASKED:
            found = self._rendered.get("openapi/v2 protobuf")
            if found is None:
                content = openapi_protobuf.encode(openapi.v2(self._kinds))
                found = self._rendered["openapi/v2 protobuf"] = _tagged(
                    Answer(content, media=openapi_protobuf.ANSWERED)
                )
            return _unless_known(call, found)
        return self._cached(call, "openapi/v2", lambda: openapi.v2(self._kinds))

    def _cached(self, call: Call, key: str, make: Callable[[], dict[str, Any] | None]) -> Answer:
        found = self._rendered.get(key)
        if found is None:
            found = self._rendered[key] = _tagged(self._found(None, make()))
        return _unless_known(call, found)

    def _found(self, call: Call | None, document: dict[str, Any] | None) -> Answer:
        if document is None:
            raise NotFound("the server could not find the requested resource")
        return answer(document, call)

    def _paths(self) -> list[str]:
        always = ("/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
        return sorted({*always, *(f"/{openapi.group_path(kind)}" for kind in self._kinds)})


def _tagged(made: Answer) -> Answer:
    made.headers.append((b"etag", f'"{openapi.digest(made.body)}"'.encode()))
    return made


def _unless_known(call: Call, found: Answer) -> Answer:
    """Nothing but 304 for a client that has exactly this."""
    if call.headers.get(b"if-none-match") == found.headers[0][1]:
        return Answer(b"", 304, found.media, found.headers)
    return found
