"""What an image means if no image engine runs it.

- An image that the settings map (`images` in config.yaml) runs as they say: with programs of this machine, or in a root
  file system.
- A plain image (see PLAIN_IMAGES) has a shell or a language and nothing else. It runs in this machine's environment.
- The command of any other image runs in this machine's environment as well. If this machine lacks the program, the
  container fails, and the message names the ways out. An image without a command does not start at all.

In every case an event on the Pod says where the container runs. Nothing imitates an image.
Pure, except for `machine_environment` and `make_shims`, which inspect this machine once.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import muster
from muster.embedded.node.environment import expand_all
from muster.embedded.node.pod_context import ImageNeedsCommand
from muster.embedded.settings import ImageSettings

PLAIN_IMAGES: Mapping[str, tuple[str, ...]] = {
    "almalinux": ("bash",),
    "alpine": ("sh",),
    "amazoncorretto": ("jshell",),
    "amazonlinux": ("bash",),
    "archlinux": ("bash",),
    "bash": ("bash",),
    "busybox": ("sh",),
    "centos": ("bash",),
    "debian": ("bash",),
    "eclipse-temurin": ("jshell",),
    "fedora": ("bash",),
    "gcc": ("bash",),
    "golang": ("bash",),
    "julia": ("julia",),
    "node": ("node",),
    "openjdk": ("jshell",),
    "oraclelinux": ("bash",),
    "perl": ("perl", "-de0"),
    "python": ("python3",),
    "r-base": ("R",),
    "rockylinux": ("bash",),
    "ruby": ("irb",),
    "rust": ("bash",),
    "ubuntu": ("bash",),
}
"""Official images that contain a shell or a language and nothing else, with the command that each has by default (its
CMD). They run in this machine's environment. docs/settings.md lists them, too."""

PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ",
    "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CUDA_HOME", "CUDA_PATH", "NVIDIA_DRIVER_CAPABILITIES", "ROCM_PATH",
    "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION", "JAVA_HOME", "GOROOT",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_TRUSTED_HOST", "PIP_CERT", "PIP_CONFIG_FILE", "PIP_DEFAULT_TIMEOUT",
)  # fmt: skip
"""The variables of the server's own environment that containers see. The others may hold secrets."""

SCRATCH = "/tmp"
"""The working directory of a container that names none. It is the container's own, so its files disturb no other."""

CONTAINER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_INSTALLATIONS = ("PYENV_ROOT", "CONDA_PREFIX", "VIRTUAL_ENV", "JAVA_HOME", "GOROOT", "RUSTUP_HOME", "CARGO_HOME")
"""Variables with folders that programs need besides those in PATH."""

