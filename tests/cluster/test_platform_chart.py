"""The chart `muster` and its kustomize folder render what `muster deploy` applies, and a real API server accepts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.kube.manifests import dump, load_manifests
from muster.kube.objects import Object
from muster.operator.install_manifests import InstallOptions, build_manifests
from muster.operator.platform_manifests import CONFIG, CONFIG_ANNOTATION, PlatformOptions, build_platform
from tests.cluster.chart import PLATFORM_FOLDER, helm, render
from tests.cluster.test_operator_chart import keyed
from tools.cluster.cluster import Cluster as RealCluster
from tools.deploy import DEPLOY, PLATFORM

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # helm may have to be built first

ALONE = {"operator": {"enabled": False}}


def comparable(objects: list[Object]) -> dict[tuple[str, str, str], Object]:
    """With the settings as values: Helm writes YAML in another way. So their hashes differ, too."""
    found = json.loads(json.dumps(objects))
    for obj in found:
        if obj["kind"] == "ConfigMap":
            obj["data"][CONFIG] = yaml.safe_load(obj["data"][CONFIG])
        if obj["kind"] == "Deployment":
            obj["spec"]["template"]["metadata"].get("annotations", {}).pop(CONFIG_ANNOTATION, None)
    return keyed(found)


def rendered(values: dict[str, Any], tmp_path: Path) -> list[Object]:
    return render({**ALONE, **values}, tmp_path, chart=PLATFORM_FOLDER)


def test_the_chart_passes_helm_lint() -> None:
    ran = helm("lint", "--strict", str(PLATFORM_FOLDER))
    assert ran.returncode == 0, ran.stdout


S3 = {"endpoint": "https://s3.example", "bucket": "muster"}
OIDC = {"issuer": "https://id.example", "clientId": "muster", "adminGroups": ["ml-admins"]}


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ({}, PlatformOptions()),
        (
            {"image": {"repository": "mirror/muster", "tag": "7", "pullPolicy": "Always"}, "replicas": 3},
            PlatformOptions(image="mirror/muster:7", pull_policy="Always", replicas=3),
        ),
        (
            {"url": "https://muster.example", "s3": S3, "oidc": OIDC, "secretName": "mine"},
            PlatformOptions(
                secret="mine",
                config={"web": {"url": "https://muster.example"}, "artifacts": {"s3": S3}, "oidc": OIDC},
            ),
        ),
        (
            {"config": {"web": {"port": 1, "trustedProxies": ["10.0.0.0/8"]}, "artifacts": {"memberAddresses": ["a"]}}},
            PlatformOptions(
                config={"web": {"trustedProxies": ["10.0.0.0/8"]}, "artifacts": {"memberAddresses": ["a"]}}
            ),
        ),
        (
            {
                "networkPolicy": {"egressPorts": [443], "ingressFrom": [{"namespaceSelector": {}}]},
                "imagePullSecrets": [{"name": "mine"}],
                "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "priorityClassName": "high",
            },
            PlatformOptions(
                egress_ports=(443,),
                ingress_from=[{"namespaceSelector": {}}],
                pull_secrets=[{"name": "mine"}],
                placement={
                    "nodeSelector": {"a": "b"},
                    "tolerations": [{"key": "k", "operator": "Exists"}],
                    "affinity": {"nodeAffinity": {}},
                    "priorityClassName": "high",
                },
            ),
        ),
    ],
    ids=["defaults", "image", "settings", "more settings", "placement"],
)
def test_the_chart_renders_what_deploy_applies(
    values: dict[str, Any], options: PlatformOptions, tmp_path: Path
) -> None:
    assert comparable(rendered(values, tmp_path)) == comparable(build_platform(options))


def test_the_operator_is_part_of_the_chart(tmp_path: Path) -> None:
    values = {"muster-operator": {"gangSchedulerName": "volcano", "crds": {"install": False}}}
    both = keyed(render(values, tmp_path, chart=PLATFORM_FOLDER))
    deployment = both["Deployment", "muster-system", "muster-operator"]
    assert "--gang-scheduler-name=volcano" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert ("Deployment", "muster-system", "muster") in both


@pytest.mark.parametrize(
    ("values", "there", "gone"),
    [
        ({"networkPolicy": {"enabled": False}}, set(), {"NetworkPolicy"}),
        ({"podDisruptionBudget": {"enabled": False}}, set(), {"PodDisruptionBudget"}),
        ({"ingress": {"enabled": True, "tlsSecretName": "tls"}, "url": "https://muster.example"}, {"Ingress"}, set()),
        ({"serviceMonitor": {"enabled": True}}, {"ServiceMonitor"}, set()),
    ],
)
def test_optional_parts(values: dict[str, Any], there: set[str], gone: set[str], tmp_path: Path) -> None:
    kinds = {obj["kind"] for obj in rendered(values, tmp_path)}
    assert kinds == {obj["kind"] for obj in build_platform()} - gone | there


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 2},
        {"url": "muster.example"},
        {"s3": {"endpoint": "s3.example"}},
        {"secretName": ""},
        {"database": "postgresql://..."},
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="values don't meet the specifications of the schema"):
        rendered(values, tmp_path)


def test_the_kustomize_folder_renders_what_deploy_applies(real: RealCluster) -> None:
    built = load_manifests(real.kubectl("kustomize", str(DEPLOY / PLATFORM)), "kustomize")
    wanted = [*build_manifests(InstallOptions(workspaces=True)), *build_platform()]
    assert comparable([document.object for document in built]) == comparable(wanted)


def test_a_real_api_server_accepts_all_objects(real: RealCluster, namespace: str, tmp_path: Path) -> None:
    """The namespace enforces the restricted Pod security standard, which warns about what it would refuse."""
    real.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/warn=restricted")
    values = {"url": "https://muster.example", "s3": S3, "oidc": OIDC, "ingress": {"enabled": True}}
    objects = render({**ALONE, **values}, tmp_path, namespace, PLATFORM_FOLDER)
    file = tmp_path / "objects.yaml"
    file.write_text("---\n".join(dump(obj) for obj in objects))
    said = real.kubectl("apply", "--dry-run=server", "--server-side", "--validate=strict", "-f", str(file))
    assert said.count("serverside-applied (server dry run)") == len(objects)
    assert "Warning" not in said
