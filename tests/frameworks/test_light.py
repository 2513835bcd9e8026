"""The frameworks that are small enough for every test run."""

from __future__ import annotations

import pytest

from tests.frameworks.conftest import Prepare
from tests.frameworks.training import said, trained

pytestmark = pytest.mark.timeout(400)


def test_xgboost_with_a_real_tracker(prepared: Prepare) -> None:
    out = trained(prepared("xgboost"), "examples/training/xgboost/xgboostjob.yaml")
    models = said(out, r"replica \d: accuracy 0\.\d+, model (\w+)")
    assert len(models) == 2
    assert len(set(models)) == 1, "all replicas have the same model"


def test_mpi_with_mpich(prepared: Prepare) -> None:
    out = trained(prepared("mpi"), "examples/training/mpi/mpijob.yaml")
    assert said(out, r"offset -?\d\.\d+; (all 2 ranks agree)") == ["all 2 ranks agree"]
    hosts = said(out, r"rank \d of 2 on (\S+)")
    assert sorted(hosts) == ["least-squares-worker-0", "least-squares-worker-1"], "one rank in each worker's Pod"
