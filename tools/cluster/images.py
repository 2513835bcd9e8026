"""Container images made on this machine, without a registry.

An image is a docker-archive: a tar with its layers, its configuration and a list of both. Layers are tars in the cache,
keyed by what went into them, so that an image is made once.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from tools.cluster import network
from tools.cluster.build import cache_folder, program
from tools.cluster.layout import Layout
from tools.cluster.progress import step
from tools.cluster.sources import Source

PAUSE = "muster-pause:1"
BUSYBOX = "busybox:1.35"
PYTHON = "muster-python:3.11"
BUILDAH = "muster-buildah:1"

DEBIAN = "bookworm"
_PYTHON_PACKAGES = ("python3", "ca-certificates", "openssh-client")
_BUILDAH_PACKAGES = ("buildah", "uidmap", "docker-registry")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ImageError(RuntimeError):
    """Names the program that failed, with its output."""


@dataclass(frozen=True, slots=True)
class Image:
    """A name with a tag, the tars of its layers, and its default command. It may have additional names."""

    name: str
    layers: tuple[Path, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    working_folder: str = "/"
    also_named: tuple[str, ...] = ()


def pause() -> Image:
    """The container that holds a Pod's network: it sleeps."""
    return Image(PAUSE, (_busybox_layer(),), ("/bin/busybox", "sleep", "2147483647"))


def busybox() -> Image:
    return Image(BUSYBOX, (_busybox_layer(),), command=("sh",))


def argoexec(argo: Source) -> Image:
    """The image that this version of Argo puts beside and before the user's containers."""
    binary = program(argo, "argoexec")
    above = layer("argoexec", [argo.version, str(binary.stat().st_mtime_ns)], lambda folder: _argoexec(folder, binary))
    return Image(argoexec_name(argo), (_busybox_layer(), above), ("argoexec",))


def argoexec_name(argo: Source) -> str:
    return f"argoexec:{argo.version}"


def python(name: str = PYTHON, requirements: Sequence[str] = (), debian: Sequence[str] = ()) -> Image:
    """Debian's Python, with packages of Debian and of Python: `python("xgb:1", ["xgboost-cpu"])`."""
    base = layer("debian", [DEBIAN, *sorted(_PYTHON_PACKAGES)], lambda folder: _debootstrap(folder, _PYTHON_PACKAGES))
    layers = [base]
    if debian:
        layers.append(layer("apt", [DEBIAN, *sorted(debian)], lambda folder: _apt(folder, base, debian)))
    if requirements:
        layers.append(layer("pip", sorted(requirements), lambda folder: _pip(folder, requirements)))
    return Image(name, tuple(layers), command=("python3",))


def buildah() -> Image:
    """Rootless buildah, as its own image has it: a user with subordinate ids; and Debian's registry to push to."""
    base = python(BUILDAH, debian=_BUILDAH_PACKAGES)
    *_, packages = base.layers
    return replace(base, layers=(*base.layers, layer("rootless", [DEBIAN], lambda folder: _rootless(folder, packages))))


def with_files(image: Image, name: str, files: Mapping[str, Path]) -> Image:
    """The image with files of this machine added: path inside to path here."""
    parts = [f"{inside}={hashlib.sha256(here.read_bytes()).hexdigest()}" for inside, here in sorted(files.items())]

    def fill(folder: Path) -> None:
        for inside, here in files.items():
            target = folder / inside.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here, target)

    return replace(image, name=name, layers=(*image.layers, layer("files", parts, fill)))


