"""WorkflowEventBindings start workflows for events that clients send."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import CONFIG_MAP
from muster.kube.errors import BadRequest
from muster.kube.objects import Object, labels_of
from muster.kube.rbac import AUTHENTICATED, Action, User
from muster.workflows.event_bindings import matches_event, workflow_for_event
from muster.workflows.kinds import WORKFLOW
from tests.embedded.waiting import wait_until
from tests.server.argo.served import Argo, hello

SCOPE = {
    "namespace": "default",
    "discriminator": "push",
    "metadata": {"x-event": ["push"]},
    "payload": {"branch": "main", "size": 3, "files": ["a"]},
}


def binding(selector: str = "true", **submit: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "WorkflowEventBinding",
        "metadata": {"name": "on-push", "namespace": "default"},
        "spec": {
            "event": {"selector": selector},
            "submit": {"workflowTemplateRef": {"name": "train"}, **submit},
        },
    }


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ('payload.branch == "main"', True),
        ('discriminator == "pull"', False),
        ('"push" in metadata["x-event"] && namespace == "default"', True),
        ("payload.size > 3", False),
        ("payload.nothing != nil", False),
    ],
)
def test_selectors(selector: str, meant: bool) -> None:
    assert matches_event(binding(selector), SCOPE) is meant


@pytest.mark.parametrize("selector", ["payload.", "payload.branch", "nonsense > 3"])
def test_the_error_names_the_bad_selector(selector: str) -> None:
    with pytest.raises(BadRequest, match=r"spec\.event\.selector"):
        matches_event(binding(selector), SCOPE)


def test_the_workflow_is_created_from_the_event() -> None:
    parameters = [
        {"name": "branch", "valueFrom": {"event": "payload.branch"}},
        {"name": "size", "valueFrom": {"event": "payload.size"}},
        {"name": "files", "valueFrom": {"event": "payload.files"}},
    ]
    metadata = {"generateName": '"run-" + payload.branch + "-"', "labels": {"branch": "payload.branch"}}
    made = workflow_for_event(binding(arguments={"parameters": parameters}, metadata=metadata), SCOPE)
    assert made["metadata"]["generateName"] == "run-main-"
    assert labels_of(made)["branch"] == "main"
    assert labels_of(made)["workflows.argoproj.io/workflow-event-binding"] == "on-push"
    assert made["spec"]["arguments"]["parameters"] == [
        {"name": "branch", "value": "main"},
        {"name": "size", "value": "3"},
        {"name": "files", "value": '["a"]'},
    ]


def test_a_fixed_name_is_kept() -> None:
    made = workflow_for_event(binding(metadata={"name": '"exactly"'}), SCOPE)
    assert (made["metadata"]["name"], "generateName" in made["metadata"]) == ("exactly", False)


@pytest.mark.parametrize(
    ("submit", "told"),
    [
        ({"arguments": {"parameters": [{"name": "x", "value": "1"}]}}, "valueFrom.event"),
        ({"metadata": {"name": "payload.size"}}, "must evaluate to a string"),
        ({"metadata": {"labels": {"a": "payload."}}}, r"spec.submit.metadata.labels\[a\]"),
    ],
)
def test_errors_explain_what_cannot_be_created(submit: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        workflow_for_event(binding(**submit), SCOPE)


async def test_an_event_starts_the_matching_workflows(argo: Argo) -> None:
    await argo.cluster.create({**hello("train"), "kind": "WorkflowTemplate"})
    await argo.cluster.create(binding('payload.go == true && metadata["x-why"][0] == "test"'))
    async with argo.served.session(**{"X-Why": "test"}) as session:
        sender = Argo(argo.served, session)
        assert await sender("POST", "events/default/push", {"go": False}) == {}
        assert (await argo.cluster.list(WORKFLOW)).items == []
        assert await sender("POST", "events/default/push", {"go": True}) == {}
    (started,) = (await argo.cluster.list(WORKFLOW)).items
    assert started["spec"]["workflowTemplateRef"] == {"name": "train"}
    listed = await argo("GET", "workflow-event-bindings/default")
    assert len(listed["items"]) == 1


async def test_errors_are_returned_to_the_sender(argo: Argo) -> None:
    await argo.cluster.create(binding())
    answer = await argo("POST", "events/default/push", {}, status=500)
    assert answer["code"] == 13
    assert 'on-push: workflowtemplates.argoproj.io "train" not found' in answer["message"]


async def test_kubernetes_events_are_not_affected(argo: Argo) -> None:
    assert (await argo("GET", "/api/v1/events"))["kind"] == "EventList"


async def test_there_are_no_event_sources(argo: Argo) -> None:
    for plural in ("event-sources", "sensors"):
        assert (await argo("GET", f"{plural}/default"))["items"] == []


async def test_limits_are_changed_by_those_who_may_update_config_maps(argo: Argo) -> None:
    """The role of Argo Server grants updates of ConfigMaps, and no patches."""
    await argo("POST", "sync/default", {"cmName": "limits", "key": "gpu", "limit": 2})
    where = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "limits", "namespace": "default"}}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update"]}]
    await argo.cluster.create({**where, "kind": "Role", "rules": rules})
    await argo.cluster.create({
        **where,
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limits"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    })  # fmt: skip
    user = User("ann", frozenset((AUTHENTICATED,)))
    update = Action("update", "", "configmaps", namespace="default", name="limits")
    await wait_until(lambda: argo.served.identity.is_allowed(user, update))
    async with argo.served.session(argo.served.identity.tokens.issue("ann", [AUTHENTICATED])) as session:
        ann = Argo(argo.served, session)
        assert (await ann("PUT", "sync/default/gpu", {"cmName": "limits", "limit": 3}))["limit"] == 3
        assert await ann("DELETE", "sync/default/gpu", query={"cmName": "limits"}) == {}


async def test_limits_of_semaphores(argo: Argo) -> None:
    where = {"type": "configmap", "cmName": "limits"}
    told = {"cmName": "limits", "namespace": "default", "key": "gpu", "limit": 2}
    assert await argo("POST", "sync/default", {"cmName": "limits", "key": "gpu", "limit": 2}) == told
    assert await argo("GET", "sync/default/gpu", query=where) == told
    await argo("POST", "sync/default", {"cmName": "limits", "key": "gpu", "limit": 3}, status=409)
    assert (await argo("PUT", "sync/default/gpu", {"cmName": "limits", "limit": 3}))["limit"] == 3
    assert (await argo.cluster.get(CONFIG_MAP, "limits", "default"))["data"] == {"gpu": "3"}
    assert await argo("DELETE", "sync/default/gpu", query=where) == {}
    await argo("GET", "sync/default/gpu", query=where, status=404)
    await argo("PUT", "sync/default/gpu", {"cmName": "limits", "limit": 0}, status=400)
    assert (await argo("POST", "sync/default", {"type": "DATABASE"}, status=501))["code"] == 12
