"""Routes of volumes: list, create and delete them, and what uses them. Their files: volume_files.py."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from muster.kube.builtin import PERSISTENT_VOLUME_CLAIM
from muster.kube.errors import AlreadyExists, ApiError, Invalid, NotFound
from muster.kube.objects import Key, key_of, name_of, namespace_of, uid_of
from muster.kube.quantity import whole_value
from muster.platform.database.queries import paginate
from muster.platform.errors import ConflictProblem, InvalidProblem, NotFoundProblem, UnavailableProblem
from muster.platform.jobs.jobs import user_ids
from muster.platform.namespaces import OWNER_LABEL, TEAM_LABEL
from muster.platform.permissions import may, require
from muster.platform.records.common import Page, Subject
from muster.platform.users.namespace_names import namespace_of as find_namespace
from muster.platform.users.teams import team_to_share_with
from muster.server.platform.rest import Paging, RequestBody, Search
from muster.server.platform.security import Who
from muster.server.platform.services import Here
from muster.server.platform.volume_access import (
    describe_volumes,
    find_deletable,
    find_volume,
    is_copy,
    note,
    subject_of,
)
from muster.workspaces.volumes import AccessMode, Volume, describe_volume, new_claim

router = APIRouter(prefix="/volumes", tags=["volumes"])

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LONGEST_NAME: Final = 63


class VolumeBody(RequestBody):
    name: Annotated[str, Field(max_length=200)]
    size: Annotated[str, Field(max_length=50)] = "10Gi"
    """As in `10Gi`."""
    access_mode: AccessMode = "ReadWriteMany"
    team: Annotated[str, Field(max_length=200)] = ""
    """The id or name of one of your teams, to share it with."""
    storage_class: Annotated[str, Field(max_length=253)] = ""


@router.get("", operation_id="list_volumes")
async def list_volumes(
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
        if may(who, "view", subject_of(here, claim))
        and (owners is None or subject_of(here, claim).owner in owners)
        and all(word in f"{namespace_of(claim)}/{name_of(claim)}" for word in words)
    ]
    by_key = {key_of(claim): claim for claim in claims}
    page = paginate(
        [describe_volume(claim, is_copy=is_copy(claim), used_by=()) for claim in claims],
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
    return Page(await describe_volumes(here, who, wanted), page.next, page.total)


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
    await note(here, who, "create", made, {"size": body.size})
    (answer,) = await describe_volumes(here, who, [made])
    return answer


@router.get("/{namespace}/{name}", operation_id="get_volume")
async def get_volume(namespace: str, name: str, here: Here, who: Who) -> Volume:
    """Returns a volume, and what uses it."""
    claim = await find_volume(here, who, namespace, name)
    (answer,) = await describe_volumes(here, who, [claim])
    return answer


@router.delete("/{namespace}/{name}", status_code=204, operation_id="delete_volume")
async def delete_volume(namespace: str, name: str, here: Here, who: Who) -> None:
    """Deletes a volume with its files. Refused while something uses it."""
    claim = await find_deletable(here, who, namespace, name)
    try:
        # If a Pod starts to use it now, the cluster keeps the claim and its files until that Pod has ended.
        await here.cluster.delete(PERSISTENT_VOLUME_CLAIM, name, namespace, uid=uid_of(claim))
    except NotFound:
        raise NotFoundProblem.named("volume", f"{namespace}/{name}") from None
    except ApiError as error:
        raise UnavailableProblem(error.message) from None
    await note(here, who, "delete", claim)


def _check_size(size: str) -> None:
    try:
        is_valid = whole_value(size) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidProblem.field("size", "volume.size", size=size)
