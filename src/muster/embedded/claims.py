"""PersistentVolumeClaims: which volume a claim gets, and what becomes of a volume when its claim goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from muster.kube.quantity import whole
from muster.kube.selectors import label_selector_from

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONER = "muster.dev/folder"
PROTECTION = "kubernetes.io/pvc-protection"


@dataclass(frozen=True, slots=True)
class Bind:
    """Tie the claim to a volume that exists."""

    volume: Object


@dataclass(frozen=True, slots=True)
class Provision:
    """Make a folder, a volume on it, and tie the claim to that."""

    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done until the user does something."""

    reason: str
    message: str


Decision: TypeAlias = Bind | Provision | Wait
Reclaim: TypeAlias = Literal["keep", "recycle", "delete"]


def decide(claim: Object, volumes: Iterable[Object]) -> Decision:
    """What to do about a claim that has no volume yet."""
    spec = spec_of(claim)
    named = spec.get("volumeName")
    if named:
        return _decide_named(claim, named, volumes)
    free = [v for v in volumes if _is_free_for(v, claim) and mismatch(claim, v) is None]
    if free:
        # The smallest that is large enough, so that a small claim does not eat a large volume.
        return Bind(min(free, key=lambda v: (_capacity(v), name_of(v))))
    if spec.get("storageClassName") == "":
        return Wait(
            "FailedBinding",
            'no persistent volume fits, and storageClassName "" asks not to make one; '
            "create a PersistentVolume or remove storageClassName",
        )
    return Provision(f"pvc-{uid_of(claim)}")


def mismatch(claim: Object, volume: Object) -> str | None:
    """Why a volume does not do for a claim."""
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
    """The volume that is made for a claim: a folder under the data directory."""
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


def reclaim(volume: Object) -> Reclaim:
    """What to do with a volume whose claim is gone."""
    policy = spec_of(volume).get("persistentVolumeReclaimPolicy", "Retain")
    if policy == "Delete":
        return "delete" if annotations_of(volume).get(PROVISIONED_BY) == PROVISIONER else "keep"
    if policy == "Recycle" and "hostPath" in spec_of(volume):
        return "recycle"
    return "keep"


def users_of(claim: Object, pods: Iterable[Object]) -> list[Object]:
    """The Pods that still hold on to a claim."""
    return [
        pod
        for pod in pods
        if namespace_of(pod) == namespace_of(claim)
        and status_of(pod).get("phase") not in ("Succeeded", "Failed")
        and name_of(claim) in claims_of(pod)
    ]


def claims_of(pod: Object) -> set[str]:
    names = set()
    for volume in spec_of(pod).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names.add(str(volume["persistentVolumeClaim"]["claimName"]))
        elif "ephemeral" in volume:
            names.add(f"{name_of(pod)}-{volume['name']}")
    return names


def _decide_named(claim: Object, named: str, volumes: Iterable[Object]) -> Decision:
    volume = next((v for v in volumes if name_of(v) == named), None)
    if volume is None:
        return Wait("FailedBinding", f'the volume "{named}" does not exist; create it, or remove volumeName')
    if not _is_free_for(volume, claim):
        holder = spec_of(volume).get("claimRef") or {}
        key = Key(holder.get("namespace", ""), holder.get("name", ""))
        return Wait("FailedBinding", f'the volume "{named}" is taken by the claim {key}')
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
    return whole(((spec_of(claim).get("resources") or {}).get("requests") or {}).get("storage", "0"))


def _capacity_text(volume: Object) -> str:
    return str((spec_of(volume).get("capacity") or {}).get("storage", "0"))


def _capacity(volume: Object) -> int:
    return whole(_capacity_text(volume))
