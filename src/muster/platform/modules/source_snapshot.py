"""The source of a module's version as it was built, for its reviewers: a list of files, and the text of those that are
small and text.

It is stored beside the build log, as one compressed file. What does not fit into the budgets is named and not stored.
"""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from muster.platform.records.modules import SourceChange, SourceEntry, SourceFile, SourceKind, SourceListing

MOST_ENTRIES: Final = 2_000
LARGEST_FILE: Final = 256 * 1024
LARGEST_TOTAL: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    files: Mapping[str, SourceFile]
    left_out: int
    """The number of files beyond the first MOST_ENTRIES."""


def store_snapshot(root: Path, target: Path) -> None:
    """Stores the files of a checkout, whose links have been checked. The file appears atomically."""
    left, found, count = LARGEST_TOTAL, [], 0
    for path in _files(root):
        count += 1
        if count > MOST_ENTRIES:
            continue
        file = read_entry(root, path, left)
        left -= len(file.text or "")
        found.append({"path": file.path, "size": file.size, "kind": file.kind, "text": file.text})
    draft = target.with_suffix(".new")
    content = {"files": found, "left_out": max(0, count - MOST_ENTRIES)}
    draft.write_bytes(gzip.compress(orjson.dumps(content), mtime=0))
    draft.rename(target)


def load_snapshot(path: Path) -> SourceSnapshot | None:
    """None if there is none: the version was built by an older release, or is not built yet."""
    try:
        content: dict[str, Any] = orjson.loads(gzip.decompress(path.read_bytes()))
    except FileNotFoundError:
        return None
    files = [SourceFile(**each) for each in content["files"]]
    return SourceSnapshot({file.path: file for file in files}, content["left_out"])


def list_changes(after: SourceSnapshot, before: SourceSnapshot | None) -> SourceListing:
    """The files of a version, and what became of them since another one. A pure function."""
    entries = [_entry(file, before.files.get(path) if before else None, before) for path, file in after.files.items()]
    removed = [
        _without_text(file, "removed")
        for path, file in (before.files if before else {}).items()
        if path not in after.files
    ]
    entries = sorted([*entries, *removed], key=lambda entry: entry.path)
    return SourceListing(True, entries, after.left_out, before is not None)


def text_kind(content: bytes) -> SourceKind:
    """A pure function."""
    if b"\0" in content:
        return "binary"
    try:
        content.decode()
    except UnicodeDecodeError:
        return "binary"
    return "text"


def read_entry(root: Path, path: Path, left: int) -> SourceFile:
    """`left`: how much text may still be stored."""
    name = path.relative_to(root).as_posix()
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        return SourceFile(name, 0, "link", str(path.readlink()))
    if about.st_size > LARGEST_FILE or about.st_size > left:
        return SourceFile(name, about.st_size, "large", None)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(LARGEST_FILE + 1)
    kind = text_kind(content)
    return SourceFile(name, about.st_size, kind, content.decode() if kind == "text" else None)


def _files(root: Path) -> Iterator[Path]:
    """In the order of their paths, so that the same ones are left out every time."""
    for folder, folders, files in os.walk(root, followlinks=False):
        folders.sort()
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted((*files, *links)):
            path = Path(folder, name)
            if path.is_symlink() or path.is_file():
                yield path


def _entry(file: SourceFile, before: SourceFile | None, compared: SourceSnapshot | None) -> SourceEntry:
    change: SourceChange = "same"
    if compared is not None:
        if before is None:
            change = "added"
        elif replace(before, path="") != replace(file, path=""):
            change = "changed"
    return _without_text(file, change)


def _without_text(file: SourceFile, change: SourceChange) -> SourceEntry:
    return SourceEntry(file.path, file.size, file.kind, change)
