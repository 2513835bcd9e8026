"""The settings with which other clients find the cluster."""

from __future__ import annotations

from muster.cli.cluster import client_variables
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
