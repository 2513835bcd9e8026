"""Installs and uninstalls on a cluster without a controller of Deployments, which the test replaces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import CrdController
from muster.kube.builtin import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET, SERVICE, new_catalogue
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of
from muster.kube.schema import ANY
from muster.operator.install import InstallError, deployment_progress, install, uninstall
from muster.operator.install_manifests import ADMISSION, NAME, InstallOptions, build_manifests, build_workspace_crds
from muster.operator.webhook_certificates import CONFIGURATION
from tests.embedded.waiting import run_components, wait_for_all

OPEN = {"type": "object", **ANY}
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", schema=OPEN)
BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", schema=OPEN)
POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", schema=OPEN)
OPTIONS = InstallOptions()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    for kind in (DEPLOYMENT, BUDGET, POLICY, CONFIGURATION):
        catalogue.register(kind)
    async with (
        EmbeddedCluster(tmp_path / "cluster", catalogue, durability="process") as embedded,
        run_components(CrdController(embedded)),
    ):
        yield embedded


class Deployments:
    """A minimal controller of Deployments."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    async def run(self) -> None:
        async for event in self._cluster.watch(DEPLOYMENT):
            wanted, status = event.object["spec"]["replicas"], event.object.get("status") or {}
            seen = {"observedGeneration": event.object["metadata"]["generation"]}
            counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), wanted)
            if event.type != "DELETED" and status != {**seen, **counts}:
                name, namespace = name_of(event.object), event.object["metadata"]["namespace"]
                change = {"status": {**seen, **counts}}
                await self._cluster.patch(DEPLOYMENT, name, namespace, change, subresource="status")


async def put(cluster: EmbeddedCluster, **more: Any) -> list[str]:
    said: list[str] = []
    await install(cluster, OPTIONS, said.append, seconds=20, **more)
    return said


async def test_everything_is_applied_and_it_says_so(cluster: EmbeddedCluster) -> None:
    async with run_components(Deployments(cluster)):
        said = await put(cluster)
    for obj in build_manifests(OPTIONS):
        kind = cluster.catalogue.of_object(obj)
        await cluster.get(kind, name_of(obj), obj["metadata"].get("namespace", ""))
    assert said[0] == "namespace/muster-system created"
    assert "customresourcedefinition.apiextensions.k8s.io/pytorchjobs.kubeflow.org created" in said
    assert said[-1] == "muster-system/muster-operator: 2 of 2 replicas available"


async def test_a_second_time_changes_nothing(cluster: EmbeddedCluster) -> None:
    async with run_components(Deployments(cluster)):
        await put(cluster)
        secret = await cluster.get(SECRET, "muster-operator-webhook", "muster-system")
        await cluster.update({**secret, "data": {"tls.key": "a2V5"}})
        said = await put(cluster)
    assert {line.rpartition(" ")[2] for line in said[:-1]} == {"unchanged"}
    assert (await cluster.get(SECRET, "muster-operator-webhook", "muster-system"))["data"] == {"tls.key": "a2V5"}


async def test_one_that_does_not_come_up_says_why(cluster: EmbeddedCluster) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "muster-operator-x",
            "namespace": "muster-system",
            "labels": {"app.kubernetes.io/name": NAME},
        },
        "spec": {"containers": [{"name": "operator", "image": "i"}]},
    }
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}})
    await cluster.create(pod)
    status = {
        "phase": "Pending",
        "containerStatuses": [{"name": "operator", "image": "i", "state": {"waiting": waiting}}],
    }
    await cluster.patch(
        cluster.catalogue.of("v1", "Pod"),
        "muster-operator-x",
        "muster-system",
        {"status": status},
        subresource="status",
    )
    with pytest.raises(InstallError, match=r"(?s)not available after 3 s\n  muster-operator-x: .*ImagePullBackOff"):
        await install(cluster, OPTIONS, lambda _: None, seconds=3)


def theirs(name: str = "training-operator", replicas: int = 1) -> Object:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"control-plane": name}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "kubeflow"},
        "spec": spec,
    }


async def beside(cluster: EmbeddedCluster, *deployments: Object) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow"}})
    for obj in deployments:
        await cluster.create(obj)


async def test_another_operator_is_not_fought_with(cluster: EmbeddedCluster) -> None:
    await beside(cluster, theirs())
    with pytest.raises(InstallError, match="kubeflow/training-operator: its jobs continue under this operator"):
        await put(cluster)
    assert name_of((await cluster.list(NAMESPACE)).items[0]) != "muster-system"
    async with run_components(Deployments(cluster)):
        await put(cluster, anyway=True)
    assert (await cluster.get(DEPLOYMENT, "training-operator", "kubeflow"))["spec"]["replicas"] == 1


async def test_another_operator_is_replaced_when_that_is_asked_for(cluster: EmbeddedCluster) -> None:
    await beside(cluster, theirs(), theirs("paddle-controller-manager"))
    name = "validator.training-operator.kubeflow.org"
    await cluster.create(
        {"apiVersion": CONFIGURATION.api_version, "kind": CONFIGURATION.kind, "metadata": {"name": name}}
    )
    async with run_components(Deployments(cluster)):
        said = await put(cluster, replace=True)
    assert said[:3] == [
        "deployment kubeflow/paddle-controller-manager scaled to 0",
        "deployment kubeflow/training-operator scaled to 0",
        f"validatingwebhookconfiguration {name} deleted",
    ]
    assert (await cluster.get(DEPLOYMENT, "training-operator", "kubeflow"))["spec"]["replicas"] == 0
    async with run_components(Deployments(cluster)):
        await put(cluster)  # no other operator is left


