"""PersistentVolumeClaims: which volume a claim gets, and what happens to a volume when its claim is deleted.

The decisions are pure functions; `ClaimController` carries them out on folders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from muster.embedded.node.supervisor.output_files import remove_tree
from muster.kube.builtin import NAMESPACE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from muster.kube.cluster import Cluster
from muster.kube.controller import Controller, Informer
from muster.kube.errors import AlreadyExists, NotFound
from muster.kube.events import EventRecorder
from muster.kube.file_names import fit_component, path_component
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    is_deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
    version_of,
)
from muster.kube.pod_security import is_restricted
from muster.kube.quantity import whole_value
from muster.kube.selectors import label_selector_from

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONER = "muster.dev/folder"
PROTECTION = "kubernetes.io/pvc-protection"


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the claim to an existing volume."""

    volume: Object


@dataclass(frozen=True, slots=True)
class Provision:
    """Create a folder and a volume for it, and bind the claim to that."""

    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The claim waits until the user changes something."""

    reason: str
    message: str


ClaimDecision: TypeAlias = Bind | Provision | Wait
ReclaimAction: TypeAlias = Literal["keep", "recycle", "delete"]


def choose_volume(claim: Object, volumes: Iterable[Object], *, restricted: bool = False) -> ClaimDecision:
    """Decides what to do about a claim that has no volume yet. In a restricted namespace, a claim gets a volume that is
    reserved for it, or a new one; never one that happens to be free."""
    spec = spec_of(claim)
    if restricted:
        volumes = [volume for volume in volumes if spec_of(volume).get("claimRef")]
    named = spec.get("volumeName")
    if named:
        return _choose_named(claim, named, volumes)
    free = [v for v in volumes if _is_free_for(v, claim) and mismatch(claim, v) is None]
    if free:
        # The smallest volume that is large enough, so that a small claim does not occupy a large volume.
        return Bind(min(free, key=lambda v: (_capacity(v), name_of(v))))
    if spec.get("storageClassName") == "":
        return Wait(
            "FailedBinding",
            'no persistent volume fits, and storageClassName "" disables provisioning; '
            "create a PersistentVolume or remove storageClassName",
        )
    return Provision(f"pvc-{uid_of(claim)}")


def mismatch(claim: Object, volume: Object) -> str | None:
    """Returns why a volume does not fit a claim, or None if it fits."""
    wanted, offered = spec_of(claim), spec_of(volume)
    if (wanted.get("storageClassName") or "") != (offered.get("storageClassName") or ""):
        return (
            f"storageClassName is {wanted.get('storageClassName') or '(none)'} in the claim "
            f"and {offered.get('storageClassName') or '(none)'} in the volume"
        )
    missing = set(wanted.get("accessModes") or ()) - set(offered.get("accessModes") or ())
    if missing:
        return f"the volume does not offer access mode {', '.join(sorted(missing))}"
    if _request(claim) > _capacity(volume):
        return (
            f"the claim asks for {wanted['resources']['requests']['storage']}, the volume has {_capacity_text(volume)}"
        )
    if wanted.get("volumeMode", "Filesystem") != offered.get("volumeMode", "Filesystem"):
        return "volumeMode differs"
    selector = wanted.get("selector")
    if selector is not None and not label_selector_from(selector).matches(labels_of(volume)):
        return "the claim's selector does not match the volume's labels"
    return None


def new_volume(claim: Object, name: str, path: str) -> Object:
    """Returns the volume that is provisioned for a claim: a folder in the data directory."""
    spec = spec_of(claim)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            **({"storageClassName": spec["storageClassName"]} if spec.get("storageClassName") else {}),
            "claimRef": claim_reference(claim),
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
        },
    }


def claim_reference(claim: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
    }


def reclaim_action(volume: Object) -> ReclaimAction:
    """Returns what to do with a volume whose claim is deleted."""
    policy = spec_of(volume).get("persistentVolumeReclaimPolicy", "Retain")
    if policy == "Delete":
        return "delete" if annotations_of(volume).get(PROVISIONED_BY) == PROVISIONER else "keep"
    if policy == "Recycle" and "hostPath" in spec_of(volume):
        return "recycle"
    return "keep"


def pods_using(claim: Object, pods: Iterable[Object]) -> list[Object]:
    """Returns the Pods that still use a claim."""
    return [
        pod
        for pod in pods
        if namespace_of(pod) == namespace_of(claim)
        and status_of(pod).get("phase") not in ("Succeeded", "Failed")
        and name_of(claim) in claim_names(pod)
    ]


def claim_names(pod: Object) -> set[str]:
    names = set()
    for volume in spec_of(pod).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names.add(str(volume["persistentVolumeClaim"]["claimName"]))
        elif "ephemeral" in volume:
            names.add(f"{name_of(pod)}-{volume['name']}")
    return names


def _choose_named(claim: Object, named: str, volumes: Iterable[Object]) -> ClaimDecision:
    volume = next((v for v in volumes if name_of(v) == named), None)
    if volume is None:
        return Wait("FailedBinding", f'the volume "{named}" does not exist; create it, or remove volumeName')
    if not _is_free_for(volume, claim):
        holder = spec_of(volume).get("claimRef") or {}
        key = Key(holder.get("namespace", ""), holder.get("name", ""))
        return Wait("FailedBinding", f'the volume "{named}" is used by the claim {key}')
    why = mismatch(claim, volume)
    if why is not None:
        return Wait("VolumeMismatch", f'the volume "{named}" does not fit: {why}')
    return Bind(volume)


def _is_free_for(volume: Object, claim: Object) -> bool:
    if is_deleting(volume) or status_of(volume).get("phase") in ("Released", "Failed"):
        return False
    holder = spec_of(volume).get("claimRef")
    if not holder:
        return True
    same = Key(holder.get("namespace", ""), holder.get("name", "")) == key_of(claim)
    return same and holder.get("uid") in (None, "", uid_of(claim))


def _request(claim: Object) -> int:
    return whole_value(((spec_of(claim).get("resources") or {}).get("requests") or {}).get("storage", "0"))


def _capacity_text(volume: Object) -> str:
    return str((spec_of(volume).get("capacity") or {}).get("storage", "0"))


def _capacity(volume: Object) -> int:
    return whole_value(_capacity_text(volume))


class ClaimController:
    """Binds claims, and creates and deletes the folders behind them.

    Keys of the queue: (namespace, name) of a claim, ('', name) of a volume."""

    def __init__(self, cluster: Cluster, recorder: EventRecorder, folder: Path) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._folder = folder
        # One worker, so that two claims never get the same volume.
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
        for name in claim_names(pod):
            self._queue.enqueue(Key(namespace_of(pod), name))

    async def _reconcile(self, key: Key) -> None:
        if not key.namespace:
            await self._reconcile_volume(key.name)
        elif (claim := self._claims.get(*key)) is not None:
            await self._reconcile_claim(claim)
        else:
            await self._create_ephemeral_claim(key)

    async def _reconcile_claim(self, claim: Object) -> None:
        protected = PROTECTION in (meta(claim).get("finalizers") or ())
        if is_deleting(claim):
            if protected and not pods_using(claim, self._pods.by("claim", key_of(claim))):
                await self._set_protection(claim, on=False)
            return
        if not protected:
            claim = await self._set_protection(claim, on=True)
        if status_of(claim).get("phase") != "Bound":
            await self._find_volume(claim)

    async def _find_volume(self, claim: Object) -> None:
        namespace = await self._cluster.get(NAMESPACE, namespace_of(claim))
        decision = choose_volume(claim, self._volumes.objects.values(), restricted=is_restricted(namespace))
        match decision:
            case Wait(reason, message):
                self._recorder.event(claim, "Warning", reason, message)
                if status_of(claim).get("phase") != "Pending":
                    await self._cluster.update({**claim, "status": {"phase": "Pending"}}, subresource="status")
            case Bind(volume):
                await self._bind(claim, volume)
            case Provision(name):
                folder = fit_component(f"{name_of(claim)}-{uid_of(claim)[:8]}")
                path = self._folder / path_component(namespace_of(claim)) / folder
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

    async def _reconcile_volume(self, name: str) -> None:
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
        match reclaim_action(volume):
            case "keep":
                await self._set_phase(volume, "Released")
            case "recycle":
                await asyncio.to_thread(_empty_folder, Path(spec_of(volume)["hostPath"]["path"]))
                freed = {k: v for k, v in spec_of(volume).items() if k != "claimRef"}
                await self._set_phase(await self._cluster.update({**volume, "spec": freed}), "Available")
            case "delete":
                await asyncio.to_thread(remove_tree, str(self._folder_to_delete(volume)))
                await self._cluster.delete(PERSISTENT_VOLUME, name, uid=uid_of(volume))

    def _folder_to_delete(self, volume: Object) -> Path:
        """Returns the folder to delete. Only folders inside our own are ever deleted, whatever the object says."""
        path = Path(spec_of(volume)["hostPath"]["path"]).resolve()
        root = self._folder.resolve()
        return path if path.is_relative_to(root) and path != root else root / ".nothing"

    async def _create_ephemeral_claim(self, key: Key) -> None:
        """Creates the claim of a Pod's generic ephemeral volume. It is deleted with the Pod."""
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


def _claim_keys(pod: Object) -> Collection[Hashable]:
    return [Key(namespace_of(pod), name) for name in claim_names(pod)]


def _empty_folder(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(str(entry))
        else:
            entry.unlink()
