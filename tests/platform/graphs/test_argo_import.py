from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from muster.platform.graphs.argo_import import from_manifest
from muster.platform.graphs.compile import to_yaml
from muster.platform.graphs.control_flow import skippable_nodes
from muster.platform.graphs.document import content_hash, to_canonical
from muster.platform.graphs.model import Document, read
from muster.platform.graphs.validation import only_errors, validate_graph
from tests.platform.graphs.random_graphs import graphs
from tests.platform.graphs.samples import CONTEXT, graph, node, seed_example

HEAD = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: a-}\nspec:\n"
DAG = """\
  entrypoint: main
  arguments:
    parameters: [{name: lr, value: "0.1"}]
  templates:
  - name: main
    dag:
      tasks:
      - {name: first, template: make}
      - name: second
        template: use
        dependencies: [first]
        arguments:
          parameters:
          - {name: lr, value: "{{workflow.parameters.lr}}"}
          - {name: num, value: "{{tasks.first.outputs.parameters.num}}"}
          - {name: k, value: three}
  - name: make
    container:
      image: alpine
      command: [sh, -c]
      args: ["echo $$HOME > /tmp/num"]
    outputs:
      parameters: [{name: num, valueFrom: {path: /tmp/num}}]
  - name: use
    inputs:
      parameters: [{name: lr}, {name: num}, {name: k}]
    retryStrategy: {limit: 2}
    script:
      image: alpine
      command: [sh]
      source: echo $LR $num $k
      env:
      - {name: LR, value: "{{inputs.parameters.lr}}"}
      - {name: num, value: "{{inputs.parameters.num}}"}
      - {name: k, value: "{{inputs.parameters.k}}"}
      - {name: MODE, value: fast}
"""


def only(left: dict[str, Any], operator: str, right: dict[str, Any]) -> dict[str, Any]:
    return {"comparisons": [{"left": left, "operator": operator, "right": right}]}


def test_a_dag_of_shell_steps_becomes_a_graph() -> None:
    imported = from_manifest(HEAD + DAG, CONTEXT)
    document, notes = imported.document, imported.problems
    assert document == {
        "format": 1,
        "parameters": [{"name": "lr", "default": "0.1"}],
        "nodes": [
            {
                "name": "first",
                "image": "alpine",
                "command": "echo $HOME > /tmp/num",
                "outputs": [{"name": "num", "path": "/tmp/num"}],
            },
            {
                "name": "second",
                "image": "alpine",
                "command": "echo $LR $num $k",
                "retries": 2,
                "env": [{"name": "MODE", "value": "fast"}],
                "inputs": [
                    {"name": "LR", "from": {"parameter": "lr"}},
                    {"name": "num", "from": {"node": "first", "output": "num"}},
                    {"name": "k", "value": "three"},
                ],
            },
        ],
        "edges": [{"from": "first", "to": "second"}],
    }
    said = {note.arguments["step"]: "" for note in notes}
    assert said.keys() == {"first", "second"}
    assert any("monitor task" in str(note) for note in notes)
    assert any("tried again" in str(note) for note in notes)
    assert all(note.is_warning for note in notes)


ONE = "  entrypoint: a\n  templates:\n  - name: a\n"


