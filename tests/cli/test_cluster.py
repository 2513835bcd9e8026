"""The settings with which other clients find the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.cluster import client_variables
from muster.cli.session import load_settings
from tests.cli.commands import Muster


def test_settings_for_argo_and_kubectl() -> None:
    assert client_variables("https://127.0.0.1:7777", "/k", "secret", "team") == {
        "KUBECONFIG": "/k",
        "ARGO_SERVER": "127.0.0.1:7777",
        "ARGO_HTTP1": "true",
        "ARGO_SECURE": "true",
        "ARGO_INSECURE_SKIP_VERIFY": "true",
        "ARGO_NAMESPACE": "team",
        "ARGO_TOKEN": "Bearer secret",
    }


def test_settings_can_be_removed_again(muster: Muster) -> None:
    assert "unset ARGO_TOKEN\n" in muster("env", "--unset").ok().out
    assert "muster up" in muster("env").err


def test_the_port_of_the_web_ui_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    (tmp_path / "config.yaml").write_text("web: {port: 8000, host: 0.0.0.0}\n")
    assert load_settings().web.port == 8000
    assert (load_settings(web_port=9000).web.port, load_settings(web_port=9000).web.host) == (9000, "0.0.0.0")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cluster", "laptop"], 'error: --cluster: "laptop" is not a kind of cluster; use embedded or kubernetes'),
        (["--context", "production"], "error: --kubeconfig and --context need --cluster kubernetes"),
        (["--cluster", "kubernetes", "--kubeconfig", "/none"], "error: there is no kubeconfig at /none"),
    ],
)
def test_a_server_says_which_cluster_it_can_use(muster: Muster, options: list[str], said: str) -> None:
    result = muster("server", *options)
    assert said in result.err
