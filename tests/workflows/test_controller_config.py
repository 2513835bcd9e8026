"""What Argo's `workflow-controller-configmap` sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import NAMESPACE
from muster.kube.objects import Object, labels_of, spec_of, status_of
from muster.kube.pod_security import ISOLATION_LABEL
from muster.workflows.artifacts.client import repository_of
from muster.workflows.artifacts.locations import LOCAL
from muster.workflows.controller_config import NAMESPACE_LIMIT, ControllerConfig, parse_controller_config, with_defaults
from tests.workflows.controlled_cluster import Stage, stage, task


@pytest.fixture
async def s(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path) as found:
        yield found


async def configure(s: Stage, **data: str) -> None:
    await s.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argo"}})
    metadata = {"name": "workflow-controller-configmap", "namespace": "argo"}
    await s.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, ControllerConfig()),
        ({"parallelism": "3"}, ControllerConfig(parallelism=3)),
        ({"config": "parallelism: 2\nartifactRepository: {s3: {bucket: b}}"},
         ControllerConfig({"s3": {"bucket": "b"}}, 2)),
        ({"namespaceParallelism": '"10"'}, ControllerConfig(namespace_parallelism=10)),
        ({"nodeEvents": "enabled: false"}, ControllerConfig(node_events=False)),
        ({"config": "parallelism: 2", "parallelism": "4"}, ControllerConfig(parallelism=4)),
        ({"parallelism": "many"}, ControllerConfig(problems=("parallelism: expected a number, 0 or more",))),
        ({"parallelism": "-1"}, ControllerConfig(problems=("parallelism: expected a number, 0 or more",))),
        ({"workflowDefaults": "[]"}, ControllerConfig(problems=("workflowDefaults: expected a map",))),
        ({"links": "- {name: x, scope: pod, url: http://x}"},
         ControllerConfig(links=({"name": "x", "scope": "pod", "url": "http://x"},))),
        ({"retentionPolicy": "completed: 10\nerrored: 0"}, ControllerConfig(retention={"Succeeded": 10, "Error": 0})),
        ({"failedPodRestart": "enabled: true"}, ControllerConfig(failed_pod_restarts=3)),
        ({"failedPodRestart": "{enabled: true, maxRestarts: 1}"}, ControllerConfig(failed_pod_restarts=1)),
        ({"failedPodRestart": "{enabled: false, maxRestarts: 1}"}, ControllerConfig()),
        ({"retentionPolicy": "failed: -1"},
         ControllerConfig(problems=("retentionPolicy.failed: expected a number, 0 or more",))),
        ({"columns": "- {name: x}"}, ControllerConfig()),
    ],
)  # fmt: skip
def test_parsing(data: dict[str, str], expected: ControllerConfig) -> None:
    assert parse_controller_config({"data": data}) == expected


def test_invalid_yaml_is_named() -> None:
    (problem,) = parse_controller_config({"data": {"artifactRepository": "{"}}).problems
    assert problem.startswith("artifactRepository: invalid YAML: ")


DEFAULTS = {
    "metadata": {"labels": {"team": "a"}},
    "spec": {"ttlStrategy": {"secondsAfterCompletion": 5}, "priority": 1},
}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {"ttlStrategy": {"secondsAfterCompletion": 5}, "priority": 1}),
        ({"priority": 2}, {"ttlStrategy": {"secondsAfterCompletion": 5}, "priority": 2}),
        ({"ttlStrategy": {"secondsAfterFailure": 1}},
         {"ttlStrategy": {"secondsAfterFailure": 1, "secondsAfterCompletion": 5}, "priority": 1}),
    ],
)  # fmt: skip
def test_defaults(own: dict[str, Any], expected: dict[str, Any]) -> None:
    made = with_defaults({"metadata": {"name": "x"}, "spec": own}, DEFAULTS)
    assert made == {"metadata": {"name": "x", "labels": {"team": "a"}}, "spec": expected}
    assert with_defaults(made, DEFAULTS) is made


def test_no_defaults_change_nothing() -> None:
    workflow: Object = {"metadata": {"name": "x"}, "spec": {}}
    assert with_defaults(workflow, {}) is workflow


async def test_only_so_many_workflows_run_at_a_time(s: Stage) -> None:
    await configure(s, parallelism="1")
    await s.create("a", task("one"))
    await s.launched("a")
    await s.create("b", task("two"))
    await s.until(lambda: "max parallelism" in str(status_of(s.workflow("b")).get("message")))
    assert s.phase("b") == "Pending"
    s.executor.tell("a", "a")
    await s.launched("a", "b")
    s.executor.tell("b", "b")
    assert await s.ended("b") == "Succeeded"


@pytest.mark.parametrize("by_label", [False, True])
async def test_only_so_many_workflows_of_a_namespace_run_at_a_time(s: Stage, by_label: bool) -> None:
    await configure(s, namespaceParallelism="1" if not by_label else "5")
    if by_label:
        await s.cluster.patch(NAMESPACE, "default", "", {"metadata": {"labels": {NAMESPACE_LIMIT: "1"}}})
    await s.create("a", task("one"))
    await s.launched("a")
    await s.create("b", task("two"))
    message = "Workflow processing has been postponed because too many workflows are already running"
    await s.until(lambda: status_of(s.workflow("b")).get("message") == message)
    s.executor.tell("a", "a")
    await s.launched("a", "b")


async def test_nodes_have_no_events_if_they_are_turned_off(s: Stage) -> None:
    await configure(s, nodeEvents="enabled: false")
    await s.create("a", task("one"))
    await s.launched("a")
    s.executor.tell("a", "a")
    await s.ended("a")
    await s.until(lambda: s.recorder.events[-1][0] == "WorkflowSucceeded")
    assert [reason for reason, _ in s.recorder.events] == ["WorkflowRunning", "WorkflowSucceeded"]


async def test_workflows_get_the_defaults(s: Stage) -> None:
    await configure(s, workflowDefaults="{metadata: {labels: {team: a}}, spec: {activeDeadlineSeconds: 99}}")
    await s.create("a", task("one"))
    await s.launched("a")
    assert spec_of(s.workflow("a"))["activeDeadlineSeconds"] == 99
    assert labels_of(s.workflow("a"))["team"] == "a"


async def test_the_default_repository(s: Stage) -> None:
    await configure(s, artifactRepository="s3: {bucket: theirs, endpoint: s3.example.org}")
    workflow = await s.create("a", task("one"))
    assert await repository_of(s.cluster, workflow) == {"s3": {"bucket": "theirs", "endpoint": "s3.example.org"}}
    labels = {ISOLATION_LABEL: "restricted"}
    await s.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "member", "labels": labels}})
    of_member = {**workflow, "metadata": {"name": "a", "namespace": "member"}}
    assert await repository_of(s.cluster, of_member) == LOCAL, "members do not have the keys of that bucket"
