from __future__ import annotations

from typing import Any

from muster.workflows.executors.pod_spec import claims_of, volumes_of

CLAIM: dict[str, Any] = {
    "metadata": {"name": "work", "labels": {"a": "b"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
WORKFLOW: dict[str, Any] = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "flow", "namespace": "team", "uid": "u-1"},
    "spec": {"volumeClaimTemplates": [CLAIM]},
}


def test_a_claim_is_named_after_its_workflow_and_goes_with_it() -> None:
    [claim] = claims_of(WORKFLOW)
    assert claim["kind"] == "PersistentVolumeClaim"
    assert claim["metadata"]["name"] == "flow-work"
    assert claim["metadata"]["namespace"] == "team"
    assert claim["metadata"]["labels"] == {"a": "b", "workflows.argoproj.io/workflow": "flow"}
    assert [ref["uid"] for ref in claim["metadata"]["ownerReferences"]] == ["u-1"]
    assert claim["spec"] == CLAIM["spec"]


def test_pods_find_it_under_the_name_of_its_template() -> None:
    assert volumes_of(WORKFLOW) == [{"name": "work", "persistentVolumeClaim": {"claimName": "flow-work"}}]


def test_the_claims_may_come_from_a_template_that_the_workflow_runs() -> None:
    bare = {**WORKFLOW, "spec": {"workflowTemplateRef": {"name": "shared"}}}
    assert claims_of(bare) == []
    assert [c["metadata"]["name"] for c in claims_of(bare, {"volumeClaimTemplates": [CLAIM]})] == ["flow-work"]
    stored = {**bare, "status": {"storedWorkflowTemplateSpec": {"volumeClaimTemplates": [CLAIM]}}}
    assert [c["metadata"]["name"] for c in claims_of(stored)] == ["flow-work"]
