from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node.pod_context import ConfigError, ContainerError, MountError
from muster.embedded.node.volumes import (
    EmptyDir,
    File,
    Files,
    HostPath,
    Memory,
    Volume,
    check_host_path,
    container_mounts,
    make_volume,
    sub_path,
    write_payload,
)


def read(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): p.read_text()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not str(p.relative_to(folder)).startswith("..")
    }


def test_volumes_are_made_once_and_stay(tmp_path: Path) -> None:
    folder = tmp_path / "volumes" / "v"
    assert make_volume("v", EmptyDir(str(folder))) is None
    (folder / "kept").write_text("x")
    assert make_volume("v", EmptyDir(str(folder))) is None
    assert (folder / "kept").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777


def test_memory_is_mounted_once_for_the_pod(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    assert make_volume("m", Memory(path, 4096)) == {"type": "tmpfs", "target": path, "size": 4096}
    assert make_volume("m", Memory(path, None)) == {"type": "tmpfs", "target": path}


def test_files_are_swapped_as_one(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert write_payload(folder, {"a": File(b"1", 0o644), "sub/b": File(b"2", 0o600)})
    assert read(tmp_path) == {"a": "1"}
    assert (tmp_path / "sub" / "b").read_text() == "2"
    assert stat.S_IMODE((tmp_path / "sub" / "b").stat().st_mode) == 0o600
    assert os.readlink(tmp_path / "a") == "..data/a"
    first = os.readlink(tmp_path / "..data")

    assert not write_payload(folder, {"a": File(b"1", 0o644), "sub/b": File(b"2", 0o600)})
    assert os.readlink(tmp_path / "..data") == first

    opened = os.open(tmp_path / "a", os.O_RDONLY)
    assert write_payload(folder, {"a": File(b"new", 0o644), "c": File(b"3", 0o644)})
    assert {p.name for p in tmp_path.iterdir() if not p.name.startswith("..")} == {"a", "c"}
    assert (tmp_path / "a").read_text() == "new"
    assert os.read(opened, 10) == b"1"  # who had it open still reads the old one, whole
    os.close(opened)
    assert not (tmp_path / first).exists()


def test_files_are_replaced_one_by_one_if_they_need_not_change_together(tmp_path: Path) -> None:
    def write(token: bytes) -> None:
        payload = {"token": File(token, 0o600), "ca.crt": File(b"CA", 0o644)}
        make_volume("v", Files(str(tmp_path), payload, is_atomic=False))

    write(b"first")
    assert read(tmp_path) == {"token": "first", "ca.crt": "CA"}
    kept = (tmp_path / "ca.crt").stat().st_ino
    (tmp_path / "token.new").write_text("left by a server that was killed")
    opened = os.open(tmp_path / "token", os.O_RDONLY)
    write(b"second")
    assert read(tmp_path) == {"token": "second", "ca.crt": "CA"}
    assert (tmp_path / "ca.crt").stat().st_ino == kept
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert os.read(opened, 10) == b"first"
    os.close(opened)


def test_files_of_an_earlier_release_that_changed_together_are_replaced(tmp_path: Path) -> None:
    write_payload(str(tmp_path), {"token": File(b"old", 0o600)})
    make_volume("v", Files(str(tmp_path), {"token": File(b"new", 0o600)}, is_atomic=False))
    assert (tmp_path / "token").read_text() == "new"


def test_a_changed_mode_is_a_change(tmp_path: Path) -> None:
    write_payload(str(tmp_path), {"a": File(b"1", 0o644)})
    assert write_payload(str(tmp_path), {"a": File(b"1", 0o600)})
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


@pytest.mark.skipif(os.getuid() != 0, reason="giving a file to a group takes root")
def test_the_group_of_a_pod_may_read_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    payload = {"a": File(b"1", 0o600)}
    make_volume("v", Files(str(folder), payload), 4711)
    found = (folder / "a").stat()
    assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (4711, 0o640)
    assert not write_payload(str(folder), payload, 4711)


@pytest.mark.parametrize(
    ("path", "kind", "problem"),
    [
        ("dir", "", None),
        ("new", "", None),
        ("dir", "Directory", None),
        ("file", "Directory", "is not a directory"),
        ("gone", "Directory", "does not exist"),
        ("new", "DirectoryOrCreate", None),
        ("file", "File", None),
        ("dir", "File", "is not a file"),
        ("new-file", "FileOrCreate", None),
        ("dir", "FileOrCreate", "is not a file"),
        ("file", "Socket", "is not a socket"),
        ("file", "BlockDevice", "is not a block device"),
        ("file", "CharDevice", "is not a character device"),
    ],
)
def test_host_path_types(tmp_path: Path, path: str, kind: str, problem: str | None) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("")
    if problem is None:
        check_host_path("v", str(tmp_path / path), kind)
        assert (tmp_path / path).exists()
    else:
        with pytest.raises(MountError, match=problem):
            check_host_path("v", str(tmp_path / path), kind)


def test_a_relative_host_path_is_refused() -> None:
    with pytest.raises(MountError, match="must be absolute"):
        check_host_path("v", "data", "")


def mounts(volumes: dict[str, Volume], *wanted: dict[str, Any]) -> list[tuple[str, str, bool]]:
    found = container_mounts({"name": "c", "volumeMounts": list(wanted)}, volumes, {"POD": "p-1"})
    return [(m["source"], m["target"], m.get("readOnly", False)) for m in found]


def test_mounts_come_parents_first_and_files_are_read_only(tmp_path: Path) -> None:
    volumes: dict[str, Volume] = {
        "e": EmptyDir("/f/e"),
        "cm": Files("/f/cm", {}),
        "ro": HostPath("/srv", "", True),
        "m": Memory("/f/m", None),
    }
    assert mounts(
        volumes,
        {"name": "cm", "mountPath": "/data/etc/"},
        {"name": "ro", "mountPath": "/ro"},
        {"name": "e", "mountPath": "/data"},
        {"name": "e", "mountPath": "/again", "readOnly": True},
        {"name": "m", "mountPath": "/m", "subPathExpr": "x/$(POD)"},
    ) == [
        ("/srv", "/ro", True),
        ("/f/e", "/data", False),
        ("/f/e", "/again", True),
        ("/f/m/x/p-1", "/m", False),
        ("/f/cm", "/data/etc", True),
    ]


def test_a_sub_path_is_made_inside_the_volume(tmp_path: Path) -> None:
    volume = EmptyDir(str(tmp_path))
    assert mounts({"v": volume}, {"name": "v", "mountPath": "/x", "subPath": "a/b"}) == [
        (str(tmp_path / "a" / "b"), "/x", False)
    ]
    assert (tmp_path / "a" / "b").is_dir()
    expanded = mounts({"v": volume}, {"name": "v", "mountPath": "/x", "subPathExpr": "$(POD)/out"})
    assert expanded[0][0] == str(tmp_path / "p-1" / "out")


def test_a_sub_path_of_files_is_one_of_them(tmp_path: Path) -> None:
    write_payload(str(tmp_path), {"a.conf": File(b"1", 0o644)})
    volume = Files(str(tmp_path), {})
    assert Path(sub_path("v", volume, "a.conf", "c")).read_text() == "1"
    with pytest.raises(ConfigError, match=r'has no file "b\.conf"'):
        sub_path("v", volume, "b.conf", "c")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc", "out/etc", "sneaky", "up/x"])
def test_a_sub_path_cannot_leave_the_volume(tmp_path: Path, path: str) -> None:
    volume = tmp_path / "v"
    volume.mkdir()
    (tmp_path / "v-2").mkdir()
    (volume / "out").symlink_to("/")
    (volume / "sneaky").symlink_to("../v-2")
    (volume / "up").symlink_to("..")
    with pytest.raises(ConfigError):
        sub_path("v", EmptyDir(str(volume)), path, "c")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"name": "nope", "mountPath": "/x"}, 'no volume "nope"'),
        ({"name": "v", "mountPath": "x"}, "must be absolute"),
        ({"name": "v", "mountPath": "/x", "subPathExpr": "$(NOPE)"}, "a variable that is not set"),
    ],
)
def test_bad_mounts_are_refused(tmp_path: Path, mount: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ContainerError), match=message):
        mounts({"v": EmptyDir(str(tmp_path))}, mount)
