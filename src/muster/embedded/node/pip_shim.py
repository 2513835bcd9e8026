"""`python3 -m pip` of a prepared Python environment: returns at once if everything that is asked for is there.

A Kubeflow component installs its packages each time it starts. In an environment that was built from the same `pip
install` commands (see python_environments.py) there is nothing to do, but pip takes half a second of CPU to find out.
This module replaces the package `pip` there: it compares the command with the record of the build, and hands everything
else on to the real pip, which it keeps beside.

`environment_builder.py` copies this file into environments, so it is alone: standard library only, and few imports,
because the time to import them is what it saves.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

RECORD = "installed.json"
"""In the folder of the environment: requirement -> whether its dependencies were installed, too."""
REAL_PIP = "pip-package"
"""The folder of the environment with the real package `pip`."""
MORE_PACKAGES = "/tmp/.pip-packages"  # a container's own
"""Where pip installs what an environment lacks if it is read-only, because the data directory is not on the root file
system or the kernel allows no layer over it. The environment names this folder in a .pth file."""

_NEUTRAL = frozenset((
    "-q", "--quiet", "--no-warn-script-location", "--no-cache-dir", "--disable-pip-version-check", "--no-input",
    "--prefer-binary", "--user", "--no-warn-conflicts", "--root-user-action=ignore",
))  # fmt: skip
"""Options that do not change whether a requirement is satisfied."""
_NEUTRAL_WITH_VALUE = ("-i", "--index-url", "--extra-index-url", "--trusted-host", "--timeout", "--retries", "--cert")
"""Where pip would look for packages. It does not look for one that is there."""


def parse_install(words: Sequence[str]) -> tuple[list[str], bool] | None:
    """Returns the requirements of `pip install WORDS`, and whether dependencies are wanted. Returns None if there is
    anything that is not understood here: an upgrade, a file of requirements, a folder, an address."""
    requirements, has_dependencies = list[str](), True
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if word == "--no-deps":
            has_dependencies = False
        elif word in _NEUTRAL:
            continue
        elif word in _NEUTRAL_WITH_VALUE:
            if next(rest, None) is None:
                return None
        elif word.startswith("-"):
            if name not in _NEUTRAL_WITH_VALUE or not value:
                return None
        elif not is_requirement(word):
            return None
        else:
            requirements.append(word.strip())
    return requirements, has_dependencies


def is_requirement(word: str) -> bool:
    """Whether the word names a package of an index: `kfp==2.17.0`, `pandas[all]>=2; python_version<"3.9"`."""
    text, _, _ = word.partition(";")
    name = text.strip()
    return bool(name) and (name[0].isascii() and name[0].isalnum()) and not any(c in name for c in "/\\@:")


def is_satisfied(words: Sequence[str], record: Mapping[str, bool]) -> bool:
    """Whether an environment with this record has all that `pip WORDS` would install."""
    if not words or words[0] != "install":
        return False
    parsed = parse_install(words[1:])
    if parsed is None or not parsed[0]:
        return False
    requirements, has_dependencies = parsed
    return all(word in record and (record[word] or not has_dependencies) for word in requirements)


def main() -> int:
    words = sys.argv[1:]
    record = os.path.join(sys.prefix, RECORD)
    if words[:1] == ["install"]:
        with suppress(OSError, ValueError), open(record, encoding="utf-8") as file:
            if is_satisfied(words, json.load(file)):
                return 0
    if words[:1] in (["install"], ["uninstall"]):
        with suppress(OSError):
            os.unlink(record)  # it will not be true any more
        if not os.access(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.W_OK):
            os.environ.setdefault("PIP_TARGET", MORE_PACKAGES)
    from pip._internal.cli.main import main as pip_main

    return int(pip_main(words) or 0)


if __name__ == "__main__":
    sys.exit(main())