_SOURCES = os.path.dirname(os.path.dirname(muster.__file__))
_EXPECTED = {"python": ("python3",), "python3": (), "sh": ("bash", "busybox"), "bash": ("sh",)}
"""Program names that scripts for ready-made images rely on -> programs of this machine that serve instead."""
_BUSYBOX_SHELLS = ("bash", "busybox")
"""Shells that know what the `sh` of BusyBox and Alpine knows (`echo -e`, `>&`). The `sh` of Debian does not."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How to run a container without its image, except for its variables: the command may refer to them."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = SCRATCH
    rootfs: str = ""
    mapped: str = ""
    """The pattern of the settings that matches the image, or ''."""
    required_folders: tuple[str, ...] = ()
    """Folders of this machine that it needs. Those that are hidden from containers have to be mounted."""
    has_default_cwd: bool = False
    """Whether neither the container nor the settings name a working directory."""
    environment_folders: tuple[str, ...] = ()
    """Folders of a Python environment that users have built. No link in it says what else is needed."""

    def argv(self, variables: Mapping[str, str]) -> list[str]:
        return expand_all(self.command, variables)


def plan_launch(
    container: Mapping[str, Any], images: Mapping[str, ImageSettings], machine: Mapping[str, str], shims: str = ""
) -> LaunchPlan:
    """`machine` is this machine's environment, `shims` the folder of `make_shims`. Raises ImageNeedsCommand if neither
    the container nor the settings name a command, and the image is not a plain one."""
    image = str(container.get("image") or "")
    pattern = match_image(image, images)
    plain = plain_name(image)
    settings = images[pattern] if pattern else ImageSettings(args=PLAIN_IMAGES.get(plain, ()))
    command = tuple(container.get("command") or ())
    args = tuple(container.get("args") or ())
    if not command:
        # As with ENTRYPOINT and CMD: the container's args replace the image's, its command replaces both.
        command, args = settings.command, args or settings.args
    if not command and not ((pattern or plain) and args):
        raise ImageNeedsCommand(explain_missing_command(image, args), str(container.get("name") or ""))
    env = {"PATH": CONTAINER_PATH, "HOME": "/root"} if settings.rootfs else dict(machine)
    env.update(settings.env)
    folders = settings.path
    if shims and plain and not settings.rootfs and has_busybox_shell(image):
        folders = (*folders, busybox_shims(shims))
    if folders:
        env["PATH"] = os.pathsep.join((*folders, env.get("PATH", CONTAINER_PATH)))
    cwd = str(container.get("workingDir") or "") or settings.working_dir
    required = () if settings.rootfs else required_folders(settings, env)
    where = cwd or ("/" if settings.rootfs else SCRATCH)
    return LaunchPlan((*command, *args), env, where, settings.rootfs, pattern, required, not cwd)


def enter_environment(plan: LaunchPlan, path: str, interpreter: str) -> LaunchPlan:
    """The programs of a Python environment come first. `interpreter` is the installation that it needs."""
    env = {**plan.env, "PATH": f"{path}/bin{os.pathsep}{plan.env.get('PATH', CONTAINER_PATH)}", "VIRTUAL_ENV": path}
    return replace(plan, env=env, environment_folders=(path, interpreter))


def required_folders(
    settings: ImageSettings, env: Mapping[str, str], program: Sequence[str] = (sys.prefix, _SOURCES)
) -> tuple[str, ...]:
    """The folders a container runs from: an environment as a whole, a checkout, those of the files that the command of
    the settings names, this program, and all of PATH."""
    environments = (os.path.dirname(path.rstrip("/")) for path in settings.path)
    files = [os.path.normpath(word) for word in (*settings.command, *settings.args) if word.startswith("/")]
    # The whole of /tmp is never mounted: of a file that is directly there, only the file is.
    named = (file if os.path.dirname(file) == SCRATCH else os.path.dirname(file) for file in files)
    return (*environments, settings.working_dir, *named, *program, *env.get("PATH", "").split(os.pathsep))


@cache
def interpreter_folders(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the installations of Python that the environments in these folders need: an environment has only links to
    one. The folders are environments, or those in which their programs are."""
    found = {sys.base_prefix}
    for folder in folders:
        for program in (f"{folder}/python3", f"{folder}/bin/python3"):
            real = os.path.realpath(program)
            if real != program and os.path.basename(os.path.dirname(real)) == "bin" and os.path.isfile(real):
                found.add(os.path.dirname(os.path.dirname(real)))
    found |= {os.environ[name] for name in _INSTALLATIONS if os.environ.get(name)}
    return tuple(sorted(found - {"/", "/usr", "/usr/local"}))


def hidden_folders(needed: Sequence[str], hidden: Sequence[str]) -> tuple[str, ...]:
    """Returns those of the `needed` folders that are inside a hidden one, without those that are inside another."""
    above = tuple(f"{folder}/" for folder in hidden)
    inside = sorted({os.path.normpath(folder) for folder in needed if folder.startswith(above)})
    return tuple(f for f in inside if not any(f.startswith(f"{other}/") for other in inside))


def match_image(image: str, images: Mapping[str, ImageSettings]) -> str:
    """Returns the longest pattern that matches the image, or ''. A pattern without a tag matches every tag."""
    return _match_patterns(image, tuple(images))


@lru_cache(1024)
def _match_patterns(image: str, patterns: Sequence[str]) -> str:
    """Remembers its results: every Pod asks, for one of a few images."""
    untagged = _without_tag(image)
    fitting = [p for p in patterns if fnmatchcase(image, p) or fnmatchcase(untagged, p)]
    return max(fitting, key=len, default="")


