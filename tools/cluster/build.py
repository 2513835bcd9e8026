"""Builds the cluster's programs from Go modules into a cache, one folder per source and version.

    <cache>/kubernetes-v1.35.4/bin/kubelet
    <cache>/volcano-v1.14.1/manifests/config/crd/...

What is there is not built again. A build that was interrupted goes on with the program it was at. Of two builds at the
same time, one waits for the other.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.cluster.progress import say, step
from tools.cluster.sources import Source

GO_NEEDED = (1, 25)


class BuildError(RuntimeError):
    """Names the program that could not be built, with the last output of the compiler."""


def cache_folder() -> Path:
    given = os.environ.get("MUSTER_CLUSTER_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "muster" / "cluster"


def program(source: Source, name: str) -> Path:
    """Its path, once built."""
    assert name in source.programs, name
    return cache_folder() / source.key / "bin" / name


def manifest(source: Source, path: str) -> Path:
    """A folder or file of the module that was kept."""
    return cache_folder() / source.key / "manifests" / path


def missing(sources: Sequence[Source]) -> list[tuple[Source, str]]:
    """The programs that still have to be built."""
    return [(source, name) for source in sources for name in source.programs if not program(source, name).exists()]


def build(sources: Sequence[Source]) -> None:
    if not missing(sources):
        return
    _check_go()
    wanted = missing(sources)
    for number, (source, name) in enumerate(wanted, 1):
        with _alone(source):
            if not program(source, name).exists():
                _build(source, name, f"[{number} of {len(wanted)}] Building {name} {source.version}")


def module_file(source: Source, upstream: dict[str, Any]) -> str:
    """Returns the go.mod of a module that requires the source, with upstream's replacements: `go install` ignores
    them, and folders of the repository are not in the module."""
    lines = [f"module build/{source.name}", "", f"go {upstream.get('Go', '1.25')}", ""]
    lines += [f"require {source.fork_of or source.module} {source.version}", ""]
    if source.fork_of:
        lines.append(f"replace {source.fork_of} => {source.module} {source.version}")
    for replacement in upstream.get("Replace") or ():
        old, new = replacement["Old"]["Path"], replacement["New"]
        if old in source.instead:
            continue
        ours = _version_of(old, source.instead) or ("" if new.get("Version") else _version_of(old, source.staged))
        version = ours or new.get("Version")
        if version:
            lines.append(f"replace {old} => {old if ours else new['Path']} {version}")
    for module, version in source.instead.items():
        if not module.endswith("/"):
            lines.append(f"replace {module} => {module} {version}")
    return "\n".join(lines) + "\n"


def _version_of(module: str, versions: Mapping[str, str]) -> str:
    """By its path, or by a prefix that ends in `/`."""
    for name, version in versions.items():
        if module == name or (name.endswith("/") and module.startswith(name)):
            return version
    return ""


def _build(source: Source, name: str, what: str) -> None:
    folder = cache_folder() / source.key
    log = folder / "build.log"
    with step(what, lambda: _last_line(log)):
        upstream = _download(source)
        _keep_manifests(source, upstream)
        workplace, flags = (
            _copied(source, upstream) if source.empty_files or source.symlinks else _own(source, upstream)
        )
        unfinished = folder / "bin" / f".{name}.unfinished"
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        variables = "".join(f" -X {variable}={value}" for variable, value in source.variables.items())
        package = "." if source.main or source.test_files else _package(source, name)
        verb = ["test", "-c", "-vet=off"] if source.test_files else ["build"]
        command = [
            "nice", "-n", "10", "go", *verb, "-v", "-buildvcs=false", *flags,
            "-ldflags", f"-s -w{variables}", "-o", str(unfinished), package,
        ]  # fmt: skip
        with log.open("w") as out:
            status = subprocess.run(
                command, cwd=workplace, env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"},
                stdout=out, stderr=subprocess.STDOUT,
            ).returncode  # fmt: skip
        if status:
            raise BuildError(f"{name} {source.version} could not be built; {log} ends:\n{_tail(log, 15)}")
        unfinished.rename(program(source, name))


def _package(source: Source, name: str) -> str:
    return "/".join(part for part in (source.module, source.programs[name]) if part)


def _own(source: Source, upstream: Path) -> tuple[Path, list[str]]:
    workplace = cache_folder() / source.key / "module"
    workplace.mkdir(parents=True, exist_ok=True)
    told = json.loads(_go("mod", "edit", "-json", str(upstream / "go.mod")))
    text = module_file(source, told)
    stamp = workplace / "wanted.mod"
    # Go adds to go.mod what it finds; keep that while the requirements are the same.
    if not stamp.exists() or stamp.read_text() != text:
        (workplace / "go.sum").unlink(missing_ok=True)
        (workplace / "go.mod").write_text(text)
        stamp.write_text(text)
    if source.main:
        (workplace / "main.go").write_text(source.main)
    for name in source.test_files:
        shutil.copyfile(upstream / name, workplace / Path(name).name)
    return workplace, ["-mod=mod"]


def _copied(source: Source, upstream: Path) -> tuple[Path, list[str]]:
    workplace = cache_folder() / source.key / "module"
    if not (workplace / "go.mod").exists():
        unfinished = workplace.with_name("module.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        subprocess.run(["cp", "-r", "--no-preserve=mode", str(upstream), str(unfinished)], check=True)
        for name in source.empty_files:
            (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
            (unfinished / name).touch()
        for link, target in source.symlinks.items():
            shutil.copy(unfinished / target, unfinished / link)
        unfinished.rename(workplace)
    return workplace, []


def _download(source: Source) -> Path:
    """The module's folder in Go's module cache."""
    told = json.loads(_go("mod", "download", "-json", f"{source.module}@{source.version}"))
    if told.get("Error"):
        raise BuildError(f"{source.module} {source.version} cannot be downloaded: {told['Error']}")
    return Path(told["Dir"])


def _keep_manifests(source: Source, upstream: Path) -> None:
    for name in source.manifests:
        kept = manifest(source, name)
        if kept.exists():
            continue
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_name(f".{kept.name}.unfinished")
        subprocess.run(["rm", "-rf", str(unfinished)], check=True)
        subprocess.run(["cp", "-r", "--no-preserve=mode", str(upstream / name), str(unfinished)], check=True)
        unfinished.rename(kept)


def _check_go() -> None:
    needed = ".".join(map(str, GO_NEEDED))
    if shutil.which("go") is None:
        raise BuildError(
            f"Go {needed} or newer is needed to build the cluster's programs, and there is no `go` in PATH"
        )
    found = _go("env", "GOVERSION").strip().removeprefix("go")
    if tuple(int(part) for part in found.split(".")[:2] if part.isdigit()) < GO_NEEDED:
        raise BuildError(f"Go {needed} or newer is needed to build the cluster's programs; `go` in PATH is {found}")


def _go(*arguments: str) -> str:
    ran = subprocess.run(
        ["go", *arguments], cwd="/", env={**os.environ, "GOFLAGS": ""}, capture_output=True, text=True
    )  # fmt: skip
    if ran.returncode and not ran.stdout:
        raise BuildError(f"go {' '.join(arguments)}: {ran.stderr.strip()}")
    return ran.stdout


@contextmanager
def _alone(source: Source) -> Iterator[None]:
    folder = cache_folder() / source.key
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{source.name} is being built by another process; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _last_line(log: Path) -> str:
    return _tail(log, 1).strip()


def _tail(log: Path, lines: int) -> str:
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
