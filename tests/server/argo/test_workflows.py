"""Workflows over Argo's REST API."""

from __future__ import annotations

import pytest

from muster.kube.objects import name_of
from muster.workflows.kinds import CRON_WORKFLOW, WORKFLOW, WORKFLOW_TEMPLATE
from tests.server.argo.served import Argo, hello

TEMPLATE = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "WorkflowTemplate",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": hello()["spec"],
}


async def test_create_stores_the_body_of_go_clients(argo: Argo) -> None:
    sent = {
        "metadata": {"generateName": "hello-", "creationTimestamp": None},
        "spec": {**hello()["spec"], "arguments": {}},
    }
    sent["status"] = {"startedAt": None, "finishedAt": None}
    answer = await argo("POST", "workflows/default", {"namespace": "default", "workflow": sent, "createOptions": {}})
    assert answer["metadata"]["name"].startswith("hello-")
    assert answer["metadata"]["labels"] == {"workflows.argoproj.io/creator": "test-admin"}
    assert await argo.cluster.get(WORKFLOW, name_of(answer), "default") == answer


@pytest.mark.parametrize("dry", [{"createOptions": {"dryRun": ["All"]}}, {"serverDryRun": True}])
async def test_a_dry_run_stores_nothing(argo: Argo, dry: dict[str, object]) -> None:
    answer = await argo("POST", "workflows/default", {"workflow": hello("dry"), **dry})
    assert name_of(answer) == "dry"
    assert (await argo.cluster.list(WORKFLOW)).items == []


async def test_errors_have_the_form_of_grpc_gateway(argo: Argo) -> None:
    wrong = hello("wrong", templates=[{"name": "main", "container": {"image": 3}}])
    answer = await argo("POST", "workflows/default", {"workflow": wrong}, status=400)
    assert answer["code"] == 3
    assert "spec.templates[0].container.image" in answer["message"]
    missing = await argo("GET", "workflows/default/nope", status=404)
    assert missing == {"code": 5, "message": 'workflows.argoproj.io "nope" not found'}
    await argo.workflow("there")
    assert (await argo("POST", "workflows/default", {"workflow": hello("there")}, status=409))["code"] == 6
    assert (await argo("POST", "workflows/default", {}, status=400))["message"] == "the request has no workflow"


async def test_get_includes_the_nodes_unless_excluded(argo: Argo) -> None:
    await argo.workflow(
        "done", "Succeeded", {"done": {"id": "done", "name": "done", "type": "Pod", "phase": "Succeeded"}}
    )
    whole = await argo("GET", "workflows/default/done")
    assert whole["status"]["nodes"]["done"]["phase"] == "Succeeded"
    part = await argo("GET", "workflows/default/done", query={"fields": "metadata.name,status.phase"})
    assert part == {"metadata": {"name": "done"}, "status": {"phase": "Succeeded"}}
    assert "nodes" not in (await argo("GET", "workflows/default/done", query={"fields": "-status.nodes"}))["status"]


async def test_latest_is_the_newest_workflow(argo: Argo) -> None:
    assert (await argo("GET", "workflows/default/@latest", status=404))["message"] == "no workflows found"
    for name in ("b", "c", "a"):
        await argo.workflow(name)
    assert name_of(await argo("GET", "workflows/default/@latest")) == "a"


async def test_list_pages_have_an_offset(argo: Argo) -> None:
    for name, phase in (("one", "Succeeded"), ("two", "Running"), ("three", "Failed")):
        await argo.workflow(name, phase)
    everything = await argo("GET", "workflows/", query={"fields": "metadata,items.metadata.name"})
    assert everything["items"][0] == {"metadata": {"name": "two"}}
    first = await argo("GET", "workflows/default", query={"listOptions.limit": "2"})
    assert (len(first["items"]), first["metadata"]["continue"]) == (2, "2")
    rest = await argo("GET", "workflows/default", query={"listOptions.limit": "2", "listOptions.continue": "2"})
    assert (len(rest["items"]), rest["metadata"].get("continue")) == (1, None)


async def test_delete(argo: Argo) -> None:
    await argo.workflow("gone", metadata={"name": "gone", "namespace": "default", "finalizers": ["example.com/held"]})
    assert await argo("DELETE", "workflows/default/gone", query={"force": "true"}) == {}
    assert (await argo.cluster.list(WORKFLOW)).items == []


async def test_submit_from_a_template(argo: Argo) -> None:
    await argo.cluster.create(TEMPLATE)
    body = {
        "resourceKind": "workflowtemplate",
        "resourceName": "train",
        "submitOptions": {"parameters": ["lr=0.1", "note=a=b"], "labels": "team=x", "entryPoint": "main"},
    }
    answer = await argo("POST", "workflows/default/submit", body)
    assert answer["metadata"]["generateName"] == "train-"
    assert answer["metadata"]["labels"] == {
        "workflows.argoproj.io/workflow-template": "train",
        "workflows.argoproj.io/creator": "test-admin",
        "team": "x",
    }
    assert answer["spec"]["workflowTemplateRef"] == {"name": "train"}
    assert answer["spec"]["entrypoint"] == "main"
    given = [(p["name"], p["value"]) for p in answer["spec"]["arguments"]["parameters"]]
    assert given == [("lr", "0.1"), ("note", "a=b")]


