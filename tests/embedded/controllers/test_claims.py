"""The claim controller: folders are created and deleted with claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.claims import ClaimController
from muster.kube.builtin import EVENT, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, is_deleting, status_of
from tests.embedded.waiting import run_components, wait_for, wait_for_all


def claim(name: str = "data", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


def pod() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }


def is_bound(obj: Object) -> bool:
    return status_of(obj).get("phase") == "Bound"


async def test_a_claim_gets_a_folder_that_lasts_until_the_last_user_has_gone(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    async with run_components(ClaimController(cluster, EventRecorder(cluster, "claims"), tmp_path / "volumes")):
        await cluster.create(claim())
        bound = await wait_for(cluster, PERSISTENT_VOLUME_CLAIM, "data", is_bound)
        volume = await cluster.get(PERSISTENT_VOLUME, bound["spec"]["volumeName"])
        folder = Path(volume["spec"]["hostPath"]["path"])
        assert folder.is_dir()

        await cluster.create(pod())
        await cluster.delete(PERSISTENT_VOLUME_CLAIM, "data", "default")
        await wait_for(cluster, PERSISTENT_VOLUME_CLAIM, "data", is_deleting)
        assert folder.is_dir(), "a Pod still uses it"
        await cluster.delete(POD, "p", "default")
        await wait_for_all(cluster, PERSISTENT_VOLUME_CLAIM, lambda claims: not claims)
        await wait_for_all(cluster, PERSISTENT_VOLUME, lambda volumes: not volumes)
        assert not folder.exists()


async def test_a_volume_made_by_hand_is_bound_and_kept(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    data = tmp_path / "mine"
    data.mkdir()
    (data / "file").write_text("precious")
    volume: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "mine"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(data)},
        },
    }
    async with run_components(ClaimController(cluster, EventRecorder(cluster, "claims"), tmp_path / "volumes")):
        await cluster.create(volume)
        await wait_for(cluster, PERSISTENT_VOLUME, "mine", lambda v: status_of(v).get("phase") == "Available")
        await cluster.create(claim(volumeName="mine"))
        await wait_for(cluster, PERSISTENT_VOLUME_CLAIM, "data", is_bound)
        await wait_for(cluster, PERSISTENT_VOLUME, "mine", is_bound)
        await cluster.delete(PERSISTENT_VOLUME_CLAIM, "data", "default")
        await wait_for(cluster, PERSISTENT_VOLUME, "mine", lambda v: status_of(v).get("phase") == "Released")
    assert (data / "file").read_text() == "precious"


async def test_a_claim_that_cannot_be_bound_gets_an_event(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    recorder = EventRecorder(cluster, "claims")
    async with run_components(ClaimController(cluster, recorder, tmp_path / "volumes"), recorder):
        await cluster.create(claim(volumeName="nfs-pv"))
        (event,) = await wait_for_all(cluster, EVENT, lambda events: bool(events))
        assert event["message"] == 'the volume "nfs-pv" does not exist; create it, or remove volumeName'
