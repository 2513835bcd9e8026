from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.embedded.auth.private_files import ensure_private_key, write_private


def test_a_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "new" / "secret", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "secret").stat().st_mode & 0o777 == 0o600


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "secret"
    target.mkdir()
    with pytest.raises(OSError):
        write_private(target, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_key_is_made_once_and_again_if_it_is_cut_short(tmp_path: Path) -> None:
    key = ensure_private_key(tmp_path / "key")
    assert ensure_private_key(tmp_path / "key") == key and len(key) == 32
    (tmp_path / "key").write_bytes(key[:5])
    assert ensure_private_key(tmp_path / "key") != key
