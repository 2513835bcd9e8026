from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.platform.settings import OidcSettings, WebSettings, read_web_settings
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
