from __future__ import annotations

import errno
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.workflows.artifacts.archives import Form, Limits, form_of, is_tarball, pack, unpack
from muster.workflows.artifacts.locations import ArtifactError

FORMS: list[dict[str, Any]] = [{}, {"archive": {"tar": {"compressionLevel": 0}}}, {"archive": {"zip": {}}}]


def a_tree(folder: Path) -> Path:
    (folder / "model/deep").mkdir(parents=True)
    (folder / "model/deep/weights").write_bytes(os.urandom(1000))
    (folder / "model/run.sh").write_text("echo")
    (folder / "model/run.sh").chmod(0o755)
    return folder / "model"


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    found = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mode & 0o111) for p in found}


@pytest.mark.parametrize("artifact", FORMS)
def test_what_is_packed_comes_out_again(tmp_path: Path, artifact: dict[str, Any]) -> None:
    source = a_tree(tmp_path)
    pack(source, "model", tmp_path / "packed", artifact)
    unpack(tmp_path / "packed", tmp_path / "out", form_of(artifact))
    assert content(tmp_path / "out") == content(source)
    assert not (tmp_path / "packed").exists()


@pytest.mark.parametrize("artifact", FORMS)
def test_the_same_content_makes_the_same_bytes(tmp_path: Path, artifact: dict[str, Any]) -> None:
    source = a_tree(tmp_path)
    pack(source, "model", tmp_path / "one", artifact)
    os.utime(source / "run.sh", (1, 1))
    pack(source, "model", tmp_path / "two", artifact)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_single_file_comes_out_as_that_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    pack(tmp_path / "f", "hello.txt", tmp_path / "packed", {})
    unpack(tmp_path / "packed", tmp_path / "out", None)
    assert (tmp_path / "out").read_text() == "x"


def test_links_inside_are_kept(tmp_path: Path) -> None:
    source = a_tree(tmp_path)
    (source / "deep/link").symlink_to("../run.sh")
    pack(source, "model", tmp_path / "packed", {})
    unpack(tmp_path / "packed", tmp_path / "out", "tar")
    assert (tmp_path / "out/deep/link").readlink() == Path("../run.sh")


@pytest.mark.parametrize(("data", "is_one"), [(b"plain", False), (b"\x1f\x8bgarbage", False), (b"", False)])
def test_what_is_no_tar_archive_is_the_artifact_itself(tmp_path: Path, data: bytes, is_one: bool) -> None:
    (tmp_path / "f").write_bytes(data)
    assert is_tarball(tmp_path / "f") is is_one
    unpack(tmp_path / "f", tmp_path / "out", None)
    assert (tmp_path / "out").read_bytes() == data


Member = tuple[str, bytes, str]
"""name, tar type, link target"""

HOSTILE: list[tuple[str, list[Member]]] = [
    ("absolute path", [("/etc/evil", tarfile.REGTYPE, "")]),
    ("path upwards", [("a/../../evil", tarfile.REGTYPE, "")]),
    ("link upwards", [("a/link", tarfile.SYMTYPE, "../../evil")]),
    ("absolute link", [("link", tarfile.SYMTYPE, "/etc")]),
    ("write over a link", [("link", tarfile.SYMTYPE, "."), ("a/up", tarfile.SYMTYPE, "../link/../..")]),
    ("link through a link", [("p/x", tarfile.SYMTYPE, "."), ("p/y", tarfile.SYMTYPE, "x/../..")]),
    ("hard link out", [("hard", tarfile.LNKTYPE, "../evil")]),
    ("hard link to nothing", [("hard", tarfile.LNKTYPE, "etc/passwd")]),
    ("device", [("dev", tarfile.CHRTYPE, "")]),
    ("pipe", [("pipe", tarfile.FIFOTYPE, "")]),
]


@pytest.mark.parametrize(("what", "members"), HOSTILE, ids=[what for what, _ in HOSTILE])
def test_an_archive_cannot_reach_out_of_its_folder(tmp_path: Path, what: str, members: list[Member]) -> None:
    (tmp_path / "evil").write_text("mine")
    archive, target = tmp_path / "in/packed", tmp_path / "in/out"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        for name, kind, link in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size = kind, link, 0
            tar.addfile(entry, io.BytesIO(b""))
    with pytest.raises(ArtifactError):
        unpack(archive, target, "tar")
    assert (tmp_path / "evil").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil", "in"]
    assert [p.name for p in (tmp_path / "in").iterdir()] == ["packed"]


@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "a/../../evil"])
def test_nor_can_a_zip(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "packed", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(ArtifactError, match="illegal file path"):
        unpack(tmp_path / "packed", tmp_path / "out", "zip")


def a_bomb_tar(path: Path) -> None:
    with tarfile.open(path, "w:gz") as tar:
        entry = tarfile.TarInfo("zeros")
        entry.size = 5_000_000
        tar.addfile(entry, io.BytesIO(bytes(entry.size)))


def a_bomb_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(5_000_000))


def many_entries(path: Path) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for number in range(20):
            tar.addfile(tarfile.TarInfo(f"f{number}"), io.BytesIO(b""))


@pytest.mark.parametrize(("bomb", "form"), [(a_bomb_tar, "tar"), (a_bomb_zip, "zip"), (many_entries, "tar")])
def test_bombs_are_defused(tmp_path: Path, bomb: Callable[[Path], None], form: Form) -> None:
    bomb(tmp_path / "packed")
    with pytest.raises(ArtifactError, match=r"too many entries|becomes too large"):
        unpack(tmp_path / "packed", tmp_path / "out", form, Limits(entries=10, free_bytes=1_000_000, growth=10))
    assert [p.name for p in tmp_path.iterdir()] == ["packed"]


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_a_broken_archive_says_so(tmp_path: Path, form: Form) -> None:
    pack(a_tree(tmp_path), "model", tmp_path / "packed", {"archive": {form: {}}})
    (tmp_path / "packed").write_bytes((tmp_path / "packed").read_bytes()[:-200])
    with pytest.raises(ArtifactError, match="broken"):
        unpack(tmp_path / "packed", tmp_path / "out", form)


def test_unpacking_needs_no_renames_between_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first version of Landlock refuses them, and hard links, too."""
    rename = os.rename

    def refuse(source: Any, target: Any, **places: Any) -> None:
        if places.get("src_dir_fd") != places.get("dst_dir_fd"):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target, **places)

    monkeypatch.setattr(os, "rename", refuse)
    monkeypatch.setattr(os, "link", refuse)
    with tarfile.open(tmp_path / "packed", "w:gz") as tar:
        for name, kind, link in (("m/a/one", tarfile.REGTYPE, ""), ("m/b/two", tarfile.LNKTYPE, "m/a/one")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size = kind, link, 4 if kind == tarfile.REGTYPE else 0
            tar.addfile(entry, io.BytesIO(b"text"))
    unpack(tmp_path / "packed", tmp_path / "out", "tar")
    assert (tmp_path / "out/a/one").read_text() == (tmp_path / "out/b/two").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
