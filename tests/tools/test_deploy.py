from __future__ import annotations

import re

import pytest

from muster import __version__
from muster.kube.manifests import load_mapping
from muster.operator.install_manifests import InstallOptions, build_manifests
from tools.deploy import BASE, CHART, DEFINITIONS, DEPLOY, WORKSPACE_DEFINITIONS, WORKSPACES, files

WRITTEN = files()


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_files_are_what_the_code_says(name: str) -> None:
    assert (DEPLOY / name).read_text() == WRITTEN[name], "run `python -m tools.deploy`"


def test_nothing_is_left_from_before() -> None:
    folders = (BASE, WORKSPACES, DEFINITIONS, WORKSPACE_DEFINITIONS, f"{CHART}/templates")
    there = {str(path.relative_to(DEPLOY)) for folder in folders for path in (DEPLOY / folder).glob("*.yaml")}
    assert there == WRITTEN.keys()


def test_the_base_has_all_that_is_applied() -> None:
    """By kind and name; that the real kustomize gives the very objects is tested where there is one."""
    folders = (BASE, DEFINITIONS, WORKSPACE_DEFINITIONS)
    written = "\n".join(text for name, text in WRITTEN.items() if name.rpartition("/")[0] in folders)
    kinds = [kind for kind in re.findall(r"(?m)^kind: (\w+)$", written) if kind != "Kustomization"]
    assert sorted(kinds) == sorted(obj["kind"] for obj in build_manifests(InstallOptions(workspaces=True)))


def test_the_chart_is_as_old_as_the_operator() -> None:
    chart = load_mapping(DEPLOY / CHART / "Chart.yaml")
    assert chart is not None
    assert (chart.object["version"], chart.object["appVersion"]) == (__version__, __version__)


def test_every_value_is_used_and_described() -> None:
    values = load_mapping(DEPLOY / CHART / "values.yaml")
    assert values is not None
    templates = "".join(path.read_text() for path in (DEPLOY / CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values\.(\w+)", templates))
    assert used == values.object.keys()
