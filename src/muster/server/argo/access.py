"""Everything a caller may do: the cluster with the rights of one user, labels that name the user, and lint before
anything is stored.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, TypeAlias

import orjson

from muster.embedded.cluster import EmbeddedCluster
from muster.kube import builtin
from muster.kube.cluster import Listing, LogQuery, PatchType, Propagation, WatchEvent
from muster.kube.errors import BadRequest, Cause, Invalid, NotFound
from muster.kube.kinds import MOST_CAUSES, Kind
from muster.kube.objects import Key, Object, creation_order, labels_of, meta, name_of, namespace_of, uid_of
from muster.kube.rbac import Action, User
from muster.server.kubernetes.app import AccessControl
from muster.server.object_checks import TemplateKey, lint_workflow
from muster.server.workers import SMALL_BYTES, WorkerPool
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, WORKFLOW, WORKFLOW_TEMPLATE

LATEST = "@latest"
_MOST_ROUNDS = 100
Batch: TypeAlias = list[WatchEvent]


class AuthorizedCluster:
    """Objects are as the store has them: a Workflow without its nodes, unless `with_nodes` is called."""

    def __init__(
        self, cluster: EmbeddedCluster, gate: AccessControl, user: User, workers: WorkerPool | None = None
    ) -> None:
        self.cluster = cluster
        self.workers = workers
        self.user = user
        self._gate = gate
        self.used: set[Action] = set()
        """What the request needed so far. A stream ends when one of these is no longer allowed."""

    def require(self, verb: str, kind: Kind, namespace: str, name: str = "", subresource: str = "") -> None:
        """Raises Forbidden."""
        scope = namespace if kind.namespaced else ""
        self._require(Action(verb, kind.group, kind.plural, subresource, scope, name))
        if verb in ("update", "patch", "delete") or subresource:
            self.protect_runs(kind, namespace, name)

    def protect_runs(self, kind: Kind, namespace: str, name: str) -> None:
        """Raises Forbidden if the object belongs to a run of the platform."""
        self._gate.protect_runs(self.user, kind, namespace, name)

    def require_path(self, path: str) -> None:
        self._require(Action("get", path=path))

    def _require(self, action: Action) -> None:
        self._gate.require(self.user, action)
        self.used.add(action)

    async def create(self, obj: Object, kind: Kind, *, dry_run: bool = False) -> Object:
        self.require("create", kind, namespace_of(obj))
        check = self._gate.write_check(self.user, kind)
        return await self.cluster.create(obj, dry_run=dry_run, field_validation="Warn", check=check)

    async def get(self, kind: Kind, name: str, namespace: str) -> Object:
        self.require("get", kind, namespace, name)
        return await self.cluster.get(kind, name, namespace)

    async def list(self, kind: Kind, namespace: str, *, labels: str = "", fields: str = "") -> Listing:
        self.require("list", kind, namespace)
        return await self.cluster.list(kind, namespace, labels=labels, fields=fields)

    async def watch(
        self, kind: Kind, namespace: str, *, labels: str = "", fields: str = "", version: str = ""
    ) -> AsyncIterator[Batch]:
        """Yields batches of changes; without a version, everything that exists first."""
        self.require("watch", kind, namespace)
        if version in ("", "0"):
            listing = await self.cluster.list(kind, namespace, labels=labels, fields=fields)
            version = listing.resource_version
            if listing.items:
                yield [WatchEvent("ADDED", obj) for obj in listing.items]
        async for batch in self.cluster.watch_batches(
            kind, namespace, labels=labels, fields=fields, resource_version=version, bookmarks=None
        ):
            yield batch

    async def update(self, obj: Object, kind: Kind) -> Object:
        self.require("update", kind, namespace_of(obj), name_of(obj))
        check = self._gate.write_check(self.user, kind)
        return await self.cluster.update(
            obj, kind=kind, field_manager="argo-server", field_validation="Warn", check=check
        )

    async def patch(
        self, kind: Kind, name: str, namespace: str, patch: dict[str, Any], type: PatchType = "merge"
    ) -> Object:
        self.require("patch", kind, namespace, name)
        check = self._gate.write_check(self.user, kind)
        return await self.cluster.patch(
            kind, name, namespace, patch, type=type, field_manager="argo-server", check=check
        )

    async def delete(
        self, kind: Kind, name: str, namespace: str, propagation: Propagation = "Background", uid: str = ""
    ) -> None:
        self.require("delete", kind, namespace, name)
        await self.cluster.delete(kind, name, namespace, propagation=propagation, uid=uid)

    def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        self.require("get", builtin.POD, namespace, pod, "log")
        return self.cluster.logs(pod, namespace, query)

    def with_nodes(self, workflow: Object) -> Object:
        return self.cluster.with_status_rows(workflow, WORKFLOW)

    async def find(self, name: str, namespace: str, uid: str = "") -> Object:
        """A Workflow by its name, or the one created last (`@latest`)."""
        if name != LATEST:
            found = await self.get(WORKFLOW, name, namespace)
            if uid and uid_of(found) != uid:
                raise NotFound(f'workflows.argoproj.io "{name}" with the uid {uid} not found')
            return found
        last = find_latest((await self.list(WORKFLOW, namespace)).items)
        if last is None:
            raise NotFound("no workflows found")
        return last

    async def find_by_uid(self, uid: str) -> Object:
        for workflow in (await self.cluster.list(WORKFLOW)).items:
            if uid_of(workflow) == uid:
                self.require("get", WORKFLOW, namespace_of(workflow), name_of(workflow))
                return workflow
        raise NotFound("not found")


def find_latest(workflows: list[Object]) -> Object | None:
    return max(workflows, key=creation_order, default=None)


UserAction: TypeAlias = Literal["Update", "Suspend", "Stop", "Terminate", "Resume", "Retry"]
_PREFIX = "workflows.argoproj.io"


def label_creator(user: User, obj: Object) -> Object:
    return _add_labels(obj, {f"{_PREFIX}/creator": label_value(user.name)})


def label_actor(user: User, obj: Object, deed: UserAction) -> Object:
    return _add_labels(obj, {f"{_PREFIX}/actor": label_value(user.name), f"{_PREFIX}/action": deed})


def label_value(text: str) -> str:
    """The last part of a name that fits into a label."""
    return re.sub(r"^[^a-zA-Z0-9]+|[^a-zA-Z0-9]+$", "", re.sub(r"[^-_.a-zA-Z0-9]", "-", text)[-63:])


def _add_labels(obj: Object, labels: Mapping[str, str]) -> Object:
    return {**obj, "metadata": {**meta(obj), "labels": {**labels_of(obj), **labels}}}


async def require_valid(api: AuthorizedCluster, obj: Object, *, strict: bool = False) -> None:
    """Raises Invalid with everything that is wrong. With `strict`, for lint requests, values that only a run needs may
    be missing, but unknown fields are errors."""
    kind = api.cluster.catalogue.of_object(obj)
    namespace = namespace_of(obj)
    templates: dict[TemplateKey, Object | None] = {}
    is_small = api.workers is None or len(orjson.dumps(obj)) <= SMALL_BYTES
    causes: list[Cause] = []
    for _ in range(_MOST_ROUNDS):
        args = (kind.api_version, kind.kind, obj, strict, templates)
        if is_small or api.workers is None:
            causes, missing = lint_workflow(*args)
        else:
            causes, missing = await api.workers.run_again_soon(api.user.name, lint_workflow, *args)
        if not missing:
            break
        for name, cluster_scope in missing:
            template = CLUSTER_WORKFLOW_TEMPLATE if cluster_scope else WORKFLOW_TEMPLATE
            key = Key("" if cluster_scope else namespace, name)
            found = templates[name, cluster_scope] = api.cluster.store.get(template.resource, key)
            is_small = is_small and (found is None or len(orjson.dumps(found)) <= SMALL_BYTES)
    else:
        raise BadRequest(f"templates refer to other templates more than {_MOST_ROUNDS} levels deep")
    if causes:
        told = "; ".join(f"{cause.field}: {cause.message}" for cause in causes[:MOST_CAUSES])
        raise Invalid(f'{kind.kind} "{name_of(obj)}" is invalid: {told}', causes=causes[:MOST_CAUSES])
