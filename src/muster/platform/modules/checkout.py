"""What may be in a checkout, and where in it things are. Nothing leads out of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from posixpath import isabs

LONGEST_README = 1_000_000
_MARKDOWN = (".md", ".markdown", ".mdown", ".mkd")


class CheckoutError(ValueError):
    """The repository is not as a module's has to be."""


def inner_path(written: str) -> str:
    """A path in the repository as people write it (`/` is all of it), without what means nothing. Raises ValueError."""
    if not written.isprintable() or "\\" in written:
        raise ValueError("it has characters that no path in a repository has")
    parts = [part for part in written.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError('it leads out of the repository; leave out ".."')
    if any(part == ".git" for part in (part.lower() for part in parts)):
        raise ValueError("git's own folder is none of the module's")
    return "/".join(parts)


def listing_problem(listing: bytes, most_bytes: int, most_files: int) -> str:
    """Why what `git ls-tree -r -l -z` tells of may not be checked out; '' if it may."""
    total = files = 0
    for entry in filter(None, listing.split(b"\0")):
        head, _, raw = entry.partition(b"\t")
        mode, kind, _, size = head.split()
        name = raw.decode(errors="replace")
        parts = name.split("/")
        if isabs(name) or ".." in parts or ".git" in (part.lower() for part in parts):
            return f'"{name}" leads out of the repository'
        if kind != b"blob":
            continue  # a submodule stays an empty folder
        if mode not in (b"100644", b"100755", b"100664", b"120000"):
            return f'"{name}" is neither a file nor a link'
        files += 1
        total += int(size)
        if files > most_files:
            return f"it has more than {most_files} files"
        if total > most_bytes:
            return f"it is larger than {most_bytes // 1_000_000} MB"
    return ""


def outside_link(root: Path) -> str:
    """The first link in the folder that leads out of it; '' if there is none."""
    for path in _links(root):
        relative = path.relative_to(root).as_posix()
        target = str(path.readlink())
        climbs = _climbs(len(path.relative_to(root).parts) - 1, target)
        if isabs(target) or climbs or not path.resolve().is_relative_to(root.resolve()):
            return f'the link "{relative}" leads to "{target}", outside of the repository'
    return ""


def inside(root: Path, relative: str) -> Path:
    """Where it really is. Raises CheckoutError if a link leads it out."""
    place = (root / relative).resolve()
    if not place.is_relative_to(root.resolve()):
        raise CheckoutError(f'"{relative}" leads out of the repository')
    return place


def read_text(root: Path, relative: str, what: str, longest: int = LONGEST_README) -> str:
    """A regular file of the checkout, in UTF-8. Raises CheckoutError."""
    place = inside(root, relative)
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise CheckoutError(f'{what}: there is no file "{relative}" in the repository') from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CheckoutError(f'{what}: "{relative}" is no file')
        content = file.read(longest + 1)
    if len(content) > longest:
        raise CheckoutError(f'{what}: "{relative}" is larger than {longest // 1000} kB')
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CheckoutError(f'{what}: "{relative}" is not text in UTF-8') from None


def read_readme(root: Path, relative: str) -> str:
    if not relative.lower().endswith(_MARKDOWN):
        raise CheckoutError(f'readme: "{relative}" is not Markdown; it has to be a file such as README.md')
    text = read_text(root, relative, "readme")
    if "\0" in text:
        raise CheckoutError(f'readme: "{relative}" is not text')
    if not text.strip():
        raise CheckoutError(f'readme: "{relative}" is empty; say what the module does, takes and gives')
    return text


def _links(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root, followlinks=False):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                yield path


def _climbs(depth: int, target: str) -> bool:
    """Whether it leaves the folder even on the way, from so far down in it."""
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return True
    return False
