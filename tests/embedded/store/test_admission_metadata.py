from __future__ import annotations

import uuid
from typing import Any

import pytest

from muster.embedded.store.admission import (
    check_metadata,
    check_name,
    generate_name,
    new_metadata,
    new_uid,
    update_metadata,
)
from muster.kube.builtin import CONFIG_MAP, NAMESPACE, ROLE, SERVICE
from muster.kube.kinds import Kind


def test_uids_are_uuids() -> None:
    uids = [new_uid() for _ in range(1000)]
    assert len(set(uids)) == 1000
    assert all(str(uuid.UUID(uid)) == uid and uuid.UUID(uid).version == 8 for uid in uids)


def test_uids_tell_the_order_of_creation() -> None:
    uids = [new_uid() for _ in range(1000)]
    times = [uid[9:29] for uid in uids]
    assert times == sorted(times)
    assert times[0] < times[-1]
    assert all(uuid.UUID(uid).variant == uuid.RFC_4122 for uid in uids)


def test_generated_names_keep_their_base_and_fit_a_label() -> None:
    assert generate_name("job-")[:4] == "job-"
    assert len(generate_name("job-")) == 9
    assert len(generate_name("x" * 200)) == 63


def test_new_metadata_ignores_what_only_the_cluster_may_say() -> None:
    given = {
        "name": "other", "namespace": "other", "uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z",
        "generation": 7, "deletionTimestamp": "x", "deletionGracePeriodSeconds": 5, "selfLink": "x",
        "labels": {"a": "b"}, "annotations": {}, "finalizers": None, "generateName": "web-",
    }  # fmt: skip
    made = new_metadata(given, "web", "default", "2026-01-01T00:00:00Z", 1)
    assert made.pop("uid") != "mine"
    assert made == {
        "name": "web", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1,
        "labels": {"a": "b"}, "generateName": "web-",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"name": "a", "uid": "1", "generation": 2, "managedFields": [{"manager": "m"}]}),
        (
            {"name": "b", "uid": "9", "generation": 9, "labels": {"x": "y"}},
            {"name": "a", "uid": "1", "generation": 2, "labels": {"x": "y"}, "managedFields": [{"manager": "m"}]},
        ),
        (
            {"annotations": {"n": "m"}, "labels": {}, "managedFields": [{}], "deletionTimestamp": "now"},
            {"name": "a", "uid": "1", "generation": 2, "annotations": {"n": "m"}, "managedFields": [{}]},
        ),
    ],
)
def test_an_update_leaves_the_clusters_own_fields_alone(given: dict[str, Any], expected: dict[str, Any]) -> None:
    old = {"name": "a", "uid": "1", "generation": 2, "labels": {"old": "1"}, "managedFields": [{"manager": "m"}]}
    assert update_metadata(old, given) == expected


@pytest.mark.parametrize(
    ("kind", "name", "good"),
    [
        (CONFIG_MAP, "a", True),
        (CONFIG_MAP, "a.b-c.d", True),
        (CONFIG_MAP, "x" * 253, True),
        (CONFIG_MAP, "x" * 254, False),
        (CONFIG_MAP, "Upper", False),
        (CONFIG_MAP, "under_score", False),
        (CONFIG_MAP, "-dash", False),
        (CONFIG_MAP, "dot.", False),
        (CONFIG_MAP, "a..b", False),
        (CONFIG_MAP, "../../etc", False),
        (CONFIG_MAP, "line\n", False),
        (NAMESPACE, "team-a", True),
        (NAMESPACE, "team.a", False),
        (NAMESPACE, "x" * 64, False),
        (SERVICE, "web.x", False),
        (ROLE, "system:reader", True),
        (ROLE, "a/b", False),
        (ROLE, "..", False),
    ],
)
def test_names(kind: Kind, name: str, good: bool) -> None:
    causes = check_name(kind, name)
    assert (not causes) is good
    assert all(c.field == "metadata.name" for c in causes)


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("field", "value", "at"),
    [
        ("labels", {"app": "web", "example.com/x": "", "a_b.c": "1-2"}, ""),
        ("labels", {"bad key": "x"}, "metadata.labels"),
        ("labels", {"UPPER.com/x": "x"}, "metadata.labels"),
        ("labels", {"app": "no spaces"}, "metadata.labels[app]"),
        ("labels", {"app": "x" * 64}, "metadata.labels[app]"),
        ("annotations", {"Any.Case/Is-Fine": "any text\n at all"}, ""),
        ("annotations", {"": "x"}, "metadata.annotations"),
        ("annotations", {"a": "x" * 300_000}, "metadata.annotations"),
        ("finalizers", ["example.com/hold", "foregroundDeletion"], ""),
        ("finalizers", ["ok", "not ok"], "metadata.finalizers[1]"),
        ("ownerReferences", [OWNER], ""),
        ("ownerReferences", [OWNER, OWNER], "metadata.ownerReferences[1].uid"),
        ("ownerReferences", [{**OWNER, "name": ""}], "metadata.ownerReferences[0].name"),
        (
            "ownerReferences",
            [{**OWNER, "controller": True}, {**OWNER, "uid": "v", "controller": True}],
            "metadata.ownerReferences",
        ),
    ],
)
def test_metadata_that_users_may_write(field: str, value: Any, at: str) -> None:
    causes = check_metadata(CONFIG_MAP, {"name": "a", field: value})
    assert [c.field for c in causes] == ([at] if at else [])


def test_finalizers_can_only_be_removed_during_deletion() -> None:
    old = {"name": "a", "deletionTimestamp": "now", "finalizers": ["a.b/one", "a.b/two"]}
    assert check_metadata(CONFIG_MAP, {**old, "finalizers": ["a.b/two"]}, old) == []
    causes = check_metadata(CONFIG_MAP, {**old, "finalizers": ["a.b/two", "a.b/three"]}, old)
    assert [(c.field, "a.b/three" in c.message) for c in causes] == [("metadata.finalizers", True)]
