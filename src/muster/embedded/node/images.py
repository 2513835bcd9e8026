"""What an image means if no image engine runs it: the environment of this machine, or what the settings map it to."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import muster
from muster.embedded.node.environment import expand_all
from muster.embedded.node.pod_context import ImageNeedsCommand
from muster.embedded.node.settings import ImageSettings

PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ",
    "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CUDA_HOME", "CUDA_PATH", "NVIDIA_DRIVER_CAPABILITIES", "ROCM_PATH",
    "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION", "JAVA_HOME", "GOROOT",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_INDEX_URL", "PIP_CONFIG_FILE",
)  # fmt: skip
"""What a container sees of the server's own environment. The rest stays out: it may hold secrets."""

SCRATCH = "/tmp"
"""Where a container begins that says nothing: its own, so that what it leaves there litters nothing."""

_SOURCES = os.path.dirname(os.path.dirname(muster.__file__))
CONTAINER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_EXPECTED = {"python": ("python3",), "python3": (), "sh": ("bash", "busybox"), "bash": ("sh",)}
"""Names that scripts for ready-made images take for granted -> what serves instead."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to run a container without its image, but for its variables: those may appear in the command."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = SCRATCH
    rootfs: str = ""
    mapped: str = ""
    """The pattern of the settings that matched, if one did."""
    runs_from: tuple[str, ...] = ()
    """Folders of this machine that it needs: those that are hidden from containers have to be mounted."""
    is_anywhere: bool = False
    """Nobody has said in which folder it is to begin."""

    def argv(self, variables: Mapping[str, str]) -> list[str]:
        return expand_all(self.command, variables)


def recipe(container: Mapping[str, Any], images: Mapping[str, ImageSettings], machine: Mapping[str, str]) -> Recipe:
    """Raises ImageNeedsCommand when nobody says what to run."""
    image = str(container.get("image") or "")
    pattern = match_image(image, images)
    stand_in = images[pattern] if pattern else ImageSettings()
    command = tuple(container.get("command") or ())
    args = tuple(container.get("args") or ())
    if not command:
        # As with ENTRYPOINT and CMD: the container's args replace the image's, its command replaces both.
        command, args = stand_in.command, args or stand_in.args
    if not command and not (pattern and args):
        raise ImageNeedsCommand(needs_command(image, args), str(container.get("name") or ""))
    env = {"PATH": CONTAINER_PATH, "HOME": "/root"} if stand_in.rootfs else dict(machine)
    env.update(stand_in.env)
    if stand_in.path:
        env["PATH"] = os.pathsep.join((*stand_in.path, env.get("PATH", CONTAINER_PATH)))
    cwd = str(container.get("workingDir") or "") or stand_in.working_dir
    folders = () if stand_in.rootfs else runs_from(stand_in, env)
    where = cwd or ("/" if stand_in.rootfs else SCRATCH)
    return Recipe((*command, *args), env, where, stand_in.rootfs, pattern, folders, not cwd)


def runs_from(
    stand_in: ImageSettings, env: Mapping[str, str], program: Sequence[str] = (sys.prefix, _SOURCES)
) -> tuple[str, ...]:
    """An environment with all that belongs to it, a checkout, this program, and wherever else programs are found."""
    environments = (os.path.dirname(path.rstrip("/")) for path in stand_in.path)
    return (*environments, stand_in.working_dir, *program, *env.get("PATH", "").split(os.pathsep))


def hidden_folders(needed: Sequence[str], hidden: Sequence[str]) -> tuple[str, ...]:
    """Those of the `needed` folders that lie inside of one that is hidden; none that is inside of another."""
    above = tuple(f"{folder}/" for folder in hidden)
    inside = sorted({os.path.normpath(folder) for folder in needed if folder.startswith(above)})
    return tuple(f for f in inside if not any(f.startswith(f"{other}/") for other in inside))


def match_image(image: str, images: Mapping[str, ImageSettings]) -> str:
    """The pattern that fits the image best (the longest), '' if none does. A pattern without a tag fits any tag."""
    untagged = _without_tag(image)
    fitting = [p for p in images if fnmatchcase(image, p) or fnmatchcase(untagged, p)]
    return max(fitting, key=len, default="")


def needs_command(image: str, args: tuple[str, ...] = ()) -> str:
    has = "args but no command" if args else "no command"
    return (
        f'the container has {has}, and the image "{image}" cannot be asked for its own: no image engine is in use. '
        "Either write the command into the container:\n"
        '  command: ["python", "train.py"]\n'
        "or say in config.yaml what stands in for the image:\n"
        f'  images:\n    "{_without_tag(image) or "IMAGE"}*":\n      command: ["python", "train.py"]\n'
        "or run real images: muster up --runtime podman"
    )


def running_note(image: str, mapped: str, rootfs: str) -> str:
    """The honest equivalent of `Pulled`."""
    if rootfs:
        return f'Running "{image}" from the folder that "{mapped}" is mapped to (no image is pulled)'
    if mapped:
        return f'Running "{image}" as a process of this machine, mapped by "{mapped}" (no image is pulled)'
    return f'Running "{image}" as a process of this machine (no image is pulled)'


def machine_environment(
    shims: Path, extra: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What every container starts from. The shims come last in PATH: they only fill gaps."""
    source = os.environ if environ is None else environ
    env = {name: source[name] for name in PASSED_ON if name in source}
    path = [p for p in env.get("PATH", CONTAINER_PATH).split(os.pathsep) if p]
    env["PATH"] = os.pathsep.join([*path, str(shims)])
    env.setdefault("HOME", "/root" if os.getuid() == 0 else "/")
    env.update(extra)
    return env


def make_shims(folder: Path, path: str | None = None) -> list[str]:
    """Links for the names that are missing on this machine; answers those that nothing can serve."""
    folder.mkdir(parents=True, exist_ok=True)
    unserved = []
    for name, substitutes in _EXPECTED.items():
        link = folder / name
        if shutil.which(name, path=path) is not None:
            link.unlink(missing_ok=True)
            continue
        target = next((t for s in substitutes if (t := shutil.which(s, path=path)) is not None), None)
        if target is None and name.startswith("python"):
            target = sys.executable
        if target is None:
            unserved.append(name)
        elif not link.is_symlink() or os.readlink(link) != target:
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    return unserved


def _without_tag(image: str) -> str:
    name, _, _ = image.partition("@")
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name