def flow(field: str) -> str:
    """A DAG with one task that has this field."""
    task = f"    dag: {{tasks: [{{name: t, template: b, {field}}}]}}\n"
    return ONE + task + "  - name: b\n    script: {image: x, command: [sh], source: a}\n"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (ONE + "    steps: [[{name: s, template: b}]]\n  - name: b\n    suspend: {}\n", "steps"),
        (ONE + "    suspend: {}\n", "suspend"),
        (ONE + "    container: {image: x, command: [echo, hi]}\n", "sh -c"),
        (ONE + "    script: {image: x, command: [python], source: 'print(1)'}\n", "not by python"),
        (ONE + "    script: {image: x, command: [sh], source: 'echo {{workflow.name}}'}\n", "$name"),
        (ONE + "    container: {image: x, command: [sh, -c, 'echo $(HOME)']}\n", "$(...)"),
        (ONE + "    script: {image: x, command: [sh], source: a, resources: {limits: {cpu: 7}}}\n", "no virtual"),
        (ONE + "    script: {image: x, command: [sh], source: a}\n"
               "    retryStrategy: {limit: 1, backoff: {duration: 1s}}\n", "backoff"),
        (ONE + "    script: {image: x, command: [sh], source: a}\n    sidecars: [{name: s, image: x}]\n", "sidecars"),
        ("  onExit: a\n" + ONE + "    script: {image: x, command: [sh], source: a}\n", "onExit"),
        (ONE + "    script: {image: x, command: [sh], source: a, env: [{name: S, valueFrom: {secretKeyRef: "
               "{name: s, key: k}}}]}\n", "valueFrom"),
        (ONE + "    dag: {tasks: [{name: t, template: b}, {name: u, template: b, depends: t.Failed}]}\n"
               "  - name: b\n    script: {image: x, command: [sh], source: a}\n", "more than an edge"),
        (ONE + "    dag: {tasks: [{name: t, template: b, when: 'true'}]}\n"
               "  - name: b\n    script: {image: x, command: [sh], source: a}\n", "when"),
        (flow("""when: "{{='a' == 'b'}}\""""), "an expression of its own"),
        (flow("""when: "{{=('a' == 'b' && true)}}\""""), "says more than a node can"),
        (flow("""when: "{{=(('a' == 'b' && 'c' == 'd'))}}\""""), "says more than a node can"),
        (flow("withItems: [1, 2]"), "not texts"),
        (flow("withSequence: {start: '1', end: '3'}"), "more than a start and a count"),
        (flow("withParam: '[1]'"), "no expression"),
        ("  arguments: {parameters: [{name: p, value: '3'}]}\n" + ONE +
         "    activeDeadlineSeconds: '{{workflow.parameters.p}}'\n"
               "    script: {image: x, command: [sh], source: a}\n", "is no number"),
    ],
)  # fmt: skip
def test_a_manifest_that_no_graph_can_express_is_kept(spec: str, why: str) -> None:
    manifest = HEAD + spec
    imported = from_manifest(manifest, CONTEXT)
    document, notes = imported.document, imported.problems
    assert document == {"format": 1, "type": "yaml", "manifest": manifest}
    assert [note.code for note in notes] == ["import.unmapped"]
    assert why in str(notes[0])


@pytest.mark.parametrize("manifest", ["", "a: [", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}", HEAD + "  x: 1\n"])
def test_other_manifests_are_refused(manifest: str) -> None:
    imported = from_manifest(manifest, CONTEXT)
    document, problems = imported.document, imported.problems
    assert document is None
    assert problems
    assert not any(problem.is_warning for problem in problems)


@pytest.mark.parametrize(
    "document",
    [
        seed_example(),
        graph(node("数据准备"), node("Train"), edges="数据准备>Train"),
        graph(node("a", storage=[{"root": "nfs", "path": "/d"}, {"root": "models", "readOnly": True}], retries=3)),
        graph(node("a", task={"type": "compute", "cluster": "RTX2080x8", "skus": 4})),
        graph(node("a", command="echo $$ $(date) {{x}}", env=[{"name": "A", "value": "$(b) {{c}}"}])),
        graph(node("a"), parameters=[{"name": "p", "required": True}, {"name": "q", "default": "{{x}}"}]),
        graph(node("a", timeout="90s"), node("b", timeout="2h"), node("c", timeout="1d")),
        graph(node("a", loop={"items": ["red", "{{green}}", "a && (b)", "'", "中", "\n"], "variable": "colour"})),
        graph(node("a", loop={"count": 3, "start": 5})),
        graph(node("a", loop={"from": {"parameter": "p"}}), parameters=[{"name": "p", "default": "[]"}]),
        graph(
            node(
                "a", outputs=[{"name": "list", "path": "/o"}], condition=only({"value": "a == b"}, "!=", {"value": "'"})
            ),
            node("b", loop={"from": {"node": "a", "output": "list"}}, outputs=[{"name": "o", "path": "/p"}]),
            node(
                "c",
                inputs=[{"name": "x", "from": {"node": "b", "output": "o"}}],
                condition=only({"from": {"node": "a", "output": "list"}}, "contains", {"value": "(1) || && '\\u003c"}),
            ),
            node("d", loop={"items": ["x", "y"]}, condition=only({"from": {"parameter": "p"}}, ">=", {"value": "0.9"})),
            edges="a>b b>c",
            parameters=[{"name": "p", "default": "1"}],
        ),
        graph(
            node(
                "a",
                condition={
                    "match": "any",
                    "comparisons": [
                        {"left": {"value": "1"}, "operator": "<", "right": {"from": {"parameter": "p"}}},
                        {"left": {"value": "x"}, "right": {"value": ""}},
                    ],
                },
            ),
            parameters=[{"name": "p", "default": "1"}],
        ),
    ],
)
def test_an_export_is_imported_as_the_same_graph(document: Document) -> None:
    found = from_manifest(to_yaml(document, CONTEXT), CONTEXT)
    assert found.problems == []
    assert found.document is not None
    assert to_canonical(found.document) == to_canonical(document)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(plain=True))