def load(image: Image, layout: Layout) -> None:
    """Imports it into the cluster's containerd, where the kubelet finds it by name. Does nothing if it is there
    already."""
    digest = _digest_of(image)
    loaded = layout.root / "images" / image.name.replace("/", "_")
    if loaded.exists() and loaded.read_text() == digest:
        return
    command = ["ctr", f"--address={layout.containerd_socket}", "--namespace=k8s.io", "images", "import", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as importing:
        assert importing.stdin is not None
        assert importing.stdout is not None
        with suppress(BrokenPipeError), importing.stdin:  # its own error says why it does not listen
            write_archive(image, importing.stdin)
        said = importing.stdout.read().decode(errors="replace")
    if importing.returncode:
        raise ImageError(f"{' '.join(command)} of {image.name} failed: {said.strip()[-800:]}")
    loaded.parent.mkdir(exist_ok=True)
    loaded.write_text(digest)


def write_archive(image: Image, target: IO[bytes]) -> None:
    """Writes in pieces to a process that reads at the same time."""
    digests = [_digest(content) for content in image.layers]
    configuration = json.dumps(_configuration(image, digests)).encode()
    configuration_name = f"{hashlib.sha256(configuration).hexdigest()}.json"
    layers = [f"{digest}.tar" for digest in digests]
    manifest = [{"Config": configuration_name, "RepoTags": [image.name, *image.also_named], "Layers": layers}]
    with tarfile.open(fileobj=target, mode="w|") as archive:
        for name, content in ((configuration_name, configuration), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for digest, layer_tar in dict(zip(digests, image.layers, strict=True)).items():
            archive.add(layer_tar, f"{digest}.tar")


def layer(name: str, parts: Sequence[str], fill: Callable[[Path], None]) -> Path:
    """A layer with what `fill` puts into a folder; created once for the same parts."""
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    path = _folder() / f"{name}-{key}.tar"
    with (_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        with network.left(), step(f"Making the image layer {name} ({', '.join(parts)[:60]})"):
            workplace = Path(tempfile.mkdtemp(dir=_folder(), prefix=f".{name}-"))
            try:
                workplace.chmod(0o755)
                fill(workplace)
                unfinished = path.with_suffix(".unfinished")
                tar = ["tar", "--create", "--one-file-system", "--sort=name", "--numeric-owner", "--xattrs"]
                subprocess.run([*tar, f"--directory={workplace}", f"--file={unfinished}", "."], check=True)
                unfinished.rename(path)
            finally:
                shutil.rmtree(workplace)
    return path


def checked(command: Sequence[str], folder: str | Path = "/") -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip()
        raise ImageError(f"{' '.join(command)} failed: {said[-800:]}")
    return ran.stdout


def _configuration(image: Image, digests: Sequence[str]) -> dict[str, object]:
    environment = {"PATH": _PATH, **image.environment}
    return {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Entrypoint": list(image.entrypoint) or None,
            "Cmd": list(image.command) or None,
            "WorkingDir": image.working_folder,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }


def _digest_of(image: Image) -> str:
    configuration = _configuration(image, [_digest(content) for content in image.layers])
    told = json.dumps([image.name, *image.also_named, configuration])
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def _digest(layer: Path) -> str:
    """The digest of the tar; stored beside it, because some are large."""
    remembered = layer.with_suffix(".sha256")
    if not remembered.exists():
        with layer.open("rb") as content:
            remembered.write_text(hashlib.file_digest(content, "sha256").hexdigest())
    return remembered.read_text()


def _folder() -> Path:
    folder = cache_folder() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _busybox_layer() -> Path:
    return layer("busybox", [DEBIAN], _busybox)


def _busybox(folder: Path) -> None:
    """Debian's busybox with the C library it needs, taken from the package: installing it would replace the static
    one."""
    programs = folder / "bin"
    programs.mkdir()
    with tempfile.TemporaryDirectory() as place:
        checked(["apt-get", "download", "-qq", "busybox"], place)
        (package,) = Path(place).glob("busybox_*.deb")
        checked(["dpkg-deb", "--extract", str(package), "unpacked"], place)
        shutil.copy(Path(place, "unpacked", "bin", "busybox"), programs / "busybox")
        applets = checked([str(programs / "busybox"), "--list"], place).split()
        needed = checked(["ldd", str(programs / "busybox")], place)
    for applet in applets:
        if applet != "busybox":
            (programs / applet).symlink_to("busybox")
    for library in sorted({word for word in needed.split() if word.startswith("/")}):
        target = folder / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    for name in ("etc", "root", "var", "usr", "tmp"):
        (folder / name).mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "usr" / "bin").symlink_to("../bin")
    (folder / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    (folder / "etc" / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (folder / "etc" / "nsswitch.conf").write_text("hosts: files dns\n")


def _rootless(folder: Path, packages: Path) -> None:
    """A user, and programs that may write its id maps. They have file capabilities: a program with the set-user-id bit
    is not the owner of the new user namespace, and the kernel refuses it."""
    for name, content in (
        ("passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\nbuild:x:1000:1000::/tmp:/bin/sh\n"),
        ("group", "root:x:0:\nnogroup:x:65534:\nbuild:x:1000:\n"),
        ("subuid", "build:100000:65536\n"),
        ("subgid", "build:100000:65536\n"),
    ):
        (folder / "etc").mkdir(exist_ok=True)
        (folder / "etc" / name).write_text(content)
    tar = ["tar", "--extract", f"--directory={folder}", f"--file={packages}"]
    checked([*tar, "./usr/bin/newuidmap", "./usr/bin/newgidmap"])
    for name, capability in (("newuidmap", "cap_setuid"), ("newgidmap", "cap_setgid")):
        program_file = folder / "usr" / "bin" / name
        program_file.chmod(0o755)
        checked(["setcap", f"{capability}=ep", str(program_file)])


def _argoexec(folder: Path, binary: Path) -> None:
    (folder / "bin").mkdir()
    shutil.copy(binary, folder / "bin" / "argoexec")


def _debootstrap(folder: Path, packages: Sequence[str]) -> None:
    checked(
        ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", DEBIAN, str(folder), _mirror()]
    )  # fmt: skip
    for unneeded in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(folder / unneeded, ignore_errors=True)
    # Device files come from the container runtime.
    shutil.rmtree(folder / "dev")
    (folder / "dev").mkdir()
    python_link = folder / "usr" / "bin" / "python"
    if not python_link.exists():
        python_link.symlink_to("python3")


def _apt(folder: Path, base: Path, packages: Sequence[str]) -> None:
    """What installing the packages adds to the base, including their set-up: alternatives, library caches."""
    with tempfile.TemporaryDirectory(dir=_folder(), prefix=".apt-") as place:
        root, files, before = Path(place, "root"), Path(place, "root", "debs"), Path(place, "before")
        root.mkdir()
        checked(["tar", "--extract", "--numeric-owner", "--xattrs", f"--directory={root}", f"--file={base}"])
        (files / "partial").mkdir(parents=True)
        options = {
            "Dir::State::status": root / "var/lib/dpkg/status", "Dir::Cache::archives": files,
            "APT::Sandbox::User": "root", "Debug::NoLocking": "true",
        }  # fmt: skip
        given = [f"--option={name}={value}" for name, value in options.items()]
        checked(["apt-get", "install", "--download-only", "--no-install-recommends", "-qq", *given, *packages])
        os.mknod(root / "dev" / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        before.touch()
        unneeded = [f"--path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale", "icons", "iso-codes")]
        install = ["dpkg", "--install", "--recursive", "--force-unsafe-io", *unneeded, "/debs"]
        checked(["chroot", str(root), "env", "-i", f"PATH={_PATH}", "DEBIAN_FRONTEND=noninteractive", *install])
        shutil.rmtree(files)
        changed = checked(["find", ".", "-cnewer", str(before), "-not", "-path", "./dev*"], root)
        (Path(place) / "changed").write_text(changed)
        added = Path(place, "added.tar")
        tar = ["tar", "--numeric-owner", "--xattrs"]
        listed = ["--no-recursion", f"--files-from={place}/changed"]
        checked([*tar, "--create", f"--directory={root}", f"--file={added}", *listed])
        checked([*tar, "--extract", f"--directory={folder}", f"--file={added}"])


def _pip(folder: Path, requirements: Sequence[str]) -> None:
    target = folder / "usr" / "local" / "lib" / "python3.11" / "dist-packages"
    checked(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
         "--python-version=3.11", f"--target={target}", *requirements]
    )  # fmt: skip


def _mirror() -> str:
    """The package sources of this machine."""
    told = checked(["apt-get", "indextargets", "--format", "$(SITE)|$(CODENAME)"])
    for line in told.splitlines():
        site, _, release = line.partition("|")
        if release == DEBIAN:
            return site
    raise ImageError(f"no package source for Debian {DEBIAN} is configured on this machine; apt-get update?")
