"""Downloads of workflow artifacts."""

from __future__ import annotations

import html
import mimetypes
import posixpath
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Protocol, cast
from urllib.parse import quote

from muster.kube import builtin
from muster.kube.errors import ApiError, BadRequest, NotFound, Unavailable
from muster.kube.objects import Object, namespace_of, status_of
from muster.server.argo.requests import Request
from muster.server.downloads import content_disposition
from muster.server.kubernetes.request import ApiResponse, stream
from muster.workflows.artifacts.locations import (
    Artifact,
    ArtifactError,
    ArtifactMissing,
    ArtifactUnreachable,
    key_of,
    location_of,
    with_key,
)

_SECURITY = [
    # Files of workflows are shown, but never executed with the rights of the user.
    (
        b"content-security-policy",
        b"sandbox; base-uri 'none'; default-src 'none'; img-src 'self'; style-src 'self' 'unsafe-inline'",
    ),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"x-content-type-options", b"nosniff"),
]
_SHOWN = frozenset((
    "text/plain", "text/html", "text/csv", "text/markdown", "application/json", "application/yaml", "image/png",
    "image/jpeg", "image/gif", "image/webp",
))  # fmt: skip
"""What a browser shows. Scripts in a page do not run: see the content security policy."""
_DIRECTIONS = ("inputs", "outputs")


class Reader(Protocol):
    """What this module needs of `muster.workflows.artifacts`."""

    async def repository(self, workflow: Object) -> Mapping[str, Any]: ...

    async def keys(self, workflow: Object, artifact: Artifact) -> list[str]: ...

    def read(self, workflow: Object, artifact: Artifact) -> AsyncIterator[bytes]: ...


class Downloads:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def output(self, request: Request) -> None:
        await self._download(request, await _by_name(request), "outputs")

    async def input(self, request: Request) -> None:
        await self._download(request, await _by_name(request), "inputs")

    async def output_by_uid(self, request: Request) -> None:
        await self._download(request, await _by_uid(request), "outputs")

    async def input_by_uid(self, request: Request) -> None:
        await self._download(request, await _by_uid(request), "inputs")

    async def file(self, request: Request) -> ApiResponse | None:
        """A folder is shown as a page of links."""
        names = request.names
        if names["direction"] not in _DIRECTIONS:
            raise BadRequest(f'"{names["direction"]}" is neither inputs nor outputs')
        workflow = await _of_discriminator(request)
        name, _, inside = names["rest"].partition("/")
        artifact = find_artifact(workflow, names["nodeId"], names["direction"], name)
        artifact = {**artifact, **await self._inside(request, workflow, artifact, inside)}
        below = await self._keys(workflow, artifact)
        key = key_of(artifact).strip("/")
        if not below or below == [key]:
            await self._send(request, workflow, artifact)
            return None
        path = request.call.path
        if not path.endswith("/"):
            return ApiResponse(b"", 307, headers=[(b"location", quote(f"{path}/").encode())])
        page = folder_page([one.strip("/").removeprefix(f"{key}/") for one in below])
        return ApiResponse(page, media="text/html; charset=utf-8", headers=list(_SECURITY))

    async def _download(self, request: Request, workflow: Object, direction: str) -> None:
        artifact = find_artifact(workflow, request.names["nodeId"], direction, request.names["artifactName"])
        artifact = {**artifact, **await self._inside(request, workflow, artifact, "")}
        await self._send(request, workflow, artifact)

    async def _inside(self, request: Request, workflow: Object, artifact: Artifact, path: str) -> dict[str, Any]:
        """Returns the location of a file in an artifact. Raises Forbidden if it needs a Secret that the user may not
        read."""
        try:
            location = location_of(artifact, await self._reader.repository(workflow))
            for secret in secrets_in(location):
                request.api.require("get", builtin.SECRET, namespace_of(workflow), secret)
            if not path.strip("/"):
                return location
            clean = posixpath.normpath(path).strip("/")
            if clean.split("/")[0] == "..":
                raise BadRequest(f'"{path}" leads out of the artifact')
            return with_key(location, posixpath.join(key_of(location), clean))
        except ArtifactError as error:
            raise _to_api_error(error) from None

    async def _keys(self, workflow: Object, artifact: Artifact) -> list[str]:
        try:
            return await self._reader.keys(workflow, artifact)
        except ArtifactError:
            return []  # some stores can only be read from

    async def _send(self, request: Request, workflow: Object, artifact: Artifact) -> None:
        name = posixpath.basename(key_of(artifact).rstrip("/")) or str(artifact.get("name"))
        media = mimetypes.guess_type(name)[0] or "application/octet-stream"
        disposition = content_disposition(name, attachment=media not in _SHOWN)
        headers = [(b"content-disposition", disposition.encode()), *_SECURITY]

        async def pieces() -> AsyncGenerator[bytes, None]:
            found = cast("AsyncGenerator[bytes, None]", self._reader.read(workflow, artifact))
            async with aclosing(found) as opened:
                try:
                    async for piece in opened:
                        yield piece
                except ArtifactError as error:
                    raise _to_api_error(error) from None

        await stream(request.call, pieces(), media=media, first_piece_seconds=None, headers=headers)


def find_artifact(workflow: Object, node: str, direction: str, name: str) -> Artifact:
    found = (status_of(workflow).get("nodes") or {}).get(node)
    if found is None:
        raise NotFound(f'the workflow has no node "{node}"')
    for artifact in (found.get(direction) or {}).get("artifacts") or ():
        if artifact.get("name") == name:
            return cast(Artifact, artifact)
    raise NotFound(f'artifact not found: the {direction} of the node "{node}" have no "{name}"')


def secrets_in(location: Any) -> Iterator[str]:
    """Returns the names of the Secrets that a location refers to."""
    if not isinstance(location, dict):
        return
    for field, value in location.items():
        if field.endswith("Secret") and isinstance(value, dict) and value.get("name"):
            yield str(value["name"])
        else:
            yield from secrets_in(value)


def folder_page(paths: list[str]) -> bytes:
    """Returns a page of links to the files and folders at the top."""
    names = dict.fromkeys(first + slash for first, slash, _ in (path.partition("/") for path in sorted(paths)) if first)
    links = "".join(f'<li><a href="./{quote(name)}">{html.escape(name)}</a></li>\n' for name in names)
    return f'<html><body><ul>\n<li><a href="..">..</a></li>\n{links}</ul></body></html>'.encode()


def _to_api_error(error: ArtifactError) -> ApiError:
    if isinstance(error, ArtifactMissing):
        return NotFound(str(error))
    return Unavailable(str(error)) if isinstance(error, ArtifactUnreachable) else BadRequest(str(error))


async def _by_name(request: Request) -> Object:
    return request.api.with_nodes(await request.api.find(request.name, request.namespace))


async def _by_uid(request: Request) -> Object:
    return request.api.with_nodes(await request.api.find_by_uid(request.names["uid"]))


async def _of_discriminator(request: Request) -> Object:
    """`workflows/NAME` or `archived-workflows/UID`."""
    names = request.names
    match names["discriminator"]:
        case "workflows":
            return request.api.with_nodes(await request.api.find(names["id"], request.namespace))
        case "archived-workflows":
            found = await request.api.find_by_uid(names["id"])
            if namespace_of(found) != request.namespace:
                raise NotFound("not found")
            return request.api.with_nodes(found)
    raise BadRequest(f'"{names["discriminator"]}" is neither workflows nor archived-workflows')
