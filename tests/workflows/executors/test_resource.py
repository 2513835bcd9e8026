"""Resource templates against a real cluster: their actions, conditions, and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, JOB, POD
from muster.kube.errors import NotFound, Unavailable
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, name_of
from muster.workflows.executors.resource import RETRIES, IsAllowed, ResourceExecutor
from muster.workflows.executors.resource_actions import STEP_ANNOTATION
from muster.workflows.executors.resource_conditions import ResourceError
from muster.workflows.model import Launch, Node, Outcome

WORKFLOW: Object = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "flow", "namespace": "default", "uid": "u-1"},
}
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {size: '3'}\n"
GENERATED = SETTINGS.replace("name: settings", "generateName: settings-")
RACE = """
apiVersion: batch/v1
kind: Job
metadata: {generateName: race-}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}
"""
NAME = {"parameters": [{"name": "name", "valueFrom": {"jsonPath": "{.metadata.name}"}}]}


class Story:
    """The lifetime of one server: the executor, and its reports."""

    def __init__(self, cluster: EmbeddedCluster, **options: Any) -> None:
        self.reports: list[tuple[str, Outcome]] = []
        self.news = asyncio.Event()
        self.leaves = ResourceExecutor(cluster, self.reported, **options)

    def reported(self, workflow: Key, node: str, outcome: Outcome) -> None:
        assert workflow == Key("default", "flow")
        self.reports.append((node, outcome))
        self.news.set()

    async def launch(
        self, manifest: str, *, node: str = "n-1", begun: bool = False, workflow: Object = WORKFLOW, **more: Any
    ) -> None:
        template = {"outputs": more.pop("outputs", {}), "inputs": more.pop("inputs", {}), "resource": more}
        if manifest:
            more["manifest"] = manifest
        launch = Launch(Node(id=node), "resource", template, "flow-own-pod")
        await self.leaves.launch(workflow, {}, launch, begun=begun)

    async def end(self, node: str = "n-1") -> Outcome:
        while True:
            for name, outcome in self.reports:
                if name == node and outcome.phase not in ("Pending", "Running"):
                    return outcome
            self.news.clear()
            await self.news.wait()

    def phases(self, node: str = "n-1") -> list[str]:
        return [outcome.phase for name, outcome in self.reports if name == node]


@asynccontextmanager
async def server(cluster: EmbeddedCluster, **options: Any) -> AsyncIterator[Story]:
    story = Story(cluster, **options)
    task = asyncio.create_task(story.leaves.run())
    yield story
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def story(cluster: EmbeddedCluster) -> AsyncIterator[Story]:
    async with server(cluster) as story:
        yield story


async def set_status(cluster: EmbeddedCluster, job: Object, **status: Any) -> None:
    await cluster.patch(JOB, name_of(job), "default", {"status": status}, subresource="status")


async def only(cluster: EmbeddedCluster, kind: Kind) -> Object:
    [found] = [o for o in (await cluster.list(kind, "default")).items if name_of(o) != "kube-root-ca.crt"]
    return found


async def test_without_conditions_a_step_ends_with_its_action(cluster: EmbeddedCluster, story: Story) -> None:
    await story.launch(GENERATED, action="create", outputs=NAME)
    outcome = await story.end()
    made = await only(cluster, CONFIG_MAP)
    assert outcome.phase == "Succeeded"
    assert outcome.exit_code == 0
    assert outcome.outputs == {"parameters": [{**NAME["parameters"][0], "value": name_of(made)}]}
    assert name_of(made).startswith("settings-")


async def test_a_step_waits_for_its_success_condition(cluster: EmbeddedCluster, story: Story) -> None:
    await story.launch(
        RACE, action="create", successCondition="status.succeeded > 0", failureCondition="status.failed > 0"
    )
    job = await only(cluster, JOB)
    assert story.phases() == ["Running"]
    await set_status(cluster, job, active=1)
    await set_status(cluster, job, succeeded=1)
    assert (await story.end()).phase == "Succeeded"


async def test_or_for_its_failure_condition(cluster: EmbeddedCluster, story: Story) -> None:
    await story.launch(
        RACE, action="create", successCondition="status.succeeded > 0", failureCondition="status.failed > 0"
    )
    await set_status(cluster, await only(cluster, JOB), failed=1)
    outcome = await story.end()
    assert (outcome.phase, outcome.message) == ("Failed", "failure condition 'status.failed>0' evaluated true")


async def test_what_is_deleted_meanwhile_has_failed(cluster: EmbeddedCluster, story: Story) -> None:
    await story.launch(RACE, action="create", successCondition="status.succeeded > 0")
    job = await only(cluster, JOB)
    await cluster.delete(JOB, name_of(job), "default", propagation="Background")
    outcome = await story.end()
    assert outcome.phase == "Failed"
    assert outcome.message == (
        "The resource has been deleted while its status was still being checked. Will not be retried: "
        f'jobs.batch "{name_of(job)}" not found'
    )


async def test_a_stopped_step_leaves_its_object_alone(cluster: EmbeddedCluster, story: Story) -> None:
    await story.launch(RACE, action="create", successCondition="status.succeeded > 0")
    await story.leaves.stop(WORKFLOW, Node(id="n-1"), force=False)
    job = await only(cluster, JOB)
    await set_status(cluster, job, succeeded=1)
    assert story.phases() == ["Running", "Failed"]
    assert (await story.end()).message == f"stopped while waiting for job.batch/{name_of(job)}"


async def test_the_same_step_is_not_done_twice(cluster: EmbeddedCluster, story: Story) -> None:
    for _ in range(3):
        await story.launch(RACE, action="create", successCondition="status.succeeded > 0")
    await only(cluster, JOB)


@pytest.mark.parametrize("begun", [False, True])
async def test_after_a_restart_the_object_is_found_again(cluster: EmbeddedCluster, begun: bool) -> None:
    async with server(cluster) as first:
        await first.launch(RACE, action="create", successCondition="status.succeeded > 0", outputs=NAME)
    async with server(cluster) as second:
        await second.launch(RACE, action="create", successCondition="status.succeeded > 0", outputs=NAME, begun=begun)
        job = await only(cluster, JOB)
        await set_status(cluster, job, succeeded=1)
        assert (await second.end()).outputs["parameters"][0]["value"] == name_of(job)


async def test_after_a_restart_an_object_that_has_gone_is_not_made_again(cluster: EmbeddedCluster) -> None:
    async with server(cluster) as story:
        await story.launch(RACE, action="create", successCondition="status.succeeded > 0", begun=True)
        assert (await story.end()).message.startswith("The resource has been deleted")
    assert (await cluster.list(JOB)).items == []


async def test_a_retried_workflow_makes_an_object_of_its_own(cluster: EmbeddedCluster, story: Story) -> None:
    await story.launch(GENERATED, action="create")
    again = {**WORKFLOW, "metadata": {**WORKFLOW["metadata"], "annotations": {RETRIES: "1"}}}
    await story.launch(GENERATED, action="create", workflow=again)
    made = [o for o in (await cluster.list(CONFIG_MAP, "default")).items if name_of(o).startswith("settings-")]
    assert {o["metadata"]["annotations"][STEP_ANNOTATION] for o in made} == {"u-1/n-1/0", "u-1/n-1/1"}


async def test_a_name_that_an_earlier_try_has_taken(cluster: EmbeddedCluster, story: Story) -> None:
    await story.launch(SETTINGS, action="create")
    again = {**WORKFLOW, "metadata": {**WORKFLOW["metadata"], "annotations": {RETRIES: "1"}}}
    await story.launch(SETTINGS, action="create", workflow=again)
    assert story.phases() == ["Succeeded", "Failed"]
    message = story.reports[-1][1].message
    assert message.startswith(
        'Error from server (AlreadyExists): configmaps "settings" already exists: an earlier attempt'
    )


async def test_apply_patch_replace_and_get(cluster: EmbeddedCluster, story: Story) -> None:
    sizes = {"parameters": [{"name": "size", "valueFrom": {"jqFilter": ".data.size"}}]}
    bigger = SETTINGS.replace("'3'", "'4'")
    steps: list[tuple[str, dict[str, Any], str]] = [
        (SETTINGS, {"action": "apply"}, "3"),
        (bigger, {"action": "apply"}, "4"),
        ("data: {size: '5'}", {"action": "patch", "flags": ["configmap", "settings"]}, "5"),
        (SETTINGS.replace("'3'", "'6'"), {"action": "patch", "mergeStrategy": "merge"}, "6"),
        (
            "[{op: replace, path: /data/size, value: '7'}]",
            {"action": "patch", "mergeStrategy": "json", "flags": ["cm", "settings"]},
            "7",
        ),
        (bigger, {"action": "replace"}, "4"),
        (SETTINGS, {"action": "replace", "flags": ["--force"]}, "3"),
        (SETTINGS, {"action": "get"}, "3"),
        ("", {"action": "get", "flags": ["cm/settings"]}, "3"),
    ]
    for number, (manifest, resource, size) in enumerate(steps):
        node = f"n-{number}"
        await story.launch(manifest, node=node, outputs=sizes, **resource)
        outcome = await story.end(node)
        assert outcome.phase == "Succeeded", outcome.message
        assert outcome.outputs["parameters"][0]["value"] == size


async def test_a_filter_that_fails_fails_the_step(cluster: EmbeddedCluster, story: Story) -> None:
    outputs = {"parameters": [{"name": "size", "valueFrom": {"jqFilter": ".data.size | nope"}}]}
    await story.launch(SETTINGS, action="create", outputs=outputs)
    outcome = await story.end("n-1")
    assert outcome.phase == "Failed"
    assert outcome.message.startswith("outputs.parameters[0] (size).valueFrom.jqFilter: nope/0 is not defined")


async def test_news_from_before_the_action_does_not_count(cluster: EmbeddedCluster, story: Story) -> None:
    """The condition holds for the old object; the applied one does not meet it yet."""
    metadata = {"name": "settings", "namespace": "default"}
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "done"}})
    manifest = SETTINGS.replace("size: '3'", "x: 'open'")
    await story.launch(manifest, action="apply", successCondition="data.x == done")
    assert story.phases() == ["Running"]
    await cluster.patch(CONFIG_MAP, "settings", "default", {"data": {"x": "done"}})
    assert (await story.end()).phase == "Succeeded"


async def test_deleting_waits_until_things_are_gone(cluster: EmbeddedCluster, story: Story) -> None:
    for name in ("a", "b"):
        metadata = {"name": name, "namespace": "default", "labels": {"x": "y"}, "finalizers": ["example.com/hold"]}
        await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await story.launch("", action="delete", flags=["configmap", "--selector", "x=y"])
    assert story.phases() == ["Running"]
    for name in ("a", "b"):
        assert "Succeeded" not in story.phases()
        await cluster.patch(CONFIG_MAP, name, "default", {"metadata": {"finalizers": None}})
    assert (await story.end()).phase == "Succeeded"
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAP, "a", "default")


async def test_deleting_what_is_not_there_is_done(story: Story) -> None:
    await story.launch(SETTINGS, action="delete")
    assert (await story.end()).phase == "Succeeded"


async def test_get_of_nothing_answers_the_defaults(story: Story) -> None:
    outputs = {"parameters": [{"name": "x", "valueFrom": {"jsonPath": "{.data.x}", "default": "none"}}]}
    await story.launch("", action="get", flags=["cm", "nobody", "--ignore-not-found"], outputs=outputs)
    assert (await story.end()).outputs["parameters"][0]["value"] == "none"


@pytest.mark.parametrize(
    ("manifest", "resource", "message"),
    [
        (SETTINGS, {"action": "get"}, 'Error from server (NotFound): configmaps "settings" not found'),
        (SETTINGS + "dta: {}", {"action": "create"}, "Error from server (Invalid): "),
        ("", {"action": "create"}, "Must provide at least one of flags or manifest."),
        ("", {"action": "get", "manifestFrom": {"artifact": {"name": "m"}}}, "resource.manifestFrom.artifact.name: "),
    ],
)
async def test_the_users_mistakes_fail_the_step(
    story: Story, manifest: str, resource: dict[str, Any], message: str
) -> None:
    await story.launch(manifest, **resource)
    outcome = await story.end()
    assert (outcome.phase, outcome.exit_code) == ("Failed", 64)
    assert outcome.message.startswith(message)


async def test_a_bad_output_path_fails_the_step_after_its_action(cluster: EmbeddedCluster, story: Story) -> None:
    outputs = {"parameters": [{"name": "x", "valueFrom": {"jsonPath": "{.data[}"}}]}
    await story.launch(SETTINGS, action="create", outputs=outputs)
    assert (await story.end()).message.startswith("outputs.parameters[0] (x).valueFrom.jsonPath: ")


async def test_a_manifest_may_come_from_an_artifact(cluster: EmbeddedCluster) -> None:
    async def read(workflow: Object, launch: Launch, name: str) -> bytes:
        assert name == "manifest"
        return SETTINGS.encode()

    async with server(cluster, read_artifact=read) as story:
        inputs = {"artifacts": [{"name": "manifest", "path": "/m.yaml"}]}
        source = {"artifact": {"name": "manifest"}}
        await story.launch("", action="create", manifestFrom=source, inputs=inputs)
        assert (await story.end()).phase == "Succeeded"
    await cluster.get(CONFIG_MAP, "settings", "default")


async def test_the_service_account_must_be_allowed_to(cluster: EmbeddedCluster) -> None:
    def may(namespace: str, account: str, verb: str, kind: Kind, where: str, name: str) -> str:
        return "" if (verb, kind) == ("create", CONFIG_MAP) else f"{namespace}:{account} cannot {verb} {where}/{name}"

    allowed: IsAllowed = may
    async with server(cluster, may=allowed) as story:
        await story.launch(SETTINGS, node="a", action="create")
        await story.launch(SETTINGS, node="b", action="apply")
        assert story.phases("a") == ["Succeeded"]
        assert (await story.end("b")).message == "Error from server (Forbidden): default: cannot patch default/settings"


@pytest.mark.parametrize(
    ("manifest", "resource"),
    [
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: flow-own-pod, annotations: {foo: bar}}", {}),
        (
            "- {op: add, path: /metadata/annotations/foo, value: bar}",
            {"mergeStrategy": "json", "flags": ["pod", "flow-own-pod"]},
        ),
    ],
)
async def test_the_own_pod_is_patched_on_paper(
    cluster: EmbeddedCluster, story: Story, manifest: str, resource: dict[str, Any]
) -> None:
    outputs = {"parameters": [{"name": "foo", "valueFrom": {"jsonPath": "{.metadata.annotations.foo}"}}]}
    await story.launch(manifest, action="patch", outputs=outputs, **resource)
    outcome = await story.end()
    assert (outcome.phase, outcome.outputs["parameters"][0]["value"]) == ("Succeeded", "bar")
    assert (await cluster.list(POD)).items == []


async def test_trouble_that_passes_is_not_the_users(cluster: EmbeddedCluster) -> None:
    calls = 0

    async def read(workflow: Object, launch: Launch, name: str) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Unavailable("not now")
        raise ResourceError("no such artifact")

    async with server(cluster, read_artifact=read) as story:
        options: dict[str, Any] = {
            "action": "create",
            "manifestFrom": {"artifact": {"name": "m"}},
            "inputs": {"artifacts": [{"name": "m"}]},
        }
        with pytest.raises(Unavailable):
            await story.launch("", **options)
        assert story.reports == []
        await story.launch("", **options)
        assert (await story.end()).message == "no such artifact"
