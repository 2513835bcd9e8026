"""Notebooks and Tensorboards under the operator, against our own API server over HTTP. The test plays the node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.kube.builtin import POD, SECRET, SERVICE
from muster.kube.objects import name_of, status_of, timestamp
from muster.operator.install_manifests import InstallOptions, build_crds, build_manifests
from muster.operator.settings import WorkspaceOptions
from muster.workspaces.kinds import NOTEBOOK, TENSORBOARD, workspace_kinds
from tests.embedded.waiting import wait_for
from tests.operator.test_run import SETTINGS, operating
from tests.server.kubernetes.served import Served, serving

WORKSPACES = WorkspaceOptions(tensorboard_image="registry.example/tensorboard:1")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as running:
        for kind in workspace_kinds():
            running.cluster.catalogue.register(kind)
        yield running


async def test_the_operator_runs_notebooks_and_tensorboards_if_it_is_told_to(served: Served) -> None:
    container = {"name": "nb", "image": "kubeflownotebookswg/jupyter:v1.9.2"}
    metadata = {"name": "nb", "namespace": "default"}
    cluster = served.cluster
    async with operating(served, replace(SETTINGS, workspaces=WORKSPACES)):
        await cluster.create({
            "apiVersion": "kubeflow.org/v1beta1", "kind": "Notebook", "metadata": metadata,
            "spec": {"template": {"spec": {"containers": [container]}}},
        })  # fmt: skip
        await cluster.create({
            "apiVersion": TENSORBOARD.api_version, "kind": "Tensorboard", "metadata": metadata,
            "spec": {"logspath": "pvc://logs/run"},
        })  # fmt: skip
        pod = await wait_for(cluster, POD, "nb-0", lambda each: True)
        assert pod["spec"]["securityContext"] == {"fsGroup": 100}
        board = await wait_for(cluster, POD, "nb-tensorboard-0", lambda each: True)
        assert board["spec"]["containers"][0]["image"] == "registry.example/tensorboard:1"
        await wait_for(cluster, SERVICE, "nb", lambda each: True)
        await wait_for(cluster, SECRET, "notebook-nb-token", lambda each: True)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp()}
        status = {"phase": "Running", "podIP": "10.0.0.7", "conditions": [ready]}
        await cluster.update({**pod, "status": status}, subresource="status")
        await wait_for(cluster, NOTEBOOK, "nb", lambda each: status_of(each).get("readyReplicas") == 1)


def test_definitions_rights_and_network_are_installed_only_if_asked_for() -> None:
    usual = {name_of(crd) for crd in build_crds()}
    more = {name_of(crd): crd for crd in build_crds(workspaces=True)}
    assert set(more) - usual == {"notebooks.kubeflow.org", "tensorboards.tensorboard.kubeflow.org"}
    versions = more["notebooks.kubeflow.org"]["spec"]["versions"]
    assert [(each["name"], each["storage"]) for each in versions] == [
        ("v1", True), ("v1beta1", False), ("v1alpha1", False),
    ]  # fmt: skip
    objects = {(obj["kind"], name_of(obj)): obj for obj in build_manifests(InstallOptions(workspaces=True))}
    rules = objects["ClusterRole", "muster-operator"]["rules"]
    assert any(rule["resources"] == ["secrets"] and rule["verbs"] == ["create", "get"] for rule in rules)
    (container,) = objects["Deployment", "muster-operator"]["spec"]["template"]["spec"]["containers"]
    assert "--workspaces" in container["args"]
    plain = next(obj for obj in build_manifests() if obj["kind"] == "ClusterRole" and name_of(obj) == "muster-operator")
    assert not any("notebooks" in rule["resources"] or "secrets" in rule["resources"] for rule in plain["rules"])
