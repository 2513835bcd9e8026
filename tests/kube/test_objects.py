from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    copy_of,
    is_deleting,
    join_api_version,
    key_of,
    labels_of,
    meta,
    micro_timestamp,
    name_of,
    namespace_of,
    owned_by,
    owner_reference,
    owners_of,
    parse_time,
    spec_of,
    split_api_version,
    status_of,
    timestamp,
    uid_of,
    version_of,
)

JOB: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ml", "uid": "u1"}}


def test_what_one_asks_of_an_object() -> None:
    obj: Object = {
        "metadata": {
            "name": "web",
            "namespace": "prod",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"a": "1"},
            "annotations": {"b": "2"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"x": 1},
        "status": {"y": 2},
    }
    assert (name_of(obj), namespace_of(obj), uid_of(obj), version_of(obj)) == ("web", "prod", "u", "7")
    assert (labels_of(obj), annotations_of(obj)) == ({"a": "1"}, {"b": "2"})
    assert (spec_of(obj), status_of(obj), is_deleting(obj)) == ({"x": 1}, {"y": 2}, True)
    assert key_of(obj) == Key("prod", "web")


@pytest.mark.parametrize(
    "obj", [{}, {"metadata": None, "spec": None, "status": None}, {"metadata": {"labels": None, "name": None}}]
)
def test_what_is_missing_is_empty(obj: Object) -> None:
    assert (name_of(obj), namespace_of(obj), uid_of(obj), version_of(obj)) == ("", "", "", "")
    assert (labels_of(obj), annotations_of(obj), spec_of(obj), status_of(obj)) == ({}, {}, {}, {})
    assert (owners_of(obj), controller_of(obj), is_deleting(obj)) == ([], None, False)
    assert key_of(obj) == Key("", "")


def test_a_key_prints_as_users_write_it() -> None:
    assert str(Key("prod", "web")) == "prod/web"
    assert str(Key("", "node-1")) == "node-1"


@pytest.mark.parametrize(
    ("api_version", "group", "version"), [("v1", "", "v1"), ("batch/v1", "batch", "v1"), ("a.b.io/v2", "a.b.io", "v2")]
)
def test_api_versions(api_version: str, group: str, version: str) -> None:
    assert split_api_version(api_version) == (group, version)
    assert join_api_version(group, version) == api_version


def test_a_copy_may_be_changed() -> None:
    obj: Object = {"spec": {"list": [{"a": 1}]}}
    copied = copy_of(obj)
    copied["spec"]["list"][0]["a"] = 2
    assert obj == {"spec": {"list": [{"a": 1}]}}


def test_owners() -> None:
    reference = owner_reference(JOB)
    assert reference == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    plain = owner_reference(JOB, controller=False, block_deletion=False)
    assert (plain["controller"], plain["blockOwnerDeletion"]) == (False, False)


def pod(*references: dict[str, Any]) -> Object:
    return {"metadata": {"name": "p", "ownerReferences": list(references)}}


def test_only_the_managing_owner_owns() -> None:
    mine = pod(owner_reference(JOB, controller=False), owner_reference(JOB))
    guest = pod(owner_reference(JOB, controller=False))
    other = pod({**owner_reference(JOB), "uid": "u2"})
    assert controller_of(mine) == owner_reference(JOB)
    assert controller_of(guest) is None
    assert owned_by([mine, guest, other, pod()], JOB) == [mine]


MOMENT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


def test_times_are_written_as_kubernetes_does() -> None:
    there = MOMENT.astimezone(timezone(timedelta(hours=8)))
    assert timestamp(there) == "2026-03-01T12:30:15Z"
    assert micro_timestamp(there) == "2026-03-01T12:30:15.123456Z"
    assert abs(parse_time(micro_timestamp()) - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-01T12:30:15Z", MOMENT.replace(microsecond=0)),
        ("2026-03-01T12:30:15.123456Z", MOMENT),
        ("2026-03-01T12:30:15.123456789Z", MOMENT),
        ("2026-03-01T20:30:15+08:00", MOMENT.replace(microsecond=0)),
        ("2026-03-01T12:30:15", MOMENT.replace(microsecond=0)),
    ],
)
def test_times_are_read(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment
    assert parse_time(text).utcoffset() == timedelta(0)


def test_metadata_is_never_missing() -> None:
    assert meta({}) == {}
    assert meta(JOB)["name"] == "train"
