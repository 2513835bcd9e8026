from __future__ import annotations

import copy
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from muster.kube.errors import Cause
from muster.kube.schema_validation import validate
from muster.platform.graphs.argo_import import from_manifest
from muster.platform.graphs.compile import GraphError, compile_run, parameters_of, secret_for, to_yaml, value_problems
from muster.platform.graphs.context import AvailableModule
from muster.platform.graphs.model import Document
from muster.platform.graphs.validation import only_errors, validate_graph
from muster.platform.records.resources import QueueSystem
from muster.workflows import lint
from muster.workflows.kinds import WORKFLOW
from tests.platform.graphs.random_graphs import graphs
from tests.platform.graphs.samples import CONTEXT, GPU, RUN, graph, node, seed_example


def compiled(document: Document, **parameters: str) -> dict[str, Any]:
    workflow = compile_run(document, replace(RUN, parameters=parameters), CONTEXT)
    assert wrong_with(workflow) == []
    return workflow


def wrong_with(workflow: dict[str, Any]) -> list[Cause]:
    return (
        validate(workflow, WORKFLOW.schema)
        + lint.find_problems(workflow, submitted=True)
        + lint.find_warnings(workflow)
    )


def template(workflow: dict[str, Any], name: str) -> dict[str, Any]:
    return next(t for t in workflow["spec"]["templates"] if t["name"] == name)


