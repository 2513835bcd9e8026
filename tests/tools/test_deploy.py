from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster import __version__
from muster.kube.manifests import load_mapping
from muster.kube.schema_validation import validate
from muster.operator.install_manifests import InstallOptions, build_manifests
from muster.operator.platform_manifests import PlatformOptions, build_platform, server_config
from muster.server.settings import SCHEMA, read_settings
from tools.deploy import (
    BASE,
    CHART,
    DEFINITIONS,
    DEPLOY,
    FOLDERS,
    PLATFORM,
    PLATFORM_CHART,
    WORKSPACE_DEFINITIONS,
    files,
)

WRITTEN = files()


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_files_are_what_the_code_says(name: str) -> None:
    assert (DEPLOY / name).read_text() == WRITTEN[name], "run `python -m tools.deploy`"


def test_nothing_is_left_from_before() -> None:
    there = {str(path.relative_to(DEPLOY)) for folder in FOLDERS for path in (DEPLOY / folder).glob("*.yaml")}
    assert there == WRITTEN.keys()


def test_the_base_has_all_that_is_applied() -> None:
    """By kind and name; that the real kustomize gives the very objects is tested where there is one."""
    folders = (BASE, DEFINITIONS, WORKSPACE_DEFINITIONS)
    written = "\n".join(text for name, text in WRITTEN.items() if name.rpartition("/")[0] in folders)
    kinds = [kind for kind in re.findall(r"(?m)^kind: (\w+)$", written) if kind != "Kustomization"]
    assert sorted(kinds) == sorted(obj["kind"] for obj in build_manifests(InstallOptions(workspaces=True)))


def test_the_platform_has_all_that_is_applied() -> None:
    written = "\n".join(text for name, text in WRITTEN.items() if name.startswith(f"{PLATFORM}/"))
    kinds = [kind for kind in re.findall(r"(?m)^kind: (\w+)$", written) if kind != "Kustomization"]
    assert sorted(kinds) == sorted(obj["kind"] for obj in build_platform(PlatformOptions()))


def test_the_settings_of_the_installation_are_valid_and_come_last(tmp_path: Path) -> None:
    given = {"web": {"url": "https://muster.example", "port": 1}, "oidc": {"issuer": "https://id", "clientId": "m"}}
    config = server_config(given)
    assert validate(config, SCHEMA) == []
    settings = read_settings(tmp_path, config)
    assert (settings.web.host, settings.web.port, settings.web.url) == ("0.0.0.0", 8265, "https://muster.example")
    assert (settings.web.monitoring_host, settings.web.monitoring_port) == ("0.0.0.0", 8080)
    assert settings.web.oidc is not None
    assert settings.web.oidc.client_secret_file == "/etc/muster/secrets/oidc-client-secret"


@pytest.mark.parametrize("folder", [CHART, PLATFORM_CHART])
def test_the_chart_is_as_old_as_the_code(folder: str) -> None:
    chart = load_mapping(DEPLOY / folder / "Chart.yaml")
    assert chart is not None
    assert {each["version"] for each in chart.object.get("dependencies", ())} <= {__version__}
    assert (chart.object["version"], chart.object["appVersion"]) == (__version__, __version__)


@pytest.mark.parametrize("folder", [CHART, PLATFORM_CHART])
def test_every_value_is_used_and_described(folder: str) -> None:
    values = load_mapping(DEPLOY / folder / "values.yaml")
    assert values is not None
    templates = "".join(path.read_text() for path in (DEPLOY / folder / "templates").iterdir())
    used = set(re.findall(r"\.Values\.(\w+)", templates))
    if folder == PLATFORM_CHART:
        used |= {"operator", "muster-operator"}  # for the chart within
    assert used == values.object.keys()
