"""Volumes and their files."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from muster.kube.beneath import Folder, split_name
from muster.sdk.transport import PlatformError, Transport, parse_record
from muster.workspaces.volumes import (
    AccessMode,
    Volume,
    VolumeEntry,
    VolumeFolder,
    VolumeUsage,
    encode_path,
)

_BLOCK = 1 << 20


class Volumes:
    """A volume is named as `namespace/name`. `find` returns it for a name alone. Paths in a volume are plain text, as
    the operating system has them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, q: str = "", owner: str = "", most: int | None = None) -> Iterator[Volume]:
        query = {"q": q, "owner": owner}
        return (parse_record(Volume, item) for item in self._transport.pages("volumes", query, most))

    def find(self, name: str) -> Volume:
        """Returns a volume by `namespace/name`, or by its name if there is only one of that name."""
        if "/" in name:
            return self.get(name)
        found = [volume for volume in self.list(q=name) if volume.name == name]
        if not found:
            raise PlatformError(404, "not-found", f'there is no volume "{name}"')
        if len(found) > 1:
            names = ", ".join(f"{volume.namespace}/{volume.name}" for volume in found)
            raise PlatformError(409, "conflict", f'there are several volumes "{name}"; use one of {names}')
        return found[0]

    def get(self, volume: str) -> Volume:
        return parse_record(Volume, self._transport.request("GET", _path(volume)))

    def create(
        self, name: str, size: str = "10Gi", *, access_mode: AccessMode = "ReadWriteMany", team: str = "", **more: Any
    ) -> Volume:
        """`more`: storage_class."""
        body = {"name": name, "size": size, "access_mode": access_mode, "team": team, **more}
        return parse_record(Volume, self._transport.request("POST", "volumes", body))

    def delete(self, volume: str) -> None:
        """Deletes a volume with its files. Refused while something uses it."""
        self._transport.request("DELETE", _path(volume))

    def usage(self, volume: str, path: str = "") -> VolumeUsage:
        query = {"path": _encode(path)}
        return parse_record(VolumeUsage, self._transport.request("GET", f"{_path(volume)}/usage", query=query))

    def files(self, volume: str, path: str = "") -> Iterator[VolumeEntry]:
        """Yields what is in a folder: folders first, then by name."""
        cursor: str | None = ""
        while cursor is not None:
            query = {"path": _encode(path), "cursor": cursor, "limit": 1000}
            page = parse_record(VolumeFolder, self._transport.request("GET", f"{_path(volume)}/files", query=query))
            yield from page.items
            cursor = page.next

    def is_folder(self, volume: str, path: str) -> bool:
        query = {"path": _encode(path), "limit": 1}
        try:
            self._transport.request("GET", f"{_path(volume)}/files", query=query)
        except PlatformError as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    @contextmanager
    def open(self, volume: str, path: str) -> Iterator[HTTPResponse]:
        """Yields the content of a file, to be read piece by piece."""
        with self._transport.download(f"{_path(volume)}/files/content", {"path": _encode(path)}) as response:
            yield response

    def download(self, volume: str, path: str, target: Path) -> int:
        """Stores a file of the volume as `target`, which is replaced when all of it has arrived. Returns its size."""
        aside = target.with_name(f".{target.name[:200]}.{os.urandom(4).hex()}")
        try:
            with self.open(volume, path) as response, aside.open("xb") as file:
                size = 0
                while block := response.read(_BLOCK):
                    file.write(block)
                    size += len(block)
                expected = response.headers.get("Content-Length")
                if expected is not None and size != int(expected):
                    raise PlatformError(0, "unreachable", f"the download of {path} broke off; try it again")
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
        return size

    def download_folder(self, volume: str, path: str, target: Path) -> tuple[int, list_[str]]:
        """Stores the files of a folder below `target`. Returns their number, and what was left out: links and special
        files are not stored, because a link could lead anywhere on this machine."""
        query = {"path": _encode(path), "format": "tar"}
        count, left_out = 0, []
        with (
            self._transport.download(f"{_path(volume)}/files/archive", query) as response,
            Folder.at(target, create=True) as top,
            _open_tar(response) as archive,
        ):
            for member in archive:
                parts = split_name(member.name)
                if member.isdir():
                    top.make_folders(parts).close()
                elif member.isreg() and (content := archive.extractfile(member)) is not None:
                    with top.make_folders(parts[:-1]) as folder:
                        folder.remove((parts[-1],))
                        with content, folder.create((parts[-1],), 0o644) as file:
                            while block := content.read(_BLOCK):
                                file.write(block)
                    count += 1
                else:
                    left_out.append(member.name)
        return count, left_out

    def upload(self, volume: str, path: str, content: IO[bytes], *, replace: bool = True) -> VolumeEntry:
        """Stores a file. It appears when all of it has arrived."""
        size = os.fstat(content.fileno()).st_size
        query = {"path": _encode(path), "replace": "true" if replace else ""}
        return parse_record(VolumeEntry, self._transport.upload(f"{_path(volume)}/files/content", content, size, query))

    def make_folder(self, volume: str, path: str) -> VolumeEntry:
        return parse_record(
            VolumeEntry, self._transport.request("POST", f"{_path(volume)}/folders", {"path": _encode(path)})
        )

    def rename(self, volume: str, path: str, to: str) -> VolumeEntry:
        body = {"path": _encode(path), "to": _encode(to)}
        return parse_record(VolumeEntry, self._transport.request("POST", f"{_path(volume)}/files/rename", body))

    def delete_file(self, volume: str, path: str) -> None:
        """Deletes a file, or a folder with everything in it."""
        self._transport.request("DELETE", f"{_path(volume)}/files", query={"path": _encode(path)})


list_ = list
"""`list` is a method above."""


@contextmanager
def _open_tar(response: HTTPResponse) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(fileobj=response, mode="r|") as archive:
            yield archive
    except tarfile.TarError as error:
        raise PlatformError(0, "unreachable", f"the archive is not complete: {error}; try it again") from None


def _path(volume: str) -> str:
    namespace, _, name = volume.partition("/")
    return f"volumes/{quote(namespace, safe='')}/{quote(name, safe='')}"


def _encode(path: str) -> str:
    return encode_path(path.split("/"))
