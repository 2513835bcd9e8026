""""""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.embedded.node.environment import expand
from muster.platform.graphs.bindings import (
    Literals,
    escape_dollars,
    escape_tags,
    from_input,
    from_input_as_json,
    nodes_by_task,
    tasks_of,
)
from muster.platform.graphs.context import with_modules
from muster.platform.graphs.model import read
from muster.workflows.lang.tags import substitute
from tests.platform.graphs.samples import CONTEXT, graph, node, training


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("step1", "step1"),
        ("Train Model", "train-model"),
        ("train_model", "train-model"),
        ("1st", "node-1st"),
        ("main", "main-dbfb92"),
        ("数据准备", "node-0b4a5d"),
        ("训练 v2", "v2"),
        ("--", "node-cc63b4"),
    ],
)
def test_a_node_gets_a_valid_name(name: str, task: str) -> None:
    found = tasks_of(read(graph(node(name))))[name].main
    assert re.fullmatch(r"[a-z][-a-z0-9]*", found)
    assert re.sub(r"-[0-9a-f]{6}$", "", found) == re.sub(r"-[0-9a-f]{6}$", "", task)


def test_valid_names_are_kept_and_others_are_changed() -> None:
    names = ["Train", "train", "TRAIN", "训练", "评估"]
    tasks = tasks_of(read(graph(*map(node, names))))
    assert tasks["train"].main == "train"
    assert len({each.main for each in tasks.values()}) == len(names)
    assert tasks == tasks_of(read(graph(*map(node, reversed(names)))))


def test_a_training_node_with_files_has_extra_tasks() -> None:
    file = {"name": "f", "path": "/tmp/f", "type": "file"}
    result = {"name": "r", "path": "/tmp/workflow_space/r"}
    taken = [{"name": "x", "from": {"node": "a", "output": "f"}}]
    document = graph(
        node("a", outputs=[file]),
        training("train", "JAXJob", ("Worker", 2), inputs=taken, outputs=[result]),
        training("alone", "JAXJob", ("Worker", 2)),
        node("train-inputs"),
    )
    tasks = tasks_of(with_modules(read(document), CONTEXT))
    assert tasks["alone"] == ("alone", "", "")
    assert (tasks["train"].main, tasks["train"].last) == ("train", "train-outputs")
    assert tasks["train-inputs"].main == "train-inputs"
    assert tasks["train"].inputs.startswith("train-inputs-")
    assert nodes_by_task(tasks)[tasks["train"].inputs] == "train"


AWKWARD = st.text(alphabet="$(){}a'\"\\=\n 中")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("", ""),
        ("echo $name ${name}", "echo $name ${name}"),
        ("echo $(name)", "echo $$(name)"),
        ("echo $$", "echo $$$$"),
        ("$$(name)", "$$$$(name)"),
        ("$", "$"),
    ],
)
def test_only_kubernetes_expressions_are_escaped(text: str, escaped: str) -> None:
    assert escape_dollars(text) == escaped


@given(AWKWARD)
def test_kubernetes_restores_the_text(text: str) -> None:
    assert expand(escape_dollars(text), {"": "!", "a": "!"}) == text


@given(AWKWARD)
def test_an_input_is_passed_unchanged(text: str) -> None:
    filled = substitute(from_input("x"), {"inputs.parameters.x": text, "inputs.parameters": "[]"})
    assert expand(filled, {"": "!", "a": "!"}) == text


@given(AWKWARD)
def test_an_input_in_a_manifest_is_one_quoted_string(text: str) -> None:
    from muster.kube.manifests import parse_values

    manifest = f"env:\n- value: {from_input_as_json('x')}\n  name: x\n"
    filled = substitute(manifest, {"inputs.parameters.x": text})
    assert [e["name"] for e in parse_values(filled, "m")[0]["env"]] == ["x"]
    assert expand(parse_values(filled, "m")[0]["env"][0]["value"], {"": "!", "a": "!"}) == text


def test_argo_restores_an_escaped_tag() -> None:
    assert substitute(escape_tags("a {{name}} {{=1+1}}"), {}, allow_unresolved=True) == "a {{name}} {{=1+1}}"


@pytest.mark.parametrize("text", ["{{workflow.name}}", "{{=1+1}}", "1 $(x)", "5 $$"])
def test_a_value_that_argo_or_kubernetes_would_change_goes_into_the_secret(text: str) -> None:
    literals = Literals("mine")
    assert literals.variable("a", "1 $x") == {"name": "a", "value": "1 $x"}
    hidden = literals.variable("b", text)
    assert hidden["valueFrom"]["secretKeyRef"]["name"] == "mine"
    assert literals.stored == {hidden["valueFrom"]["secretKeyRef"]["key"]: text}
    assert Literals().variable("a", "1 $(x)")["value"] == "1 $$(x)"
    assert Literals().variable("b", "{{x}}")["value"] == "{{='{{'}}x}}"
