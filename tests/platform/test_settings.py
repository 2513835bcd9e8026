from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.platform.settings import (
    KubernetesSettings,
    OidcSettings,
    S3Settings,
    WebSettings,
    read_kubernetes_settings,
    read_s3_settings,
    read_web_settings,
)
from muster.server.settings import Settings, SettingsError, load_file

OIDC = {"issuer": "https://id.example/", "clientId": "muster"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, WebSettings()),
        ({"web": {"host": "0.0.0.0", "port": 80}}, WebSettings("0.0.0.0", 80)),
        ({"web": {"url": "https://m.example/"}}, WebSettings(url="https://m.example")),
        ({"database": "postgresql://x/y"}, WebSettings(database="postgresql://x/y")),
        ({"oidc": OIDC}, WebSettings(oidc=OidcSettings("https://id.example", "muster"))),
        (
            {"oidc": {**OIDC, "clientSecret": "s", "scopes": ["openid"], "adminGroups": ["ops"], "title": "X"}},
            WebSettings(
                oidc=OidcSettings(
                    "https://id.example", "muster", "s", title="X", scopes=("openid",), admin_groups=("ops",)
                )
            ),
        ),
    ],
)
def test_reads_settings(said: dict[str, Any], expected: WebSettings) -> None:
    assert read_web_settings(said) == expected


def test_the_environment_overrides_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE", "postgresql://elsewhere/z")
    assert read_web_settings({"database": "postgresql://x/y"}).database == "postgresql://elsewhere/z"


def test_a_secret_may_be_in_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret\n")
    assert OidcSettings("i", "c", client_secret_file=str(file)).secret() == "s3cret"
    assert OidcSettings("i", "c", "plain").secret() == "plain"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("web: {prot: 80}", r"config\.yaml:1 web\.prot: .*port"),
        ("web: {port: 99999}", r"config\.yaml:1 web\.port: "),
        ("oidc: {issuer: x}", r"config\.yaml:1 oidc\.clientId: "),
        ("database: 5", r"config\.yaml:1 database: "),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_file(tmp_path / "config.yaml")


def test_platform_settings_are_part_of_the_cluster_settings(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("web: {port: 8080}\n")
    assert Settings.load(tmp_path).web.port == 8080


S3 = {"endpoint": "http://minio.storage:9000", "bucket": "muster"}
KEYS = {"accessKey": "a", "secretKey": "s"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({**S3, **KEYS}, S3Settings("minio.storage:9000", "muster", True, "", "a", "s")),
        (
            {"endpoint": "https://s3.example/", "bucket": "m-{namespace}", "region": "eu", **KEYS},
            S3Settings("s3.example", "m-{namespace}", False, "eu", "a", "s"),
        ),
        ({**S3, **KEYS, "secretName": "own"}, S3Settings("minio.storage:9000", "muster", True, secret_name="own")),
        (S3, "artifacts.s3: set accessKey and secretKey"),
        ({**S3, **KEYS, "endpoint": "minio:9000"}, 'artifacts.s3.endpoint: "minio:9000" is not the URL of a server'),
        ({**S3, **KEYS, "endpoint": "http://minio/x"}, "artifacts.s3.endpoint"),
    ],
)
def test_reads_where_artifacts_are_stored(said: dict[str, Any], expected: S3Settings | str) -> None:
    config = {"artifacts": {"s3": said}}
    if isinstance(expected, S3Settings):
        assert read_s3_settings(config) == expected
        return
    with pytest.raises(ValueError, match=expected):
        read_s3_settings(config)


def test_keys_may_come_from_the_environment_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_S3_ACCESS_KEY", "from-the-environment")
    monkeypatch.setenv("MUSTER_S3_SECRET_KEY", "very-secret")
    found = read_s3_settings({"artifacts": {"s3": S3}})
    assert found is not None
    assert (found.access_key, found.secret_key) == ("from-the-environment", "very-secret")
    assert "very-secret" not in repr(found)
    assert read_s3_settings({}) is None


def test_reads_what_is_used_of_a_real_cluster() -> None:
    said = {"argoServer": "https://argo-server.argo:2746/", "argoInstanceId": "mine"}
    assert read_kubernetes_settings({"kubernetes": said}) == KubernetesSettings(
        "https://argo-server.argo:2746", argo_instance_id="mine"
    )
    with pytest.raises(ValueError, match=r"kubernetes\.argoServer"):
        read_kubernetes_settings({"kubernetes": {"argoServer": "argo-server:2746"}})
