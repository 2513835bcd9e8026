"""Kubeflow's own end-to-end tests, run unchanged from Go's module cache."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.peers import python_of

from tools.cluster import network
from tools.cluster.sources import TRAINING_OPERATOR

KINDS = ("pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob")
VERSION = TRAINING_OPERATOR.version.removeprefix("v")
_SCRIPT = re.compile(r'"(/[^"]+\.py)"')
_IMAGE = re.compile(r"""\b(?:base_)?image=(?:os\.getenv\("\w+",\s*)?"([^"]+)\"""")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The names of the tests of one of their files, by result."""

    passed: frozenset[str]
    skipped: frozenset[str]
    failed: frozenset[str]
    said: str


@cache
def folder() -> Path:
    """The folder of their Python package and its tests. It is read-only, as Go leaves it."""
    wanted = f"{TRAINING_OPERATOR.module}@{TRAINING_OPERATOR.version}"
    with network.left():
        told = subprocess.run(
            ["go", "mod", "download", "-json", wanted], cwd="/", capture_output=True, text=True, check=False
        )  # fmt: skip
    assert told.returncode == 0, f"{wanted} is not available: {told.stdout}{told.stderr}"
    return Path(json.loads(told.stdout)["Dir"], "sdk", "python")


@cache
def interpreter() -> str:
    """A Python with the client of their operator's version and without our packages."""
    # Later Kubernetes clients no longer accept their jobs, which are not plain dictionaries.
    packages = (f"kubeflow-training=={VERSION}", "kubernetes>=31,<32", "pytest>=8,<9")
    with network.left():
        return python_of("kubeflow-e2e", packages)


def images_of(kind: str) -> list[str]:
    """The images of their tests: those they name, and the default of their client for functions."""
    named = _IMAGE.findall(_file(kind).read_text())
    if kind == "pytorchjob":
        asked = "from kubeflow.training.constants import constants; print(constants.PYTORCHJOB_BASE_IMAGE)"
        named.append(subprocess.check_output([interpreter(), "-c", asked], text=True).strip())
    return list(dict.fromkeys(named))


def expected(kind: str, gang: str) -> tuple[frozenset[str], frozenset[str]]:
    """Returns which of their tests of a kind pass and which are skipped with a gang scheduler, or with `none`."""
    more = ("_managed_by", "_create_from_func", "_create_from_image") if kind == "pytorchjob" else ()
    plain = frozenset(f"test_sdk_e2e{name}" for name in ("", *more))
    with_gang = frozenset({"test_sdk_e2e_with_gang_scheduling"})
    return (plain, with_gang) if gang == "none" else (with_gang, plain)


def scripts_of(kind: str) -> list[str]:
    """The programs in those images that they call by path."""
    return _SCRIPT.findall(_file(kind).read_text())


class Run:
    """Their tests of one kind, as a process. `within` are the first words of the command, which enter a cluster's
    network."""

    def __init__(
        self, kubeconfig: Path, kind: str, namespace: str, gang: str, notes: Path, within: Sequence[str] = ()
    ) -> None:
        self._report, self._log = notes / f"{kind}.xml", notes / f"{kind}.log"
        command = [
            interpreter(), "-m", "pytest", str(_file(kind)), f"--rootdir={folder()}", f"--namespace={namespace}",
            "-p", "no:cacheprovider", f"--junitxml={self._report}", "--color=no",
        ]  # fmt: skip
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
        environment = {
            **inherited,
            "KUBECONFIG": str(kubeconfig),
            "GANG_SCHEDULER_NAME": gang,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with self._log.open("w") as log:
            self._process = subprocess.Popen([*within, *command], cwd=folder(), env=environment, stdout=log, stderr=log)

    def outcome(self, seconds: float) -> Outcome:
        """Waits until it has ended, for at most this long."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still not over after {seconds:.0f} s: {self._log.read_text()}") from None
        assert self._report.exists(), self._log.read_text()
        return _outcome(self._report, self._log.read_text())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def _outcome(report: Path, said: str) -> Outcome:
    cases = ElementTree.parse(report).iter("testcase")
    by_name = {case.get("name", ""): {child.tag for child in case} for case in cases}
    skipped = frozenset(name for name, tags in by_name.items() if "skipped" in tags)
    failed = frozenset(name for name, tags in by_name.items() if tags & {"failure", "error"})
    return Outcome(frozenset(by_name) - skipped - failed, skipped, failed, said)


def _file(kind: str) -> Path:
    return folder() / "test" / "e2e" / f"test_e2e_{kind}.py"
