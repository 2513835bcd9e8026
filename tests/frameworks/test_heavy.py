"""All large frameworks, as users run them. Run by `make test-frameworks`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import Muster, read_until
from tests.frameworks.conftest import ROOT, Prepare
from tests.frameworks.training import PATIENCE, learned, said, trained

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLES = "examples/training"
QUICK_RESTARTS = "restarts: {backoffSeconds: 1}\n"


@pytest.mark.smoke
def test_pytorch_ddp(prepared: Prepare) -> None:
    out = trained(prepared("pytorch"), f"{EXAMPLES}/pytorch/pytorchjob.yaml")
    assert len(said(out, r"replica [01]: accuracy 0\.\d+, same model everywhere")) == 2


def test_pytorch_with_torchrun(prepared: Prepare) -> None:
    out = trained(prepared("pytorch"), f"{EXAMPLES}/pytorch/torchrun.yaml")
    assert len(said(out, r"replica [0-3]: accuracy 0\.\d+, same model everywhere")) == 4


def test_pytorch_continues_without_a_killed_worker_and_takes_it_back(prepared: Prepare) -> None:
    # The first restart of a container is immediate. After the second kill, it is away for long enough to be noticed.
    muster = prepared("pytorch", more="restarts: {backoffSeconds: 20}\n")
    run = muster.start("run", f"{EXAMPLES}/pytorch/elastic.yaml")
    out = read_until(run, "world 2")
    for restarts in ("restarted 1x", "CrashLoopBackOff"):
        muster("exec", "elastic-worker-1", "--", "sh", "-c", "kill -9 $(pgrep -f [t]orch.distributed.run)")
        out += read_until(run, restarts)
    out += read_until(run, "world 1") + read_until(run, "world 2")
    _finish(muster, run, out)


def test_pytorch_grows_and_shrinks(prepared: Prepare, tmp_path: Path) -> None:
    muster = prepared("pytorch", more=QUICK_RESTARTS)
    manifest = (ROOT / EXAMPLES / "pytorch" / "elastic.yaml").read_text()
    sizes = {}
    for size in (1, 3):
        sizes[size] = tmp_path / f"{size}.yaml"
        sizes[size].write_text(manifest.replace("replicas: 2", f"replicas: {size}"))
    run = muster.start("run", f"{EXAMPLES}/pytorch/elastic.yaml")
    out = read_until(run, "world 2")
    muster("apply", "-f", str(sizes[3])).ok()
    out += read_until(run, "world 3")
    muster("apply", "-f", str(sizes[1])).ok()
    out += read_until(run, "world 1")
    too_many = tmp_path / "many.yaml"
    too_many.write_text(manifest.replace("replicas: 2", "replicas: 4"))
    assert "4 is more than elasticPolicy.maxReplicas, 3" in muster("apply", "-f", str(too_many)).err
    _finish(muster, run, out)


@pytest.mark.parametrize(("manifest", "role"), [("tfjob", "worker"), ("parameter-server", "chief")])
def test_tensorflow(prepared: Prepare, manifest: str, role: str) -> None:
    out = trained(prepared("tensorflow"), f"{EXAMPLES}/tensorflow/{manifest}.yaml")
    weights = said(out, rf"{role}.*weights (\[.*\])")
    assert len(weights) == (2 if role == "worker" else 1)
    assert len(set(weights)) == 1


def test_paddle_collective(prepared: Prepare) -> None:
    out = trained(prepared("paddle"), f"{EXAMPLES}/paddle/paddlejob.yaml")
    assert len(said(out, r"trainer [01]: loss \S+, same weights everywhere")) == 2


@pytest.mark.parametrize(
    "launcher", ["paddle.distributed.launch", "paddle.distributed.fleet.launch"], ids=["today's", "PaddleCloud mode"]
)
def test_paddlecloud_collective_as_in_its_guide(prepared: Prepare, tmp_path: Path, launcher: str) -> None:
    """Example 2, with its command as printed; and with the launcher that Paddle had when the guide was written."""
    muster = prepared("paddle", more="node: {capacity: {nvidia.com/gpu: 2}}\n")
    settings = muster.home / "config.yaml"
    settings.write_text(
        settings.read_text()
        .replace("muster-examples/paddle*", "paddle-operator/demo-resnet*")
        .replace(f"{EXAMPLES}/paddle\n", "examples/paddlecloud\n")
    )
    manifest = tmp_path / "resnet.yaml"
    example = (ROOT / "examples/paddlecloud/2-resnet.yaml").read_text()
    manifest.write_text(example.replace("paddle.distributed.launch", launcher))
    out = trained(muster, str(manifest))
    assert len(said(out, r"worker [01]: accuracy \S+ on pictures it has never seen, same weights everywhere")) == 2


def test_jax(prepared: Prepare) -> None:
    out = trained(prepared("jax"), f"{EXAMPLES}/jax/jaxjob.yaml")
    assert len(said(out, r"process [01]: loss \S+, same weights everywhere")) == 2


def test_lightgbm(prepared: Prepare) -> None:
    out = trained(prepared("lightgbm"), f"{EXAMPLES}/lightgbm/lightgbmjob.yaml")
    models = said(out, r"replica \d: accuracy 0\.\d+, model (\w+)")
    assert len(models) == 2
    assert len(set(models)) == 1


@pytest.mark.smoke
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_mpi_with_open_mpi(prepared: Prepare, tmp_path: Path, version: str) -> None:
    manifest = (ROOT / EXAMPLES / "mpi" / "mpijob.yaml").read_text()
    file = tmp_path / "openmpi.yaml"
    file.write_text(
        manifest.replace("mpirun,", "mpirun.openmpi,").replace("kubeflow.org/v1", f"kubeflow.org/{version}")
    )
    out = trained(prepared("mpi", environment="tests/frameworks/openmpi"), str(file))
    assert said(out, r"; (all 2 ranks agree)") == ["all 2 ranks agree"]
    assert len(set(said(out, r"rank \d of 2 on (\S+)"))) == 2


def _finish(muster: Muster, run: subprocess.Popen[str], out: str) -> None:
    """Stops the training without waiting for the rest of it."""
    muster("exec", "elastic-worker-0", "--", "touch", "/checkpoints/STOP").ok()
    rest, errors = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, out + rest + errors
    learned(out + rest)
    assert "same model everywhere" in rest
