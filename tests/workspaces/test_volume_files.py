"""The files of a volume: listed, measured, uploaded, renamed, deleted, and sent as archives."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.kube.beneath import Folder
from muster.workspaces import volume_files
from muster.workspaces.volume_files import (
    IsFolder,
    Upload,
    delete,
    joined,
    list_folder,
    look,
    make_folder,
    measure,
    open_file,
    read_blocks,
    rename,
    tar_folder,
    zip_folder,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


@pytest.fixture
def top(path: Path) -> Iterator[Folder]:
    with Folder.at(path) as found:
        yield found


def upload(top: Folder, name: str, content: bytes, *, replace: bool = False) -> None:
    arriving = Upload.begin(top, tuple(name.split("/")), replace=replace)
    try:
        arriving.write(content)
        arriving.finish()
    finally:
        arriving.abandon()


def test_a_folder_is_listed_page_by_page_folders_first(top: Folder, path: Path) -> None:
    for name in ("b", "a"):
        (path / name).mkdir()
    for number in range(5):
        (path / f"{number}.txt").write_text("x" * number)
    (path / "link").symlink_to("/etc")
    os.mkfifo(path / "fifo")
    found, after = [], ""
    while True:
        page = list_folder(top, (), limit=3, after=after)
        assert (page.total, page.complete) == (9, True)
        found += [(item.name, item.kind, item.size) for item in page.items]
        if page.next is None:
            break
        after = page.next
    assert found == [
        ("a", "folder", 0), ("b", "folder", 0), ("0.txt", "file", 0), ("1.txt", "file", 1), ("2.txt", "file", 2),
        ("3.txt", "file", 3), ("4.txt", "file", 4), ("fifo", "other", 0), ("link", "link", 0),
    ]  # fmt: skip


def test_a_very_large_folder_is_not_read_to_its_end(top: Folder, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_files, "MOST_ENTRIES", 10)
    for number in range(20):
        (path / str(number)).touch()
    page = list_folder(top, (), limit=100)
    assert (len(page.items), page.complete) == (10, False)


def test_odd_names_and_times_are_shown(top: Folder, path: Path) -> None:
    odd = os.fsencode(path) + b"/\xff%\n"
    with open(odd, "wb"):
        pass
    for seconds in (-1e12, 1e13):
        os.utime(odd, (seconds, seconds))
        (item,) = list_folder(top, (), limit=10).items
        assert (item.name, item.path) == ("\ufffd%\n", "%FF%25\n")
    assert 1970 <= item.modified.year <= 9999


def test_what_is_stored_is_counted_once(top: Folder, path: Path) -> None:
    (path / "a").mkdir()
    (path / "a" / "big").write_bytes(b"x" * 100_000)
    os.link(path / "a" / "big", path / "again")
    (path / "link").symlink_to("/usr")
    usage = measure(top, ())
    assert (usage.files, usage.folders, usage.complete) == (3, 1, True)
    assert 100_000 <= usage.bytes < 200_000
    assert measure(top, ("a",)).files == 1
    with pytest.raises(FileNotFoundError):
        measure(top, ("missing",))


def test_folders_that_are_nested_too_deeply_are_counted_as_far_as_possible(top: Folder, path: Path) -> None:
    here = os.open(path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 50, dir_fd=here)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    usage = measure(top, ())
    assert usage.folders > 50 and not usage.complete
    with pytest.raises(OSError):  # the download breaks off; it does not look complete
        list(tar_folder(top, ()))
    delete(top, ("d" * 50,))
    assert list_folder(top, (), limit=10).items == []


def test_an_upload_appears_when_it_is_complete(top: Folder, path: Path) -> None:
    arriving = Upload.begin(top, ("data.bin",), replace=False)
    arriving.write(b"half")
    assert list_folder(top, (), limit=10).items == []
    arriving.finish()
    arriving.abandon()  # has no effect any more
    assert (path / "data.bin").read_bytes() == b"half"
    assert (path / "data.bin").stat().st_mode & 0o7777 == 0o644
    assert os.listdir(path) == ["data.bin"]


def test_an_upload_replaces_a_file_only_on_request_and_never_a_folder(top: Folder, path: Path) -> None:
    upload(top, "a", b"one")
    with pytest.raises(FileExistsError):
        upload(top, "a", b"two")
    upload(top, "a", b"three", replace=True)
    assert (path / "a").read_bytes() == b"three"
    (path / "d").mkdir()
    for replace in (False, True):
        with pytest.raises(IsFolder):
            upload(top, "d", b"", replace=replace)
    with pytest.raises(FileNotFoundError):
        upload(top, "missing/a", b"")
    assert sorted(os.listdir(path)) == ["a", "d"]


def test_of_two_uploads_of_one_name_only_one_wins(top: Folder, path: Path) -> None:
    first, second = (Upload.begin(top, ("a",), replace=False) for _ in range(2))
    first.write(b"first")
    first.finish()
    second.write(b"second")
    with pytest.raises(FileExistsError):
        second.finish()
    second.abandon()
    assert os.listdir(path) == ["a"] and (path / "a").read_bytes() == b"first"


_KILLED = """
import os, signal, sys
from muster.kube.beneath import Folder
from muster.workspaces.volume_files import Upload
arriving = Upload.begin(Folder.at(sys.argv[1]), ("a",), replace=True)
arriving.write(b"x" * 100_000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_server_that_is_killed_during_an_upload_leaves_the_old_file(top: Folder, path: Path) -> None:
    upload(top, "a", b"old")
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (path / "a").read_bytes() == b"old"
    (rest,) = (name for name in os.listdir(path) if name != "a")
    assert [item.name for item in list_folder(top, (), limit=10).items] == ["a"]
    upload(top, "b", b"")
    assert rest in os.listdir(path)  # it might belong to a server that still runs
    os.utime(path / rest, (0, 0))
    upload(top, "c", b"")
    assert sorted(os.listdir(path)) == ["a", "b", "c"]


def test_new_files_belong_to_the_owner_of_their_folder(top: Folder, path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    make_folder(top, ("mine",))
    os.chown(path / "mine", 1234, 2345)
    upload(top, "mine/a", b"")
    make_folder(top, ("mine", "below"))
    for name in ("a", "below"):
        status = (path / "mine" / name).stat()
        assert (status.st_uid, status.st_gid) == (1234, 2345)


def test_renaming_replaces_nothing(top: Folder, path: Path) -> None:
    upload(top, "a", b"a")
    upload(top, "b", b"b")
    make_folder(top, ("d",))
    with pytest.raises(FileExistsError):
        rename(top, ("a",), ("b",))
    rename(top, ("a",), ("d", "c"))
    assert (path / "d" / "c").read_bytes() == b"a"
    with pytest.raises(FileExistsError):
        make_folder(top, ("d",))
    with pytest.raises(FileNotFoundError):
        rename(top, ("missing",), ("x",))


def test_a_part_of_a_file_is_read(top: Folder, path: Path) -> None:
    (path / "a").write_bytes(bytes(range(100)))
    file, status = open_file(top, ("a",))
    with file:
        assert status.st_size == 100
        assert b"".join(read_blocks(file, 10, 5)) == bytes(range(10, 15))
        with pytest.raises(EOFError):
            list(read_blocks(file, 90, 20))


def test_a_folder_is_sent_as_an_archive(top: Folder, path: Path) -> None:
    (path / "d" / "below").mkdir(parents=True)
    (path / "d" / "below" / "a.txt").write_text("hello")
    (path / "d" / "数据 %.bin").write_bytes(b"x" * 3_000_000)
    (path / "d" / "link").symlink_to("/etc/passwd")
    os.mkfifo(path / "d" / "fifo")
    (path / "beside").write_text("no")
    content = b"".join(joined(tar_folder(top, ("d",))))
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert sorted(tar.getnames()) == ["below", "below/a.txt", "link", "数据 %.bin"]
        member = tar.extractfile("below/a.txt")
        assert member is not None and member.read() == b"hello"
        assert tar.getmember("link").issym() and tar.getmember("数据 %.bin").size == 3_000_000
    with zipfile.ZipFile(io.BytesIO(b"".join(joined(zip_folder(top, ("d",)))))) as archive:
        assert sorted(archive.namelist()) == ["below/", "below/a.txt", "数据 %.bin"]
        assert archive.read("below/a.txt") == b"hello"
        assert archive.testzip() is None


def test_an_archive_of_names_that_are_not_utf8(top: Folder, path: Path) -> None:
    with open(os.fsencode(path) + b"/\xff", "wb"):
        pass
    with tarfile.open(fileobj=io.BytesIO(b"".join(tar_folder(top, ())))) as tar:
        assert tar.getnames() == ["\udcff"]
    with zipfile.ZipFile(io.BytesIO(b"".join(zip_folder(top, ())))) as archive:
        assert archive.namelist() == ["\ufffd"]


def test_what_is_at_a_path(top: Folder, path: Path) -> None:
    assert look(top, ()).kind == "folder"
    with pytest.raises(FileNotFoundError):
        look(top, ("missing",))
    upload(top, "a", b"abc")
    assert (look(top, ("a",)).kind, look(top, ("a",)).size) == ("file", 3)
    with pytest.raises(NotADirectoryError):
        look(top, ("a", "b"))
    with pytest.raises(IsFolder):
        open_file(top, ())
