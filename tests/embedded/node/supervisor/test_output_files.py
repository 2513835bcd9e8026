from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from muster.embedded.node.supervisor.output_files import (
    ANYONE,
    FILES_SETTING,
    PROBLEM_FILE,
    SIZE_SETTING,
    BudgetExceeded,
    CopyBudget,
    Reader,
    check_copies,
    copy_outputs,
    is_kernel_path,
    remove_tree,
)
from muster.kube.budgets import setting_name


def kept(
    root: Path,
    target: Path,
    *paths: str,
    budget: CopyBudget | None = None,
    reader: Reader = ANYONE,
    excluded: Sequence[str] = (),
) -> dict[str, str]:
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY)
    limit, is_last = budget or CopyBudget(1000, 1 << 20), budget is None
    try:
        copy_outputs(descriptor, paths, str(target), limit, reader, excluded=excluded, is_last=is_last)
    finally:
        os.close(descriptor)
    return {str(p.relative_to(target)): p.read_text() for p in target.rglob("*") if p.is_file() and not p.is_symlink()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("out of reach")
    root = tmp_path / "root"
    (root / "a/deep").mkdir(parents=True)
    (root / "a/f").write_text("f")
    (root / "a/deep/g").write_text("g")
    return root


def test_files_and_folders_are_copied_by_number(root: Path, tmp_path: Path) -> None:
    assert kept(root, tmp_path / "k", "/a/f", "/none", "/a") == {"0": "f", "2/f": "f", "2/deep/g": "g"}


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        (["/a/deep/g"], {"0/f": "f", "1": "g"}),
        (["/a/deep"], {"0/f": "f", "1": "g"}),
        (["/a/other", "/b"], {"0/f": "f", "0/deep/g": "g", "1": "g"}),
    ],
)
def test_excluded_paths_are_not_copied_unless_they_are_asked_for(
    root: Path, tmp_path: Path, excluded: list[str], expected: dict[str, str]
) -> None:
    assert kept(root, tmp_path / "k", "/a", "/a/deep/g", excluded=excluded) == expected
    assert (tmp_path / "k/0/deep").exists() is ("0/deep/g" in expected)


def test_links_do_not_lead_out_of_the_root(root: Path, tmp_path: Path) -> None:
    (root / "up").symlink_to("../secret")
    (root / "absolute").symlink_to("/a/f")
    (root / "a/inside").symlink_to("../../secret")
    assert kept(root, tmp_path / "k", "/up", "/absolute", "/../secret") == {"1": "f"}
    kept(root, tmp_path / "k", "/a")
    assert (tmp_path / "k/0/inside").readlink() == Path("../../secret")