async def test_submit_reports_errors(argo: Argo) -> None:
    wrong = await argo("POST", "workflows/default/submit", {"resourceKind": "pod", "resourceName": "x"}, status=400)
    assert "'pod' is not supported" in wrong["message"]
    body = {"resourceKind": "wftmpl", "resourceName": "nope"}
    assert (await argo("POST", "workflows/default/submit", body, status=404))["code"] == 5
    await argo.cluster.create(TEMPLATE)
    body = {"resourceKind": "wftmpl", "resourceName": "train", "submitOptions": {"parameters": ["nonsense"]}}  # type: ignore[dict-item]
    assert "NAME=VALUE" in (await argo("POST", "workflows/default/submit", body, status=400))["message"]


async def test_submit_from_a_cron_workflow(argo: Argo) -> None:
    spec = {"schedules": ["0 0 * * *"], "workflowSpec": hello()["spec"], "workflowMetadata": {"labels": {"a": "b"}}}
    await argo.cluster.create({**TEMPLATE, "kind": "CronWorkflow", "spec": spec})
    answer = await argo("POST", "workflows/default/submit", {"resourceKind": "cronwf", "resourceName": "train"})
    assert answer["spec"] == hello()["spec"]
    assert answer["metadata"]["labels"]["workflows.argoproj.io/cron-workflow"] == "train"
    assert answer["metadata"]["labels"]["a"] == "b"
    assert "workflows.argoproj.io/scheduled-time" in answer["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("path", "field", "kind"),
    [("workflow-templates", "template", WORKFLOW_TEMPLATE), ("cron-workflows", "cronWorkflow", CRON_WORKFLOW)],
)
async def test_templates_and_cron_workflows_are_stored(argo: Argo, path: str, field: str, kind: object) -> None:
    spec = hello()["spec"] if field == "template" else {"schedules": ["* * * * *"], "workflowSpec": hello()["spec"]}
    obj = {"metadata": {"name": "kept"}, "spec": spec}
    created = await argo("POST", f"{path}/default", {field: obj})
    assert created["metadata"]["namespace"] == "default"
    assert await argo("POST", f"{path}/default/lint", {field: obj})
    changed = {**obj, "metadata": {"name": "kept", "labels": {"new": "yes"}}}
    updated = await argo("PUT", f"{path}/default/kept", {field: changed})
    assert updated["metadata"]["labels"]["new"] == "yes"
    assert updated["metadata"]["labels"]["workflows.argoproj.io/action"] == "Update"
    listed = await argo("GET", f"{path}/default")
    assert [name_of(one) for one in listed["items"]] == ["kept"]
    assert name_of(await argo("GET", f"{path}/default/kept")) == "kept"
    assert await argo("DELETE", f"{path}/default/kept") == {}
    await argo("GET", f"{path}/default/kept", status=404)


async def test_cron_workflows_are_suspended_and_resumed(argo: Argo) -> None:
    spec = {"schedules": ["* * * * *"], "workflowSpec": hello()["spec"]}
    await argo("POST", "cron-workflows/default", {"cronWorkflow": {"metadata": {"name": "tick"}, "spec": spec}})
    assert (await argo("PUT", "cron-workflows/default/tick/suspend", {}))["spec"]["suspend"] is True
    assert (await argo("PUT", "cron-workflows/default/tick/resume", {}))["spec"].get("suspend") is None


async def test_cluster_templates_have_no_namespace(argo: Argo) -> None:
    obj = {"metadata": {"name": "shared"}, "spec": hello()["spec"]}
    await argo("POST", "cluster-workflow-templates", {"template": obj})
    assert [name_of(one) for one in (await argo("GET", "cluster-workflow-templates"))["items"]] == ["shared"]
    assert await argo("DELETE", "cluster-workflow-templates/shared") == {}


async def test_the_archive_lists_finished_workflows(argo: Argo) -> None:
    done = await argo.workflow("done", "Succeeded")
    running = await argo.workflow("running", "Running")
    assert [name_of(one) for one in (await argo("GET", "archived-workflows"))["items"]] == ["done"]
    assert name_of(await argo("GET", f"archived-workflows/{done['metadata']['uid']}")) == "done"
    await argo("GET", f"archived-workflows/{running['metadata']['uid']}", status=404)
    await argo("PUT", f"archived-workflows/{done['metadata']['uid']}/retry", {}, status=409)
    assert await argo("DELETE", f"archived-workflows/{done['metadata']['uid']}") == {}
    assert (await argo("GET", "archived-workflows"))["items"] == []


async def test_info_about_the_server(argo: Argo) -> None:
    assert (await argo("GET", "version"))["version"].startswith("v4.0.7")
    assert (await argo("GET", "userinfo"))["subject"] == "test-admin"
    assert (await argo("GET", "info"))["managedNamespace"] == ""
    assert (await argo("GET", "nonsense", status=404))["kind"] == "Status", "this is the Kubernetes API"
    assert (await argo("GET", "/api/v1/namespaces/default/pods"))["kind"] == "PodList"
    assert (await argo("PATCH", "workflows/default/x", {}, status=400))["code"] == 3
