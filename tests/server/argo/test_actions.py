"""Actions on workflows over Argo's API, as they are stored for the controller."""

from __future__ import annotations

import pytest

from muster.kube.builtin import POD
from muster.kube.errors import NotFound
from muster.kube.objects import Object, labels_of, name_of
from muster.workflows.kinds import WORKFLOW
from tests.server.argo.served import Argo

WAITING: Object = {
    "wf": {"id": "wf", "name": "wf", "type": "Steps", "phase": "Running", "children": ["wf-1"]},
    "wf-1": {"id": "wf-1", "name": "wf[0].ok", "displayName": "ok", "type": "Suspend", "phase": "Running",
             "boundaryID": "wf"},
}  # fmt: skip
FAILED: Object = {
    "wf": {"id": "wf", "name": "wf", "displayName": "wf", "type": "Pod", "phase": "Failed", "templateName": "main",
           "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("action", "expected", "deed"),
    [
        ("stop", {"shutdown": "Stop"}, "Stop"),
        ("terminate", {"shutdown": "Terminate"}, "Terminate"),
        ("suspend", {"suspend": True}, "Suspend"),
    ],
)
async def test_actions_set_a_field_of_the_spec(argo: Argo, action: str, expected: dict[str, object], deed: str) -> None:
    await argo.workflow("wf", "Running", WAITING)
    answer = await argo("PUT", f"workflows/default/@latest/{action}", {"name": "wf", "namespace": "default"})
    assert {name: answer["spec"][name] for name in expected} == expected
    assert answer["status"]["nodes"].keys() == WAITING.keys()
    assert labels_of(answer)["workflows.argoproj.io/action"] == deed
    assert labels_of(answer)["workflows.argoproj.io/actor"] == "test-admin"


async def test_resume_ends_suspended_nodes(argo: Argo) -> None:
    await argo.workflow("wf", "Running", WAITING)
    answer = await argo("PUT", "workflows/default/wf/resume", {})
    assert answer["status"]["nodes"]["wf-1"]["phase"] == "Succeeded"
    assert answer["status"]["nodes"]["wf-1"]["message"] == "Resumed by: map[User:test-admin]"
    wrong = await argo("PUT", "workflows/default/wf/resume", {"nodeFieldSelector": "displayName=ok"}, status=400)
    assert "no suspend nodes matching" in wrong["message"]


async def test_set_supplies_the_outputs_of_a_node(argo: Argo) -> None:
    nodes = {
        **WAITING,
        "wf-1": {**WAITING["wf-1"], "outputs": {"parameters": [{"name": "go", "valueFrom": {"supplied": {}}}]}},
    }
    await argo.workflow("wf", "Running", nodes)
    selected = {"nodeFieldSelector": "displayName=ok"}
    answer = await argo(
        "PUT", "workflows/default/wf/set", {**selected, "outputParameters": '{"go": "yes"}', "message": "by hand"}
    )
    node = answer["status"]["nodes"]["wf-1"]
    assert (node["outputs"]["parameters"], node["message"]) == ([{"name": "go", "value": "yes"}], "by hand")
    wrong = await argo("PUT", "workflows/default/wf/set", {**selected, "phase": "Running"}, status=400)
    assert "invalid phase" in wrong["message"]
    wrong = await argo("PUT", "workflows/default/wf/set", {**selected, "outputParameters": "x"}, status=400)
    assert "unable to parse" in wrong["message"]


async def test_retry_deletes_failed_pods_first(argo: Argo) -> None:
    await argo.workflow("wf", "Failed", FAILED)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wf", "namespace": "default"},
           "spec": {"containers": [{"name": "main", "image": "busybox"}]}}  # fmt: skip
    await argo.cluster.create(pod)
    answer = await argo("PUT", "workflows/default/wf/retry", {"parameters": ["lr=2"]})
    assert answer["status"].get("phase") in (None, "Running")
    assert "finishedAt" not in answer["status"]
    assert answer["spec"]["arguments"]["parameters"] == [{"name": "lr", "value": "2"}]
    assert labels_of(answer)["workflows.argoproj.io/action"] == "Retry"
    with pytest.raises(NotFound):
        await argo.cluster.get(POD, "wf", "default")
    await argo.workflow("fine", "Succeeded")
    assert (await argo("PUT", "workflows/default/fine/retry", {}, status=400))["code"] == 3


async def test_resubmit_creates_a_new_workflow(argo: Argo) -> None:
    done = await argo.workflow("wf", "Succeeded", FAILED)
    answer = await argo("PUT", "workflows/default/wf/resubmit", {"parameters": ["lr=2"]})
    assert name_of(answer).startswith("wf-")
    assert "status" not in answer or not answer["status"].get("nodes")
    assert labels_of(answer)["workflows.argoproj.io/resubmitted-from-workflow"] == "wf"
    again = await argo("PUT", f"archived-workflows/{done['metadata']['uid']}/resubmit", {})
    assert name_of(again).startswith("wf-")
    assert len((await argo.cluster.list(WORKFLOW)).items) == 3


@pytest.mark.parametrize("action", ["stop", "terminate", "suspend"])
async def test_a_finished_workflow_cannot_be_stopped(argo: Argo, action: str) -> None:
    await argo.workflow("wf", "Succeeded")
    assert (await argo("PUT", f"workflows/default/wf/{action}", {}, status=400))["code"] == 3
