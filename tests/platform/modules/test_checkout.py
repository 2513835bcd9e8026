from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.platform.modules.checkout import CheckoutError, inner_path, listing_problem, outside_link, read_readme


@pytest.mark.parametrize(
    ("written", "path"),
    [("/", ""), ("", ""), (".", ""), ("a", "a"), ("/a/b/", "a/b"), ("./a//b", "a/b"), ("a/..b", "a/..b")],
)
def test_paths_in_a_repository(written: str, path: str) -> None:
    assert inner_path(written) == path


@pytest.mark.parametrize("written", ["..", "../a", "a/../b", "/..", ".git", "a/.GIT/hooks", "a\nb", "a\\b", "a\0"])
def test_paths_that_lead_elsewhere(written: str) -> None:
    with pytest.raises(ValueError, match=r"out of the repository|git's own|characters"):
        inner_path(written)


def entry(name: str, mode: str = "100644", kind: str = "blob", size: str = "10") -> str:
    return f"{mode} {kind} {'0' * 40} {size:>7}\t{name}"


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([], ""),
        ([entry("a"), entry("b c/d", "100755"), entry("l", "120000"), entry("sub", "160000", "commit", "-")], ""),
        ([entry("../a")], "leads out"),
        ([entry("/etc/passwd")], "leads out"),
        ([entry("a/.git/config")], "leads out"),
        ([entry("a/.Git/config")], "leads out"),
        ([entry("a", "040000")], "neither a file nor a link"),
        ([entry("a", size="1000001")], "larger than 1 MB"),
        ([entry("a"), entry("b"), entry("c"), entry("d"), entry("e")], "more than 4 files"),
    ],
)
def test_what_may_be_checked_out(entries: list[str], problem: str) -> None:
    found = listing_problem("\0".join(entries).encode(), 1_000_000, 4)
    assert problem in found
    assert bool(problem) == bool(found)


@pytest.mark.parametrize(
    ("link", "target", "leads_out"),
    [
        ("a", "b", False),
        ("sub/a", "../b", False),
        ("sub/a", "../sub/./b", False),
        ("a", "missing", False),
        ("a", "..", True),
        ("a", "sub/../../x", True),
        ("sub/a", "../../x", True),
        ("a", "/etc", True),
        ("a", "up/etc", True),
    ],
)
def test_links(tmp_path: Path, link: str, target: str, leads_out: bool) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "b").write_text("")
    (root / link).symlink_to(target)
    if target.startswith("up"):
        (root / "up").symlink_to("/")
    assert bool(outside_link(root)) == leads_out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("README.txt", b"x", "is not Markdown"),
        ("README.md", None, "there is no file"),
        ("README.md", b"\xff\xfe", "not text in UTF-8"),
        ("README.md", b"a\0b", "is not text"),
        ("README.md", b" \n", "is empty"),
        ("README.md", b"x" * 1_000_001, "larger than"),
    ],
)
def test_a_readme_that_is_none(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckoutError, match=message):
        read_readme(tmp_path, name)


def test_a_readme_that_is_no_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "README.md")
    with pytest.raises(CheckoutError, match="is no file"):
        read_readme(tmp_path, "README.md")
