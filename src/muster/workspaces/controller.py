"""The controller of Notebooks and Tensorboards: observes a workspace, asks `decide` what to do, and does it. The same
on every cluster.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeAlias

from muster.kube.builtin import NAMESPACE, POD, SECRET, SERVICE
from muster.kube.cluster import Cluster
from muster.kube.controller import Controller, InformerSet, OnChange, index_by_controller
from muster.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    controller_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    status_of,
    uid_of,
    version_of,
)
from muster.kube.pod_security import is_restricted, read_grants
from muster.workspaces.environments import READY, EnvironmentStatus
from muster.workspaces.images import TENSORBOARD_IMAGE
from muster.workspaces.kinds import MANAGED_BY, NOTEBOOK, TENSORBOARD, is_stopped
from muster.workspaces.plan import (
    Decision,
    HostFolders,
    Observed,
    build_pod,
    build_secret,
    build_service,
    decide,
    image_of,
    notebook_pod_spec,
    secret_name,
    service_name,
    template_hash,
    tensorboard_pod_spec,
    write_status,
)

Item: TypeAlias = tuple[str, Key]
"""A workspace in the queue: the name of its kind, and its key."""

_SELECTOR = ",".join(f"{name}={value}" for name, value in MANAGED_BY.items())
_REFUSED_AGAIN_SECONDS = 30.0
_TOKEN_BYTES = 32


class EventSink(Protocol):
    def event(self, about: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None: ...


FindEnvironment: TypeAlias = Callable[[str], EnvironmentStatus]
"""(image) -> whether what stands for it can be used."""


class WorkspaceController:
    """Reconciles Notebooks and Tensorboards. `run()` runs until it is cancelled."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: EventSink,
        *,
        environment: FindEnvironment = lambda image: READY,
        tensorboard_image: str = TENSORBOARD_IMAGE,
        fs_group: int | None = None,
        namespaces: Sequence[str] = ("",),
        kinds: Sequence[Kind] = (NOTEBOOK, TENSORBOARD),
        workers: int = 2,
    ) -> None:
        """`environment` says whether an image can be run, where none is pulled; call `environments_changed` when that
        changes. `fs_group` owns the files of notebooks' volumes."""
        self._cluster = cluster
        self._recorder = recorder
        self._environment = environment
        self._tensorboard_image = tensorboard_image
        self._fs_group = fs_group
        self._refused: dict[str, str] = {}
        """Why the cluster did not accept the Pod of a workspace, by uid."""
        self._queue: Controller[Item] = Controller("workspaces", self._reconcile, workers=workers)
        self._kinds = {kind.kind: kind for kind in kinds}
        self._workspaces = {
            kind.kind: InformerSet(cluster, kind, namespaces, on_change=self._watcher(kind.kind)) for kind in kinds
        }
        self._pods = InformerSet(
            cluster,
            POD,
            namespaces,
            selectors=(_SELECTOR,),
            on_change=self._pod_changed,
            indexers={"owner": index_by_controller},
        )

    @property
    def is_synced(self) -> bool:
        """Whether all informers have listed their objects."""
        return self._pods.is_synced and all(each.is_synced for each in self._workspaces.values())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informers in (self._pods, *self._workspaces.values()):
                group.create_task(informers.run())
            await self._pods.wait_synced()
            await self._queue.run()

    async def finish(self) -> None:
        """Starts no more reconciles, and waits for those that run. `run` still has to be cancelled."""
        await self._queue.finish()

    def environments_changed(self) -> None:
        """Looks again at all workspaces that have no Pod."""
        for name, informers in self._workspaces.items():
            for workspace in informers:
                if not self._pods.by("owner", uid_of(workspace)):
                    self._queue.enqueue((name, key_of(workspace)))

    async def _reconcile(self, item: Item) -> float | None:
        name, key = item
        workspace = self._workspaces[name].get(*key)
        if workspace is None or is_deleting(workspace):
            return None  # what belongs to it is collected as garbage
        uid = uid_of(workspace)
        pods = self._pods.by("owner", uid)
        image = image_of(workspace, self._tensorboard_image)
        wants_environment = not is_stopped(workspace) and not pods
        environment = self._environment(image) if wants_environment else READY
        try:
            spec = await self._pod_spec(workspace)
        except ValueError as error:
            spec, self._refused[uid] = {}, str(error)
        seen = Observed(pods, environment, self._refused.get(uid, ""))
        decision = decide(workspace, template_hash(spec) if spec else "", seen, datetime.now(UTC))
        decision.create_pod = decision.create_pod and bool(spec)
        return await self._execute(workspace, spec, decision)

    async def _pod_spec(self, workspace: Object) -> Object:
        if workspace["kind"] == NOTEBOOK.kind:
            return notebook_pod_spec(workspace, self._fs_group)
        try:
            namespace = await self._cluster.get(NAMESPACE, namespace_of(workspace))
        except NotFound:
            return tensorboard_pod_spec(workspace, self._tensorboard_image, HostFolders())
        folders = HostFolders(is_restricted(namespace), read_grants(namespace).paths)
        return tensorboard_pod_spec(workspace, self._tensorboard_image, folders)

    async def _execute(self, workspace: Object, spec: Object, decision: Decision) -> float | None:
        again: float | None = None
        kind = self._kinds[workspace["kind"]]
        name, namespace = name_of(workspace), namespace_of(workspace)
        for severity, reason, message in decision.events:
            self._recorder.event(workspace, severity, reason, message)
        for pod in decision.delete:
            await self._delete(workspace, pod)
        if decision.annotations:
            change = {"metadata": {"annotations": decision.annotations, "uid": uid_of(workspace)}}
            workspace = await self._cluster.patch(kind, name, namespace, change)
        if decision.create_pod:
            again = await self._create(workspace, spec)
            refused = self._refused.get(uid_of(workspace), "")
            if refused:
                seen = Observed((), READY, refused)
                decision.status = write_status(workspace, None, seen, datetime.now(UTC))
        if decision.status != status_of(workspace):
            metadata = {"uid": uid_of(workspace), "resourceVersion": version_of(workspace)}
            # A patch could not remove what is not in the new status.
            with suppress(NotFound):  # deleted meanwhile
                await self._cluster.update(
                    {**workspace, "metadata": {**workspace["metadata"], **metadata}, "status": decision.status},
                    subresource="status",
                )
        return again

    async def _create(self, workspace: Object, spec: Object) -> float | None:
        """Creates the Pod, and before it what it needs. Returns when to try again."""
        uid = uid_of(workspace)
        try:
            await self._ensure(workspace, SECRET, secret_name(workspace))
            await self._create_pod(workspace, build_pod(workspace, spec))
        except AlreadyExists:
            return 1.0  # the Pod of an earlier workspace of this name, which still ends; or our own, not yet seen
        except (Forbidden, Invalid, Conflict) as error:
            if self._refused.get(uid) != error.message:
                self._refused[uid] = error.message
                self._recorder.event(workspace, "Warning", "FailedCreate", f"The Pod is refused: {error.message}")
            return _REFUSED_AGAIN_SECONDS
        self._refused.pop(uid, None)
        self._recorder.event(workspace, "Normal", "Created", f"Created the Pod of {workspace['kind']} {uid[:8]}")
        try:
            await self._ensure(workspace, SERVICE, service_name(workspace))
        except (Forbidden, Invalid, Conflict) as error:
            self._recorder.event(workspace, "Warning", "FailedCreateService", error.message)
        return None

    async def _create_pod(self, workspace: Object, pod: Object) -> None:
        try:
            await self._cluster.create(pod)
        except AlreadyExists:
            there = await self._cluster.get(POD, name_of(pod), namespace_of(pod))
            owner = controller_of(there)
            if is_deleting(there) or (owner is not None and owner.get("kind") == workspace["kind"]):
                raise
            raise Conflict(f'pod "{name_of(pod)}" exists and belongs to something else; delete or rename it') from None

    async def _ensure(self, workspace: Object, kind: Kind, name: str) -> None:
        """Creates an object if it does not exist. Raises Conflict if one exists that is not the workspace's."""
        try:
            there = await self._cluster.get(kind, name, namespace_of(workspace))
        except NotFound:
            built = (
                build_secret(workspace, secrets.token_urlsafe(_TOKEN_BYTES))
                if kind is SECRET
                else build_service(workspace)
            )
            await self._cluster.create(built)
            return
        owner = controller_of(there)
        if owner is None or owner.get("uid") != uid_of(workspace):
            raise Conflict(f'{kind.singular} "{name}" exists and belongs to something else; delete or rename it')

    async def _delete(self, workspace: Object, pod: Object) -> None:
        try:
            await self._cluster.delete(POD, name_of(pod), namespace_of(pod), uid=uid_of(pod))
        except NotFound:
            return
        except ApiError as error:
            self._recorder.event(workspace, "Warning", "FailedDelete", error.message)
            raise
        self._recorder.event(workspace, "Normal", "Stopped", f"Deleted the Pod {name_of(pod)}")

    def _watcher(self, name: str) -> OnChange:
        def changed(before: Object | None, after: Object | None) -> None:
            if after is None:
                self._refused.pop(uid_of(before or {}), None)
            else:
                if before is not None and before.get("spec") != after.get("spec"):
                    self._refused.pop(uid_of(after), None)
                self._queue.enqueue((name, key_of(after)), urgent=before is not None)

        return changed

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        pod = after if after is not None else before
        owner = controller_of(pod) if pod is not None else None
        if pod is None or owner is None or owner.get("kind") not in self._workspaces:
            return
        self._queue.enqueue((owner["kind"], Key(namespace_of(pod), str(owner.get("name")))), urgent=True)
