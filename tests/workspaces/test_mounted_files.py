"""Which event files belong to a Pod, and that nothing outside of its volumes is read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from muster.kube.cluster import Cluster
from muster.kube.objects import Object
from muster.workspaces import mounted_files
from muster.workspaces.mounted_files import (
    EventFile,
    MountedFolder,
    event_files_of,
    event_folders_of,
    is_own_file,
    kept_paths,
)

NAME = "events.out.tfevents.1700000000.trainer-0.1.0"


class Disk:
    """The folders of one node, as `AgentFiles` has them."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def scratch_folder(self, pod: Object, container: str) -> str:
        return f"{self.top}/tmp-{container}"

    def volume_folder(self, pod: Object, volume: str) -> str:
        return f"{self.top}/volumes/{volume}"

    def output(self, pod: Object, container: str, index: int) -> Path | None:
        copy = self.top / "kept" / container / str(index)
        return copy if copy.exists() else None

    def nfs_folder(self, server: str, path: str) -> str:
        return f"{self.top}/nfs" if server == "nas" else ""

    def is_own(self, folder: str) -> bool:
        return folder.startswith(f"{self.top}/claims/")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


class Objects:
    """Answers `get` with claims and volumes."""

    def __init__(self, **claims: Object) -> None:
        self._claims = claims

    async def get(self, kind: Any, name: str, namespace: str = "") -> Object:
        if kind is PERSISTENT_VOLUME_CLAIM:
            assert namespace == "team"
            return {"spec": {"volumeName": f"pv-{name}"}}
        assert kind is PERSISTENT_VOLUME
        return {"spec": self._claims[name.removeprefix("pv-")]}

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def pod_with(mounts: list[Object], volumes: list[Object]) -> Object:
    return {
        "metadata": {"name": "trainer-0", "namespace": "team", "uid": "u", "creationTimestamp": "2023-11-14T22:13:20Z"},
        "spec": {"containers": [{"name": "main", "volumeMounts": mounts}], "volumes": volumes},
    }


def folders(pod: Object, top: Path, **claims: Object) -> list[MountedFolder]:
    cluster: Any = Objects(**claims)
    files: Any = Disk(top)
    typed: Cluster = cluster
    return asyncio.run(event_folders_of(typed, files, pod))


def write(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def folder_at(path: Path, **more: Any) -> MountedFolder:
    return MountedFolder(str(path), "", "/data", "trainer-0", "trainer-0", 1_700_000_000.0, **more)


def seen(found: list[EventFile]) -> list[str]:
    return [file.seen_as for file in found]


CLAIMS = {"home": "claims/home", "shared": "admin/data"}
"""One that the node made for the namespace, and one with a folder of an admin."""


def test_volumes_of_every_kind_are_found_where_the_container_mounts_them(tmp_path: Path) -> None:
    pod = pod_with(
        [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "root", "mountPath": "/share", "subPath": "team/a"},
            {"name": "claim", "mountPath": "/home"},
            {"name": "shared", "mountPath": "/shared"},
            {"name": "nas", "mountPath": "/nas"},
            {"name": "secret", "mountPath": "/secret"},
            {"name": "root", "mountPath": "/up", "subPath": "../.."},
        ],
        [
            {"name": "scratch", "emptyDir": {}},
            {"name": "root", "hostPath": {"path": f"{tmp_path}/root"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "home"}},
            {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}},
            {"name": "nas", "nfs": {"server": "nas", "path": "/x"}},
            {"name": "secret", "secret": {"secretName": "s"}},
        ],
    )
    claims: Object = {name: {"hostPath": {"path": f"{tmp_path}/{at}"}} for name, at in CLAIMS.items()}
    found = folders(pod, tmp_path, **claims)
    assert [(each.mount_path, each.path.removeprefix(str(tmp_path)), each.inside, each.reads_as) for each in found] == [
        ("/tmp", "/tmp-main", "", "anyone"),
        ("/scratch", "/volumes/scratch", "", "anyone"),
        ("/share", "/root", "team/a", "owner"),
        ("/home", "/claims/home", "", "anyone"),
        ("/shared", "/admin/data", "", "owner"),
        ("/nas", "/nfs", "", "others"),
    ]
    assert [each.claim for each in found] == ["", "", "", "home", "shared", ""]
    write(tmp_path / "root/team/a/logs" / NAME)
    write(tmp_path / "tmp-main/runs/x" / "events.out.tfevents.1.other")
    assert seen(event_files_of(found).files) == ["/share/logs/" + NAME, "/tmp/runs/x/events.out.tfevents.1.other"]


