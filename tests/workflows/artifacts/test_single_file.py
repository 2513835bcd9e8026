"""Files are downloaded as they are, although they are stored in an archive."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import AsyncIterator

import pytest

from muster.workflows.artifacts.single_file import find_single_file, unpack_single_file


def packed(*entries: tuple[str, bytes | None], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A folder has no content."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=form) as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if content is None:
                entry.type = tarfile.DIRTYPE
            entry.size = len(content or b"")
            tar.addfile(entry, io.BytesIO(content or b""))
    return target.getvalue()


async def blocks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("content", [b"", b"x", b"0123456789" * 100_000], ids=["empty", "one byte", "a megabyte"])
@pytest.mark.parametrize("name", ["model.pt", "\u6570\u636e.csv", "n" * 200])
async def test_a_file_comes_out_of_its_archive(name: str, content: bytes) -> None:
    archive = packed((name, content))
    found = find_single_file(archive[:4096])
    assert found is not None
    assert found.size == len(content)
    for size in (1000, len(archive)):
        assert b"".join([piece async for piece in unpack_single_file(blocks(archive, size), found)]) == content


@pytest.mark.parametrize(
    "archive",
    [
        packed(("folder", None), ("folder/a", b"a")),
        packed(("folder/a", b"a")),
        gzip.compress(b"not a tar archive" * 100),
        gzip.compress(b"short"),
        b"not packed at all",
        b"",
    ],
    ids=["folder", "file in a folder", "no tar", "short", "not packed", "empty"],
)
def test_other_content_is_left_alone(archive: bytes) -> None:
    assert find_single_file(archive) is None


def header(size: int, kind: bytes) -> bytes:
    """A header with a size that Python's tarfile does not write."""
    entry = tarfile.TarInfo("x")
    entry.type = kind
    block = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" * 4 + size.to_bytes(8, "big", signed=True)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("size", [-1, -5, -512, -1024, -(1 << 62)])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_size_below_zero_is_not_followed(size: int, kind: bytes) -> None:
    """With -512, the header after an extended one is the same one again."""
    assert find_single_file(gzip.compress(header(size, kind) + bytes(2048))) is None
