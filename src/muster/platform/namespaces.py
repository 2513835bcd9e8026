"""Namespaces on the cluster: one for every user and team.

Each carries the owner, whether its Pods are restricted, and what its Pods may use from outside: storage roots and
queues. What an admin shares with a label in `default` is copied into the namespaces that may use it. All of it is
level-triggered: `sync` compares the cluster with the database, at the start, after every change and once a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, delete, select

from muster.kube.builtin import (
    CONFIG_MAP,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    QUEUE,
    ROLE_BINDING,
    SECRET,
)
from muster.kube.cluster import Cluster
from muster.kube.controller import Informer
from muster.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unavailable
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Object,
    annotations_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
    version_of,
)
from muster.kube.pod_security import GRANTS_ANNOTATION, ISOLATION_LABEL, MEMBER_ROLE, RESTRICTED, PodGrants
from muster.kube.rbac import AUTHENTICATED, MASTERS, User
from muster.platform.database.database import Database
from muster.platform.database.leases import Leases
from muster.platform.database.pipeline_tables import pipeline_runs
from muster.platform.database.tables import memberships, namespaces, runs, teams, users
from muster.platform.errors import UnavailableProblem
from muster.platform.namespace_objects import EMBEDDED_PARTS, NamespaceParts, sync_objects
from muster.platform.permissions import Actor, may
from muster.platform.pod_policy import EVERYBODY, SHARED, pod_grants
from muster.platform.records.resources import VirtualCluster
from muster.platform.records.users import TeamRole
from muster.platform.resources.resources import all_clusters, all_roots
from muster.platform.users.namespace_names import SHARED_NAMESPACE, leave_shared_namespace
from muster.training.registry import JOB_KINDS

log = logging.getLogger(__name__)

OWNER_LABEL: Final = "muster.dev/owner"
TEAM_LABEL: Final = "muster.dev/team"
"""Labels with ids, on namespaces and on jobs that were submitted to the platform. Only the platform sets them."""
COPY_LABEL: Final = "muster.dev/copy-of"
"""On copies of what an admin shares: the uid of the original."""
_VERSION: Final = "muster.dev/copied-version"
_AGAIN_SECONDS = 60.0
_SOON_SECONDS = 5.0
_NOT_YET: Final = "the change is stored, but not yet effective on the cluster: {}; it is tried again"
_NO_LABELS: Final[Mapping[str, str]] = {}
_SHARED_KINDS: Final = (SECRET, CONFIG_MAP, PERSISTENT_VOLUME_CLAIM)


class NamespaceOwner(NamedTuple):
    """The ids of the user or the team that a namespace belongs to."""

    user: str = ""
    team: str = ""


@dataclass(frozen=True, slots=True)
class PlannedNamespace:
    name: str
    owner: NamespaceOwner
    restricted: bool
    teams: frozenset[str]
    """Teams whose shared objects may be used here."""
    grants: PodGrants = field(default_factory=PodGrants)
    closed_queues: frozenset[str] = frozenset()
    clusters: tuple[VirtualCluster, ...] = ()
    """The virtual clusters that may be used here."""


class Plan(NamedTuple):
    wanted: list[PlannedNamespace]
    left: list[str]
    """Namespaces of deleted teams in which no run is left."""


def plan_namespaces(connection: Connection) -> Plan:
    """Reads what namespaces there should be."""
    roots, clusters = all_roots(connection), all_clusters(connection)
    members: dict[str, dict[str, TeamRole]] = {}
    for row in connection.execute(select(memberships.c.user_id, memberships.c.team_id, memberships.c.role)):
        members.setdefault(row.user_id, {})[row.team_id] = row.role
    accounts = {row.id: row for row in connection.execute(select(users.c.id, users.c.name, users.c.admin))}
    known_teams = set(connection.execute(select(teams.c.id)).scalars())
    wanted, left = [], []
    for row in connection.execute(select(namespaces).order_by(namespaces.c.name)):
        account = accounts.get(row.user_id or "")
        if account is not None:
            actor = Actor(account.id, account.name, bool(account.admin), members.get(account.id, {}))
        elif row.team_id in known_teams:
            actor = Actor("", "", teams={row.team_id: "member"})
        else:
            if not any(
                connection.execute(select(table.c.id).where(table.c.namespace == row.name).limit(1)).first()
                for table in (runs, pipeline_runs)
            ):
                left.append(str(row.name))
                continue
            actor = Actor("", "")
        usable = [root for root in roots if may(actor, "use", root.subject)]
        open_clusters = tuple(each for each in clusters if may(actor, "use", each.subject))
        closed = frozenset(each.queue for each in clusters) - {each.queue for each in open_clusters}
        grants = pod_grants(usable)
        owner = NamespaceOwner(row.user_id or "", row.team_id or "")
        wanted.append(
            PlannedNamespace(
                row.name, owner, not actor.admin, frozenset(actor.teams), grants, frozenset(closed), open_clusters
            )
        )
    return Plan(wanted, left)


def namespace_object(
    planned: PlannedNamespace, queues: Iterable[str] = (), restricted_labels: Mapping[str, str] = _NO_LABELS
) -> Object:
    """`queues` are all queues of the cluster."""
    owner = {OWNER_LABEL: planned.owner.user} if planned.owner.user else {TEAM_LABEL: planned.owner.team}
    metadata: Object = {"name": planned.name, "labels": owner}
    if planned.restricted:
        open_queues = frozenset(queues) - planned.closed_queues
        grants = PodGrants(paths=planned.grants.paths, claims=planned.grants.claims, queues=open_queues)
        metadata["labels"] = {**restricted_labels, **owner, ISOLATION_LABEL: RESTRICTED}
        metadata["annotations"] = {GRANTS_ANNOTATION: grants.to_annotation()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def change_for(there: Object, wanted: Object) -> Object | None:
    """Returns the patch that makes a Namespace as it should be; None if it is."""
    labels, annotations = labels_of(wanted), annotations_of(wanted)
    change: dict[str, dict[str, str | None]] = {"labels": {}, "annotations": {}}
    for name in {ISOLATION_LABEL, OWNER_LABEL, TEAM_LABEL, *labels}:
        if labels_of(there).get(name) != labels.get(name):
            change["labels"][name] = labels.get(name)
    if annotations_of(there).get(GRANTS_ANNOTATION) != annotations.get(GRANTS_ANNOTATION):
        change["annotations"][GRANTS_ANNOTATION] = annotations.get(GRANTS_ANNOTATION)
    return {"metadata": change} if any(change.values()) else None


def is_foreign(there: Object, owner: NamespaceOwner) -> bool:
    """Whether a Namespace of this name exists that belongs to something else."""
    if name_of(there) == SHARED_NAMESPACE:
        return False
    labels = labels_of(there)
    return (labels.get(OWNER_LABEL, ""), labels.get(TEAM_LABEL, "")) != owner


def cluster_user(actor: Actor) -> User | None:
    """Returns who the owner of a platform token is on the cluster; None for the token of a run, which is for the
    platform only. A token that may not write has no rights there."""
    if "run" in actor.scopes:
        return None
    groups = {AUTHENTICATED}
    if actor.admin and "admin" in actor.scopes:
        groups.add(MASTERS)
    if {"read", "write"} <= actor.scopes:
        groups |= {_group("user", actor.id), *(_group("team", team) for team in actor.teams)}
    return User(user_name(actor), frozenset(groups))


def user_name(actor: Actor) -> str:
    """The name of a user of the platform on the cluster."""
    return f"muster:{actor.name}"


def _group(kind: str, identifier: str) -> str:
    return f"muster:{kind}:{identifier}"


def members_binding(planned: PlannedNamespace) -> Object:
    """Returns what lets the users of a namespace use it with kubectl."""
    owner = planned.owner
    group = _group("user", owner.user) if owner.user else _group("team", owner.team)
    return {
        "apiVersion": ROLE_BINDING.api_version,
        "kind": ROLE_BINDING.kind,
        "metadata": {"name": MEMBER_ROLE, "namespace": planned.name},
        "roleRef": {"apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": MEMBER_ROLE},
        "subjects": [{"apiGroup": ROLE_BINDING.group, "kind": "Group", "name": group}],
    }


class Namespaces:
    """`run()` runs until it is cancelled."""

    def __init__(
        self,
        database: Database,
        cluster: Cluster,
        leases: Leases | None = None,
        parts: NamespaceParts = EMBEDDED_PARTS,
    ) -> None:
        self._database = database
        self._cluster = cluster
        self._leases = leases or Leases(database)
        self._parts = parts
        self._news = asyncio.Event()
        self._owners: dict[str, NamespaceOwner] = {}
        self._complete: set[str] = set()
        """Namespaces that have had everything they should."""

    async def run(self) -> None:
        informers = [
            Informer(self._cluster, kind, SHARED_NAMESPACE, labels=SHARED, on_change=self._changed)
            for kind in _SHARED_KINDS
        ]
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            while True:
                self._news.clear()
                wait = _AGAIN_SECONDS
                try:
                    await self._sync()
                except ApiError as error:
                    log.warning("namespaces: %s; trying again in %.0f s", error, _SOON_SECONDS)
                    wait = _SOON_SECONDS
                try:
                    await asyncio.wait_for(self._news.wait(), wait)
                except TimeoutError:
                    continue

    async def follow(self) -> None:
        """Keeps the owners of namespaces current, for servers that another one keeps the namespaces for."""
        if self._database.dialect != "postgresql":
            await asyncio.Event().wait()
        while True:
            plan = await self._database.read(plan_namespaces)
            self._owners = {each.name: each.owner for each in plan.wanted}
            with suppress(TimeoutError):
                async with asyncio.timeout(_SOON_SECONDS):
                    await self._database.access_changes.next()

    def owner_of(self, namespace: str) -> NamespaceOwner | None:
        """Returns who everything in a namespace belongs to; None if it is not a user's or a team's alone."""
        return self._owners.get(namespace) if namespace != SHARED_NAMESPACE else None

    async def sync(self, user: str = "") -> None:
        """Makes the namespaces as they should be. When it returns, all changes that were stored before it was called
        are effective; what a namespace cannot get now is logged and tried again. Raises Unavailable if the cluster does
        not respond, or refuses the namespace of this `user`."""
        try:
            failed = await self._sync()
        except ApiError as error:
            raise UnavailableProblem(_NOT_YET.format(error.message)) from None
        if user and user in failed:
            raise UnavailableProblem(_NOT_YET.format(failed[user]))

    async def _sync(self) -> dict[str, str]:
        """Returns why the namespaces of users are not ready, by user."""
        failed: dict[str, str] = {}
        async with self._leases.hold("namespaces"):
            await self._leave_shared()
            plan = await self._database.read(plan_namespaces)
            self._owners = {each.name: each.owner for each in plan.wanted}
            queues = await self._queues()
            there = {name_of(obj): obj for obj in (await self._cluster.list(NAMESPACE)).items}
            ready = []
            for each in plan.wanted:
                try:
                    await self._ensure(each, there.get(each.name), queues)
                    ready.append(each)
                except ApiError as error:
                    log.warning("the namespace %s is not ready: %s", each.name, error)
                    failed[each.owner.user] = error.message
            if self._parts.has_members:
                await self._bind(ready)
            await self._share(ready)
            wanted = [obj for each in ready for obj in self._parts.objects(each.name, each.clusters)]
            names = {each.name for each in ready}
            refused = await sync_objects(self._cluster, wanted, names, self._parts.kinds)
            failed |= {each.owner.user: refused[each.name] for each in ready if each.name in refused}
            self._complete = {each.name for each in ready if each.name not in refused}
            for name in plan.left:
                await self._remove(name, there.get(name))
        return failed

    async def ensure(self, name: str) -> None:
        """Creates the namespace, with all that runs need in it, if it does not exist yet. Raises Forbidden if it
        belongs to something else, and Unavailable if something is missing."""
        owner = self._owners.get(name)
        try:
            there = await self._cluster.get(NAMESPACE, name)
            is_there = owner is not None and not is_foreign(there, owner) and not is_deleting(there)
            if is_there and name in self._complete:
                return
        except NotFound:
            pass
        await self._sync()
        owner = self._owners.get(name)
        there = await self._cluster.get(NAMESPACE, name)
        if owner is None or is_foreign(there, owner):
            raise Forbidden(
                f'the namespace "{name}" exists on the cluster and does not belong to the platform; '
                "an admin has to delete or rename it"
            )
        if name not in self._complete:
            raise Unavailable(f'the namespace "{name}" does not have all that runs need yet; see the server log')

    def _changed(self, before: Object | None, after: Object | None) -> None:
        self._news.set()

    async def _leave_shared(self) -> None:
        """Moves users who are no longer admins out of `default`."""

        def find(connection: Connection) -> list[tuple[str, str]]:
            query = select(users.c.id, users.c.name).join(namespaces, namespaces.c.user_id == users.c.id)
            found = connection.execute(query.where(namespaces.c.name == SHARED_NAMESPACE, ~users.c.admin))
            return [(row.id, row.name) for row in found]

        for user, name in await self._database.read(find):
            await self._database.write(lambda connection: leave_shared_namespace(connection, user, name))  # noqa: B023

    async def _queues(self) -> list[str]:
        try:
            return [name_of(queue) for queue in (await self._cluster.list(QUEUE)).items]
        except ApiError:
            return []  # a cluster without Volcano

    async def _ensure(self, planned: PlannedNamespace, there: Object | None, queues: Iterable[str]) -> None:
        if planned.name == SHARED_NAMESPACE:
            return
        wanted = namespace_object(planned, queues, self._parts.restricted_labels)
        if there is None:
            try:
                await self._cluster.create(wanted)
                return
            except AlreadyExists:
                there = await self._cluster.get(NAMESPACE, planned.name)
        if is_foreign(there, planned.owner):
            raise Forbidden("a namespace of this name exists and does not belong to the platform")
        change = change_for(there, wanted)
        if change is not None:
            await self._cluster.patch(NAMESPACE, planned.name, "", change)

    async def _bind(self, planned: Iterable[PlannedNamespace]) -> None:
        """Lets users use their restricted namespaces. In others they would have the rights of an admin."""
        name = MEMBER_ROLE
        bindings = (await self._cluster.list(ROLE_BINDING, fields=f"metadata.name={name}")).items
        there = {namespace_of(each): each for each in bindings}
        for each in planned:
            if each.name == SHARED_NAMESPACE:
                continue
            found, wanted = there.get(each.name), members_binding(each)
            try:
                if found is not None and (not each.restricted or found.get("subjects") != wanted["subjects"]):
                    await self._cluster.delete(ROLE_BINDING, name, each.name)
                    found = None
                if found is None and each.restricted:
                    await self._cluster.create(wanted)
            except ApiError as error:
                log.warning("the users of the namespace %s have no rights in it yet: %s", each.name, error)

    async def _remove(self, name: str, there: Object | None) -> None:
        """Deletes the namespace of a deleted team, unless there are jobs in it, or volumes: an admin decides about the
        files of its members."""
        if there is not None and not is_deleting(there):
            claims = (await self._cluster.list(PERSISTENT_VOLUME_CLAIM, name)).items
            if any(COPY_LABEL not in labels_of(claim) for claim in claims):
                return
            for job_kind in JOB_KINDS:
                try:
                    if (await self._cluster.list(job_kind.kind, name, limit=1)).items:
                        return
                except ApiError:
                    continue
            if TEAM_LABEL in labels_of(there):
                await self._cluster.delete(NAMESPACE, name)
        gone = delete(namespaces).where(namespaces.c.name == name)
        await self._database.write(lambda connection: connection.execute(gone))

    async def _share(self, planned: Iterable[PlannedNamespace]) -> None:
        """Copies what admins share into the namespaces that may use it, and removes copies that may not be there."""
        targets = [each for each in planned if each.name != SHARED_NAMESPACE]
        for kind in _SHARED_KINDS:
            originals = (await self._cluster.list(kind, SHARED_NAMESPACE, labels=SHARED)).items
            roots = [] if kind is not PERSISTENT_VOLUME_CLAIM else await self._claims_of_roots(targets, originals)
            # Those in other namespaces may be copies of another platform on the same cluster.
            names = {each.name for each in targets}
            listed = (await self._cluster.list(kind, labels=COPY_LABEL)).items
            copies = [copy for copy in listed if namespace_of(copy) in names]
            wanted = {
                (each.name, name_of(original)): original
                for each in targets
                for original in (*originals, *roots)
                if may_use(original, each) and not is_deleting(original)
            }
            for copy in copies:
                original = wanted.get((namespace_of(copy), name_of(copy)))
                if original is None or uid_of(original) != labels_of(copy).get(COPY_LABEL):
                    await self._drop(kind, copy)
            known = {(namespace_of(copy), name_of(copy)): copy for copy in copies}
            for (namespace, name), original in wanted.items():
                try:
                    await self._copy(kind, original, namespace, known.get((namespace, name)))
                except ApiError as error:
                    log.warning("%s %s cannot be shared with %s: %s", kind.kind, name, namespace, error)

    async def _claims_of_roots(self, targets: Iterable[PlannedNamespace], known: list[Object]) -> list[Object]:
        """Returns the claims of storage roots, which are shared without a label."""
        names = {name for each in targets for name in each.grants.claims} - {name_of(obj) for obj in known}
        found = []
        for name in sorted(names):
            try:
                found.append(await self._cluster.get(PERSISTENT_VOLUME_CLAIM, name, SHARED_NAMESPACE))
            except NotFound:
                continue
        return found

    async def _copy(self, kind: Kind, original: Object, namespace: str, there: Object | None) -> None:
        if kind is PERSISTENT_VOLUME_CLAIM:
            if there is None:
                await self._copy_claim(original, namespace)
            return
        if there is not None:
            if annotations_of(there).get(_VERSION) == version_of(original):
                return
            await self._cluster.delete(kind, name_of(there), namespace, uid=uid_of(there))
        content: Object = {
            name: original[name] for name in ("data", "binaryData", "type", "immutable") if name in original
        }
        await self._cluster.create({**_copy_of(kind, original, namespace), **content})

    async def _copy_claim(self, claim: Object, namespace: str) -> None:
        """Makes a claim of the same name that is bound to the same storage, through a volume of its own."""
        try:
            volume = await self._cluster.get(PERSISTENT_VOLUME, str(spec_of(claim).get("volumeName") or ""))
        except ApiError:
            return  # it is not bound yet
        name = f"{name_of(volume)}-{namespace}"
        spec = {key: value for key, value in spec_of(volume).items() if key not in ("claimRef", "storageClassName")}
        again = {
            **_copy_of(PERSISTENT_VOLUME, volume, ""),
            "spec": {
                **spec,
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": namespace, "name": name_of(claim)},
            },
        }
        again["metadata"] = {**again["metadata"], "name": name}
        try:
            await self._cluster.create(again)
        except AlreadyExists:
            await self._release(name)
        wanted = {"volumeName": name, "storageClassName": ""}
        kept = {key: spec_of(claim)[key] for key in ("accessModes", "resources", "volumeMode") if key in spec_of(claim)}
        await self._cluster.create(
            {**_copy_of(PERSISTENT_VOLUME_CLAIM, claim, namespace), "spec": {**kept, **wanted}},
        )

    async def _release(self, volume: str) -> None:
        """Lets a new claim have the volume of a copy that was deleted."""
        there = await self._cluster.get(PERSISTENT_VOLUME, volume)
        holder: Mapping[str, Any] = spec_of(there).get("claimRef") or {}
        if holder.get("uid"):
            await self._cluster.delete(PERSISTENT_VOLUME, volume, uid=uid_of(there))
            raise NotFound("the earlier copy is being removed")

    async def _drop(self, kind: Kind, copy: Object) -> None:
        try:
            await self._cluster.delete(kind, name_of(copy), namespace_of(copy), uid=uid_of(copy))
            if kind is PERSISTENT_VOLUME_CLAIM:
                await self._cluster.delete(PERSISTENT_VOLUME, str(spec_of(copy).get("volumeName") or ""))
        except ApiError as error:
            if not isinstance(error, NotFound):
                log.warning("%s %s/%s cannot be removed: %s", kind.kind, namespace_of(copy), name_of(copy), error)


def may_use(original: Object, planned: PlannedNamespace) -> bool:
    """Whether a shared object may be used in a namespace."""
    shared = labels_of(original).get(SHARED)
    if original.get("kind") == PERSISTENT_VOLUME_CLAIM.kind and name_of(original) in planned.grants.claims:
        return True
    return shared == EVERYBODY or shared in planned.teams


def _copy_of(kind: Kind, original: Object, namespace: str) -> Object:
    """The copy without its content."""
    metadata: Object = {
        "name": name_of(original),
        "labels": {COPY_LABEL: uid_of(original)},
        "annotations": {_VERSION: version_of(original)},
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