def tasks(workflow: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {task["name"]: task for task in template(workflow, "main")["dag"]["tasks"]}


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_the_example_of_the_seed() -> None:
    workflow = compiled(seed_example())
    assert workflow["metadata"] == {"name": "run-1", "namespace": "default", "labels": {"muster.dev/run": "r1"}}
    assert tasks(workflow)["step2"] == {
        "name": "step2",
        "template": "step2",
        "depends": "step1",
        "arguments": {
            "parameters": [{"name": "step1param1", "value": "{{tasks.step1.outputs.parameters.output_param1}}"}],
            "artifacts": [
                {"name": f"step1param{n}", "from": f"{{{{tasks.step1.outputs.artifacts.output_param{n}}}}}"}
                for n in (2, 3)
            ],
        },
    }
    assert template(workflow, "step1")["outputs"] == {
        "parameters": [{"name": "output_param1", "valueFrom": {"path": "/tmp/outpraram1.txt"}}],
        "artifacts": [
            {"name": "output_param2", "path": "/tmp/outpraram2.txt"},
            {"name": "output_param3", "path": "/tmp/outpraram3"},
        ],
    }
    second = template(workflow, "step2")
    assert second["inputs"]["artifacts"][1] == {"name": "step1param3", "path": "/tmp/outpraram3"}
    assert second["script"]["source"] == seed_example()["nodes"][1]["command"]
    assert second["script"]["workingDir"] == "/tmp/workflow_space"
    told = variables(second["script"])
    assert told["step1param2"] == "/tmp/outpraram2.txt"
    assert told["step1param1"] == "{{=replace(inputs.parameters['step1param1'], '$', '$$')}}"
    assert told["AI_HUB_USER_ID"] == "u1"
    assert told["AI_HUB_WORKFLOW_RUN_ID"] == "r1"
    assert told["AI_HUB_TOKEN"] == {"secretKeyRef": {"name": "run-1-secret", "key": "AI_HUB_TOKEN"}}


@pytest.mark.parametrize(
    ("task", "amounts", "selector"),
    [
        ({}, {"cpu": "100m", "memory": "1000M"}, None),
        ({"type": "monitor"}, {"cpu": "100m", "memory": "1000M"}, None),
        (
            {"type": "compute", "cluster": "RTX2080x8", "skus": 3},
            {"nvidia.com/gpu": "3", "cpu": "30", "memory": "240G"},
            {"pool": "rtx2080"},
        ),
        ({"type": "compute", "cluster": "cpu-only"}, {"cpu": "500m", "memory": "1536Mi"}, None),
        ({"type": "compute", "cluster": "cpu-only", "skus": 4}, {"cpu": "2", "memory": "6Gi"}, None),
    ],
)
def test_a_node_requests_its_number_of_skus(task: Any, amounts: dict[str, str], selector: Any) -> None:
    made = template(compiled(graph(node("a", task=task))), "a")
    assert made["script"]["resources"] == {"requests": amounts, "limits": amounts}
    assert made.get("nodeSelector") == selector


def test_pods_use_the_queue_of_their_virtual_cluster() -> None:
    made = template(compiled(graph(node("a", task={"type": "compute", "cluster": "RTX2080x8"}))), "a")
    assert made["metadata"] == {"annotations": {"scheduling.volcano.sh/queue-name": "rtx"}}
    assert made["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "schedulerName" not in made


VOLCANO_QUEUE = {"annotations": {"scheduling.volcano.sh/queue-name": "rtx"}}
KUEUE_QUEUE = {"labels": {"kueue.x-k8s.io/queue-name": "rtx"}}


@pytest.mark.parametrize(
    ("system", "queue", "metadata", "placement"),
    [
        ("embedded", "rtx", VOLCANO_QUEUE, {}),
        ("volcano", "rtx", VOLCANO_QUEUE, {"schedulerName": "volcano"}),
        ("kueue", "rtx", KUEUE_QUEUE, {}),
        ("kueue", "", None, {}),
        ("quota", "rtx", None, {"priorityClassName": "rtx"}),
        ("quota", "", None, {}),
    ],
)
def test_what_enforces_a_total_finds_the_pods(
    system: QueueSystem, queue: str, metadata: dict[str, Any] | None, placement: dict[str, str]
) -> None:
    clusters = {"RTX2080x8": replace(GPU, system=system, queue=queue)}
    document = graph(node("a", task={"type": "compute", "cluster": "RTX2080x8"}), node("b"))
    context = replace(CONTEXT, clusters=clusters)
    made = compile_run(document, RUN, context)
    names = ("schedulerName", "priorityClassName")
    assert template(made, "a").get("metadata") == metadata
    assert {name: template(made, "a")[name] for name in names if name in template(made, "a")} == placement
    assert not {"metadata", *names} & template(made, "b").keys()
    imported = from_manifest(to_yaml(document, context), context).document
    assert imported is not None
    assert imported["nodes"][0]["task"] == {"type": "compute", "cluster": "RTX2080x8", "skus": 1}


def test_the_pattern_of_metrics_is_an_annotation_of_the_pods() -> None:
    pattern = r"iter (?P<step>\d+): loss (?P<loss>\S+)"
    made = template(compiled(graph(node("a", metricsPattern=pattern))), "a")
    assert made["metadata"] == {"annotations": {"muster.dev/metrics-pattern": pattern}}


def test_retries_storage_and_order() -> None:
    storage = [{"root": "nfs"}, {"root": "models", "readOnly": True, "path": "/m"}, {"root": "华为盘"}]
    document = graph(node("a"), node("b"), node("c", retries=2, storage=storage), edges="a>c b>c a>c")
    workflow = compiled(document)
    made = template(workflow, "c")
    assert made["retryStrategy"] == {"limit": "2", "retryPolicy": "Always"}
    assert tasks(workflow)["c"]["depends"] == "a && b"
    mounts, volumes = made["script"]["volumeMounts"], workflow["spec"]["volumes"]
    assert [(m["mountPath"], m.get("readOnly", False)) for m in mounts] == [
        ("/nfs/data", False),
        ("/m", True),
        ("/hw", False),
    ]
    assert [volume["name"] for volume in volumes] == [mount["name"] for mount in mounts]
    assert volumes[0] == {"name": "storage-nfs", "hostPath": {"path": "/nfs/data", "type": "Directory"}}
    assert volumes[1]["persistentVolumeClaim"] == {"claimName": "models-claim"}
    assert volumes[2]["hostPath"]["path"] == "/mnt/hw"


def test_names_in_any_language_are_kept_beside_valid_ones() -> None:
    workflow = compiled(graph(node("数据准备"), node("Train"), edges="数据准备>Train"))
    first, second = workflow["spec"]["templates"][1:]
    assert first["annotations"] == {"muster.dev/node": "数据准备"}
    assert second["annotations"]["workflows.argoproj.io/display-name"] == "Train"
    assert tasks(workflow)["train"]["depends"] == first["name"]


def test_initial_parameters_are_arguments_of_the_workflow() -> None:
    document = graph(
        node("a", command="echo $x", inputs=[{"name": "x", "from": {"parameter": "lr"}}]),
        parameters=[{"name": "lr", "default": "0.1"}, {"name": "note"}],
    )
    assert compiled(document)["spec"]["arguments"]["parameters"] == [
        {"name": "lr", "value": "0.1"},
        {"name": "note", "value": ""},
    ]
    changed = compiled(document, lr="0.5")
    assert changed["spec"]["arguments"]["parameters"][0] == {"name": "lr", "value": "0.5"}
    assert tasks(changed)["a"]["arguments"]["parameters"] == [{"name": "x", "value": "{{workflow.parameters.lr}}"}]


def test_text_that_argo_would_expand_is_escaped() -> None:
    document = graph(
        node(
            "a",
            command="echo {{workflow.name}} $x $y",
            env=[{"name": "E", "value": "{{=1+1}}"}],
            inputs=[{"name": "x", "from": {"parameter": "p"}}, {"name": "y", "value": "$(E) {{pod.name}}"}],
        ),
        parameters=[{"name": "p"}],
    )
    run = replace(RUN, parameters={"p": "{{workflow.uid}}"})
    workflow = compile_run(document, run, CONTEXT)
    assert wrong_with(workflow) == []
    assert "{{" not in str(workflow)
    stored = {key: b64decode(text).decode() for key, text in secret_for(document, run, CONTEXT, "t")["data"].items()}
    env = variables(template(workflow, "a")["script"])
    values = {name: stored[ref["secretKeyRef"]["key"]] for name, ref in env.items() if isinstance(ref, dict)}
    assert values == {
        "E": "{{=1+1}}",
        "x": "{{workflow.uid}}",
        "y": "$(E) {{pod.name}}",
        "AI_HUB_TOKEN": "t",
        "MUSTER_COMMAND": "echo {{workflow.name}} $x $y",
    }
    assert template(workflow, "a")["script"]["source"] == 'eval "$MUSTER_COMMAND"'


def test_the_token_is_only_in_the_secret() -> None:
    secret = secret_for(seed_example(), RUN, CONTEXT, "mst_secret")
    assert secret["metadata"]["name"] == "run-1-secret"
    assert b64decode(secret["data"]["AI_HUB_TOKEN"]) == b"mst_secret"
    assert "mst_secret" not in str(compiled(seed_example()))


def test_a_module_node_runs_its_entrypoint_with_one_argument_for_each_input() -> None:
    document = graph(
        {
            "name": "hash",
            "kind": "module",
            "module": {"name": "hash-file", "version": "1"},
            "inputs": [{"name": "input_file", "value": "a b.txt"}],
            "env": [{"name": "LEVEL", "value": "9"}],
        },
        node("next", command="cat $c", inputs=[{"name": "c", "from": {"node": "hash", "output": "copy"}}]),
        edges="hash>next",
    )
    workflow = compiled(document)
    made = template(workflow, "hash")
    container = made["container"]
    assert (container["image"], container["command"]) == ("modules/hash-file:1", ["python", "main.py"])
    assert container["args"] == ["--input_file=$(input_file)"]
    assert "workingDir" not in container
    assert (variables(container)["MODE"], variables(container)["LEVEL"]) == ("fast", "9")
    assert container["volumeMounts"] == [{"name": "workspace", "mountPath": "/tmp/workflow_space"}]
    assert [o["name"] for o in made["outputs"]["parameters"] + made["outputs"]["artifacts"]] == ["digest", "copy"]
    assert template(workflow, "next")["inputs"]["artifacts"] == [{"name": "c", "path": "/tmp/workflow_space/copy"}]


def test_a_checkout_may_replace_the_image_of_a_module() -> None:
    document = graph(
        {
            "name": "m",
            "kind": "module",
            "module": {"name": "local", "version": "1"},
            "inputs": [{"name": "text", "value": "x"}],
        }
    )
    made = template(compiled(document), "m")
    assert made["volumes"][1] == {"name": "module", "hostPath": {"path": "/srv/local", "type": "Directory"}}
    assert made["container"]["volumeMounts"][1] == {"name": "module", "mountPath": "/app", "readOnly": True}
    assert made["container"]["workingDir"] == "/app"
    assert isinstance(CONTEXT.modules["local", "1"], AvailableModule)


MANIFEST = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata:
  generateName: hello-
  labels: {team: a}
spec:
  entrypoint: hello
  arguments:
    parameters:
    - {name: who, value: world}
    - {name: must}
  templates:
  - name: hello
    container:
      image: busybox
      command: [echo, "{{workflow.parameters.who}}"]
      env: [{name: AI_HUB_USER_ID, value: forged}]
"""


def test_a_manifest_version_runs_unchanged() -> None:
    document: Document = {"format": 1, "type": "yaml", "manifest": MANIFEST}
    assert [(p.name, p.default, p.required) for p in parameters_of(document)] == [
        ("who", "world", False),
        ("must", None, True),
    ]
    workflow = compiled(document, must="1", who="me")
    assert workflow["metadata"]["name"] == "run-1"
    assert workflow["metadata"]["labels"] == {"team": "a", "muster.dev/run": "r1"}
    assert workflow["spec"]["arguments"]["parameters"] == [
        {"name": "who", "value": "me"},
        {"name": "must", "value": "1"},
    ]
    container = workflow["spec"]["templates"][0]["container"]
    assert container["command"] == ["echo", "{{workflow.parameters.who}}"]
    assert variables(container)["AI_HUB_USER_ID"] == "u1"


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({}, "value.missing"),
        ({"must": ""}, "value.missing"),
        ({"must": "1", "typo": "1"}, "value.unknown"),
        ({"must": "x" * 100_001}, "value.long"),
        ({"must": "a\0b"}, "value.zero"),
        ({"must": "1", "may": ""}, ""),
    ],
)
def test_values_of_a_run_are_checked(values: dict[str, str], code: str) -> None:
    document = graph(node("a"), parameters=[{"name": "must", "required": True}, {"name": "may", "default": "1"}])
    assert [p.code for p in value_problems(document, values)] == ([code] if code else [])
    if code:
        with pytest.raises(GraphError):
            compile_run(document, replace(RUN, parameters=values), CONTEXT)


def test_a_document_with_errors_is_not_compiled() -> None:
    with pytest.raises(GraphError, match="use one of"):
        compile_run(graph(node("a", task={"type": "compute", "cluster": "no"})), RUN, CONTEXT)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_any_valid_graph_compiles_to_a_workflow_without_lint_problems(document: Document) -> None:
    before = copy.deepcopy(document)
    assert only_errors(validate_graph(document, CONTEXT)) == []
    workflow = compile_run(document, RUN, CONTEXT)
    assert wrong_with(workflow) == []
    assert document == before
    assert compile_run(document, RUN, CONTEXT) == workflow
