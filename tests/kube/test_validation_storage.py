from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from muster.kube.errors import Cause
from muster.kube.kinds import Kind
from muster.kube.objects import Object


def check(kind: Kind, spec: Object, old: Object | None = None) -> list[Cause]:
    assert kind.validate is not None
    return kind.validate({"spec": spec}, None if old is None else {"spec": old})


def volume(**fields: Any) -> Object:
    return {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        **({} if "local" in fields else {"hostPath": {"path": "/data"}}),
        **fields,
    }


def claim(storage: str | None = "1Gi", **fields: Any) -> Object:
    requests = {} if storage is None else {"storage": storage}
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": requests}, **fields}


TERMS: Object = {"required": {"nodeSelectorTerms": [{"matchExpressions": []}]}}


@pytest.mark.parametrize(
    ("kind", "spec", "old"),
    [
        (PERSISTENT_VOLUME, volume(), None),
        (PERSISTENT_VOLUME, volume(local={"path": "/d"}, nodeAffinity=TERMS), None),
        (PERSISTENT_VOLUME, volume(capacity={"storage": "2Gi"}), volume()),
        (PERSISTENT_VOLUME_CLAIM, claim(), None),
        (PERSISTENT_VOLUME_CLAIM, claim(volumeName="v"), claim()),
        (PERSISTENT_VOLUME_CLAIM, claim(storageClassName="s"), claim()),
        (PERSISTENT_VOLUME_CLAIM, claim("2Gi", volumeName="v"), claim("1Gi", volumeName="v")),
    ],
)
def test_what_is_accepted(kind: Kind, spec: Object, old: Object | None) -> None:
    assert check(kind, spec, old) == []


@pytest.mark.parametrize(
    ("kind", "spec", "old", "field", "message"),
    [
        (PERSISTENT_VOLUME, volume(accessModes=[]), None, "spec.accessModes", "Required value"),
        (PERSISTENT_VOLUME, volume(capacity={}), None, "spec.capacity[storage]", "say how much"),
        (PERSISTENT_VOLUME, volume(hostPath=None), None, "spec", "must specify a volume type"),
        (PERSISTENT_VOLUME, volume(nfs={"server": "s", "path": "/"}), None, "spec.nfs", "more than 1 volume type"),
        (PERSISTENT_VOLUME, volume(hostPath={"path": ""}), None, "spec.hostPath.path", "Required value"),
        (PERSISTENT_VOLUME, volume(hostPath={"path": "/a/.."}), None, "spec.hostPath.path", "must not contain '..'"),
        (
            PERSISTENT_VOLUME,
            volume(local={"path": "/d"}),
            None,
            "spec.nodeAffinity",
            "Local volume requires node affinity",
        ),
        (PERSISTENT_VOLUME, volume(storageClassName="A"), None, "spec.storageClassName", "use lower case"),
        (PERSISTENT_VOLUME, volume(), volume(hostPath={"path": "/x"}), "spec.hostPath", "immutable after creation"),
        (PERSISTENT_VOLUME_CLAIM, claim(accessModes=[]), None, "spec.accessModes", "at least 1 access mode"),
        (
            PERSISTENT_VOLUME_CLAIM,
            claim(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
            None,
            "spec.accessModes",
            "may not use ReadWriteOncePod with other access modes",
        ),
        (PERSISTENT_VOLUME_CLAIM, claim(None), None, "spec.resources.requests[storage]", "say how much"),
        (PERSISTENT_VOLUME_CLAIM, claim("0"), None, "spec.resources.requests[storage]", "greater than zero"),
        (PERSISTENT_VOLUME_CLAIM, claim(volumeName="b"), claim(volumeName="a"), "spec.volumeName", "immutable"),
        (PERSISTENT_VOLUME_CLAIM, claim(accessModes=["ReadOnlyMany"]), claim(), "spec.accessModes", "immutable"),
        (PERSISTENT_VOLUME_CLAIM, claim("2Gi"), claim("1Gi"), "spec.resources", "immutable"),
        (
            PERSISTENT_VOLUME_CLAIM,
            claim("1Gi", volumeName="v"),
            claim("2Gi", volumeName="v"),
            "spec.resources.requests.storage",
            "can not be less than",
        ),
    ],
)
def test_what_is_refused(kind: Kind, spec: Object, old: Object | None, field: str, message: str) -> None:
    (cause,) = check(kind, spec, old)
    assert cause.field == field
    assert message in cause.message
