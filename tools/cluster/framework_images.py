"""Images in which real frameworks train, made without a registry: Debian's Python, the framework, and your files.

The packages are those of the examples (`examples/training/<framework>`). What an example installs with pip is taken
from its environment, which tests of frameworks use as well, so that it is downloaded once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from tools.cluster.images import Image, checked, layer, python, with_files

ROOT = Path(__file__).parents[2]
FRAMEWORKS: Mapping[str, str] = {
    **{name: f"examples/training/{name}" for name in ("pytorch", "xgboost", "lightgbm", "paddle", "tensorflow", "jax")},
    "mpi": "tests/frameworks/openmpi",
}
"""Each framework with the folder that lists its packages."""

_LIBRARIES = ("libgomp1",)
"""What Python packages expect of Debian and do not include."""
_ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    "mpi": {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
}
_SITE = "usr/local/lib/python3.11/dist-packages"
_UNNEEDED = ("tests", "include", "clang", "libclang-*", "pip", "pip-*", "*.a", "*.lib", "*.pyi", "requirements.txt")
"""Files of Python packages that no training reads. Compiled modules stay: without them, every Pod compiles for
seconds."""


def framework_image(
    framework: str, name: str, *also_named: str, files: Mapping[str, Path] | None = None, working_folder: str = "/"
) -> Image:
    """`framework_image("pytorch", "trainer:1", files={"/app/train.py": Path("train.py")}, working_folder="/app")`.

    `python` and `python3` are in it, for pytorch `torchrun` and for mpi Open MPI's `mpirun`. Give a tag other than
    `latest`, or `imagePullPolicy: Never`: there is nowhere to pull it from.
    """
    source = ROOT / FRAMEWORKS[framework]
    packages = source / "debian-packages.txt"
    debian = packages.read_text().split() if packages.exists() else _LIBRARIES
    image = replace(
        python(name, debian=debian), environment=_ENVIRONMENT.get(framework, {}), also_named=also_named,
        working_folder=working_folder,
    )  # fmt: skip
    if not packages.exists():
        requirements = (source / "requirements.txt").read_text().splitlines()
        above = layer("site", requirements, lambda folder: _site(folder, source))
        image = replace(image, layers=(*image.layers, above))
    return with_files(image, name, files) if files else image


def _site(folder: Path, source: Path) -> None:
    """The environment's packages, at the place where Debian's Python looks for packages of others."""
    environments = ROOT / ".environments"
    environments.mkdir(exist_ok=True)
    # The framework tests use the same one: of two processes that create it at the same time, one waits.
    with (environments / f"{source.name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        programs = Path(checked([str(ROOT / "scripts" / "environment"), str(source.relative_to(ROOT))]).split()[-1])
        packages = programs.parent / "lib" / "python3.11" / "site-packages"
        shutil.copytree(packages, folder / _SITE, symlinks=True, ignore=_unneeded, copy_function=_link)


def _unneeded(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if any(fnmatch(name, pattern) for pattern in _UNNEEDED)}


def _link(source: str, target: str) -> str:
    """A hard link saves a copy of the file."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy2(source, target, follow_symlinks=False)
    return target
