"""A file out of its archive, while the archive is read.

An artifact is stored as a tar archive, also if it is a single file. Who downloads a file wants the file.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

HEAD_BYTES: Final = 1 << 16
"""How much of an archive `find_single_file` needs: its first headers."""

_GZIP: Final = b"\x1f\x8b"
_WINDOW: Final = 31  # a gzip header and trailer around the data
_PIECE: Final = 1 << 18
_EXTENDED: Final = (tarfile.XHDTYPE, tarfile.XGLTYPE)


class SingleFile(NamedTuple):
    name: str
    size: int
    offset: int
    """Where its content starts in the unpacked archive."""


def find_single_file(head: bytes) -> SingleFile | None:
    """Returns the file that an archive holds; None for a folder, and for anything that is not an archive of ours."""
    if not head.startswith(_GZIP):
        return None
    try:
        unpacked = zlib.decompressobj(_WINDOW).decompress(head, HEAD_BYTES)
        offset = 0
        while True:
            entry = tarfile.TarInfo.frombuf(unpacked[offset : offset + tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
            offset += tarfile.BLOCKSIZE
            if entry.size < 0:
                return None  # a header can say so, and the offset must only grow
            if entry.type not in _EXTENDED:
                break
            content = unpacked[offset : offset + entry.size]
            if b" size=" in content:
                return None  # larger than 8 GiB: the header has no room for its size
            offset += -(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    except (tarfile.TarError, zlib.error):
        return None
    return SingleFile(entry.name, entry.size, offset) if entry.isreg() and "/" not in entry.name else None


async def unpack_single_file(blocks: AsyncIterator[bytes], file: SingleFile) -> AsyncIterator[bytes]:
    """Yields the content of the file. It stops early if the archive does."""
    unpacker = zlib.decompressobj(_WINDOW)
    skip, left = file.offset, file.size
    async for block in blocks:
        packed = block
        while packed and left:
            piece = unpacker.decompress(packed, _PIECE)
            packed = unpacker.unconsumed_tail
            wanted = piece[skip : skip + left]
            skip = max(0, skip - len(piece))
            left -= len(wanted)
            if wanted:
                yield wanted
        if not left:
            return
