"""The lock files fit pyproject.toml, and pin everything by hash."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tools.lock import FILES, FOLDER, ROOT, canonical, is_usable, requirements, version_of

_PIN = re.compile(r"([a-z0-9-]+)==(\S+)(?: ; .*?)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


def pins(name: str) -> dict[str, str]:
    head, _, text = (FOLDER / f"{name}.txt").read_text().partition("\n")
    assert head.startswith("#")
    assert _PIN.sub("", text) == "", "every line pins a version with hashes; there is no address in it"
    return {found[1]: found[2] for found in _PIN.finditer(text)}


@pytest.mark.parametrize("name", FILES)
def test_the_lock_has_what_pyproject_asks_for(name: str) -> None:
    """A dependency is added or changed without renewing the lock: run `make lock`."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    locked = pins(name)
    for text in requirements(pyproject, FILES[name]):
        wanted = Requirement(text)
        version = locked.get(canonical(wanted.name))
        assert version is not None, text
        assert wanted.specifier.contains(Version(version)), text


@pytest.mark.parametrize(("part", "whole"), [("run", "dev"), ("dev", "fuzz")])
def test_locks_agree(part: str, whole: str) -> None:
    """If one adds a dependency to another, it changes no version."""
    fewer, more = pins(part), pins(whole)
    assert {name: more.get(name) for name in fewer} == fewer


@pytest.mark.parametrize(
    ("file", "version", "usable"),
    [
        ("orjson-3.11.4-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "3.11.4", True),
        ("orjson-3.11.4-cp314-cp314-manylinux_2_17_x86_64.whl", "3.11.4", False),
        ("orjson-3.11.4-cp313-cp313t-manylinux_2_17_x86_64.whl", "3.11.4", False),
        ("orjson-3.11.4-cp312-cp312-win_amd64.whl", "3.11.4", False),
        ("cryptography-46.0.1-cp311-abi3-musllinux_1_2_aarch64.whl", "46.0.1", True),
        ("rich-14.1.0-py3-none-any.whl", "14.1.0", True),
        ("typing_extensions-4.15.0.tar.gz", "4.15.0", True),
        ("x-1.0.exe", "1.0.exe", False),
    ],
)
def test_files_of_a_release(file: str, version: str, usable: bool) -> None:
    assert (version_of(file), is_usable(file)) == (version, usable)