def test_special_files_are_skipped(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "a/pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "a/socket"))
        assert kept(root, tmp_path / "k", "/a/pipe", "/a/f/below", "/a") == {"2/f": "f", "2/deep/g": "g"}


def test_earlier_copies_are_replaced(root: Path, tmp_path: Path) -> None:
    kept(root, tmp_path / "k", "/a")
    assert kept(root, tmp_path / "k", "/none", "/a/f") == {"1": "f"}


@pytest.mark.parametrize(("entries", "size"), [(1, 100), (100, 1)])
def test_more_than_the_budget_is_left_to_a_child_process(root: Path, tmp_path: Path, entries: int, size: int) -> None:
    with pytest.raises(BudgetExceeded):
        kept(root, tmp_path / "k", "/a", budget=CopyBudget(entries, size))
    assert kept(root, tmp_path / "k", "/a", budget=CopyBudget(10, 10)) == {"0/f": "f", "0/deep/g": "g"}


def test_a_problem_is_written_to_a_file(root: Path, tmp_path: Path) -> None:
    room = 4000 - len(str(root))
    (root / "/".join(["a", *["x" * 99] * (room // 100)])).mkdir(parents=True)
    found = kept(root, tmp_path / ("k" * 200), "/a")
    assert "too long" in found[PROBLEM_FILE]


def test_a_folder_is_removed_even_if_access_to_parts_of_it_is_denied(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    inner = tmp_path / "layer" / "work" / "work"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    inner.chmod(0)
    inner.parent.chmod(0o500)
    remove_tree(str(tmp_path / "layer"))
    remove_tree(str(tmp_path / "nothing"))
    assert list(tmp_path.iterdir()) == []
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_the_settings_of_the_budget_are_named() -> None:
    assert (setting_name("output_files"), setting_name("output_megabytes")) == (FILES_SETTING, SIZE_SETTING)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/proc", True), ("/proc/1/environ", True), ("/sys/kernel", True), ("/dev/mem", True), ("/dev", True),
        ("/dev/shm/x", False), ("/process", False), ("/", False), ("/tmp/proc", False), ("/devices", False),
    ],
)  # fmt: skip
def test_which_paths_are_the_kernels(path: str, expected: bool) -> None:
    assert is_kernel_path(path) == expected


@pytest.mark.skipif(os.getuid() != 0, reason="only root can read with the rights of other users")
def test_files_are_read_with_the_rights_of_the_user(root: Path, tmp_path: Path) -> None:
    for folder in (root, *root.parents):
        if str(folder).startswith(str(tmp_path)):
            folder.chmod(0o755)
    for folder in tmp_path.parents[:2]:
        folder.chmod(folder.stat().st_mode | 0o111)
    (root / "a/private").write_text("private")
    (root / "a/private").chmod(0o600)
    assert kept(root, tmp_path / "k", "/a/f", reader=Reader(1234, 1234)) == {"0": "f"}
    assert kept(root, tmp_path / "k", "/a/private", reader=Reader(1234, 1234)) == {PROBLEM_FILE: "Permission denied"}
    (root / "a/private").chmod(0o640)
    assert kept(root, tmp_path / "k", "/a/private", reader=Reader(1234, 1234, [0])) == {"0": "private"}
    assert kept(root, tmp_path / "k", "/a/private") == {"0": "private"}


def test_copies_of_an_engine_are_checked(tmp_path: Path) -> None:
    (tmp_path / "k/0").mkdir(parents=True)
    os.mkfifo(tmp_path / "k/0/pipe")
    (tmp_path / "k/0/link").symlink_to("/etc/shadow")
    check_copies(str(tmp_path / "k"), CopyBudget(10, 10_000))
    assert [p.name for p in (tmp_path / "k/0").iterdir()] == ["link"]
    (tmp_path / "k/1").symlink_to("/etc/shadow")
    check_copies(str(tmp_path / "k"), CopyBudget(10, 10_000))
    assert [p.name for p in (tmp_path / "k").iterdir()] == [PROBLEM_FILE]


def test_a_folder_is_removed_however_deeply_it_is_nested(tmp_path: Path) -> None:
    here = os.getcwd()
    (tmp_path / "layer").mkdir()
    os.chdir(tmp_path / "layer")
    try:
        for _ in range(3000):
            (Path() / "file").touch()
            os.mkdir("x")
            os.chdir("x")
    finally:
        os.chdir(here)
    remove_tree(str(tmp_path / "layer"))
    assert list(tmp_path.iterdir()) == []


def test_paths_that_a_document_names_are_copied_beside_it(root: Path, tmp_path: Path) -> None:
    """A component decides while it runs where its artifacts are. What it names is copied like any other output."""
    (root / "task").mkdir()
    (root / "task/model").write_text("written, too")
    (root / "task/link").symlink_to(tmp_path)
    (root / "up").symlink_to("../secret")
    named = [
        {"uri": "s3://b/run/task/model", "custom_path": "/a//f"},
        {"uri": "s3://b/run/task/folder", "custom_path": "/a"},
        {"uri": "s3://b/run/task/link", "custom_path": "/a/f"},
        {"uri": "s3://b/run/task/up", "custom_path": "/up"},
        {"uri": "s3://b/run/task/..", "custom_path": "/a/f"},
        {"uri": "s3://b/run/task/none", "custom_path": "/none"},
        {"uri": "s3://b/run/task/kernel", "custom_path": "/proc/self/status"},
        {"uri": "s3://b/run/task/here", "custom_path": "/task/model"},
        {"custom_path": "/a/f"},
    ]
    (root / "task/out.json").write_text(json.dumps({"artifacts": {"x": {"artifacts": named}}}))
    found = kept(root, tmp_path / "k", "/task/out.json#custom_path", "/task")
    assert sorted(found.pop("0").split("\n")) == ["/a", "/a/f", "/a/f"]
    assert found.pop("1/out.json")
    assert found == {"1/model": "f", "1/folder/f": "f", "1/folder/deep/g": "g", "1/link": "f"}
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("root", "k", "secret")] == []
    assert (
        kept(root, tmp_path / "n", "/none#custom_path", "/a/f#custom_path", "/task/model#custom_path", "/task")["2"]
        == ""
    )
