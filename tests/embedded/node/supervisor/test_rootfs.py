"""The private copy of a root file system that a container gets if the kernel refuses an overlay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.embedded.node.supervisor import rootfs
from muster.embedded.node.supervisor.rootfs import RootFs, open_rootfs


@pytest.fixture(autouse=True)
def _no_overlay(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_kind: bytes, _options: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(rootfs, "new_filesystem", refuse)
    monkeypatch.setattr(rootfs, "clone_tree", lambda _folder, path: os.open(path, os.O_PATH))


def test_a_copy_has_the_same_files_modes_and_links(tmp_path: Path) -> None:
    root, layer = tmp_path / "root", tmp_path / "layer"
    (root / "bin").mkdir(parents=True)
    (root / "bin/tool").write_text("#!/bin/sh\n")
    (root / "bin/tool").chmod(0o4755)
    (root / "private").mkdir(mode=0o700)
    (root / "link").symlink_to("/etc/nowhere")
    (root / "big").write_bytes(bytes(3 << 20))
    root.chmod(0o711)
    layer.mkdir()
    descriptor = open_rootfs(RootFs(str(root), str(layer)))
    try:
        copy = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    finally:
        os.close(descriptor)
    assert copy != root
    assert sorted(os.listdir(copy)) == ["big", "bin", "link", "private"]
    assert (copy / "bin/tool").read_text() == "#!/bin/sh\n"
    assert (copy / "bin/tool").stat().st_mode & 0o7777 == 0o4755
    assert (copy / "private").stat().st_mode & 0o777 == 0o700
    assert os.readlink(copy / "link") == "/etc/nowhere"
    assert (copy / "big").stat().st_size == 3 << 20
    assert copy.stat().st_mode & 0o777 == 0o711


def test_what_cannot_be_copied_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "layer").mkdir()
    with pytest.raises(FileNotFoundError):
        open_rootfs(RootFs(str(tmp_path / "nothing"), str(tmp_path / "layer")))


def test_a_root_that_contains_the_layer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "layer").mkdir()
    with pytest.raises(OSError, match="contains the data directory"):
        open_rootfs(RootFs(str(tmp_path), str(tmp_path / "layer")))
    with pytest.raises(OSError, match="contains the data directory"):
        open_rootfs(RootFs("/", str(tmp_path / "layer")))


def test_blocks_are_copied_even_if_the_file_systems_cannot_share_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    (tmp_path / "root").mkdir()
    (tmp_path / "root/big").write_bytes(b"x" * (3 << 20))
    (tmp_path / "layer").mkdir()
    os.close(open_rootfs(RootFs(str(tmp_path / "root"), str(tmp_path / "layer"))))
    assert (tmp_path / "layer/upper/big").read_bytes() == b"x" * (3 << 20)