def test_any_plain_graph_survives_export_and_import(document: dict[str, Any]) -> None:
    for parameter in document["parameters"]:
        if not parameter["default"]:
            del parameter["default"]  # Argo does not distinguish no default from an empty one
    found = from_manifest(to_yaml(document, CONTEXT), CONTEXT)
    assert found.problems == []
    assert found.document is not None
    assert _sorted(found.document) == _sorted(document)


@st.composite
def controlled_graphs(draw: st.DrawFn) -> Document:
    """Graphs with timeouts, conditions and loops."""
    texts = st.text(alphabet="ab01.&|()'\"\\\\<>=?: {}\n中😀", max_size=8)
    document = draw(graphs(plain=True))
    parents: dict[str, list[str]] = {}
    for edge in document["edges"]:
        parents.setdefault(edge["to"], []).append(edge["from"])
    outputs = {each["name"]: [o["name"] for o in each["outputs"] if o["type"] == "text"] for each in document["nodes"]}
    for each in document["nodes"]:
        made = [
            {"from": {"node": parent, "output": output}}
            for parent in parents.get(each["name"], ())
            for output in outputs[parent]
        ]
        given = [{"from": {"parameter": parameter["name"]}} for parameter in document["parameters"]]
        sides = st.one_of(
            st.builds(lambda text: {"value": text}, texts), st.sampled_from([{"value": "1"}, *made, *given])
        )
        operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "contains"])
        comparisons = st.lists(st.builds(_compared, sides, operators, sides), min_size=1, max_size=3)
        if draw(st.booleans()):
            each["timeout"] = draw(st.sampled_from(["45s", "90s", "7m", "25h", "2d"]))
        if draw(st.booleans()):
            compared = draw(comparisons)
            match = draw(st.sampled_from(["all", "any"])) if len(compared) > 1 else "all"
            each["condition"] = {"match": match, "comparisons": compared}
        if draw(st.booleans()):
            over = [{"items": draw(st.lists(texts, min_size=1, max_size=3))}, *made]
            over.append({"count": 3, "start": draw(st.integers(-2, 2))})
            each["loop"] = {**draw(st.sampled_from(over)), "variable": draw(st.sampled_from(["item", "one"]))}
    return document


def _compared(left: dict[str, Any], operator: str, right: dict[str, Any]) -> dict[str, Any]:
    return {"left": left, "operator": operator, "right": right}


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(controlled_graphs())
def test_timeouts_conditions_and_loops_survive_export_and_import(document: dict[str, Any]) -> None:
    """A loop over numbers that may be skipped comes back as a loop over these texts: both run the same."""
    for parameter in document["parameters"]:
        if not parameter["default"]:
            del parameter["default"]
    assume(not only_errors(validate_graph(document, CONTEXT)))
    found = from_manifest(to_yaml(document, CONTEXT), CONTEXT)
    assert found.problems == []
    assert found.document is not None
    skippable = skippable_nodes(read(document))
    for each in document["nodes"]:
        if each["name"] in skippable and "count" in each.get("loop", ()):
            start, count = each["loop"].pop("start"), each["loop"].pop("count")
            each["loop"]["items"] = [str(number) for number in range(start, start + count)]
    assert _sorted(found.document) == _sorted(document)


def _sorted(document: Document) -> str:
    """A manifest lists file inputs first; the order has no meaning."""
    nodes = []
    for each in to_canonical(document)["nodes"]:
        lists = (field for field in ("inputs", "outputs") if each.get(field))
        nodes.append({**each, **{field: sorted(each[field], key=lambda named: str(named["name"])) for field in lists}})
    return content_hash({**document, "nodes": nodes})
