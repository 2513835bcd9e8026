from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from muster.kube.manifests import load_manifests
from muster.platform.graphs.compile import GraphError, to_workflow, to_yaml
from muster.platform.graphs.model import Document
from muster.workflows import lint
from tests.platform.graphs.random_graphs import graphs
from tests.platform.graphs.samples import CONTEXT, graph, node, seed_example


def test_an_export_is_a_self_contained_workflow() -> None:
    text = to_yaml(seed_example(), CONTEXT, "我的 Demo")
    (document,) = load_manifests(text, "demo.yaml")
    workflow = document.object
    assert workflow["metadata"] == {"generateName": "demo-"}
    assert lint.find_problems(workflow, submitted=True) == []
    variables = {v["name"]: v for v in workflow["spec"]["templates"][1]["script"]["env"]}
    assert variables["AI_HUB_TOKEN"]["valueFrom"]["secretKeyRef"]["optional"] is True


def test_an_export_lists_required_parameters() -> None:
    document = graph(node("a"), parameters=[{"name": "must", "required": True}, {"name": "may", "default": "{{x}}"}])
    text = to_yaml(document, CONTEXT)
    assert "argo submit FILE, or: muster submit FILE -p must=VALUE" in text.splitlines()[0]
    parameters = to_workflow(document, CONTEXT)["spec"]["arguments"]["parameters"]
    assert parameters == [{"name": "must"}, {"name": "may", "value": "{{='{{'}}x}}"}]


def test_a_manifest_is_exported_unchanged() -> None:
    assert to_yaml({"format": 1, "type": "yaml", "manifest": "# mine\nkind: Workflow\n"}, CONTEXT) == (
        "# mine\nkind: Workflow\n"
    )


def test_a_graph_with_errors_is_not_exported() -> None:
    with pytest.raises(GraphError):
        to_yaml(graph(), CONTEXT)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_any_valid_graph_is_exported_without_lint_problems(document: Document) -> None:
    (read,) = load_manifests(to_yaml(document, CONTEXT), "x")
    assert lint.find_problems(read.object, submitted=True) == []
