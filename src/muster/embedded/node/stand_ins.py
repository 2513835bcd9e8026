"""Small programs in place of images. To be deleted."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from muster.embedded.node.settings import ImageSettings

_PROGRAMS = Path(__file__).parent / "programs"

_IMAGES: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    # image -> (folder of programs, ENTRYPOINT, CMD)
    "argoproj/argosay:v1": ("argosay", (), ("cowsay", "hello")),
    "argoproj/argosay": ("argosay", ("argosay",), ()),
    "docker/whalesay": ("argosay", (), ("cowsay", "hello")),
    "alpine": ("alpine", (), ("sh",)),
    "*/alpine": ("alpine", (), ("sh",)),
    "*:*alpine*": ("alpine", (), ()),
    "busybox": ("busybox", (), ("sh",)),
    "*/busybox": ("busybox", (), ("sh",)),
    "influxdb": ("influxdb", (), ("influxd",)),
    "nginx": ("nginx", (), ("nginx",)),
    "curlimages/curl": ("alpine", ("curl",), ()),
}


def make_stand_ins(folder: Path) -> dict[str, ImageSettings]:
    """Puts the programs where containers can run them: a wheel does not say which of its files are programs."""
    for source in sorted(_PROGRAMS.glob("*/*")):
        target = folder / source.parent.name / source.name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o755)
    _use_bash(folder)
    return {
        image: ImageSettings(path=(str(folder / programs),), command=entrypoint, args=args)
        for image, (programs, entrypoint, args) in _IMAGES.items()
    }


def _use_bash(folder: Path) -> None:
    """The shell of BusyBox knows `echo -e`, `>&` and the like, which Debian's does not, and bash does."""
    bash = shutil.which("bash")
    for programs in ("alpine", "busybox"):
        link = folder / programs / "sh"
        link.parent.mkdir(parents=True, exist_ok=True)
        if bash is not None and not link.is_symlink():
            link.symlink_to(bash)
