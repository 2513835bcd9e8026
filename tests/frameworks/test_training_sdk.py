"""The end-to-end tests of Kubeflow's training-operator, with its TrainingClient, run unchanged against the embedded
cluster.

They test the client, the API and the life of a job. Their images cannot be pulled here, so small programs stand for
them; `test_heavy.py` trains with the real frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import Muster
from tests.cluster import kubeflow
from tests.cluster.kubeflow import KINDS, Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE = 600.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    folder = tmp_path_factory.mktemp("training-sdk")
    muster = Muster(folder / "home", folder)
    muster.home.mkdir()
    settings = {
        "images": {image: {"path": [str(programs(folder))], "command": ["echo", "trained"]} for image in images()},
        "node": {"capacity": {"cpu": "64", "memory": "256Gi"}},
    }
    (muster.home / "config.yaml").write_text(yaml.safe_dump(settings))
    muster("up", "-d").ok()
    yield muster
    muster("down").ok()


def images() -> list[str]:
    return [image for kind in KINDS for image in kubeflow.images_of(kind)]


def programs(folder: Path) -> Path:
    """The programs that their jobs call. A script that only the image has, such as /var/tf_mnist/..., is printed."""
    made = folder / "programs"
    made.mkdir(exist_ok=True)
    for name, text in {
        "mpirun": 'echo mpirun "$@"',
        "python": 'case "$1" in /*|-m) echo python "$@";; *) exec python3 "$@";; esac',
        "torchrun": 'exec python3 "$@"',
    }.items():
        (made / name).write_text(f"#!/bin/sh\n{text}\n")
        (made / name).chmod(0o755)
    return made


@pytest.mark.parametrize("gang", ["none", "volcano", "scheduler-plugins"])
def test_their_tests_pass(server: Muster, gang: str, tmp_path: Path) -> None:
    """All kinds at once: they mostly wait, as they look at a job every fifteen seconds."""
    for kind in KINDS:
        manifest = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {kind}-{gang}}}\n"
        server("create", "-f", server.file("namespace.yaml", manifest)).ok()
    runs = {kind: Run(server.home / "kubeconfig", kind, f"{kind}-{gang}", gang, tmp_path) for kind in KINDS}
    try:
        for kind, run in runs.items():
            outcome = run.outcome(PATIENCE)
            wanted = (*kubeflow.expected(kind, gang), frozenset[str]())
            assert (outcome.passed, outcome.skipped, outcome.failed) == wanted, outcome.said
    finally:
        for run in runs.values():
            run.end()
