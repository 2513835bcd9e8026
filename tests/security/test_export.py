"""`muster export` and `muster import`: files that other people prepared."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
from pathlib import Path

import pytest

from muster.sdk import archive
from muster.sdk.archive import ArchiveError, SecretKey, read_archive, read_secrets, write_secrets

KEY = SecretKey("workflow", "w", 1, "a", "PASSWORD")


def test_a_file_of_secrets_that_others_can_read(tmp_path: Path) -> None:
    """The file for exported secrets exists, and others may read it"""
    target = tmp_path / "secrets.json"
    target.touch(mode=0o644)
    write_secrets({KEY: "hunter2"}, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert read_secrets(target) == {KEY: "hunter2"}


@pytest.mark.parametrize("name", ["secrets.json", "secrets.json.new"])
def test_a_file_of_secrets_that_is_a_link(tmp_path: Path, name: str) -> None:
    """Another user of the machine puts a link to a file of theirs where secrets are exported to"""
    theirs = tmp_path / "theirs"
    theirs.touch(mode=0o666)
    (tmp_path / name).symlink_to(theirs)
    write_secrets({KEY: "hunter2"}, tmp_path / "secrets.json")
    assert theirs.read_text() == ""
    assert read_secrets(tmp_path / "secrets.json") == {KEY: "hunter2"}


def _header(name: str, size: int, kind: bytes) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.type = size, kind
    return entry.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.REGTYPE],
    ids=["a long name", "an extended header", "a global header", "a file"],
)  # fmt: skip
def test_an_archive_that_unpacks_to_gigabytes(tmp_path: Path, kind: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of a few kilobytes unpacks to gigabytes in the memory of the user who imports it"""
    monkeypatch.setattr(archive, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(archive, "LARGEST_FILE", 1 << 19)
    file = tmp_path / "x.tar.gz"
    size = 8 << 20
    file.write_bytes(gzip.compress(_header("teams/1.json", size, kind) + b" " * size))
    with pytest.raises(ArchiveError, match="too large"):
        read_archive(file)


def test_an_archive_with_a_size_below_zero(tmp_path: Path) -> None:
    """A file of an archive has a size below zero, which makes room for others"""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("teams/1.json"))
    raw = bytearray(content.getvalue())
    raw[124:136] = b"\xff" * 8 + (-512).to_bytes(4, "big", signed=True)
    raw[148:156] = b" " * 8
    raw[148:156] = f"{sum(raw[:512]):06o}\0 ".encode()
    file = tmp_path / "x.tar.gz"
    file.write_bytes(gzip.compress(bytes(raw)))
    with pytest.raises(ArchiveError):
        read_archive(file)
