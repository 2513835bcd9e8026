""""""

from __future__ import annotations

import copy
from dataclasses import asdict, replace
from typing import Any

import pytest

from muster.kube.pod_security import PodGrants
from muster.platform.graphs.validation import mentions, only_errors, validate_graph, variables_in
from muster.platform.messages import _GRAPHS, make_finding
from tests.platform.graphs.samples import CONTEXT, graph, node, seed_example, training

A = {"name": "a", "path": "/tmp/a"}
F = {"name": "f", "path": "/tmp/f", "type": "file"}


def given(name: str, **source: Any) -> dict[str, Any]:
    return {"name": name, "from": source}


def using(name: str, *inputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return node(name, command=" ".join(f"${i['name']}" for i in inputs) or "true", inputs=list(inputs), **more)


def only(name: str, *comparisons: dict[str, Any], **more: Any) -> dict[str, Any]:
    return node(name, condition={"comparisons": list(comparisons)}, **more)


def looped(name: str, **loop: Any) -> dict[str, Any]:
    return node(name, command=f"${loop.get('variable', 'item')}", loop=loop)


def module(name: str, **more: Any) -> dict[str, Any]:
    return {"name": "m", "kind": "module", "module": {"name": name, "version": "1"}, **more}


COMPARISON = "nodes[0].condition.comparisons[0]"
PADDLECLOUD = training("a", "PaddleJob", ("worker", 1), timeout="1h")
PADDLECLOUD["training"]["apiVersion"] = "batch.paddlepaddle.org/v1"
PARAMETERS = [{"name": "lr", "default": "0.1"}]
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    # code, document, field, part of the message
    ("schema", {"nodes": []}, "format", "Required value"),
    ("schema", graph(node("a"), format=2), "format", "less than or equal to 1"),
    ("schema", graph({"name": "a", "comand": "x"}), "nodes[0].comand", 'did you mean "command"?'),
    ("schema", graph(node("a", kind="fancy")), "nodes[0].kind", "plain"),
    ("graph.empty", graph(), "nodes", "add at least one node"),
    ("type.field", {"format": 1, "type": "yaml", "manifest": "", "nodes": [node("a")]}, "nodes", "yaml"),
    ("type.field", graph(node("a"), manifest="kind: Workflow"), "manifest", "graph"),
    # names
    ("parameter.name", graph(node("a"), parameters=[{"name": "学习率"}]),
     "parameters[0].name", "start with a letter"),
    ("parameter.name", graph(node("a"), parameters=[{"name": "1st"}]),
     "parameters[0].name", "letters, digits, _ and -"),
    ("parameter.duplicate", graph(node("a"), parameters=PARAMETERS * 2), "parameters[1].name", "rename one"),
    ("node.name", graph(node(" a")), "nodes[0].name", "a space"),
    ("node.name", graph(node("a\nb")), "nodes[0].name", "one line"),
    ("node.name", graph(node("{{workflow.name}}")), "nodes[0].name", "without {{"),
    ("node.name", graph(node("x" * 64)), "nodes[0].name", "1 to 63"),
    ("node.duplicate", graph(node("a"), node("a")), "nodes[1].name", 'two nodes "a"'),
    ("input.name", graph(using("a", {"name": "my-input", "value": "1"})), "nodes[0].inputs[0].name", "$my-input"),
    ("input.duplicate", graph(using("a", *[{"name": "x", "value": "1"}] * 2)), "nodes[0].inputs[1].name", "two inputs"),
    ("output.name", graph(node("a", outputs=[{"name": "a b", "path": "/a"}])), "nodes[0].outputs[0].name", "letters"),
    ("output.duplicate", graph(node("a", outputs=[A, {**A, "path": "/b"}])), "nodes[0].outputs[1].name", "rename"),
    ("env.name", graph(node("a", env=[{"name": "A-B", "value": "1"}])),
     "nodes[0].env[0].name", "letters, digits and _"),
    ("env.duplicate", graph(node("a", env=[{"name": "A"}, {"name": "A"}])), "nodes[0].env[1].name", "twice"),
    ("env.secret", graph(node("a", env=[{"name": "DB_PASSWORD", "value": "x"}])), "nodes[0].env[0]", "mark it as"),
    ("env.secret-value", graph(node("a", env=[{"name": "A", "secret": True}])), "nodes[0].env[0].value", "again"),
    ("env.input", graph(using("a", {"name": "x", "value": ""}, env=[{"name": "x"}])), "nodes[0].env[0].name", "both"),
    ("name.reserved", graph(node("a", env=[{"name": "AI_HUB_TOKEN"}])), "nodes[0].env[0].name", "AI_HUB_"),
    ("name.reserved", graph(using("a", {"name": "AI_HUB_X", "value": ""})), "nodes[0].inputs[0].name", "AI_HUB_"),
    ("input.shell", graph(using("a", {"name": "PATH", "value": "/x"})), "nodes[0].inputs[0].name", "shell"),
    # edges
    ("edge.unknown", graph(node("a"), edges="a>b"), "edges[0].to", "use one of the nodes a"),
    ("edge.unknown", graph(node("a"), edges="b>a"), "edges[0].from", 'no node "b"'),
    ("edge.self", graph(node("a"), edges="a>a"), "edges[0]", "wait for itself"),
    ("edge.duplicate", graph(node("a"), node("b"), edges="a>b a>b"), "edges[1]", "already"),
    ("cycle", graph(node("a"), node("b"), edges="a>b b>a"), "edges[1]", "a -> b -> a"),
    ("cycle", graph(*map(node, "abcd"), edges="a>b b>c c>d d>b"), "edges[3]", "b -> c -> d -> b"),
    # sources of inputs
    ("input.unbound", graph(using("a", {"name": "x"})), "nodes[0].inputs[0]", "choose an initial parameter"),
    ("input.unbound", graph(using("a", given("x"))), "nodes[0].inputs[0]", "has no source"),
    ("input.ambiguous", graph(using("a", {"name": "x", "value": "1", "from": {"parameter": "lr"}}),
                              parameters=PARAMETERS), "nodes[0].inputs[0]", "keep one"),
    ("input.ambiguous", graph(node("b", outputs=[A]), using("a", given("x", parameter="lr", node="b", output="a")),
                              parameters=PARAMETERS), "nodes[1].inputs[0]", "keep one"),
    ("input.parameter", graph(using("a", given("x", parameter="rl")), parameters=PARAMETERS),
     "nodes[0].inputs[0].from.parameter", "use one of lr"),
    ("input.node", graph(node("b"), using("a", given("x", node="c", output="a")), edges="b>a"),
     "nodes[1].inputs[0].from.node", "before this one: b"),
    ("input.output", graph(node("b", outputs=[A]), using("a", given("x", node="b", output="z")), edges="b>a"),
     "nodes[1].inputs[0].from.output", "its outputs: a"),
    ("input.ancestor", graph(node("b", outputs=[A]), using("a", given("x", node="b", output="a"))),
     "nodes[1].inputs[0].from", 'add an edge from "b"'),
    ("input.ancestor", graph(node("b", outputs=[A]), using("a", given("x", node="b", output="a")), edges="a>b"),
     "nodes[1].inputs[0].from", "may not exist yet"),
    ("input.self", graph(using("a", given("x", node="a", output="a"), outputs=[A])),
     "nodes[0].inputs[0].from.node", "before it"),
    ("input.loop-file", graph(node("b", command="$item", outputs=[F], loop={"count": 2}),
                              using("a", given("x", node="b", output="f")), edges="b>a"),
     "nodes[1].inputs[0].from", "JSON list"),
    # timeouts
    *(("timeout.value", graph(node("a", timeout=value)), "nodes[0].timeout", "such as 90s, 30m or 1h30m")
      for value in ("0", "0s", "soon", "-5", "1.5h", "5 m", "30m1h", "31d", "999999999999", "{{1}}", "٣", "1h\n")),
    ("timeout.training", graph(PADDLECLOUD), "nodes[0].timeout", "another kind"),
    # conditions
    ("condition.left", graph(only("a", {"right": {"value": "x"}})), f"{COMPARISON}.left", "no left side"),
    ("condition.right", graph(only("a", {"left": {"value": "x"}})), f"{COMPARISON}.right", "enter a value"),
    ("condition.ambiguous", graph(only("a", {"left": {"value": "x", "from": {"parameter": "lr"}},
                                             "right": {"value": "x"}}), parameters=PARAMETERS),
     f"{COMPARISON}.left", "keep one"),
    ("condition.number", graph(only("a", {"left": {"value": "1"}, "operator": "<", "right": {"value": "1,5"}})),
     f"{COMPARISON}.right.value", "< never holds"),
    ("input.parameter", graph(only("a", {"left": {"from": {"parameter": "rl"}}, "right": {"value": ""}}),
                              parameters=PARAMETERS), f"{COMPARISON}.left.from.parameter", "use one of lr"),
    ("input.ancestor", graph(only("a", {"left": {"from": {"node": "b", "output": "a"}}, "right": {"value": ""}}),
                             node("b", outputs=[A])), f"{COMPARISON}.left.from", "may not exist yet"),
    ("input.self", graph(only("a", {"left": {"from": {"node": "a", "output": "a"}}, "right": {"value": ""}},
                              outputs=[A])), f"{COMPARISON}.left.from.node", "before it"),
    ("flow.file", graph(node("b", outputs=[F]), only("a", {"left": {"from": {"node": "b", "output": "f"}},
                                                           "right": {"value": ""}}), edges="b>a"),
     "nodes[1].condition.comparisons[0].left.from", "text output"),
    ("flow.zero", graph(only("a", {"left": {"value": "\0"}, "right": {"value": ""}})),
     f"{COMPARISON}.left.value", "NUL"),
    ("schema", graph(only("a", {"left": {"value": "1"}, "operator": "=~", "right": {"value": ".*"}})),
     f"{COMPARISON}.operator", "contains"),
    ("schema", graph(only("a", *[{"left": {"value": "1"}, "right": {"value": "1"}}] * 21)),
     "nodes[0].condition.comparisons", "20"),
    # loops
    ("loop.missing", graph(looped("a", variable="item")), "nodes[0].loop", "enter items"),
    ("loop.missing", graph(looped("a", **{"from": {"output": "x"}})), "nodes[0].loop.from", "choose an initial"),
    ("loop.ambiguous", graph(looped("a", items=["x"], count=3)), "nodes[0].loop", "keep one of items"),
    ("number.range", graph(looped("a", count=0)), "nodes[0].loop.count", "1 to 1000"),
    ("number.range", graph(looped("a", count=1001)), "nodes[0].loop.count", "1 to 1000"),
    ("schema", graph(looped("a", items=["x"] * 1001)), "nodes[0].loop.items", "1000"),
    ("schema", graph(looped("a", items=["x" * 1001])), "nodes[0].loop.items[0]", "1000"),
    ("schema", graph(looped("a", items=[1])), "nodes[0].loop.items[0]", "string"),
    ("loop.size", graph(looped("a", items=["中" * 1000] * 40)), "nodes[0].loop.items", "120000 bytes"),
    ("flow.zero", graph(looped("a", items=["x", "\0"])), "nodes[0].loop.items[1]", "NUL"),
    ("input.parameter", graph(looped("a", **{"from": {"parameter": "x"}})), "nodes[0].loop.from.parameter", "or add"),
    ("value.list", graph(looped("a", **{"from": {"parameter": "lr"}}), parameters=PARAMETERS),
     "nodes[0].loop.from.parameter", 'enter a list such as ["a", "b"]'),
    ("flow.file", graph(node("b", outputs=[F]), looped("a", **{"from": {"node": "b", "output": "f"}}), edges="b>a"),
     "nodes[1].loop.from", "text output"),
    ("input.node", graph(looped("a", **{"from": {"node": "z", "output": "f"}})), "nodes[0].loop.from.node", '"z"'),
    ("input.name", graph(looped("a", count=1, variable="my-item")), "nodes[0].loop.variable", "$my-item"),
    ("input.shell", graph(looped("a", count=1, variable="PATH")), "nodes[0].loop.variable", "shell"),
    ("name.reserved", graph(looped("a", count=1, variable="AI_HUB_X")), "nodes[0].loop.variable", "AI_HUB_"),
    ("loop.variable", graph({**looped("a", count=1), "env": [{"name": "item"}]}), "nodes[0].loop.variable", "both"),
    ("loop.unused", graph(node("a", loop={"count": 2})), "nodes[0].loop.variable", "$item"),
    ("loop.module", graph(module("local", loop={"count": 2})), "nodes[0].loop.variable", "loop: text"),
    ("loop.training", graph(training("a", "PyTorchJob", ("Master", 1), command="$item", loop={"count": 2},
                                     outputs=[{"name": "a", "path": "/tmp/workflow_space/a"}])),
     "nodes[0].loop", "repeat a plain node"),
    ("node.iteration", graph(looped("a", count=2), node("a(0:x)")), "nodes[1].name", 'the loop "a"'),
    ("input.path", graph(node("b", outputs=[F]), node("c", outputs=[F]),
                         using("a", given("x", node="b", output="f"), given("y", node="c", output="f")),
                         edges="b>a c>a"), "nodes[2].inputs[1].from", "/tmp/f"),
    ("input.unused", graph(node("a", inputs=[{"name": "x", "value": "1"}])), "nodes[0].inputs[0]", "use $x"),
    # commands, images, retries
    ("command.missing", graph(node("a", command=" ")), "nodes[0].command", "the command to run"),
    ("command.undeclared", graph(node("a", command="echo $nobody")), "nodes[0].command", "add an input nobody"),
    ("image.missing", graph(node("a", image="")), "nodes[0].image", "enter the image"),
    ("image.name", graph(node("a", image="busybox {{x}}")), "nodes[0].image", "python:3.11"),
    ("metrics.pattern", graph(node("a", metricsPattern="loss=(")), "nodes[0].metricsPattern", "missing closing )"),
    ("metrics.pattern", graph(node("a", metricsPattern="{{(?P<a>.)")), "nodes[0].metricsPattern", "write [{]{"),
    ("number.range", graph(node("a", retries=-1)), "nodes[0].retries", "0 to 100"),
    ("number.range", graph(node("a", retries=101)), "nodes[0].retries", "101 is not"),
    # outputs
    ("output.path", graph(node("a", outputs=[{"name": "x"}])), "nodes[0].outputs[0].path", "/tmp/workflow_space/x"),
    ("output.path", graph(node("a", outputs=[{"name": "x", "path": "x"}])), "nodes[0].outputs[0].path", "absolute"),
    ("output.path", graph(node("a", outputs=[{"name": "x", "path": "/a/../b"}])),
     "nodes[0].outputs[0].path", "without"),
    ("output.path", graph(node("a", outputs=[{"name": "x", "path": "/"}])), "nodes[0].outputs[0].path", "absolute"),
    ("output.path", graph(node("a", outputs=[{"name": "x", "path": "/{{x}}"}])),
     "nodes[0].outputs[0].path", "absolute"),
    ("output.same-path", graph(node("a", outputs=[A, {"name": "b", "path": "/tmp//a"}])),
     "nodes[0].outputs[1].path", "a"),
    ("output.training", graph(training("a", "JAXJob", ("Worker", 2), outputs=[A])),
     "nodes[0].outputs[0].path", "below /tmp/workflow_space"),
    # tasks
    ("task.sku", graph(node("a", task={"type": "compute", "cluster": "cpu-only", "skus": 0})),
     "nodes[0].task.skus", "1 or more"),
    ("task.no-cluster", graph(node("a", task={"type": "compute"})), "nodes[0].task.cluster", "RTX2080x8, cpu-only"),
    ("task.cluster", graph(node("a", task={"type": "compute", "cluster": "A100"})), "nodes[0].task.cluster", '"A100"'),
    ("task.forbidden", graph(node("a", task={"type": "compute", "cluster": "theirs"})),
     "nodes[0].task.cluster", "admin"),
    ("task.monitor", graph(node("a", task={"type": "monitor", "skus": 2})), "nodes[0].task", "compute"),
    # storage
    ("storage.root", graph(node("a", storage=[{"root": "nfz"}])), "nodes[0].storage[0].root", "models, nfs, 华为盘"),
    ("storage.forbidden", graph(node("a", storage=[{"root": "secret"}])), "nodes[0].storage[0].root", "may not use"),
    ("storage.read-only", graph(node("a", storage=[{"root": "models"}])), "nodes[0].storage[0].readOnly", "mark the"),
    ("storage.path", graph(node("a", storage=[{"root": "nfs", "path": "/../etc"}])),
     "nodes[0].storage[0].path", "absolute"),
    ("storage.same-path", graph(node("a", storage=[{"root": "nfs"}, {"root": "华为盘", "path": "/nfs/data"}])),
     "nodes[0].storage[1].path", "another path"),
    ("storage.covers", graph(node("a", storage=[{"root": "nfs", "path": "/tmp/workflow_space"}])),
     "nodes[0].storage[0].path", "own files"),
    # modules
    ("module.missing", graph({"name": "a", "kind": "module"}), "nodes[0].module", "choose a module"),
    ("module.unknown", graph({"name": "a", "kind": "module", "module": {"name": "nope", "version": "1"}}),
     "nodes[0].module.name", "hash-file, local"),
    ("module.version", graph({"name": "a", "kind": "module", "module": {"name": "hash-file", "version": "9"}}),
     "nodes[0].module.version", "1, 2"),
    ("module.forbidden", graph({"name": "a", "kind": "module", "module": {"name": "draft", "version": "1"}}),
     "nodes[0].module", "published"),
    ("module.deprecated", graph({"name": "a", "kind": "module", "module": {"name": "hash-file", "version": "2"},
                                 "inputs": [{"name": "input_file", "value": "x"}]}), "nodes[0].module", "newer"),
    ("module.retired", graph({"name": "a", "kind": "module", "module": {"name": "old", "version": "1"}}),
     "nodes[0].module", "newer"),
    ("module.input", graph({"name": "a", "kind": "module", "module": {"name": "hash-file", "version": "1"}}),
     "nodes[0].inputs", '"input_file"'),
    ("module.no-input", graph({"name": "a", "kind": "module", "module": {"name": "hash-file", "version": "1"},
                               "inputs": [{"name": "input_file", "value": "x"}, {"name": "z", "value": "x"}]}),
     "nodes[0].inputs[1]", "use one of input_file"),
    ("module.field", graph(node("a", kind="module", module={"name": "draft", "version": "1"})),
     "nodes[0].command", "out"),
    ("kind.field", graph(node("a", module={"name": "draft", "version": "1"})), "nodes[0].module", "plain"),
    # training
    ("training.missing", graph(node("a", kind="training")), "nodes[0].training", "choose a kind"),
    ("training.kind", graph(training("a", "TorchJob", ("Worker", 1))), "nodes[0].training.kind", "PyTorchJob"),
    ("training.role", graph(training("a", "PyTorchJob", ("PS", 1))),
     "nodes[0].training.roles[0].name", "Master, Worker"),
    ("training.role", graph(training("a", "PyTorchJob", ("worker", 1))), "nodes[0].training.roles[0].name", "Worker"),
    ("training.duplicate", graph(training("a", "JAXJob", ("Worker", 1), ("Worker", 1))),
     "nodes[0].training.roles[1].name", "twice"),
    ("training.empty", graph(training("a", "JAXJob", ("Worker", 0))), "nodes[0].training.roles", "at least 1"),
    ("training.invalid", graph(training("a", "PyTorchJob", ("Master", 2))), "nodes[0].training.roles[0]", "one master"),
    ("training.invalid", graph(training("a", "MPIJob", ("Worker", 2))), "nodes[0].training.roles", "launcher"),
    ("training.invalid", graph(training("a", "TFJob", ("Chief", 1), ("Master", 1))),
     "nodes[0].training.roles[1]", "not both"),
    # manifests
    ("manifest.missing", {"format": 1, "type": "yaml"}, "manifest", "paste"),
    ("manifest.unreadable", {"format": 1, "type": "yaml", "manifest": "a: [1"}, "manifest", "is missing"),
    ("manifest.kind", {"format": 1, "type": "yaml", "manifest": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}"},
     "manifest", "v1 Pod"),
    ("manifest.invalid", {"format": 1, "type": "yaml", "manifest":
     "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: a}\nspec:\n  entrypoin: a"},
     "manifest", "manifest:5"),
    ("manifest.invalid", {"format": 1, "type": "yaml", "manifest":
     "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: a}\nspec:\n  entrypoint: nobody"},
     "manifest", "nobody"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "document", "path", "part"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_problems_have_a_field_and_say_what_to_write(code: str, document: Any, path: str, part: str) -> None:
    before = copy.deepcopy(document)
    found = [p for p in validate_graph(document, CONTEXT) if p.code == code and p.path == path]
    assert found, [str(p) for p in validate_graph(document, CONTEXT)]
    assert part in str(found[0])
    assert found[0].fix
    assert document == before


def test_a_node_without_a_name_needs_one() -> None:
    (found,) = validate_graph(graph(node("")), CONTEXT)
    assert (found.path, found.message) == ("nodes[0].name", "enter a name")


def test_a_manifest_is_limited_to_the_rights_of_its_author() -> None:
    spec = "{entrypoint: a, hostNetwork: true, templates: [{name: a, container: {image: x, command: [x]}}]}"
    text = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: a-}\nspec: " + spec
    document = {"format": 1, "type": "yaml", "manifest": text}
    assert validate_graph(document, CONTEXT) == []
    (found,) = validate_graph(document, replace(CONTEXT, allowed=PodGrants(only_listed=True)))
    assert (found.code, found.path) == ("manifest.confined", "manifest")
    assert found.message.startswith("manifest:4: spec.hostNetwork: hostNetwork gives Pods access to the host")


def test_every_message_has_a_case() -> None:
    elsewhere = {code for code in _GRAPHS if code.startswith(("value.", "import."))}
    elsewhere |= {"manifest.confined", "training.storage"}
    assert {code for code, *_ in CASES} - elsewhere == _GRAPHS.keys() - elsewhere


@pytest.mark.parametrize(
    "document",
    [
        seed_example(),
        graph(node("数据准备"), node("Train it!"), edges="数据准备>Train it!"),
        graph(node("a", command="for i in 1 2; do echo $i; done; x=1; echo ${x} $HOME '$y' \\$z")),
        graph(node("a", inputs=[{"name": "x", "value": "1"}], command="python -c 'import os; os.environ[\"x\"]'")),
        graph(node("a", storage=[{"root": "models", "readOnly": True}, {"root": "nfs", "path": "/data"}])),
        graph(training("a", "MPIJob", ("Launcher", 1), ("Worker", 2))),
        graph(training("a", "TFJob", ("PS", 1), ("Worker", 2), task={"type": "compute", "cluster": "cpu-only"})),
    ],
)
def test_a_valid_graph_has_no_problems(document: Any) -> None:
    assert validate_graph(document, CONTEXT) == []


def test_both_kinds_of_paddle_jobs_are_distinguished_by_api_version() -> None:
    document = graph(training("a", "PaddleJob", ("ps", 1), ("worker", 2)))
    assert [p.code for p in only_errors(validate_graph(document, CONTEXT))] == ["training.role", "training.role"]
    document["nodes"][0]["training"]["apiVersion"] = "batch.paddlepaddle.org/v1"
    assert only_errors(validate_graph(document, CONTEXT)) == []


def test_a_module_node_has_the_outputs_of_its_module() -> None:
    module = {"name": "hash-file", "version": "1"}
    first = {"name": "m", "kind": "module", "module": module, "inputs": [{"name": "input_file", "value": "/x"}]}
    assert validate_graph(graph(first, using("b", given("d", node="m", output="digest")), edges="m>b"), CONTEXT) == []
    wrong = validate_graph(graph(first, using("b", given("d", node="m", output="nope")), edges="m>b"), CONTEXT)
    assert [p.code for p in wrong] == ["input.output"]


def test_a_message_is_a_code_with_arguments_and_its_english_text() -> None:
    found = make_finding("nodes[0].task.cluster", "task.cluster", cluster="A100", clusters=["a", "b"])
    assert asdict(found) == {
        "path": "nodes[0].task.cluster",
        "code": "task.cluster",
        "message": 'there is no virtual cluster "A100"',
        "fix": "use one of a, b",
        "arguments": {"cluster": "A100", "clusters": ["a", "b"]},
        "severity": "error",
    }


@pytest.mark.parametrize(
    ("text", "used", "known"),
    [
        ("echo $a ${b} ${c:-1} ${#d} \"$e\"", ["a", "b", "c", "d", "e"], set()),
        ("echo '$a' \\$b $1 $? $$ $(date)", [], set()),
        ("awk '{print $name}' $file", ["file"], set()),
        ("x=1; export y=2\nfor i in $x; do echo $i; done", ["x", "i"], {"x", "y", "i"}),
        ("while read -r line rest; do echo $line; done", ["line"], {"line", "rest"}),
        ("echo \"it's $a\"", ["a"], set()),
        ("cat <<'EOF'\n$quoted\nEOF\necho $a", ["a"], set()),
        ("cat <<EOF\n$a\nEOF", ["a"], set()),
        (": ${a:=1}", ["a"], {"a"}),
    ],
)  # fmt: skip
def test_variables_that_a_text_uses_and_sets(text: str, used: list[str], known: set[str]) -> None:
    found = variables_in(text)
    assert (found.used, found.set) == (used, known)


def test_only_whole_words_are_names() -> None:
    assert mentions("python -c 'os.environ[\"lr\"]'", "lr")
    assert not mentions("echo $lr_max", "lr")
