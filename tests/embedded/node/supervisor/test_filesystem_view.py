from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.embedded.node.supervisor.filesystem_view import resolve_in_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/file").write_text("")
    for name, to in (
        ("absolute", "/a/b"),
        ("relative", "a/b"),
        ("a/up", "../../../a/b"),
        ("out", "/../../etc"),
        ("dangling", "/nowhere"),
        ("round", "round"),
    ):
        (tmp_path / name).symlink_to(to)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "found", "missing"),
    [
        ("/", [], []),
        ("/a/b", ["a", "b"], []),
        ("a//./b/", ["a", "b"], []),
        ("/a/file", ["a", "file"], []),
        ("/../../a", ["a"], []),
        ("/a/b/../b", ["a", "b"], []),
        ("/absolute", ["a", "b"], []),
        ("/relative/x", ["a", "b"], ["x"]),
        ("/a/up/x/./y", ["a", "b"], ["x", "y"]),
        ("/out/passwd", [], ["etc", "passwd"]),
        ("/dangling/x", [], ["nowhere", "x"]),
        ("/a/c/d", ["a"], ["c", "d"]),
    ],
)
def test_nothing_leads_out_of_the_root(root: Path, path: str, found: list[str], missing: list[str]) -> None:
    descriptor = os.open(root, os.O_PATH)
    opened, names, absent = resolve_in_root(descriptor, path)
    try:
        assert (names, absent) == (found, missing)
        assert len(opened) == len(names) + 1
        assert os.path.samestat(os.fstat(opened[-1]), os.stat(root.joinpath(*found)))
    finally:
        for each in [descriptor, *opened]:
            os.close(each)


@pytest.mark.parametrize(("path", "error"), [("/round", OSError), ("/a/file/x", NotADirectoryError)])
def test_what_cannot_be_followed_is_refused(root: Path, path: str, error: type[OSError]) -> None:
    descriptor = os.open(root, os.O_PATH)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(error):
        resolve_in_root(descriptor, path)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(descriptor)
