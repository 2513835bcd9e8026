"""The frameworks that are small enough for every CI run; the workflow of `make demo` is part of `make test`, too."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.frameworks.conftest import Prepare
from tests.frameworks.training import said, trained

pytestmark = pytest.mark.timeout(400)


@pytest.mark.slow
@pytest.mark.smoke
def test_xgboost_with_a_real_tracker(prepared: Prepare) -> None:
    out = trained(prepared("xgboost"), "examples/training/xgboost/xgboostjob.yaml")
    models = said(out, r"replica \d: accuracy 0\.\d+, model (\w+)")
    assert len(models) == 2
    assert len(set(models)) == 1, "all replicas have the same model"


@pytest.mark.slow
@pytest.mark.smoke
def test_mpi_with_mpich(prepared: Prepare) -> None:
    out = trained(prepared("mpi"), "examples/training/mpi/mpijob.yaml")
    assert said(out, r"offset -?\d\.\d+; (all 2 ranks agree)") == ["all 2 ranks agree"]
    hosts = said(out, r"rank \d of 2 on (\S+)")
    assert sorted(hosts) == ["least-squares-worker-0", "least-squares-worker-1"], "one rank in each worker's Pod"


@pytest.mark.slow
@pytest.mark.smoke
def test_mpi_workers_that_ask_for_an_ssh_daemon_as_those_of_mpi_operator(prepared: Prepare, tmp_path: Path) -> None:
    job = yaml.safe_load(Path("examples/training/mpi/mpijob.yaml").read_text())
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker |= {"command": ["/usr/sbin/sshd"], "args": ["-De", "-f", "/home/mpiuser/.sshd_config"]}
    manifest = tmp_path / "sshd.yaml"
    manifest.write_text(yaml.safe_dump({**job, "apiVersion": "kubeflow.org/v2beta1"}))
    out = trained(prepared("mpi"), str(manifest))
    assert said(out, r"offset -?\d\.\d+; (all 2 ranks agree)") == ["all 2 ranks agree"]
    assert len(set(said(out, r"rank \d of 2 on (\S+)"))) == 2, "one rank in each worker's Pod"


def test_a_workflow_that_prepares_trains_evaluates_and_passes_on_the_model(prepared: Prepare) -> None:
    muster = prepared("pipeline", folder="examples/workflows")
    out = muster("run", "examples/workflows/pipeline/workflow.yaml", timeout=300).ok().out
    losses = [float(loss) for loss in said(out, r"loss (\d\.\d+)")]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 6
    (accuracy,) = said(out, r"accuracy (0\.\d+) on 2000 rows")
    assert float(accuracy) > 0.97
    assert said(out, r"30 trees, accuracy (0\.\d+);") == [accuracy], "the model and its accuracy arrive"
    assert len(said(out, r"✔ (prepare|train|evaluate|use) ")) == 4
