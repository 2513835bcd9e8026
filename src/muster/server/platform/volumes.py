"""Routes of volumes: list, create, delete, what uses them, and their files.

Files of users are always sent as downloads of unknown type that a browser neither renders nor guesses the type of, so
that a page in a volume never runs on the platform's origin.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from errno import EDQUOT, EINVAL, ELOOP, ENOSPC
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.beneath import UnsafeFile
from muster.kube.budgets import setting_name
from muster.kube.builtin import JOB, NAMESPACE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from muster.kube.errors import AlreadyExists, ApiError, Invalid, NotFound
from muster.kube.file_names import path_component
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, key_of, labels_of, name_of, namespace_of, spec_of, uid_of
from muster.kube.pod_security import is_restricted
from muster.kube.quantity import whole_value
from muster.platform.database.queries import paginate
from muster.platform.errors import (
    BadRequestProblem,
    ConflictProblem,
    InvalidProblem,
    NotFoundProblem,
    TooLargeProblem,
    UnavailableProblem,
)
from muster.platform.jobs.jobs import find_names, user_ids
from muster.platform.namespaces import COPY_LABEL, OWNER_LABEL, TEAM_LABEL
from muster.platform.permissions import Actor, Relation, may, relations, require
from muster.platform.records.common import Page, Subject
from muster.platform.resources.resources import all_roots
from muster.platform.users.audit import write_audit
from muster.platform.users.namespace_names import SHARED_NAMESPACE
from muster.platform.users.namespace_names import namespace_of as find_namespace
from muster.platform.users.teams import team_to_share_with
from muster.server.downloads import DOWNLOAD_HEADERS, content_disposition
from muster.server.platform.rest import Paging, RequestBody, Search
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import Interrupted, StreamAccess, download
from muster.training.registry import JOB_KINDS
from muster.workflows.kinds import WORKFLOW
from muster.workspaces import volume_files
from muster.workspaces.volume_files import FileAccess, IsFolder, Upload, in_folder
from muster.workspaces.volumes import (
    AccessMode,
    InvalidPath,
    NoFiles,
    Volume,
    VolumeEntry,
    VolumeFolder,
    VolumeUsage,
    VolumeUse,
    copy_source,
    decode_path,
    describe_volume,
    encode_path,
    find_folder,
    find_uses,
    is_read_only,
    new_claim,
    parse_range,
    shown_name,
)

log = logging.getLogger(__name__)

router = APIRouter(prefix="/volumes", tags=["volumes"])

_WORKSPACE_KINDS: Final = (("kubeflow.org", "Notebook"), ("tensorboard.kubeflow.org", "Tensorboard"))
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LONGEST_NAME: Final = 63
_UPLOAD: Final = re.compile(r"/api/v1/volumes/[^/]+/[^/]+/files/content")
_WRITE_BYTES: Final = 1 << 20
_CHANGES: Final = ("write", "delete")
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


class VolumeBody(RequestBody):
    name: Annotated[str, Field(max_length=200)]
    size: Annotated[str, Field(max_length=50)] = "10Gi"
    """As in `10Gi`."""
    access_mode: AccessMode = "ReadWriteMany"
    team: Annotated[str, Field(max_length=200)] = ""
    """The id or name of one of your teams, to share it with."""
    storage_class: Annotated[str, Field(max_length=253)] = ""


class FolderBody(RequestBody):
    path: _PathField


class RenameBody(RequestBody):
    path: _PathField
    to: _PathField
    """The new path, in the same volume."""


def is_upload(scope: Scope) -> bool:
    """Whether the body of a request is a file, which may be larger than other bodies."""
    return bool(scope["method"] == "PUT" and _UPLOAD.fullmatch(scope["path"]))


@router.get("", operation_id="list_volumes")
async def all_volumes(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    owner: Annotated[str, Query(description="The id or name of a user.")] = "",
    namespace: str = "",
) -> Page[Volume]:
    """Lists volumes by name, created, size, state or namespace. Volumes that belong to no user or team are visible to
    admins only."""
    owners = await here.database.read(lambda connection: user_ids(connection, owner)) if owner else None
    words = q.lower().split()
    claims = [
        claim
        for claim in (await here.cluster.list(PERSISTENT_VOLUME_CLAIM, namespace)).items
        if may(who, "view", _subject(here, claim))
        and (owners is None or _subject(here, claim).owner in owners)
        and all(word in f"{namespace_of(claim)}/{name_of(claim)}" for word in words)
    ]
    by_key = {key_of(claim): claim for claim in claims}
    page = paginate(
        [describe_volume(claim, is_copy=_is_copy(claim), used_by=()) for claim in claims],
        paging,
        key=lambda volume: f"{volume.namespace}/{volume.name}",
        sortable={
            "name": lambda volume: volume.name,
            "created": lambda volume: volume.created.isoformat(),
            "size": lambda volume: volume.size_bytes,
            "state": lambda volume: volume.state,
            "namespace": lambda volume: volume.namespace,
        },
        usual="name",
    )
    wanted = [by_key[Key(volume.namespace, volume.name)] for volume in page.items]
    return Page(await _answers(here, who, wanted), page.next, page.total)


@router.post("", status_code=201, operation_id="create_volume")
async def new_volume(body: VolumeBody, here: Here, who: Who) -> Volume:
    """Creates a volume in your namespace, or in that of a team."""
    require(who, "create", Subject("volume", owner=who.id))
    if len(body.name) > _LONGEST_NAME or not _NAME.fullmatch(body.name):
        raise InvalidProblem.field("name", "volume.name", name=body.name[:100])
    _check_size(body.size)
    team = await here.database.read(lambda connection: team_to_share_with(connection, who, body.team)) or ""
    namespace = await here.database.read(lambda connection: find_namespace(connection, user=who.id, team=team))
    labels = {OWNER_LABEL: who.id} | ({TEAM_LABEL: team} if team else {})
    claim = new_claim(body.name, namespace, body.size, body.access_mode, labels, body.storage_class)
    try:
        await here.namespaces.ensure(namespace)
        made = await here.cluster.create(claim)
    except AlreadyExists:
        raise ConflictProblem.of("volume.taken", name=body.name) from None
    except Invalid as error:
        raise InvalidProblem.field("", "job.cluster", detail=error.message) from None
    except ApiError as error:
        raise UnavailableProblem(error.message) from None
    await _note(here, who, "create", made, {"size": body.size})
    (answer,) = await _answers(here, who, [made])
    return answer


@router.get("/{namespace}/{name}", operation_id="get_volume")
async def one_volume(namespace: str, name: str, here: Here, who: Who) -> Volume:
    """Returns a volume, and what uses it."""
    claim = await _visible(here, who, namespace, name)
    (answer,) = await _answers(here, who, [claim])
    return answer


@router.delete("/{namespace}/{name}", status_code=204, operation_id="delete_volume")
async def drop_volume(namespace: str, name: str, here: Here, who: Who) -> None:
    """Deletes a volume with its files. Refused while something uses it."""
    claim = await find_deletable(here, who, namespace, name)
    try:
        # If a Pod starts to use it now, the cluster keeps the claim and its files until that Pod has ended.
        await here.cluster.delete(PERSISTENT_VOLUME_CLAIM, name, namespace, uid=uid_of(claim))
    except NotFound:
        raise NotFoundProblem.named("volume", f"{namespace}/{name}") from None
    except ApiError as error:
        raise UnavailableProblem(error.message) from None
    await _note(here, who, "delete", claim)


@router.get("/{namespace}/{name}/usage", operation_id="get_volume_usage")
async def usage_of_volume(namespace: str, name: str, here: Here, who: Who, path: _PathParameter = "") -> VolumeUsage:
    """Counts what is stored in the volume, or below a path in it."""
    folder = await _folder(here, who, namespace, name)
    parts = _parts("path", path)
    with _file_errors(path):
        return await here.volume_files.measure(folder, parts)


@router.get("/{namespace}/{name}/files", operation_id="list_volume_files")
async def files_of_volume(
    namespace: str,
    name: str,
    here: Here,
    who: Who,
    path: _PathParameter = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="The largest number of items.")] = 200,
    cursor: Annotated[str, Query(max_length=4000, description="`next` of the previous page.")] = "",
) -> VolumeFolder:
    """Lists a folder: folders first, then by name."""
    folder = await _folder(here, who, namespace, name)
    parts = _parts("path", path)
    show = partial(volume_files.list_folder, limit=limit, after=cursor)
    with _file_errors(path):
        return await here.volume_files.run(in_folder, folder, show, parts)


@router.get(
    "/{namespace}/{name}/files/content", operation_id="get_volume_file", response_class=Response, responses=_FILE
)
async def content_of_file(
    namespace: str, name: str, here: Here, who: Who, request: Request, path: _PathParameter = ""
) -> Response:
    """Returns a file, or the part of it that the Range header asks for."""
    folder = await _folder(here, who, namespace, name)
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
    check = partial(_visible, here, who, namespace, name)
    response = download(request, blocks, check, media_type="application/octet-stream", headers=headers)
    response.status_code = 206 if wanted is not None else 200
    return response


@router.get(
    "/{namespace}/{name}/files/archive", operation_id="get_volume_archive", response_class=Response, responses=_FILE
)
async def archive_of_folder(
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
    folder = await _folder(here, who, namespace, name)
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
    check = partial(_visible, here, who, namespace, name)
    media_type = "application/zip" if format == "zip" else "application/x-tar"
    return download(request, blocks, check, media_type=media_type, headers=headers)


@router.put(
    "/{namespace}/{name}/files/content",
    status_code=201,
    operation_id="put_volume_file",
    openapi_extra=_UPLOAD_BODY,
)
async def uploaded_file(
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
    claim, folder = await _writable(here, who, namespace, name)
    parts = _parts("path", path, below_top=True)
    room = await find_room(here, claim)
    if room is not None and int(request.headers.get("content-length", "0")) > room.left:
        raise room.problem()
    access = StreamAccess(request, partial(_visible, here, who, namespace, name, "write"))
    files = here.volume_files
    with here.streams.count(who.id), _file_errors(path):
        upload = await files.run(in_folder, folder, partial(Upload.begin, replace=replace), parts)
        try:
            await _receive(files, request, upload, access, room)
            await files.run(upload.finish)
        except ClientDisconnect:
            raise BadRequestProblem.of("volume.interrupted") from None  # nobody reads it; it is not a fault of ours
        finally:
            await files.run(upload.abandon)
        return await files.run(in_folder, folder, volume_files.look, parts)


@router.post("/{namespace}/{name}/folders", status_code=201, operation_id="create_volume_folder")
async def new_folder(namespace: str, name: str, body: FolderBody, here: Here, who: Who) -> VolumeEntry:
    """Creates a folder. The folder above must exist."""
    _, folder = await _writable(here, who, namespace, name)
    parts = _parts("path", body.path, below_top=True)
    with _file_errors(body.path):
        await here.volume_files.run(in_folder, folder, volume_files.make_folder, parts)
        return await here.volume_files.run(in_folder, folder, volume_files.look, parts)


@router.post("/{namespace}/{name}/files/rename", operation_id="rename_volume_file")
async def renamed_file(namespace: str, name: str, body: RenameBody, here: Here, who: Who) -> VolumeEntry:
    """Renames or moves a file or folder within the volume. Replaces nothing."""
    _, folder = await _writable(here, who, namespace, name)
    parts, new_parts = _parts("path", body.path, below_top=True), _parts("to", body.to, below_top=True)
    if new_parts[: len(parts)] == parts and new_parts != parts:
        raise ConflictProblem.of("volume.inside", path=body.path)
    with _file_errors(body.path):
        await here.volume_files.run(in_folder, folder, volume_files.look, parts)
    with _file_errors(body.to):
        await here.volume_files.run(in_folder, folder, lambda top, _: volume_files.rename(top, parts, new_parts), parts)
        return await here.volume_files.run(in_folder, folder, volume_files.look, new_parts)


@router.delete("/{namespace}/{name}/files", status_code=204, operation_id="delete_volume_file")
async def drop_file(namespace: str, name: str, here: Here, who: Who, path: _PathParameter = "") -> None:
    """Deletes a file, or a folder with everything in it."""
    claim, folder = await _writable(here, who, namespace, name)
    parts = _parts("path", path, below_top=True)
    with _file_errors(path):
        entry = await here.volume_files.run(in_folder, folder, volume_files.look, parts)
        await here.volume_files.run(in_folder, folder, volume_files.delete, parts)
    if entry.kind == "folder":
        await _note(here, who, "delete folder", claim, {"path": encode_path(parts)})


# Which volume, and who may do this to it.


def _subject(here: Services, claim: Object) -> Subject:
    """A claim belongs to the user or the team whose namespace it is in. What it says about itself counts only in the
    namespace of a team, and in those that no user or team has."""
    place, labels = here.namespaces.owner_of(namespace_of(claim)), labels_of(claim)
    if place is not None and place.user:
        return Subject("volume", uid_of(claim), owner=place.user)
    team = labels.get(TEAM_LABEL, "") if place is None else place.team
    return Subject("volume", uid_of(claim), owner=labels.get(OWNER_LABEL, ""), team=team)


def _is_copy(claim: Object) -> bool:
    return bool(copy_source(claim, COPY_LABEL))


async def _visible(here: Services, who: Actor, namespace: str, name: str, action: str = "view") -> Object:
    """Finds a volume and checks that the user may do this to it."""
    try:
        claim = await here.cluster.get(PERSISTENT_VOLUME_CLAIM, name, namespace)
    except NotFound:
        raise NotFoundProblem.named("volume", f"{namespace}/{name}") from None
    except ApiError as error:
        raise UnavailableProblem(error.message) from None
    require(who, action, _subject(here, claim), f"{namespace}/{name}")
    return claim


async def find_deletable(
    here: Services, who: Actor, namespace: str, name: str, user: VolumeUse | None = None
) -> Object:
    """Finds a volume that may be deleted: nothing uses it but `user`, which is deleted with it."""
    claim = await _visible(here, who, namespace, name, "delete")
    if _is_copy(claim):
        raise ConflictProblem.of("volume.shared", name=name)
    uses = [use for use in (await _uses(here, [claim]))[key_of(claim)] if use != user]
    if uses:
        raise ConflictProblem.of("volume.used", name=name, users=[str(use) for use in uses[:10]])
    return claim


async def _folder(here: Services, who: Actor, namespace: str, name: str) -> str:
    """Returns the folder of a volume that the user may see."""
    return await _folder_of(here, who, await _visible(here, who, namespace, name))


async def _writable(here: Services, who: Actor, namespace: str, name: str) -> tuple[Object, str]:
    """Returns a volume that the user may write to, and its folder."""
    claim = await _visible(here, who, namespace, name, "write")
    if is_read_only(claim):
        raise ConflictProblem.of("volume.read-only", name=name)
    return claim, await _folder_of(here, who, claim)


async def _folder_of(here: Services, who: Actor, claim: Object) -> str:
    if not isinstance(here.cluster, EmbeddedCluster):
        raise ConflictProblem.of("volume.cluster", name=name_of(claim))
    volume: Object | None = None
    with suppress(NotFound):
        volume = await here.cluster.get(PERSISTENT_VOLUME, str(spec_of(claim).get("volumeName") or "-"))
    is_admin = bool(relations(who, _subject(here, claim)) & Relation.ADMIN)
    found = find_folder(claim, volume, str(_root(here)), is_admin=is_admin)
    if isinstance(found, NoFiles):
        raise ConflictProblem.of(found.code, **found.arguments)
    return found


def _root(here: Services) -> Path:
    return here.settings.home / "volumes"


async def _answers(here: Services, who: Actor, claims: Sequence[Object]) -> list[Volume]:
    subjects = [_subject(here, claim) for claim in claims]
    known = await here.database.read(
        lambda connection: find_names(
            connection, of_users=[s.owner for s in subjects], of_teams=[s.team for s in subjects], of_runs=()
        )
    )
    uses = await _uses(here, claims)
    return [
        replace(
            describe_volume(claim, is_copy=_is_copy(claim), used_by=uses[key_of(claim)]),
            owner_id=subject.owner or None,
            owner_name=known.users.get(subject.owner),
            team_id=subject.team or None,
            team_name=known.teams.get(subject.team),
            may=[] if _is_copy(claim) else [action for action in _CHANGES if may(who, action, subject)],
        )
        for claim, subject in zip(claims, subjects, strict=True)
    ]


async def _uses(here: Services, claims: Sequence[Object]) -> dict[Key, list[VolumeUse]]:
    """Returns what uses each of these claims, and the copies of those that an admin shares."""
    copies: dict[str, list[Key]] = {}
    if any(namespace_of(claim) == SHARED_NAMESPACE for claim in claims):
        for copy in (await here.cluster.list(PERSISTENT_VOLUME_CLAIM, labels=COPY_LABEL)).items:
            copies.setdefault(copy_source(copy, COPY_LABEL), []).append(key_of(copy))
    places = {
        claim_key: [claim_key, *copies.get(uid_of(claim), [])] for claim in claims if (claim_key := key_of(claim))
    }
    objects: list[Object] = []
    for namespace in {key.namespace for keys in places.values() for key in keys}:
        for kind in _kinds_with_pods(here):
            with suppress(ApiError):  # a cluster without this kind
                objects += (await here.cluster.list(kind, namespace)).items
    found = find_uses(objects)
    roots = await here.database.read(all_roots)
    for root in roots:
        if root.claim:
            use = VolumeUse("storage root", SHARED_NAMESPACE, root.name)
            found.setdefault(Key(SHARED_NAMESPACE, root.claim), []).append(use)
    return {key: [use for each in keys for use in found.get(each, ())] for key, keys in places.items()}


def _kinds_with_pods(here: Services) -> Iterable[Kind]:
    yield from (POD, JOB, WORKFLOW)
    yield from (job_kind.kind for job_kind in JOB_KINDS)
    for group, kind in _WORKSPACE_KINDS:
        found = here.cluster.catalogue.in_group(group, kind)
        if found is not None:
            yield found


def _check_size(size: str) -> None:
    try:
        is_valid = whole_value(size) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidProblem.field("size", "volume.size", size=size)


async def _note(here: Services, who: Actor, action: str, claim: Object, details: dict[str, Any] | None = None) -> None:
    noted = {"namespace": namespace_of(claim), **(details or {})}

    def write(connection: Connection) -> None:
        write_audit(connection, who, action, "volume", uid_of(claim), name_of(claim), noted)

    await here.database.write(write)


# Files.


@dataclass(frozen=True, slots=True)
class VolumeRoom:
    """How much more the volumes of a restricted namespace may store together."""

    folder: str
    files: FileAccess
    most: int

    @property
    def left(self) -> int:
        """Other uploads may be under way: they count as they arrive."""
        return (self.most << 20) - self.files.known_bytes(self.folder)

    def problem(self) -> TooLargeProblem:
        return TooLargeProblem.of(
            "volume.full", most=self.most, left=max(self.left, 0) >> 20, setting=setting_name("member_volume_megabytes")
        )


async def find_room(here: Services, claim: Object) -> VolumeRoom | None:
    """None if there is no limit but the disk."""
    namespace = namespace_of(claim)
    if not is_restricted(await here.cluster.get(NAMESPACE, namespace)):
        return None
    most = here.settings.budgets.member_volume_megabytes
    folder = str(_root(here) / path_component(namespace))
    await here.volume_files.bytes_in(folder)
    return VolumeRoom(folder, here.volume_files, most)


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
