"""A small image to run, built here without a registry."""

from __future__ import annotations

import asyncio
import io
import shutil
import subprocess
import tarfile

import pytest

from muster.embedded.node.image_engine import ImageEngine, find_engine

BUSYBOX = shutil.which("busybox")
_PROGRAMS = ("sh", "echo", "cat", "sleep", "hostname", "pwd", "id", "printenv", "env", "kill", "true", "trap", "wc")


def podman_here() -> ImageEngine:
    """Skips the test if podman does not work here."""
    found = asyncio.run(find_engine("podman"))
    if not isinstance(found, ImageEngine) or BUSYBOX is None:
        pytest.skip("needs podman and a static busybox (Debian: apt-get install podman runc busybox-static)")
    return found


def make_image(engine: ImageEngine, name: str, *changes: str) -> None:
    """`changes` are lines of a Dockerfile."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(str(BUSYBOX), "bin/busybox")
        for program in _PROGRAMS:
            link = tarfile.TarInfo(f"bin/{program}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for folder in ("tmp", "etc", "proc", "dev", "sys", "work"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(entry)
        made = tarfile.TarInfo("etc/image")
        made.size = 5
        tar.addfile(made, io.BytesIO(b"image"))
    options = [word for change in changes for word in ("--change", change)]
    command = engine.command("import", *options, "-", name)
    subprocess.run(command, input=archive.getvalue(), check=True, capture_output=True)
