"""The response to a list. A list of many or large objects takes seconds to encode, so it is encoded and sent piece by
piece: other requests are served in between, and it is never in memory as a whole."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Callable, Iterable
from itertools import islice
from typing import Final

import orjson

from muster.kube.cluster import Listing
from muster.kube.kinds import Kind
from muster.kube.objects import Object
from muster.server.kubernetes.request import (
    JSON,
    LARGEST_YAML,
    YAML,
    ApiRequest,
    ApiResponse,
    json_response,
    parse_include,
    pause,
    shape_list,
    stream,
    yaml_too_large,
)

PIECE_BYTES: Final = 128 * 1024
SMALL_BYTES: Final = 1 << 20
"""A list of this size is sent as a whole."""
_FIRST_OBJECTS, _MOST_OBJECTS = 8, 500
_GZIP: Final = 31
"""For zlib: the format of gzip, with the largest window."""


async def respond_with_list(
    request: ApiRequest, kind: Kind, listing: Listing, complete: Callable[[Object], Object] | None
) -> ApiResponse | None:
    """Returns None if the response was streamed. `complete` adds what is stored apart from an object."""
    pieces = _pieces(request, kind, listing, complete)
    small, size = [], 0
    is_yaml = request.form().media == YAML
    limit = LARGEST_YAML if is_yaml else SMALL_BYTES
    async for piece in pieces:
        small.append(piece)
        size += len(piece)
        if size > limit:
            break
    else:
        body = b"".join(small)
        if is_yaml or request.query.get("pretty"):
            return json_response(orjson.loads(body), request)
        return ApiResponse(body)
    if is_yaml:
        await pieces.aclose()
        raise yaml_too_large()
    headers: list[tuple[bytes, bytes]] = []
    everything = _chain(small, pieces)
    if b"gzip" in request.headers.get(b"accept-encoding", b""):
        everything = _compressed(everything)
        headers = [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    await stream(request, everything, media=JSON, headers=headers, keeps_turn=True)
    return None


async def _pieces(
    request: ApiRequest, kind: Kind, listing: Listing, complete: Callable[[Object], Object] | None
) -> AsyncGenerator[bytes, None]:
    form, include = request.form(), parse_include(request.query)
    field = "rows" if form.shape == "table" else "items"
    envelope = shape_list(kind, listing._replace(items=[]), form, include)
    head = orjson.dumps({**{name: value for name, value in envelope.items() if name != field}, field: []})
    yield head[:-2]
    objects: Iterable[Object] = iter(listing.items)
    count, comma = _FIRST_OBJECTS, b""
    while batch := list(islice(objects, count)):
        if complete is not None:
            batch = [complete(obj) for obj in batch]
        shown = shape_list(kind, listing._replace(items=batch), form, include)
        piece = comma + orjson.dumps(shown[field])[1:-1]
        yield piece
        comma = b","
        count = max(1, min(_MOST_OBJECTS, count * PIECE_BYTES // len(piece)))
        await pause(request)
    yield b"]}\n"


async def _chain(first: list[bytes], rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        for piece in first:
            yield piece
        async for piece in rest:
            yield piece
    finally:
        await rest.aclose()


async def _compressed(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    compressor = zlib.compressobj(1, wbits=_GZIP)
    try:
        async for piece in pieces:
            yield await asyncio.to_thread(compressor.compress, piece)
        yield compressor.flush()
    finally:
        await pieces.aclose()
