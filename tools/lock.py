"""Writes the lock files of the Python dependencies: requirements/run.txt, dev.txt and fuzz.txt.

    python -m tools.lock        # `make lock`

The files pin every package, with the hashes of all its files, for Python 3.11 to 3.13 on Linux: `pip install
--require-hashes -r requirements/dev.txt` installs nothing else. They name no index: pip asks the one that it is
configured for. Needs python3.11, python3.12 and python3.13 on the PATH or from pyenv. Versions are as new as
pyproject.toml allows; commit the result after the tests have passed with it.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pip._internal.models.index import PyPI

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "requirements"
PYTHONS = ("3.11", "3.12", "3.13")
FILES = {"dev": ("dev",), "run": (), "fuzz": ("dev", "fuzz")}
"""Each file, with its dependency groups."""
_HEAD = "# Made by `make lock` from pyproject.toml. Do not edit.\n"
_LINK = re.compile(r"<a\s[^>]*?href=\"([^\"]+)\"[^>]*>([^<]+)</a>", re.IGNORECASE)


def requirements(pyproject: Mapping[str, object], groups: Iterable[str] = ()) -> list[str]:
    """What pyproject.toml asks for with these dependency groups, and what is needed to install the project itself."""
    project, known, build = (pyproject[name] for name in ("project", "dependency-groups", "build-system"))
    assert isinstance(project, dict) and isinstance(known, dict) and isinstance(build, dict)
    found = [*project["dependencies"], *build["requires"], "editables"]
    return found + [each for group in groups for each in known[group]]


def main() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    FOLDER.mkdir(exist_ok=True)
    pinned: dict[str, str] = {}
    parts = {}
    for name, groups in FILES.items():
        parts[name] = {python: resolve(python, requirements(pyproject, groups), pinned) for python in PYTHONS}
    with ThreadPoolExecutor(8) as pool:
        hashes = dict(zip(pinned, pool.map(lambda item: hashes_of(*item), pinned.items()), strict=True))
    for name, found in parts.items():
        (FOLDER / f"{name}.txt").write_text(_HEAD + "".join(lines(found, pinned, hashes)))
        print(f"requirements/{name}.txt: {len(set().union(*found.values()))} packages")


def resolve(python: str, wanted: Iterable[str], pinned: dict[str, str]) -> set[str]:
    """The names of all packages for one Python. Versions in `pinned` are kept, and new ones are added."""
    with tempfile.TemporaryDirectory() as folder:
        report, constraints = Path(folder) / "report.json", Path(folder) / "constraints.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in pinned.items()))
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", interpreter(python), "install", "--dry-run", "--quiet",
             "--ignore-installed", "--only-binary", ":all:", "--report", str(report), "-c", str(constraints), *wanted],
            check=True,
            env={name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"},
        )  # fmt: skip
        found = json.loads(report.read_text())["install"]
    versions = {canonical(each["metadata"]["name"]): each["metadata"]["version"] for each in found}
    pinned |= versions
    return set(versions)


def interpreter(python: str) -> str:
    found = shutil.which(f"python{python}")
    known = sorted(Path.home().glob(f".pyenv/versions/{python}.*/bin/python"))
    if known:
        return str(known[-1])
    if found is None:
        raise SystemExit(f"python{python} is needed: install it, or use pyenv")
    return found


def hashes_of(name: str, version: str) -> list[str]:
    """The SHA-256 of every file of a release that pip may choose."""
    index = os.environ.get("PIP_INDEX_URL") or PyPI.simple_url
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    request = urllib.request.Request(f"{index.rstrip('/')}/{name}/")  # noqa: S310 (the index of pip)
    with urllib.request.urlopen(request, context=context, timeout=60) as response:  # noqa: S310
        page = response.read().decode()
    found = set()
    for link, file in _LINK.findall(page):
        digest = re.search(r"#sha256=([0-9a-f]{64})", html.unescape(link))
        if digest and version_of(file.strip()) == version and is_usable(file.strip()):
            found.add(digest[1])
    if not found:
        raise SystemExit(f"the index has no hashes for {name} {version}")
    return sorted(found)


def is_usable(file: str) -> bool:
    """Whether pip may choose a file with one of our Pythons on Linux."""
    if not file.endswith(".whl"):
        return file.endswith((".tar.gz", ".zip"))
    python, abi, platform = file.removesuffix(".whl").split("-")[-3:]
    ours = any(f"cp{version.replace('.', '')}" in abi.split(".") for version in PYTHONS)
    return (ours or abi in ("abi3", "none")) and ("linux" in platform or platform == "any") and python != "py2"


def version_of(file: str) -> str:
    """orjson-3.11.4-cp311-cp311-manylinux_2_17_x86_64.whl is 3.11.4."""
    if file.endswith(".whl"):
        return file.split("-")[1]
    return file.removesuffix(".tar.gz").removesuffix(".zip").rpartition("-")[2]


def lines(found: Mapping[str, set[str]], pinned: Mapping[str, str], hashes: Mapping[str, list[str]]) -> Iterable[str]:
    for name in sorted(set().union(*found.values())):
        used = [python for python in PYTHONS if name in found[python]]
        only = "" if len(used) == len(PYTHONS) else " ; " + " or ".join(f'python_version == "{p}"' for p in used)
        options = "".join(f" \\\n    --hash=sha256:{digest}" for digest in hashes[name])
        yield f"{name}=={pinned[name]}{only}{options}\n"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
