"""The source of a version that reviewers see: what is stored of a checkout, and what has changed since another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.platform.modules import source_snapshot
from muster.platform.modules.source_snapshot import list_changes, load_snapshot, store_snapshot, text_kind


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", "text"), ("é 中".encode(), "text"), (b"a\0b", "binary"), (b"\xff\xfe", "binary"), (b"\x89PNG", "binary")],
)
def test_what_is_text(content: bytes, kind: str) -> None:
    assert text_kind(content) == kind


def checkout(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def test_texts_are_stored_and_the_rest_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_snapshot, "LARGEST_FILE", 100)
    files = {"src/main.py": b"print(1)\n", "Dockerfile": b"FROM x\n", "weights.bin": b"\0" * 10, "big.txt": b"a" * 101}
    root = checkout(tmp_path / "repository", files)
    (root / "link").symlink_to("src")
    store_snapshot(root, tmp_path / "source.json.gz")
    found = load_snapshot(tmp_path / "source.json.gz")
    assert found is not None
    assert {file.path: (file.kind, file.text) for file in found.files.values()} == {
        "Dockerfile": ("text", "FROM x\n"),
        "big.txt": ("large", None),
        "link": ("link", "src"),
        "src/main.py": ("text", "print(1)\n"),
        "weights.bin": ("binary", None),
    }
    assert load_snapshot(tmp_path / "nothing") is None


def test_budgets_of_number_and_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_snapshot, "MOST_ENTRIES", 3)
    monkeypatch.setattr(source_snapshot, "LARGEST_TOTAL", 15)
    root = checkout(tmp_path / "repository", {f"{name}.txt": b"0123456789" for name in "abcde"})
    store_snapshot(root, tmp_path / "source.json.gz")
    found = load_snapshot(tmp_path / "source.json.gz")
    assert found is not None
    assert [(file.path, file.kind) for file in found.files.values()] == [
        ("a.txt", "text"),
        ("b.txt", "large"),
        ("c.txt", "large"),
    ]
    assert found.left_out == 2


def test_what_has_changed(tmp_path: Path) -> None:
    for name, files in {
        "before": {"same": b"1", "changed": b"1", "removed": b"1"},
        "after": {"same": b"1", "changed": b"2", "added": b"1"},
    }.items():
        store_snapshot(checkout(tmp_path / name, files), tmp_path / f"{name}.gz")
    before, after = load_snapshot(tmp_path / "before.gz"), load_snapshot(tmp_path / "after.gz")
    assert before is not None
    assert after is not None
    listing = list_changes(after, before)
    assert listing.compared
    assert {entry.path: entry.change for entry in listing.files} == {
        "added": "added",
        "changed": "changed",
        "removed": "removed",
        "same": "same",
    }
    alone = list_changes(after, None)
    assert not alone.compared
    assert {entry.change for entry in alone.files} == {"same"}
