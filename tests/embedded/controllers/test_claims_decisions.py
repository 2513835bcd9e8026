"""Tables of which volume a claim gets."""

from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.controllers.claims import (
    PROVISIONED_BY,
    PROVISIONER,
    Bind,
    ClaimDecision,
    Provision,
    Wait,
    choose_volume,
    claim_names,
    new_volume,
    pods_using,
    reclaim_action,
)
from muster.kube.objects import Object


def claim(size: str = "1Gi", **spec: Any) -> Object:
    return {
        "metadata": {"name": "data", "namespace": "default", "uid": "claim-uid"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec},
    }


def volume(name: str, size: str = "1Gi", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "labels": {"disk": name}},
        "spec": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"], "capacity": {"storage": size}, **spec},
    }


def outcome(decision: ClaimDecision) -> str:
    match decision:
        case Bind(found):
            return str(found["metadata"]["name"])
        case Provision(_):
            return "new"
        case Wait(_, message):
            return message


MINE = {"namespace": "default", "name": "data", "uid": "claim-uid"}
OTHER = {"namespace": "default", "name": "other", "uid": "other-uid"}


@pytest.mark.parametrize(
    ("wanted", "volumes", "expected"),
    [
        (claim(), [], "new"),
        (claim(), [volume("a")], "a"),
        (claim(), [volume("big", "100Gi"), volume("small", "2Gi")], "small"),
        (claim("5Gi"), [volume("a", "1Gi")], "new"),
        (claim(), [volume("a", claimRef=OTHER)], "new"),
        (claim(), [volume("a", claimRef=MINE)], "a"),
        (claim(storageClassName="slow"), [volume("a")], "new"),
        (claim(storageClassName="slow"), [volume("a", storageClassName="slow")], "a"),
        (claim(selector={"matchLabels": {"disk": "b"}}), [volume("a"), volume("b")], "b"),
        (claim(accessModes=["ReadOnlyMany"]), [volume("a")], "new"),
        (claim(volumeName="b"), [volume("a"), volume("b")], "b"),
    ],
)  # fmt: skip
def test_takes_the_smallest_volume_that_fits_or_a_new_one(wanted: Object, volumes: list[Object], expected: str) -> None:
    assert outcome(choose_volume(wanted, volumes)) == expected


@pytest.mark.parametrize(
    ("wanted", "volumes", "expected"),
    [
        (claim(), [volume("free")], "new"),
        (claim(selector={"matchLabels": {"disk": "free"}}), [volume("free")], "new"),
        (claim(), [volume("free"), volume("mine", claimRef=MINE)], "mine"),
        (claim(), [volume("theirs", claimRef=OTHER)], "new"),
    ],
)
def test_a_claim_of_a_restricted_namespace_takes_no_free_volume(
    wanted: Object, volumes: list[Object], expected: str
) -> None:
    """A volume that an admin made for another purpose is not bound by accident."""
    assert outcome(choose_volume(wanted, volumes, restricted=True)) == expected


@pytest.mark.parametrize(
    ("wanted", "volumes", "says"),
    [
        (claim(storageClassName=""), [], "disables provisioning"),
        (claim(volumeName="b"), [], '"b" does not exist'),
        (claim(volumeName="a"), [volume("a", claimRef=OTHER)], "used by the claim default/other"),
        (claim("5Gi", volumeName="a"), [volume("a")], "asks for 5Gi, the volume has 1Gi"),
        (claim(volumeName="a", storageClassName="slow"), [volume("a")], "storageClassName is slow"),
        (claim(volumeName="a", accessModes=["ReadOnlyMany"]), [volume("a")], "access mode ReadOnlyMany"),
    ],
)  # fmt: skip
def test_a_waiting_claim_has_a_reason(wanted: Object, volumes: list[Object], says: str) -> None:
    assert says in outcome(choose_volume(wanted, volumes))


@pytest.mark.parametrize(
    ("policy", "ours", "expected"),
    [("Delete", True, "delete"), ("Delete", False, "keep"), ("Retain", True, "keep"), ("Recycle", False, "recycle")],
)
def test_only_folders_that_we_made_are_deleted(policy: str, ours: bool, expected: str) -> None:
    a_volume = volume("a", persistentVolumeReclaimPolicy=policy, hostPath={"path": "/x"})
    if ours:
        a_volume["metadata"]["annotations"] = {PROVISIONED_BY: PROVISIONER}
    assert reclaim_action(a_volume) == expected


def test_a_new_volume_is_tied_to_its_claim() -> None:
    made = new_volume(claim(storageClassName="fast"), "pvc-1", "/somewhere")
    assert made["spec"]["claimRef"]["uid"] == "claim-uid"
    assert made["spec"]["storageClassName"] == "fast"
    assert made["spec"]["hostPath"]["path"] == "/somewhere"
    assert reclaim_action(made) == "delete"


def test_a_claim_is_in_use_until_its_pods_have_ended() -> None:
    def pod(phase: str, name: str = "p") -> Object:
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "s", "ephemeral": {}}]
        return {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"volumes": volumes},
            "status": {"phase": phase},
        }

    assert claim_names(pod("Running")) == {"data", "p-s"}
    assert pods_using(claim(), [pod("Succeeded"), pod("Failed")]) == []
    assert len(pods_using(claim(), [pod("Running")])) == 1