def plain_name(image: str) -> str:
    """The name of a plain image in PLAIN_IMAGES, also if it comes from a mirror; '' for any other image."""
    parts = _without_tag(image).split("/")
    if len(parts) > 1 and ("." in parts[0] or ":" in parts[0] or parts[0] == "localhost"):
        del parts[0]  # the registry
    if parts[:-1] in ([], ["library"], ["docker", "library"]) and parts[-1] in PLAIN_IMAGES:
        return parts[-1]
    return ""


def has_busybox_shell(image: str) -> bool:
    """Whether the `sh` of a plain image is BusyBox's: in BusyBox, in Alpine, and under a tag like 3.12-alpine."""
    return plain_name(image) in ("busybox", "alpine") or "alpine" in image.removeprefix(_without_tag(image))


def explain_missing_command(image: str, args: tuple[str, ...] = ()) -> str:
    has = "args but no command" if args else "no command"
    return (
        f'the container has {has}, and the command of the image "{image}" is unknown: no image engine is in use. '
        "Write the command into the container:\n"
        '  command: ["python", "train.py"]\n'
        "or map the image in config.yaml, to programs of this machine or to a root file system:\n"
        f'  images:\n    "{_without_tag(image) or "IMAGE"}*":\n      command: ["python", "train.py"]\n'
        "      rootfs: /srv/rootfs   # optional\n"
        "or run real images: muster up --runtime podman (or docker)"
    )


def explain_missing_program(image: str) -> str:
    """What the supervisor says if a container of an unmapped image needs a program that this machine lacks."""
    return (
        f'no image engine is in use, so "{image}" runs in this machine\'s environment, which lacks the program. '
        f'Map the image in config.yaml (images: {{"{_without_tag(image)}*": {{path: [...]}}}}), '
        "give it a root file system there (rootfs), or run real images (--runtime podman or docker)"
    )


def describe_source(image: str, mapped: str, rootfs: str, environment: str = "") -> str:
    """What the event says in place of `Pulled`."""
    if rootfs:
        return f'Running "{image}" in the root file system that "{mapped}" is mapped to (no image is pulled)'
    if mapped:
        return f'Running "{image}" as a process of this machine, mapped by "{mapped}" (no image is pulled)'
    if environment:
        return f'Running "{image}" in an environment of {environment} (no image is pulled)'
    return f'Running "{image}" in the environment of this machine (no image is pulled)'


def machine_environment(
    shims: Path, extra: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of every container. The shims come last in PATH: they only fill gaps."""
    source = os.environ if environ is None else environ
    env = {name: source[name] for name in PASSED_ON if name in source}
    path = [p for p in env.get("PATH", CONTAINER_PATH).split(os.pathsep) if p]
    env["PATH"] = os.pathsep.join([*path, str(shims)])
    env.setdefault("HOME", "/root" if os.getuid() == 0 else "/")
    env.update(extra)
    return env


def make_shims(folder: Path, path: str | None = None) -> list[str]:
    """Links the program names that this machine lacks to programs that serve instead. Returns the names for which there
    is none."""
    folder.mkdir(parents=True, exist_ok=True)
    unserved = []
    for name, substitutes in _EXPECTED.items():
        link = folder / name
        if shutil.which(name, path=path) is not None:
            link.unlink(missing_ok=True)
            continue
        target = _find(substitutes, path)
        if target is None and name.startswith("python"):
            target = sys.executable
        if target is None:
            unserved.append(name)
        else:
            _link(link, target)
    shell = _find(_BUSYBOX_SHELLS, path)
    if shell is not None:
        _link(Path(busybox_shims(str(folder)), "sh"), shell)
    return unserved


def busybox_shims(shims: str) -> str:
    """The folder that comes first in the PATH of images whose `sh` is BusyBox's."""
    return f"{shims}-busybox"


def _find(programs: Sequence[str], path: str | None) -> str | None:
    return next((found for program in programs if (found := shutil.which(program, path=path)) is not None), None)


def _link(link: Path, target: str) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink() or os.readlink(link) != target:
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _without_tag(image: str) -> str:
    name, _, _ = image.partition("@")
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name