def test_of_a_pod_that_has_ended_the_copies_of_its_outputs_are_searched_instead_of_tmp(tmp_path: Path) -> None:
    pod = pod_with([], [])
    pod["metadata"]["annotations"] = {"muster.dev/keep-files": '{"main": ["/tmp/out.txt", "/tmp/logs", "/gone"]}'}
    write(tmp_path / "tmp-main" / "logs" / NAME)
    write(tmp_path / "kept/main/0")
    write(tmp_path / "kept/main/1/a" / NAME)
    assert seen(event_files_of(folders(pod, tmp_path)).files) == [f"/tmp/logs/{NAME}"]
    pod["status"] = {"phase": "Succeeded"}
    assert seen(event_files_of(folders(pod, tmp_path)).files) == [f"/tmp/logs/a/{NAME}"]


@pytest.mark.parametrize("annotation", ["", "{", "[]", '{"main": "/x"}', '{"main": [1, "relative"]}'])
def test_an_annotation_of_a_user_may_be_anything(annotation: str) -> None:
    assert kept_paths({"metadata": {"annotations": {"muster.dev/keep-files": annotation}}}) == []


@pytest.mark.parametrize(
    ("name", "modified", "is_private", "own"),
    [
        (NAME, 1_700_000_000, False, True),
        (NAME, 1_600_000_000, False, False),
        ("events.out.tfevents.1700000000.trainer-0", 1_700_000_000, False, True),
        ("events.out.tfevents.1700000000.trainer-01.1.0", 1_700_000_000, False, False),
        ("events.out.tfevents.1700000000.someone-else.1.0", 1_700_000_000, False, False),
        ("my.tfevents", 1_700_000_000, False, True),
        ("events.out.tfevents.1700000000.someone-else.1.0", 1_600_000_000, True, True),
    ],
)
def test_files_of_other_jobs_in_a_shared_folder_are_left_alone(
    name: str, modified: float, is_private: bool, own: bool
) -> None:
    folder = folder_at(Path("/"), is_private=is_private)
    assert is_own_file(folder, name, modified) is own


def test_links_are_not_followed_neither_files_nor_folders_nor_the_sub_path(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / NAME)
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / NAME).symlink_to(outside)
    (volume / "folder").symlink_to(outside.parent)
    (volume / "up").symlink_to("..")
    assert event_files_of([folder_at(volume), folder_at(volume)._replace(inside="folder")]).files == []
    (volume / "real").mkdir()
    write(volume / "real" / NAME)
    (found,) = event_files_of([folder_at(volume)]).files
    (volume / "real").rename(volume / "gone")
    (volume / "real").symlink_to(outside.parent)  # between search and reading
    with pytest.raises(OSError, match="links are not followed"), found.open():
        pass


def test_many_folders_have_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounted_files, "MAX_ALL_ENTRIES", 5)
    for name in ("a", "b", "c"):
        for number in range(2):
            write(tmp_path / name / f"{number}.tfevents")
    found = event_files_of([folder_at(tmp_path / name) for name in ("a", "b", "c")])
    assert (len(found.files), found.is_complete) == (5, False)
    assert event_files_of([folder_at(tmp_path / "a"), folder_at(tmp_path / "b")]).is_complete


def test_special_files_are_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    assert event_files_of([folder_at(tmp_path)]).files == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_in_a_storage_root_only_what_the_owner_of_the_folder_may_read(tmp_path: Path) -> None:
    os.chown(tmp_path, 1000, 1000)
    for folder, owner, mode in (("own", 1000, 0o600), ("secret", 1001, 0o600), ("open", 1001, 0o644)):
        file = write(tmp_path / folder / NAME)
        os.chown(file, owner, owner)
        file.chmod(mode)
    hidden = write(tmp_path / "hidden" / NAME).parent
    os.chown(hidden, 1001, 1001)
    hidden.chmod(0o700)
    files = event_files_of([folder_at(tmp_path, reads_as="owner")]).files
    assert seen(files) == [f"/data/open/{NAME}", f"/data/own/{NAME}"]
    (tmp_path / "open" / NAME).chmod(0o600)  # between search and reading
    with pytest.raises(PermissionError), files[0].open():
        pass
    assert seen(event_files_of([folder_at(tmp_path, reads_as="others")]).files) == []


def test_a_file_that_several_pods_mount_is_found_once(tmp_path: Path) -> None:
    write(tmp_path / "logs" / NAME)
    first = folder_at(tmp_path)
    found = event_files_of([first, first._replace(mount_path="/other")]).files
    assert seen(found) == [f"/data/logs/{NAME}"]


def test_large_folders_are_searched_near_the_top_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounted_files, "MAX_ENTRIES", 20)
    write(tmp_path / "a" / NAME)
    for number in range(30):
        write(tmp_path / "b" / "c" / f"data-{number}")
    found = event_files_of([folder_at(tmp_path)])
    assert seen(found.files) == [f"/data/a/{NAME}"] and not found.is_complete


def test_a_folder_that_does_not_exist_contains_nothing(tmp_path: Path) -> None:
    assert event_files_of([folder_at(tmp_path / "none")]) == ([], True)
