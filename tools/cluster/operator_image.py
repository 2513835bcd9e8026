"""Muster's operator and server as images for the node, like deploy/Containerfile but without a registry."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from muster.operator import platform_manifests
from muster.operator.install_manifests import IMAGE
from tools.cluster.images import Image, python, with_files

ROOT = Path(__file__).parents[2]
_SITE = "/usr/local/lib/python3.11/dist-packages"


def operator_image() -> Image:
    """Under the name that `muster operator install` expects, with the code of this checkout."""
    source = ROOT / "src"
    code = {f"{_SITE}/{path.relative_to(source)}": path for path in _package(source)}
    image = with_files(python("muster-operator-base:1", _requirements()), IMAGE, code)
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "HOME": "/tmp"}  # noqa: S108 (inside)
    return replace(image, entrypoint=("python3", "-m", "muster"), command=("operator",), environment=environment)


def server_image() -> Image:
    """Under the name that `muster deploy` expects. Without the web UI, which takes npm to build."""
    source = ROOT / "src"
    code = {f"{_SITE}/{path.relative_to(source)}": path for path in _package(source)}
    base = python("muster-server-base:1", _requirements("postgres"))
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "HOME": "/tmp"}  # noqa: S108 (inside)
    image = with_files(base, platform_manifests.IMAGE, code)
    return replace(image, entrypoint=("python3", "-m", "muster"), command=("server",), environment=environment)


def _package(source: Path) -> list[Path]:
    """Without the web UI, which the operator does not serve."""
    web = source / "muster" / "server" / "platform" / "ui"
    files = (path for path in (source / "muster").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sorted(path for path in files if web not in path.parents)


def _requirements(*extras: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
