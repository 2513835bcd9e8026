"""Routes of the files in volumes: list, read, write, rename and delete them.

Files of users are always sent as downloads of unknown type that a browser neither renders nor guesses the type of, so
that a page in a volume never runs on the platform's origin.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from errno import EDQUOT, EINVAL, ELOOP, ENOSPC
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from muster.kube.beneath import UnsafeFile
from muster.platform.errors import (
    BadRequestProblem,
    ConflictProblem,
    InvalidProblem,
    NotFoundProblem,
    UnavailableProblem,
)
from muster.server.downloads import DOWNLOAD_HEADERS, content_disposition
from muster.server.fair_share import turn_of
from muster.server.platform.rest import RequestBody
from muster.server.platform.security import Who
from muster.server.platform.services import Here
from muster.server.platform.streams import Interrupted, StreamAccess, download
from muster.server.platform.volume_access import (
    VolumeRoom,
    find_room,
    find_volume,
    find_writable,
    note,
    readable_folder,
)
from muster.workspaces import volume_files
from muster.workspaces.volume_files import FileAccess, IsFolder, Upload, in_folder
from muster.workspaces.volumes import (
    InvalidPath,
    VolumeEntry,
    VolumeFolder,
    VolumeUsage,
    decode_path,
    encode_path,
    parse_range,
    shown_name,
)

log = logging.getLogger(__name__)

router = APIRouter(prefix="/volumes", tags=["volumes"])

_UPLOAD: Final = re.compile(r"/api/v1/volumes/[^/]+/[^/]+/files/content")
_WRITE_BYTES: Final = 1 << 20
_LONGEST_NOTE: Final = 1000
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": _BYTES},
    206: {"content": _BYTES, "description": "The part that the Range header asks for."},
    416: {"description": "The file is shorter than the Range header says."},
}
_UPLOAD_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}

_PathParameter = Annotated[
    str,
    Query(
        max_length=16_000,
        description="The path in the volume. A percent sign is written %25, and a byte that is not UTF-8 %XX.",
    ),
]
_PathField = Annotated[str, Field(max_length=16_000)]


class FolderBody(RequestBody):
    path: _PathField


class RenameBody(RequestBody):
    path: _PathField
    to: _PathField
    """The new path, in the same volume."""


def is_upload(scope: Scope) -> bool:
    """Whether the body of a request is a file, which may be larger than other bodies."""
    return bool(scope["method"] == "PUT" and _UPLOAD.fullmatch(scope["path"]))


@router.get("/{namespace}/{name}/usage", operation_id="get_volume_usage")
async def get_volume_usage(namespace: str, name: str, here: Here, who: Who, path: _PathParameter = "") -> VolumeUsage:
    """Counts what is stored in the volume, or below a path in it."""
    folder = await readable_folder(here, who, namespace, name)
    parts = _parts("path", path)
    with _file_errors(path):
        return await here.volume_files.measure(folder, parts)


@router.get("/{namespace}/{name}/files", operation_id="list_volume_files")
async def list_volume_files(
    namespace: str,
    name: str,
    here: Here,
    who: Who,
    path: _PathParameter = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="The largest number of items.")] = 200,
    cursor: Annotated[str, Query(max_length=4000, description="`next` of the previous page.")] = "",
) -> VolumeFolder:
    """Lists a folder: folders first, then by name."""
    folder = await readable_folder(here, who, namespace, name)
    parts = _parts("path", path)
    show = partial(volume_files.list_folder, limit=limit, after=cursor)
    with _file_errors(path):
        return await here.volume_files.run(in_folder, folder, show, parts)


@router.get(
    "/{namespace}/{name}/files/content", operation_id="get_volume_file", response_class=Response, responses=_FILE
)
async def get_volume_file(
    namespace: str, name: str, here: Here, who: Who, request: Request, path: _PathParameter = ""
) -> Response:
    """Returns a file, or the part of it that the Range header asks for."""
    folder = await readable_folder(here, who, namespace, name)
    parts = _parts("path", path, below_top=True)
    with _file_errors(path):
        file, status = await here.volume_files.run(in_folder, folder, volume_files.open_file, parts)
    size, tag = status.st_size, f'"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"'
    headers = {
        **DOWNLOAD_HEADERS,
        "Content-Disposition": content_disposition(parts[-1]),
        "Accept-Ranges": "bytes",
        "ETag": tag,
    }
    wanted = None
    if request.headers.get("if-range", tag) == tag:
        wanted = parse_range(request.headers.get("range", ""), size)
    if wanted == "unsatisfiable":
        file.close()
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    first, count = (wanted.first, wanted.last - wanted.first + 1) if wanted is not None else (0, size)
    headers["Content-Length"] = str(count)
    if wanted is not None:
        headers["Content-Range"] = f"bytes {wanted.first}-{wanted.last}/{size}"
    blocks = _stream(here.volume_files, volume_files.read_blocks(file, first, count), file.close)
    check = partial(find_volume, here, who, namespace, name)
    response = download(request, blocks, check, media_type="application/octet-stream", headers=headers)
    response.status_code = 206 if wanted is not None else 200
    return response


@router.get(
    "/{namespace}/{name}/files/archive", operation_id="get_volume_archive", response_class=Response, responses=_FILE
)
async def get_volume_archive(
    namespace: str,
    name: str,
    here: Here,
    who: Who,
    request: Request,
    path: _PathParameter = "",
    format: Annotated[
        Literal["zip", "tar"], Query(description="tar keeps links, and names that are not UTF-8; zip leaves links out.")
    ] = "zip",
) -> Response:
    """Returns a folder as an archive."""
    folder = await readable_folder(here, who, namespace, name)
    parts = _parts("path", path)
    with _file_errors(path):
        entry = await here.volume_files.run(in_folder, folder, volume_files.look, parts)
        if entry.kind != "folder":
            raise NotADirectoryError
    make = volume_files.zip_folder if format == "zip" else volume_files.tar_folder
    headers = {
        **DOWNLOAD_HEADERS,
        "Content-Disposition": content_disposition(f"{parts[-1] if parts else name}.{format}"),
    }
    blocks = _stream(here.volume_files, volume_files.archive(folder, make, parts))
    check = partial(find_volume, here, who, namespace, name)
    media_type = "application/zip" if format == "zip" else "application/x-tar"
    return download(request, blocks, check, media_type=media_type, headers=headers)


@router.put(
    "/{namespace}/{name}/files/content",
    status_code=201,
    operation_id="put_volume_file",
    openapi_extra=_UPLOAD_BODY,
)
async def put_volume_file(
    namespace: str,
    name: str,
    here: Here,
    who: Who,
    request: Request,
    path: _PathParameter = "",
    replace: Annotated[bool, Query(description="Whether to replace an existing file.")] = False,
) -> VolumeEntry:
    """Stores the body of the request as a file. Until it is complete, nothing is visible; an existing file is replaced
    at once or not at all."""
    claim, folder = await find_writable(here, who, namespace, name)
    parts = _parts("path", path, below_top=True)
    room = await find_room(here, claim)
    if room is not None and int(request.headers.get("content-length", "0")) > room.left:
        raise room.problem()
    access = StreamAccess(request, partial(find_volume, here, who, namespace, name, "write"))
    files = here.volume_files
    turn = turn_of(request.scope)
    if turn is not None:
        turn.end()  # it counts as a stream from here on
    with here.streams.count(who.id), _file_errors(path):
        upload = await files.run(in_folder, folder, partial(Upload.begin, replace=replace), parts)
        try:
            await _receive(files, request, upload, access, room)
            await files.run(upload.finish)
        except ClientDisconnect:
            # The client is gone; it is not an error of the server.
            raise BadRequestProblem.of("volume.interrupted") from None
        finally:
            await files.run(upload.abandon)
        entry = await files.run(in_folder, folder, volume_files.look, parts)
    await note(here, who, "upload file", claim, {"path": _noted(parts), "bytes": entry.size})
    return entry


@router.post("/{namespace}/{name}/folders", status_code=201, operation_id="create_volume_folder")
async def create_volume_folder(namespace: str, name: str, body: FolderBody, here: Here, who: Who) -> VolumeEntry:
    """Creates a folder. The folder above must exist."""
    claim, folder = await find_writable(here, who, namespace, name)
    parts = _parts("path", body.path, below_top=True)
    with _file_errors(body.path):
        await here.volume_files.run(in_folder, folder, volume_files.make_folder, parts)
        entry = await here.volume_files.run(in_folder, folder, volume_files.look, parts)
    await note(here, who, "create folder", claim, {"path": _noted(parts)})
    return entry


@router.post("/{namespace}/{name}/files/rename", operation_id="rename_volume_file")
async def rename_volume_file(namespace: str, name: str, body: RenameBody, here: Here, who: Who) -> VolumeEntry:
    """Renames or moves a file or folder within the volume. Replaces nothing."""
    claim, folder = await find_writable(here, who, namespace, name)
    parts, new_parts = _parts("path", body.path, below_top=True), _parts("to", body.to, below_top=True)
    if new_parts[: len(parts)] == parts and new_parts != parts:
        raise ConflictProblem.of("volume.inside", path=body.path)
    with _file_errors(body.path):
        await here.volume_files.run(in_folder, folder, volume_files.look, parts)
    with _file_errors(body.to):
        await here.volume_files.run(in_folder, folder, lambda top, _: volume_files.rename(top, parts, new_parts), parts)
        entry = await here.volume_files.run(in_folder, folder, volume_files.look, new_parts)
    await note(here, who, f"rename {entry.kind}", claim, {"path": _noted(parts), "to": _noted(new_parts)})
    return entry


@router.delete("/{namespace}/{name}/files", status_code=204, operation_id="delete_volume_file")
async def delete_volume_file(namespace: str, name: str, here: Here, who: Who, path: _PathParameter = "") -> None:
    """Deletes a file, or a folder with everything in it."""
    claim, folder = await find_writable(here, who, namespace, name)
    parts = _parts("path", path, below_top=True)
    with _file_errors(path):
        entry = await here.volume_files.run(in_folder, folder, volume_files.look, parts)
        await here.volume_files.run(in_folder, folder, volume_files.delete, parts)
    await note(here, who, f"delete {entry.kind}", claim, {"path": _noted(parts)})


async def _receive(
    files: FileAccess, request: Request, upload: Upload, access: StreamAccess, room: VolumeRoom | None
) -> None:
    """Writes the body of a request to an upload."""
    waiting: list[bytes] = []
    size = counted = 0
    try:
        async for piece in request.stream():
            waiting.append(piece)
            size += len(piece)
            if room is not None:
                if len(piece) > room.left:
                    raise room.problem()
                files.add(room.folder, len(piece))
                counted += len(piece)
            if size >= _WRITE_BYTES:
                refusal = await access.refusal()
                if refusal is not None:
                    raise refusal
                await files.run(upload.write, b"".join(waiting))
                waiting, size = [], 0
        if waiting:
            await files.run(upload.write, b"".join(waiting))
    except BaseException:
        if room is not None:
            files.add(room.folder, -counted)
        raise


async def _stream(
    files: FileAccess, blocks: Iterator[bytes], close: Callable[[], None] = lambda: None
) -> AsyncIterator[bytes]:
    """Yields blocks that are read in threads. A file that cannot be read to its end ends the connection."""
    try:
        while block := await files.run(next, blocks, b""):
            yield block
    except (EOFError, OSError) as error:
        log.warning("a download from a volume is incomplete: %s", error)
        raise Interrupted from None
    finally:
        close()


def _parts(field_name: str, path: str, *, below_top: bool = False) -> tuple[str, ...]:
    try:
        parts = decode_path(path)
    except InvalidPath as error:
        raise InvalidProblem.field(field_name, error.code, path=error.path) from None
    if below_top and not parts:
        raise InvalidProblem.field(field_name, "volume.top")
    return parts


def _noted(parts: tuple[str, ...]) -> str:
    """The path for the audit log."""
    return encode_path(parts)[:_LONGEST_NOTE]


@contextmanager
def _file_errors(path: str) -> Iterator[None]:
    """Turns the errors of the operating system into messages about a path."""
    path = shown_name("/".join(decode_path(path)))
    try:
        yield
    except IsFolder:
        raise ConflictProblem.of("volume.is-folder", path=path) from None
    except FileNotFoundError:
        raise NotFoundProblem.of("volume.missing", path=path) from None
    except FileExistsError:
        raise ConflictProblem.of("volume.exists", path=path) from None
    except NotADirectoryError:
        raise ConflictProblem.of("volume.not-folder", path=path) from None
    except OSError as error:
        if isinstance(error, UnsafeFile) or error.errno == ELOOP:
            raise ConflictProblem.of("volume.link", path=path) from None
        if error.errno in (ENOSPC, EDQUOT):
            raise UnavailableProblem.of("volume.disk") from None
        if error.errno == EINVAL:
            raise ConflictProblem.of("volume.inside", path=path) from None
        raise ConflictProblem.of("volume.system", path=path, error=error.strerror or str(error)) from None
