"""The chart and the kustomize base render what `muster operator install` applies, for all values."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from muster.kube.manifests import load_manifests
from muster.kube.objects import Object, name_of, namespace_of
from muster.operator.install_manifests import InstallOptions, build_manifests
from tests.cluster.chart import CHART_FOLDER, helm, render
from tools.cluster.cluster import Cluster as RealCluster
from tools.deploy import BASE, DEPLOY, WORKSPACES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # helm may have to be built first

ISSUER = {"kind": "ClusterIssuer", "name": "letters"}


def keyed(objects: list[Object]) -> dict[tuple[str, str, str], Object]:
    return {(obj["kind"], namespace_of(obj), name_of(obj)): obj for obj in objects}


def as_applied(options: InstallOptions) -> list[Object]:
    """Helm creates namespaces itself, and keeps CRDs only if they are annotated."""
    keep = {"annotations": {"helm.sh/resource-policy": "keep"}}
    return [
        {**obj, "metadata": {**obj["metadata"], **keep}} if obj["kind"] == "CustomResourceDefinition" else obj
        for obj in build_manifests(options)
        if obj["kind"] != "Namespace"
    ]


def test_the_chart_passes_helm_lint() -> None:
    ran = helm("lint", "--strict", str(CHART_FOLDER))
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ({}, InstallOptions()),
        (
            {"image": {"repository": "mirror/muster", "tag": "7"}, "replicas": 3, "gangSchedulerName": "volcano"},
            InstallOptions(image="mirror/muster:7", replicas=3, gang="volcano"),
        ),
        (
            {"image": {"digest": f"sha256:{'a' * 64}", "pullPolicy": "Always"}},
            InstallOptions(image=f"muster-operator@sha256:{'a' * 64}", pull_policy="Always"),
        ),
        ({"namespaces": ["b", "a"]}, InstallOptions(namespaces=("b", "a"))),
        ({"webhook": {"certManager": {"issuerRef": ISSUER}}}, InstallOptions(issuer=ISSUER)),
        (
            {"namespaces": ["one"], "webhook": {"failurePolicy": "Fail", "certManager": {"issuerRef": ISSUER}}},
            InstallOptions(namespaces=("one",), failure_policy="Fail", issuer=ISSUER),
        ),
        (
            {"namespaces": ["one"], "workspaces": {"enabled": True}},
            InstallOptions(namespaces=("one",), workspaces=True),
        ),
        (
            {
                "extraArgs": ["--workers=32", "--lease-duration=30"],
                "networkPolicy": {"apiServerPorts": [16443]},
                "imagePullSecrets": [{"name": "mine"}],
                "resources": {"limits": {"cpu": "1"}},
                "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "priorityClassName": "high",
            },
            InstallOptions(
                arguments=("--workers=32", "--lease-duration=30"),
                api_ports=(16443,),
                pull_secrets=[{"name": "mine"}],
                resources={"limits": {"cpu": "1"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
                placement={
                    "nodeSelector": {"a": "b"},
                    "tolerations": [{"key": "k", "operator": "Exists"}],
                    "affinity": {"nodeAffinity": {}},
                    "priorityClassName": "high",
                },
            ),
        ),
    ],
    ids=["defaults", "image and gangs", "digest", "some namespaces", "cert-manager", "both", "workspaces", "placement"],
)
def test_the_chart_renders_what_install_applies(
    values: dict[str, Any], options: InstallOptions, tmp_path: Path
) -> None:
    if "resources" in values:  # helm merges maps
        limits = {"cpu": "1", "memory": "512Mi"}
        options.resources["limits"] = limits
    wanted = as_applied(options)
    if values:  # the CRDs are long and never differ
        values = {**values, "crds": {"install": False}}
        wanted = [obj for obj in wanted if obj["kind"] != "CustomResourceDefinition"]
    assert keyed(render(values, tmp_path)) == keyed(wanted)


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ({"networkPolicy": {"enabled": False}}, "NetworkPolicy"),
        ({"podDisruptionBudget": {"enabled": False}}, "PodDisruptionBudget"),
        ({"crds": {"install": False}}, "CustomResourceDefinition"),
    ],
)
def test_optional_parts(values: dict[str, Any], gone: str, tmp_path: Path) -> None:
    kinds = {obj["kind"] for obj in render({"crds": {"install": False}, **values}, tmp_path)}
    assert kinds == {obj["kind"] for obj in as_applied(InstallOptions())} - {gone, "CustomResourceDefinition"}


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 2},
        {"gangSchedulerName": "kube-batch"},
        {"webhook": {"failurePolicy": "Never"}},
        {"image": {"digest": "latest"}},
        {"extraArgs": ["workers"]},
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="values don't meet the specifications of the schema"):
        render(values, tmp_path)


def test_the_kustomize_base_renders_what_install_applies(real: RealCluster) -> None:
    built = load_manifests(real.kubectl("kustomize", str(DEPLOY / BASE)), "kustomize")
    assert keyed([document.object for document in built]) == keyed(build_manifests())


def test_the_component_renders_what_install_applies_with_workspaces(real: RealCluster, tmp_path: Path) -> None:
    parts = {"resources": [str(DEPLOY / BASE)], "components": [str(DEPLOY / WORKSPACES)]}
    relative = {key: [os.path.relpath(path, tmp_path) for path in paths] for key, paths in parts.items()}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(relative))
    built = load_manifests(real.kubectl("kustomize", str(tmp_path)), "kustomize")
    assert keyed([document.object for document in built]) == keyed(build_manifests(InstallOptions(workspaces=True)))


def test_the_chart_has_the_definitions_of_workspaces_if_they_are_enabled(tmp_path: Path) -> None:
    rendered = render({"workspaces": {"enabled": True}}, tmp_path)
    assert keyed(rendered) == keyed(as_applied(InstallOptions(workspaces=True)))