async def test_launchers_of_mpi_operator_cannot_be_taken_over(cluster: EmbeddedCluster) -> None:
    await beside(cluster, theirs("mpi-operator"))
    with pytest.raises(InstallError, match="let its MPIJobs finish first"):
        await put(cluster, replace=True)


async def test_removing_it_keeps_jobs_and_what_was_there_before(cluster: EmbeddedCluster) -> None:
    async with run_components(Deployments(cluster)):
        await put(cluster)
    said: list[str] = []
    await uninstall(cluster, OPTIONS, said.append)
    assert said[0].startswith("validatingwebhookconfiguration"), (
        "first, so that the API server does not call a missing webhook"
    )
    assert "namespace/muster-system deleted" in said
    assert len((await cluster.list(CUSTOM_RESOURCE_DEFINITION)).items) == 8
    for kind in (DEPLOYMENT, SERVICE, BUDGET, POLICY, CONFIGURATION):
        assert NAME not in [name_of(obj) for obj in (await cluster.list(kind)).items]
    await uninstall(cluster, OPTIONS, said.append, definitions=True)
    await wait_for_all(cluster, CUSTOM_RESOURCE_DEFINITION, lambda left: not left)


async def test_the_definitions_of_workspaces_are_deleted_unless_they_are_kubeflows(cluster: EmbeddedCluster) -> None:
    said: list[str] = []
    crds = build_workspace_crds()
    notebooks, boards = (f"customresourcedefinition.apiextensions.k8s.io/{name_of(crd)}" for crd in crds)
    await cluster.create({**crds[0], "metadata": {"name": name_of(crds[0])}})
    await uninstall(cluster, OPTIONS, said.append, definitions=True)
    assert [line for line in said if "customres" in line] == [f"{notebooks} kept: it existed before"]
    said.clear()
    async with run_components(Deployments(cluster)):
        await install(cluster, InstallOptions(workspaces=True), said.append, seconds=20)
    await uninstall(cluster, OPTIONS, said.append, definitions=True)
    assert {f"{notebooks} deleted", f"{boards} deleted"} <= set(said)


async def test_a_namespace_that_was_there_is_left_as_it_is(cluster: EmbeddedCluster) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}})
    async with run_components(Deployments(cluster)):
        await put(cluster)
    said: list[str] = []
    await uninstall(cluster, OPTIONS, said.append)
    assert "namespace/muster-system kept: it existed before" in said
    await cluster.get(NAMESPACE, "muster-system")


@pytest.mark.parametrize(
    ("generation", "status", "ready", "available"),
    [
        (1, {}, False, 0),
        (2, {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, False, 0),
        (1, {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}, False, 1),
        (1, {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 2}, False, 2),
        (1, {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, True, 2),
    ],
)
def test_when_it_is_available(generation: int, status: Object, ready: bool, available: int) -> None:
    metadata = {"name": "o", "namespace": "n", "generation": generation}
    found = deployment_progress({"metadata": metadata, "spec": {"replicas": 2}, "status": status})
    assert found == (ready, f"n/o: {available} of 2 replicas available")


def deployed(**more: Any) -> Object:
    return next(obj for obj in build_manifests(InstallOptions(**more)) if obj["kind"] == "Deployment")


def test_its_pods_have_no_more_power_than_they_need() -> None:
    pod = deployed()["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "volumes" not in pod


def test_only_one_secret_may_be_read_and_only_some_namespaces_be_worked_in() -> None:
    objects = build_manifests(InstallOptions(namespaces=("a", "b")))
    rules = [
        (obj["kind"], rule) for obj in objects for rule in obj.get("rules") or () if "secrets" in rule["resources"]
    ]
    assert [(kind, rule["resourceNames"]) for kind, rule in rules] == [("Role", ["muster-operator-webhook"])]
    bindings = [obj for obj in objects if obj["kind"].endswith("Binding") and obj["roleRef"]["name"] == NAME]
    assert sorted(obj["metadata"].get("namespace", "") for obj in bindings) == ["a", "b", "muster-system"]
    (hook,) = next(obj for obj in objects if obj["kind"] == CONFIGURATION.kind)["webhooks"]
    assert [e["key"] for e in hook["namespaceSelector"]["matchExpressions"]] == [
        ADMISSION,
        "kubernetes.io/metadata.name",
    ]


def test_with_cert_manager_the_operator_needs_no_secret_of_its_own() -> None:
    options = InstallOptions(issuer={"kind": "ClusterIssuer", "name": "x"})
    objects = build_manifests(options)
    assert not [obj for obj in objects if obj["kind"] == "Secret"]
    assert not [rule for obj in objects for rule in obj.get("rules") or () if "secrets" in rule["resources"]]
    (hook,) = [obj for obj in objects if obj["kind"] == CONFIGURATION.kind]
    assert hook["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "muster-system/muster-operator-webhook"
    }
    arguments = deployed(issuer=options.issuer)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--webhook-certificates=/etc/muster/webhook" in arguments
