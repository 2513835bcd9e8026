"""On a real cluster: roles decide what steps may do, and a Job that a step creates runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.box import Box
from muster.embedded.node.isolation import probe_isolation
from muster.kube.builtin import CLUSTER_ROLE, CONFIG_MAP, JOB, NAMESPACE, ROLE, SECRET, new_catalogue
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object
from muster.server.settings import Settings
from muster.workflows import kinds
from muster.workflows.executors.resource import ResourceExecutor, service_account_permissions
from muster.workflows.model import Launch, Node, Outcome
from tests.embedded.waiting import run_components, wait_until

WORKFLOW: Object = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "flow", "namespace": "default", "uid": "u-1"},
}
COUNT = """
apiVersion: batch/v1
kind: Job
metadata: {generateName: count-}
spec:
  completions: 2
  parallelism: 2
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox, command: [sh, -c, 'exit 0']}]}}
"""


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    async with Box(Settings.load(tmp_path), new_catalogue()) as box:
        box.start(isolation=probe_isolation()[0])
        await box.identity.wait_synced()
        yield box


async def grant(box: Box, account: str, verbs: list[str]) -> None:
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": verbs}]
    metadata = {"name": account, "namespace": "default"}
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    }
    await box.cluster.create(role)
    await box.cluster.create(binding)


async def outcome(box: Box, spec: dict[str, Any], *, begun: bool = False) -> Outcome:
    ends: asyncio.Queue[Outcome] = asyncio.Queue()

    def report(workflow: Key, node: str, found: Outcome) -> None:
        if found.phase != "Running":
            ends.put_nowait(found)

    template = {
        "resource": {
            "action": "create",
            "manifest": COUNT,
            "successCondition": "status.succeeded == 2",
            "failureCondition": "status.failed > 0",
        },
        "outputs": {"parameters": [{"name": "done", "valueFrom": {"jqFilter": ".status.succeeded"}}]},
    }
    leaves = ResourceExecutor(box.cluster, report, may=service_account_permissions(box.identity))
    async with run_components(leaves), asyncio.timeout(60):
        await leaves.launch(WORKFLOW, spec, Launch(Node(id="n-1"), "resource", template, "own"), begun=begun)
        return await ends.get()


async def test_a_step_runs_a_job_and_waits_for_it(box: Box) -> None:
    found = await outcome(box, {})
    assert (found.phase, found.message) == ("Succeeded", "")
    assert found.outputs["parameters"][0]["value"] == "2"


async def test_a_service_account_that_is_named_needs_a_role(box: Box) -> None:
    await grant(box, "reader", ["get"])
    found = await outcome(box, {"serviceAccountName": "reader"})
    assert found.phase == "Failed"
    assert found.message == (
        'Error from server (Forbidden): jobs.batch is forbidden: User "system:serviceaccount:default:reader" cannot '
        'create resource "jobs" in API group "batch" in the namespace "default"'
    )
    assert (await box.cluster.list(JOB)).items == []


async def test_a_step_that_waits_goes_on_after_a_restart_without_new_permission(box: Box) -> None:
    await grant(box, "maker", ["create"])
    spec = {"serviceAccountName": "maker"}
    assert (await outcome(box, spec)).phase == "Succeeded"
    await box.cluster.delete(ROLE, "maker", "default")
    may = service_account_permissions(box.identity)
    await wait_until(lambda: may("default", "maker", "create", JOB, "default", "x"))
    assert "Forbidden" in (await outcome(box, spec)).message
    assert (await outcome(box, spec, begun=True)).phase == "Succeeded"


@pytest.mark.parametrize(
    ("account", "verb", "kind", "namespace", "expected"),
    [
        ("", "create", CONFIG_MAP, "default", True),
        ("", "delete", SECRET, "default", True),
        ("", "create", CONFIG_MAP, "other", False),
        ("", "create", ROLE, "default", False),
        ("", "create", CLUSTER_ROLE, "", False),
        ("", "create", NAMESPACE, "", False),
        ("unknown", "get", CONFIG_MAP, "default", False),
        ("argo-server", "create", kinds.WORKFLOW, "default", True),
        ("argo-server", "patch", kinds.WORKFLOW, "default", True),
        ("argo-server", "create", kinds.WORKFLOW, "other", False),
        ("argo-server", "get", SECRET, "default", True),
        ("argo-server", "delete", SECRET, "default", False),
        ("argo-server", "create", JOB, "default", False),
    ],
)
async def test_without_one_a_workflow_may_edit_its_namespace_and_as_argo_server_what_that_may(
    box: Box, account: str, verb: str, kind: Kind, namespace: str, expected: bool
) -> None:
    refusal = service_account_permissions(box.identity)("default", account, verb, kind, namespace, "x")
    assert (refusal == "") is expected
    assert expected or refusal.startswith(f"{kind.resource} is forbidden: User ")
