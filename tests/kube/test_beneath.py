from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.kube import beneath
from muster.kube.beneath import Folder, UnsafeFile, UnsafeName, open_part_by_part, open_with_openat2

OPENERS = [open_with_openat2, open_part_by_part]


@pytest.fixture(params=OPENERS, ids=["openat2", "part by part"])
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beneath, "_chosen", [request.param])


@pytest.fixture
def root(tmp_path: Path, opener: None) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_text("mine")
    (root / "a/out").symlink_to(tmp_path / "outside")
    (root / "a/up").symlink_to("../../outside/secret")
    (root / "a/in").symlink_to("b")
    os.mkfifo(root / "a/pipe")
    return root


def test_files_below_are_read(root: Path) -> None:
    with Folder.at(root) as folder, folder.file("a/b/file") as file:
        assert file.read() == b"mine"


@pytest.mark.parametrize("name", ["a/out/secret", "a/up", "a/in/file", "a/pipe", "a/b"])
def test_neither_links_nor_special_files_are_opened(root: Path, name: str) -> None:
    with Folder.at(root) as folder, pytest.raises((UnsafeFile, NotADirectoryError)):
        folder.file(name)


@pytest.mark.parametrize("name", ["../outside/secret", "/etc/passwd", "a/../../outside", "a\0b", "\ud800"])
def test_a_name_cannot_leave_the_folder(root: Path, name: str) -> None:
    with Folder.at(root) as folder, pytest.raises(UnsafeName):
        folder.file(name)


def test_kinds_are_seen_without_following(root: Path) -> None:
    with Folder.at(root) as folder:
        found = {name: folder.kind(name) for name in ("a", "a/b/file", "a/out", "a/pipe", "a/none", "a/out/secret")}
    assert found == {
        "a": "folder", "a/b/file": "file", "a/out": "link", "a/pipe": "other", "a/none": "", "a/out/secret": "",
    }  # fmt: skip


def test_folders_are_not_made_behind_a_link(root: Path, tmp_path: Path) -> None:
    with Folder.at(root) as folder:
        folder.make_folders("x/y/z").close()
        with pytest.raises((UnsafeFile, NotADirectoryError)):
            folder.make_folders("a/out/new")
    assert (root / "x/y/z").is_dir()
    assert not (tmp_path / "outside/new").exists()


def test_links_are_removed_but_not_what_they_lead_to(root: Path, tmp_path: Path) -> None:
    with Folder.at(root) as folder:
        folder.remove("a/out/secret")
        folder.remove("a")
        folder.remove("none")
    assert list(root.iterdir()) == []
    assert (tmp_path / "outside/secret").read_text() == "secret"


def test_a_folder_of_any_depth_is_removed(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with Folder.at(root) as folder:
        with pytest.raises(UnsafeFile, match="nested"):
            list(folder.walk("d"))
        folder.remove("d")
    assert [path.name for path in root.iterdir()] == ["a"]


def test_a_copy_keeps_links_as_links(root: Path, tmp_path: Path) -> None:
    (root / "a/pipe").unlink()
    (root / "a/b/file").chmod(0o4755)
    with Folder.at(root) as source, Folder.at(tmp_path) as target:
        beneath.copy(source, "a", target, "copy")
    assert (tmp_path / "copy/out").readlink() == tmp_path / "outside"
    assert (tmp_path / "copy/b/file").stat().st_mode & 0o7777 == 0o755


def test_a_special_file_is_not_copied(root: Path, tmp_path: Path) -> None:
    with Folder.at(root) as source, Folder.at(tmp_path) as target, pytest.raises(UnsafeFile, match="pipe"):
        beneath.copy(source, "a", target, "copy")


def test_modes_are_not_set_through_links(root: Path, tmp_path: Path) -> None:
    before = (tmp_path / "outside").stat().st_mode
    with Folder.at(root) as folder:
        beneath.set_mode(folder, "a", 0o777, recurse=True)
        beneath.set_mode(folder, "a/out", 0o700, recurse=True)
    assert (tmp_path / "outside").stat().st_mode == before
    assert (root / "a/b/file").stat().st_mode & 0o777 == 0o777
