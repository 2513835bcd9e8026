"""`muster deploy` against a real cluster: what it finds, and what it refuses to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from muster.kube.manifests import load_manifests
from muster.operator.deploy import DeployOptions
from muster.operator.platform_manifests import PlatformOptions
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def muster(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "muster", *words], capture_output=True, text=True)


def as_account(real: RealCluster, namespace: str, path: Path) -> Path:
    """A kubeconfig of the namespace's default service account, which has no rights."""
    config = yaml.safe_load(Path(real.kubeconfig).read_text())
    token = real.kubectl("create", "token", "default", "--namespace", namespace).strip()
    for each in config["users"]:
        each["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_dry_run_prints_what_it_would_apply_and_reports(real: RealCluster, namespace: str, tmp_path: Path) -> None:
    kubeconfig = f"--kubeconfig={real.kubeconfig}"
    settings = tmp_path / "settings.yaml"
    settings.write_text("web: {url: https://muster.example}\nartifacts: {memberAddresses: [a]}\n")
    words = ["deploy", "--dry-run", "--without-operator", "-n", namespace, f"--config={settings}", kubeconfig]
    refused = muster(*words)
    assert refused.returncode == 1
    assert f"kubectl create secret generic muster --namespace {namespace}" in refused.stderr

    literals = ("--from-literal=database-url=postgresql://x", "--from-literal=encryption-key=k")
    real.kubectl("create", "secret", "generic", "muster", "--namespace", namespace, *literals)
    done = muster(*words)
    assert done.returncode == 0, done.stderr
    assert "✔ Kubernetes        v1.35" in done.stderr
    assert "✔ permissions       all that is needed" in done.stderr
    assert f"{namespace}/muster: database-url, encryption-key" in done.stderr
    config = {"web": {"url": "https://muster.example"}, "artifacts": {"memberAddresses": ["a"]}}
    wanted = DeployOptions(PlatformOptions(namespace=namespace, config=config), None).objects()
    assert [document.object for document in load_manifests(done.stdout, "stdout")] == wanted
    assert real.kubectl("get", "deployments", "--namespace", namespace, "-o", "name") == ""


def test_a_user_without_rights_is_told_what_they_may_not_do(real: RealCluster, namespace: str, tmp_path: Path) -> None:
    """A user who may list nothing and apply nothing gets the whole report nevertheless."""
    kubeconfig = as_account(real, namespace, tmp_path / "kubeconfig")
    done = muster("deploy", "--check", "--without-operator", "-n", namespace, f"--kubeconfig={kubeconfig}")
    assert done.returncode == 1
    assert "✘ permissions" in done.stderr
    assert "you may not create namespaces" in done.stderr
    assert "ask a cluster admin to run this command" in done.stderr
