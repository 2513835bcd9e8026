"""What `muster deploy` says about a cluster, as tables; that it asks a real cluster is tested in tests/cluster."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from muster.operator.deploy import Check, DeployOptions, Facts, check_cluster, parse_version, secret_faults
from muster.operator.install_manifests import InstallOptions
from muster.operator.platform_manifests import PlatformOptions, build_platform, egress_ports, rules
from muster.platform.namespace_objects import run_rules

GOOD = Facts(
    version="v1.35.4",
    groups=frozenset({"scheduling.volcano.sh/v1beta1"}),
    argo_kind=True,
    argo_images=("quay.io/argoproj/workflow-controller:v4.0.7",),
    storage_classes={"fast": False, "usual": True},
    namespace_exists=True,
    secret_keys=frozenset({"database-url", "encryption-key"}),
    s3=True,
    url="https://muster.example",
)


def found(facts: Facts, options: DeployOptions = DeployOptions()) -> dict[str, Check]:  # noqa: B008
    return {check.name: check for check in check_cluster(facts, options)}


def test_a_good_cluster_needs_nothing() -> None:
    assert {check.state for check in found(GOOD).values()} == {"ok"}
    assert not any(check.fix for check in found(GOOD).values())


@pytest.mark.parametrize(
    ("change", "name", "state", "fix"),
    [
        ({"version": "v1.27.3"}, "Kubernetes", "error", "upgrade the cluster to 1.28"),
        ({"version": ""}, "Kubernetes", "error", "upgrade"),
        ({"argo_kind": False}, "Argo Workflows", "error", "install Argo Workflows"),
        ({"argo_images": ()}, "Argo Workflows", "warning", "check that its controller runs"),
        ({"argo_images": ("mirror/controller:v3.6.2",)}, "Argo Workflows", "error", "install Argo Workflows"),
        ({"argo_images": ("mirror/controller:v4.1.0-rc1",)}, "Argo Workflows", "warning", "tested with"),
        ({"argo_images": ("mirror/controller:latest",)}, "Argo Workflows", "warning", "the tag does not say"),
        ({"argo_images": ("a:v4.0.0", "b:v4.0.0")}, "Argo Workflows", "warning", "argoInstanceId"),
        ({"groups": frozenset()}, "gang scheduling", "warning", "install Volcano or Kueue"),
        ({"storage_classes": {"fast": False}}, "storage class", "warning", "mark one as the default"),
        ({"storage_classes": {}}, "storage class", "warning", "install a provisioner"),
        (
            {"secret_hidden": True, "secret_keys": None},
            "Secret",
            "warning",
            "check that it exists, with database-url, encryption-key",
        ),
        ({"database_port": 6432}, "Secret", "warning", "add --egress-port 6432"),
        ({"shared_class": "nfs"}, "storage class", "error", "use one of fast, usual, with ReadWriteMany"),
        ({"denied": ("patch clusterroles",)}, "permissions", "error", "cluster admin"),
        ({"secret_faults": ("encryption-key is wrong",)}, "Secret", "error", "kubectl edit secret muster"),
        ({"secret_keys": None}, "Secret", "error", "kubectl create secret generic muster --namespace muster-system"),
        ({"secret_keys": None, "namespace_exists": False}, "Secret", "error", "kubectl create namespace"),
        ({"secret_keys": frozenset({"database-url"})}, "Secret", "error", "add encryption-key to it"),
        ({"other_operators": ("deployment kubeflow/training-operator",)}, "operator", "error", "--replace"),
        ({"s3": False}, "settings", "warning", "artifacts.s3"),
        ({"url": ""}, "settings", "warning", "web.url"),
        ({"url": "http://muster"}, "settings", "warning", "use https"),
    ],
)
def test_what_is_missing_comes_with_its_fix(change: dict[str, Any], name: str, state: str, fix: str) -> None:
    checks = found(replace(GOOD, **change))
    assert (checks[name].state, fix in checks[name].fix) == (state, True), checks[name]
    assert all(check.state == "ok" for other, check in checks.items() if other != name)


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"artifacts": {"s3": {"bucket": "b"}}}, "s3-access-key, s3-secret-key"),
        ({"artifacts": {"s3": {"bucket": "b", "accessKey": "a"}}}, "s3-secret-key"),
        ({"artifacts": {"s3": {"bucket": "b", "accessKey": "a", "secretKey": "s"}}}, ""),
        ({"artifacts": {"s3": {"bucket": "b", "secretName": "keys"}}}, ""),
        ({"oidc": {"issuer": "https://id.example", "clientId": "muster"}}, "oidc-client-secret"),
        ({"oidc": {"issuer": "https://id.example", "clientSecretFile": "/file"}}, ""),
    ],
)
def test_the_secret_needs_the_keys_of_what_the_settings_name(settings: dict[str, Any], missing: str) -> None:
    options = DeployOptions(PlatformOptions(config=settings))
    check = found(GOOD, options)["Secret"]
    assert (check.state, check.fix) == (("error", f"add {missing} to it") if missing else ("ok", ""))
    new = found(replace(GOOD, secret_keys=None), options)["Secret"].fix
    assert all(f"--from-literal={key}=..." in new for key in missing.split(", ") if key)


def test_a_gang_scheduler_that_is_wanted_must_be_there() -> None:
    options = DeployOptions(operator=InstallOptions(gang="scheduler-plugins:mine"))
    assert found(GOOD, options)["gang scheduling"].state == "error"
    assert found(GOOD, DeployOptions(operator=InstallOptions(gang="volcano")))["gang scheduling"].state == "ok"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.35.4", (1, 35)),
        ("v1.33.1-eks-5f7d", (1, 33)),
        ("v1.31.2+k3s1", (1, 31)),
        ("quay.io/argoproj/workflow-controller:v3.7.2", (3, 7)),
        ("registry:5000/controller:v4.0.7-debian", (4, 0)),
        ("registry:5000/controller", None),
        ("controller@sha256:aa", None),
        ("", None),
    ],
)
def test_versions(text: str, version: tuple[int, int] | None) -> None:
    assert parse_version(text) == version


GOOD_KEY = b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        ({}, []),
        ({"database-url": "postgresql://muster:x%40y@db.example/muster", "encryption-key": GOOD_KEY}, []),
        ({"database-url": "postgresql://a:1,b:2/muster", "encryption-key": f"{GOOD_KEY},{GOOD_KEY}"}, []),
        ({"database-url": "postgresql://muster@/muster?host=/run/postgresql"}, []),
        ({"database-url": "postgresql//muster:secret@db/muster"}, ["database-url is not postgresql://"]),
        ({"database-url": "postgresql://muster:se#cret@db/muster"}, ["database-url is not postgresql://"]),
        ({"database-url": "sqlite:////tmp/x.db"}, ["database-url is not postgresql://"]),
        ({"database-url": "db.example"}, ["database-url is not postgresql://"]),
        ({"encryption-key": "secret"}, ["encryption-key is not 32 random bytes"]),
        ({"database-url": "\udcff", "encryption-key": "\udcff"}, ["database-url is not", "encryption-key is not"]),
        ({"s3-access-key": "a", "s3-secret-key": " "}, ["s3-secret-key is empty"]),
    ],
)
def test_values_of_the_secret_that_the_server_cannot_use(values: dict[str, str], faults: list[str]) -> None:
    data = {name: b64encode(value.encode(errors="surrogateescape")).decode() for name, value in values.items()}
    found = secret_faults({"data": data})
    assert len(found) == len(faults)
    assert all(text.startswith(fault) for text, fault in zip(found, faults, strict=True))
    assert "cret" not in "".join(found).replace("secret-key", ""), "values are not shown"


@pytest.mark.parametrize(
    ("config", "more", "ports"),
    [
        ({}, (), (443, 5432, 6443)),
        ({"artifacts": {"s3": {"endpoint": "http://minio:9000"}}}, (6432,), (443, 5432, 6432, 6443, 9000)),
        ({"artifacts": {"s3": {"endpoint": "http://minio"}}}, (), (80, 443, 5432, 6443)),
        ({"oidc": {"issuer": "https://id:8443/x"}}, (), (443, 5432, 6443, 8443)),
        ({"kubernetes": {"argoServer": "https://argo-server.argo:2746"}}, (), (443, 2746, 5432, 6443)),
        ({"dispatch": {"timaker": {"address": "http://10.0.0.1:31425"}}}, (), (443, 5432, 6443, 31425)),
        ({"dispatch": {"aihc": {"endpoint": "http://aihc"}}}, (), (80, 443, 5432, 6443)),
        (
            {"webhooks": {"addresses": ["10.0.0.0/8", "hooks.local:8080", "hooks.local", "fd00::1", "[fd00::1]:81"]}},
            (),
            (81, 443, 5432, 6443, 8080),
        ),
    ],
)
def test_the_servers_may_connect_to_what_the_settings_name(
    config: dict[str, Any], more: tuple[int, ...], ports: tuple[int, ...]
) -> None:
    assert egress_ports(config, more) == ports


def test_the_server_runs_without_rights_on_the_node_or_on_all_kinds() -> None:
    deployment = next(obj for obj in build_platform(PlatformOptions()) if obj["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    words = {word for rule in rules() for part in ("apiGroups", "resources", "verbs") for word in rule[part]}
    assert not words & {"*", "escalate", "bind", "impersonate", "deletecollection"}


def test_the_server_may_grant_what_runs_need() -> None:
    """One may only grant the rights that one has."""

    def rights(of: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
        return {
            (group, resource, verb)
            for rule in of
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    assert rights(run_rules()) <= rights(rules())
