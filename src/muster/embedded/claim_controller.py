"""Carries out what `claims` decides: binds, makes and takes away the folders behind PersistentVolumeClaims."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Hashable, Iterable
from pathlib import Path

from muster.embedded.claims import (
    PROTECTION,
    Bind,
    Provision,
    Wait,
    claim_reference,
    claims_of,
    decide,
    new_volume,
    reclaim,
    users_of,
)
from muster.embedded.events import Recorder
from muster.kube.builtin import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from muster.kube.cluster import Cluster
from muster.kube.controller import Controller
from muster.kube.errors import AlreadyExists, NotFound
from muster.kube.informer import Informer
from muster.kube.objects import (
    Key,
    Object,
    is_deleting,
    key_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
    version_of,
)


class ClaimController:
    """Keys of the queue: (namespace, name) of a claim, ('', name) of a volume."""

    def __init__(self, cluster: Cluster, recorder: Recorder, folder: Path) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._folder = folder
        # One worker: two claims must not be given the same volume.
        self._queue: Controller[Key] = Controller("claim", self._reconcile, workers=1)
        self._claims = Informer(cluster, PERSISTENT_VOLUME_CLAIM, on_change=self._claim_changed)
        self._volumes = Informer(cluster, PERSISTENT_VOLUME, on_change=self._volume_changed)
        self._pods = Informer(cluster, POD, on_change=self._pod_changed, indexers={"claim": _claim_keys})

    async def run(self) -> None:
        async with self._pods, self._volumes, self._claims:
            await self._queue.run()

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        claim = after or before or {}
        self._queue.enqueue(key_of(claim))
        bound = spec_of(claim).get("volumeName")
        if after is None and bound:
            self._queue.enqueue(Key("", bound))

    def _volume_changed(self, before: Object | None, after: Object | None) -> None:
        self._queue.enqueue(key_of(after or before or {}))
        for claim in self._claims.objects.values():
            if status_of(claim).get("phase") != "Bound":
                self._queue.enqueue(key_of(claim))

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        pod = after or before or {}
        for name in claims_of(pod):
            self._queue.enqueue(Key(namespace_of(pod), name))

    async def _reconcile(self, key: Key) -> None:
        if not key.namespace:
            await self._look_after_volume(key.name)
        elif (claim := self._claims.get(*key)) is not None:
            await self._look_after_claim(claim)
        else:
            await self._make_ephemeral(key)

    async def _look_after_claim(self, claim: Object) -> None:
        protected = PROTECTION in (meta(claim).get("finalizers") or ())
        if is_deleting(claim):
            if protected and not users_of(claim, self._pods.by("claim", key_of(claim))):
                await self._set_protection(claim, on=False)
            return
        if not protected:
            claim = await self._set_protection(claim, on=True)
        if status_of(claim).get("phase") != "Bound":
            await self._find_volume(claim)

    async def _find_volume(self, claim: Object) -> None:
        decision = decide(claim, self._volumes.objects.values())
        match decision:
            case Wait(reason, message):
                self._recorder.event(claim, "Warning", reason, message)
                if status_of(claim).get("phase") != "Pending":
                    await self._cluster.update({**claim, "status": {"phase": "Pending"}}, subresource="status")
            case Bind(volume):
                await self._bind(claim, volume)
            case Provision(name):
                path = self._folder / namespace_of(claim) / f"{name_of(claim)}-{uid_of(claim)[:8]}"
                path.mkdir(parents=True, exist_ok=True)
                try:
                    volume = await self._cluster.create(new_volume(claim, name, str(path)))
                except AlreadyExists:
                    volume = await self._cluster.get(PERSISTENT_VOLUME, name)
                self._recorder.event(
                    claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}"
                )
                await self._bind(claim, volume)

    async def _bind(self, claim: Object, volume: Object) -> None:
        if (spec_of(volume).get("claimRef") or {}).get("uid") != uid_of(claim):
            holder = {**spec_of(volume), "claimRef": claim_reference(claim)}
            volume = await self._cluster.update({**volume, "spec": holder})
        if spec_of(claim).get("volumeName") != name_of(volume):
            claim = await self._cluster.update({**claim, "spec": {**spec_of(claim), "volumeName": name_of(volume)}})
        await self._set_phase(volume, "Bound")
        status = {
            "phase": "Bound",
            "accessModes": spec_of(volume).get("accessModes") or [],
            "capacity": spec_of(volume).get("capacity") or {},
        }
        await self._cluster.update({**claim, "status": status}, subresource="status")

    async def _look_after_volume(self, name: str) -> None:
        volume = self._volumes.get("", name)
        if volume is None or is_deleting(volume):
            return
        holder = spec_of(volume).get("claimRef")
        if not holder or not holder.get("uid"):
            await self._set_phase(volume, "Available")
            return
        claim = self._claims.get(holder["namespace"], holder["name"])
        if claim is not None and uid_of(claim) == holder["uid"]:
            return
        match reclaim(volume):
            case "keep":
                await self._set_phase(volume, "Released")
            case "recycle":
                await asyncio.to_thread(_empty, Path(spec_of(volume)["hostPath"]["path"]))
                freed = {k: v for k, v in spec_of(volume).items() if k != "claimRef"}
                await self._set_phase(await self._cluster.update({**volume, "spec": freed}), "Available")
            case "delete":
                await asyncio.to_thread(shutil.rmtree, self._owned_folder(volume), ignore_errors=True)
                await self._cluster.delete(PERSISTENT_VOLUME, name, uid=uid_of(volume))

    def _owned_folder(self, volume: Object) -> Path:
        """Only what lies in our own folder is ever removed, whatever the object says."""
        path = Path(spec_of(volume)["hostPath"]["path"]).resolve()
        root = self._folder.resolve()
        return path if path.is_relative_to(root) and path != root else root / ".nothing"

    async def _make_ephemeral(self, key: Key) -> None:
        """A Pod's generic ephemeral volume: a claim that lives and dies with the Pod."""
        for pod in self._pods.by("claim", key):
            for volume in spec_of(pod).get("volumes") or ():
                if "ephemeral" not in volume or f"{name_of(pod)}-{volume['name']}" != key.name or is_deleting(pod):
                    continue
                template = volume["ephemeral"]["volumeClaimTemplate"]
                claim = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {
                        **(template.get("metadata") or {}),
                        "name": key.name,
                        "namespace": key.namespace,
                        "ownerReferences": [owner_reference(pod)],
                    },
                    "spec": template["spec"],
                }
                try:
                    await self._cluster.create(claim)
                except AlreadyExists:
                    return

    async def _set_protection(self, claim: Object, *, on: bool) -> Object:
        others = [f for f in meta(claim).get("finalizers") or () if f != PROTECTION]
        finalizers = [*others, PROTECTION] if on else others
        change = {"metadata": {"finalizers": finalizers, "resourceVersion": version_of(claim)}}
        try:
            return await self._cluster.patch(PERSISTENT_VOLUME_CLAIM, name_of(claim), namespace_of(claim), change)
        except NotFound:
            return claim

    async def _set_phase(self, volume: Object, phase: str) -> None:
        if status_of(volume).get("phase") != phase:
            await self._cluster.update({**volume, "status": {"phase": phase}}, subresource="status")


def _claim_keys(pod: Object) -> Iterable[Hashable]:
    return [Key(namespace_of(pod), name) for name in claims_of(pod)]


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
