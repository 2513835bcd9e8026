"""Which volume is meant, who may do what to it, where its files are, what uses it, and how much more it may hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.budgets import setting_name
from muster.kube.builtin import JOB, NAMESPACE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from muster.kube.errors import ApiError, NotFound
from muster.kube.file_names import path_component
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, key_of, labels_of, name_of, namespace_of, spec_of, uid_of
from muster.kube.pod_security import is_restricted
from muster.platform.errors import ConflictProblem, NotFoundProblem, TooLargeProblem, UnavailableProblem
from muster.platform.jobs.jobs import find_names
from muster.platform.namespaces import COPY_LABEL, OWNER_LABEL, TEAM_LABEL
from muster.platform.permissions import Actor, Relation, may, relations, require
from muster.platform.records.common import Subject
from muster.platform.resources.resources import all_roots
from muster.platform.users.audit import write_audit
from muster.platform.users.namespace_names import SHARED_NAMESPACE
from muster.server.platform.services import Services
from muster.training.registry import JOB_KINDS
from muster.workflows.kinds import WORKFLOW
from muster.workspaces.volume_files import FileAccess
from muster.workspaces.volumes import (
    NoFiles,
    Volume,
    VolumeUse,
    copy_source,
    describe_volume,
    find_folder,
    find_uses,
    is_read_only,
)

_WORKSPACE_KINDS: Final = (("kubeflow.org", "Notebook"), ("tensorboard.kubeflow.org", "Tensorboard"))
_CHANGES: Final = ("write", "delete")


def subject_of(here: Services, claim: Object) -> Subject:
    """A claim belongs to the user or the team whose namespace it is in. What it says about itself counts only in the
    namespace of a team, and in those that no user or team has."""
    place, labels = here.namespaces.owner_of(namespace_of(claim)), labels_of(claim)
    if place is not None and place.user:
        return Subject("volume", uid_of(claim), owner=place.user)
    team = labels.get(TEAM_LABEL, "") if place is None else place.team
    return Subject("volume", uid_of(claim), owner=labels.get(OWNER_LABEL, ""), team=team)


def is_copy(claim: Object) -> bool:
    return bool(copy_source(claim, COPY_LABEL))


async def find_volume(here: Services, who: Actor, namespace: str, name: str, action: str = "view") -> Object:
    """Finds a volume and checks that the user may do this to it."""
    try:
        claim = await here.cluster.get(PERSISTENT_VOLUME_CLAIM, name, namespace)
    except NotFound:
        raise NotFoundProblem.named("volume", f"{namespace}/{name}") from None
    except ApiError as error:
        raise UnavailableProblem(error.message) from None
    require(who, action, subject_of(here, claim), f"{namespace}/{name}")
    return claim


async def find_deletable(
    here: Services, who: Actor, namespace: str, name: str, user: VolumeUse | None = None
) -> Object:
    """Finds a volume that may be deleted: nothing uses it but `user`, which is deleted with it."""
    claim = await find_volume(here, who, namespace, name, "delete")
    if is_copy(claim):
        raise ConflictProblem.of("volume.shared", name=name)
    uses = [use for use in (await _find_uses(here, [claim]))[key_of(claim)] if use != user]
    if uses:
        raise ConflictProblem.of("volume.used", name=name, users=[str(use) for use in uses[:10]])
    return claim


async def readable_folder(here: Services, who: Actor, namespace: str, name: str) -> str:
    """Returns the folder of a volume that the user may see."""
    return await _folder_of(here, who, await find_volume(here, who, namespace, name))


async def find_writable(here: Services, who: Actor, namespace: str, name: str) -> tuple[Object, str]:
    """Returns a volume that the user may write to, and its folder."""
    claim = await find_volume(here, who, namespace, name, "write")
    if is_read_only(claim):
        raise ConflictProblem.of("volume.read-only", name=name)
    return claim, await _folder_of(here, who, claim)


async def _folder_of(here: Services, who: Actor, claim: Object) -> str:
    if not isinstance(here.cluster, EmbeddedCluster):
        raise ConflictProblem.of("volume.cluster", name=name_of(claim))
    volume: Object | None = None
    with suppress(NotFound):
        volume = await here.cluster.get(PERSISTENT_VOLUME, str(spec_of(claim).get("volumeName") or "-"))
    is_admin = bool(relations(who, subject_of(here, claim)) & Relation.ADMIN)
    found = find_folder(claim, volume, str(_root(here)), is_admin=is_admin)
    if isinstance(found, NoFiles):
        raise ConflictProblem.of(found.code, **found.arguments)
    return found


def _root(here: Services) -> Path:
    return here.settings.home / "volumes"


async def describe_volumes(here: Services, who: Actor, claims: Sequence[Object]) -> list[Volume]:
    subjects = [subject_of(here, claim) for claim in claims]
    known = await here.database.read(
        lambda connection: find_names(
            connection, of_users=[s.owner for s in subjects], of_teams=[s.team for s in subjects], of_runs=()
        )
    )
    uses = await _find_uses(here, claims)
    return [
        replace(
            describe_volume(claim, is_copy=is_copy(claim), used_by=uses[key_of(claim)]),
            owner_id=subject.owner or None,
            owner_name=known.users.get(subject.owner),
            team_id=subject.team or None,
            team_name=known.teams.get(subject.team),
            may=[] if is_copy(claim) else [action for action in _CHANGES if may(who, action, subject)],
        )
        for claim, subject in zip(claims, subjects, strict=True)
    ]


async def _find_uses(here: Services, claims: Sequence[Object]) -> dict[Key, list[VolumeUse]]:
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


async def note(here: Services, who: Actor, action: str, claim: Object, details: dict[str, Any] | None = None) -> None:
    noted = {"namespace": namespace_of(claim), **(details or {})}

    def write(connection: Connection) -> None:
        write_audit(connection, who, action, "volume", uid_of(claim), name_of(claim), noted)

    await here.database.write(write)


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
