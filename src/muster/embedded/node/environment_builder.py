"""Builds a Python environment. It runs as the program of a Pod of the namespace that the environment is for.

Packages come from users, and installing one can run its code. So nothing of this runs in the server: the Pod has the
rights of every Pod of its namespace, and a folder of its own, mounted where the environment will be.

The server passes the text of this file to `python3 -c`, so it is alone: standard library only.
"""

from __future__ import annotations

import compileall
import glob
import json
import os
import shutil
import subprocess
import sys
import venv

_SHIM_PACKAGE = '''"""See __main__.py. All other modules are those of the real pip."""
import os, sys
__path__ = [*__path__, os.path.join(sys.prefix, {real!r}, "pip")]
try:
    with open(os.path.join(__path__[-1], "__init__.py"), encoding="utf-8") as _file:
        __version__ = next(line.split('"')[1] for line in _file if line.startswith("__version__"))
except (OSError, StopIteration, IndexError):
    __version__ = ""

def main(args=None):
    from pip._internal.utils.entrypoints import _wrapper
    return _wrapper(args)
'''
_SCRIPT = '#!/bin/sh\nexec "{python}" -m pip "$@"\n'


def build(folder: str, requests: list[list[str]], shim: str, record_name: str, real_name: str) -> int:
    """Builds an environment in `folder`, which exists and is empty, with what `pip install` gets from the requests.
    Returns the exit code of the pip that failed, or 0."""
    venv.EnvBuilder(symlinks=True).create(folder)
    add_pip(folder, shim, real_name)
    for words in requests:
        code = subprocess.run([f"{folder}/bin/python3", "-m", "pip", "install", *words], check=False).returncode
        if code:
            return code
    write_record(folder, requests, shim, record_name)
    return 0


def add_pip(folder: str, shim: str, real_name: str) -> None:
    """Installs the pip and setuptools that come with this Python, as ensurepip does, but without running pip for it;
    that would take three seconds. The shim takes the place of the package `pip`."""
    site = site_packages(folder)
    for wheel in bundled_wheels():
        shutil.unpack_archive(wheel, site, "zip")
    os.makedirs(f"{folder}/{real_name}", exist_ok=True)
    shutil.move(f"{site}/pip", f"{folder}/{real_name}/pip")
    os.mkdir(f"{site}/pip")
    for name, text in (("__init__.py", _SHIM_PACKAGE.format(real=real_name)), ("__main__.py", shim)):
        with open(f"{site}/pip/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    compileall.compile_dir(f"{site}/pip", quiet=2)
    for name in ("pip", "pip3"):
        script = f"{folder}/bin/{name}"
        with open(script, "w", encoding="utf-8") as file:
            file.write(_SCRIPT.format(python=f"{folder}/bin/python3"))
        os.chmod(script, 0o755)


def site_packages(folder: str) -> str:
    return f"{folder}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def bundled_wheels() -> list[str]:
    """Debian keeps them in a folder of its own."""
    import ensurepip  # Debian has a package of its own for it, which a server on a real cluster does not need

    for place in (f"{os.path.dirname(ensurepip.__file__)}/_bundled", "/usr/share/python-wheels"):
        found = [path for name in ("pip", "setuptools") for path in sorted(glob.glob(f"{place}/{name}-*.whl"))[-1:]]
        if found:
            return found
    raise SystemExit("this Python has no pip: install its package python3-venv, or another Python")


def write_record(folder: str, requests: list[list[str]], shim: str, name: str) -> None:
    """Writes what the shim compares with."""
    functions: dict[str, object] = {"__name__": "shim"}
    exec(compile(shim, "pip_shim.py", "exec"), functions)  # noqa: S102 - the server's own file
    parse = functions["parse_install"]
    assert callable(parse)
    with open(f"{site_packages(folder)}/more-packages.pth", "w", encoding="utf-8") as file:
        file.write(f"{functions['MORE_PACKAGES']}\n")
    record: dict[str, bool] = {}
    for words in requests:
        requirements, has_dependencies = parse(words)
        for requirement in requirements:
            record[requirement] = record.get(requirement, False) or has_dependencies
    with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
        json.dump(record, file)


if __name__ == "__main__":
    sys.exit(build(sys.argv[1], json.loads(sys.argv[2]), *sys.argv[3:]))
