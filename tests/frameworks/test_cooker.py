"""Real trainings through MLP Cooker's API, as steps of workflows. Run by `make test-frameworks`."""

from __future__ import annotations

import pytest

from tests.frameworks.conftest import Prepare
from tests.frameworks.training import PATIENCE, learned, said

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SECRET = """
    apiVersion: v1
    kind: Secret
    metadata: {{name: mlp-cooker-credentials}}
    stringData: {{token: {token}}}
"""


@pytest.mark.parametrize(
    ("example", "folder", "end"),
    [
        ("pytorch", "examples/training", r"replica ([01]): accuracy 0\.\d+, same model everywhere"),
        ("tensorflow", "examples/training", r"worker ([01]): loss \S+, weights \["),
        ("deepspeed", "examples/cooker", r"rank ([01]): accuracy 0\.\d+, same model everywhere"),
    ],
)
def test_an_example(prepared: Prepare, example: str, folder: str, end: str) -> None:
    muster = prepared(example, folder=folder)
    muster("up", "-d").ok()
    muster("templates", "install", "mlp-cooker").ok()
    token = muster("tokens", "create", "cooker").ok().out.split()[-1]
    (muster.home / "secret.yaml").write_text(SECRET.format(token=token))
    muster("apply", "-f", str(muster.home / "secret.yaml")).ok()
    muster("submit", f"examples/cooker/{example}.yaml", "--wait", timeout=PATIENCE).ok()
    out = muster("logs", "@latest").ok().out
    learned(out)
    # A TFJob has succeeded when worker 0 has. Worker 1 may be stopped before it prints the end.
    assert set(said(out, end)) >= ({"0"} if example == "tensorflow" else {"0", "1"}), out
