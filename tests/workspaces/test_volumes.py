"""Volumes: what uses a claim, where its files are, and how paths and ranges are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.objects import Key, Object
from muster.workspaces.volumes import (
    ByteRange,
    InvalidPath,
    NoFiles,
    decode_path,
    describe_volume,
    encode_path,
    find_folder,
    find_uses,
    new_claim,
    parse_range,
    shown_name,
)

VOLUMES = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]


def thing(kind: str, name: str, spec: Object, *, version: str = "v1", owner: str = "", **status: Any) -> Object:
    metadata: Object = {"namespace": "ns", "name": name, "uid": f"{kind}-{name}"}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner}]
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}


def template(**more: Any) -> Object:
    return {"template": {"spec": {"volumes": VOLUMES, **more}}}


USERS = {
    "pod p": thing("Pod", "p", {"volumes": VOLUMES}, phase="Running"),
    "pod waiting": thing("Pod", "waiting", {"volumes": VOLUMES}),
    "notebook lab": thing("Notebook", "lab", template(), version="kubeflow.org/v1"),
    "tensorboard word": thing("Tensorboard", "word", {"logspath": "data"}),
    "tensorboard several": thing(
        "Tensorboard", "several", {"logs": [{"name": "a", "path": "s3://x/y"}, {"name": "b", "path": "pvc://data"}]}
    ),
    "tensorboard board": thing(
        "Tensorboard", "board", {"logspath": "pvc://data/logs"}, version="tensorboard.kubeflow.org/v1alpha1"
    ),
    "job train": thing(
        "PyTorchJob", "train", {"pytorchReplicaSpecs": {"Worker": template()}}, version="kubeflow.org/v1"
    ),
    "run run-7": thing("Workflow", "run-7", {"volumes": VOLUMES}, version="argoproj.io/v1alpha1", phase="Running"),
    "workflow own": thing("Workflow", "own", {"templates": [{"volumes": VOLUMES}]}, version="argoproj.io/v1alpha1"),
}
NOT_USERS = [
    thing("Pod", "ended", {"volumes": VOLUMES}, phase="Succeeded"),
    thing("Pod", "other", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "other"}}]}),
    thing("Pod", "train-0", {"volumes": VOLUMES}, owner="PyTorchJob-train"),
    thing("Workflow", "past", {"volumes": VOLUMES}, phase="Failed"),
    thing("Tensorboard", "s3", {"logspath": "s3://data/logs"}),
    thing("PyTorchJob", "done", template(), conditions=[{"type": "Succeeded", "status": "True"}]),
    thing("Job", "complete", template(), conditions=[{"type": "Complete", "status": "True"}]),
    thing("Pod", "odd", {"volumes": None, "x": {"persistentVolumeClaim": "text"}}),
]


def test_everything_that_has_not_ended_uses_the_claims_it_refers_to() -> None:
    found = find_uses([*USERS.values(), *NOT_USERS])
    assert {str(use) for use in found[Key("ns", "data")]} == set(USERS)
    assert [str(use) for use in found[Key("ns", "other")]] == ["pod other"]
    uses = {str(use): use for use in found[Key("ns", "data")]}
    assert uses["job train"].resource == "pytorchjob"
    assert uses["run run-7"].run_id == "7"


def claim(*, phase: str = "Bound", uid: str = "u", **metadata: Any) -> Object:
    made = new_claim("data", "ns", "10Gi", "ReadWriteOnce", {})
    metadata = {**made["metadata"], "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    return {**made, "metadata": metadata, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("given_claim", "state"),
    [
        (claim(), "bound"),
        (claim(phase="Pending"), "pending"),
        (claim(phase="Lost"), "lost"),
        (claim(deletionTimestamp="2026-01-01T00:00:00Z"), "deleting"),
    ],
)
def test_a_claim_is_described(given_claim: Object, state: str) -> None:
    volume = describe_volume(given_claim, is_copy=False, used_by=())
    assert (volume.state, volume.size, volume.size_bytes, volume.access_modes) == (
        state, "10Gi", 10 << 30, ["ReadWriteOnce"],
    )  # fmt: skip


def persistent_volume(path: str, *, provisioned: bool = True, uid: str = "u", source: str = "hostPath") -> Object:
    annotations = {"pv.kubernetes.io/provisioned-by": "muster.dev/folder"} if provisioned else {}
    spec = {source: {"path": path}, "claimRef": {"uid": uid}}
    return {"kind": "PersistentVolume", "metadata": {"name": "pv", "annotations": annotations}, "spec": spec}


def test_files_are_shown_of_folders_that_muster_provisioned_and_to_admins_of_others(tmp_path: Path) -> None:
    root = tmp_path / "volumes"
    inside, outside = root / "ns" / "data", tmp_path / "elsewhere"
    inside.mkdir(parents=True)
    outside.mkdir()
    (root / "link").symlink_to(outside)
    table: list[tuple[Object, Object | None, bool, str]] = [
        (claim(), persistent_volume(str(inside)), False, str(inside)),
        (claim(), persistent_volume(str(outside)), False, "volume.foreign"),
        (claim(), persistent_volume(str(outside)), True, str(outside)),
        (claim(), persistent_volume(f"{inside}/../../../elsewhere"), False, "volume.foreign"),
        (claim(), persistent_volume(str(root / "link")), False, "volume.foreign"),
        (claim(), persistent_volume(str(root)), False, "volume.foreign"),
        (claim(), persistent_volume(str(inside), provisioned=False), False, "volume.foreign"),
        (claim(), persistent_volume(str(inside), uid="another"), True, "volume.pending"),
        (claim(), persistent_volume(str(inside), source="nfs"), True, "volume.source"),
        (claim(phase="Pending"), persistent_volume(str(inside)), True, "volume.pending"),
        (claim(), None, True, "volume.pending"),
    ]
    for given_claim, volume, is_admin, expected in table:
        found = find_folder(given_claim, volume, str(root), is_admin=is_admin)
        assert (found.code if isinstance(found, NoFiles) else found) == expected


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("/", ()),
        ("a/b", ("a", "b")),
        ("/a//./b/", ("a", "b")),
        ("100%25", ("100%",)),
        ("100%", ("100%",)),
        ("%FF", ("\udcff",)),
        ("数据", ("数据",)),
        ("...", ("...",)),
        ("a\nb", ("a\nb",)),
    ],
)
def test_a_path_is_read(text: str, parts: tuple[str, ...]) -> None:
    assert decode_path(text) == parts


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("..", "volume.path"),
        ("a/../../b", "volume.path"),
        ("%2E%2E/b", "volume.path"),
        ("a%2F..", "volume.path"),
        ("a%00b", "volume.path"),
        ("a\0b", "volume.path"),
        ("\ud800", "volume.path"),
        ("x" * 256, "volume.name-long"),
        ("x/" * 101, "volume.path-long"),
        ("数据/" * 900, "volume.path-long"),
        ("a/.muster-upload-1", "volume.reserved"),
    ],
)
def test_a_path_that_leaves_the_volume_or_that_no_file_has_is_refused(text: str, code: str) -> None:
    with pytest.raises(InvalidPath) as error:
        decode_path(text)
    assert error.value.code == code
    error.value.path.encode()


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5))
def test_every_name_survives_the_way_through_a_request(names: list[bytes]) -> None:
    import os

    parts = tuple(os.fsdecode(name.replace(b"/", b"_").replace(b"\0", b"_").replace(b".", b"_")) for name in names)
    text = encode_path(parts)
    text.encode()  # it can be sent as JSON
    assert decode_path(text) == parts
    for part in parts:
        shown_name(part).encode()


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ("bytes=0-9", ByteRange(0, 9)),
        ("bytes=90-", ByteRange(90, 99)),
        ("bytes=90-1000", ByteRange(90, 99)),
        ("bytes=-5", ByteRange(95, 99)),
        ("bytes=-1000", ByteRange(0, 99)),
        ("bytes=100-", "unsatisfiable"),
        ("bytes=-0", "unsatisfiable"),
        ("bytes=5-4", None),
        ("bytes=0-1,5-6", None),
        ("bytes=a-b", None),
        ("bytes=\u0661-\u0662", None),
        ("bytes=-", None),
        ("lines=0-1", None),
        (f"bytes=0-{'9' * 400}", None),
    ],
)
def test_the_part_of_a_file_that_is_asked_for(header: str, expected: object) -> None:
    assert parse_range(header, 100) == expected


def test_an_empty_file_has_no_part() -> None:
    assert parse_range("bytes=0-", 0) == parse_range("bytes=-1", 0) == "unsatisfiable"
