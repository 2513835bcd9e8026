"""What is drawn of a Workflow: tasks, steps, nested templates, loops, conditions, hooks; and of its runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from muster.kube.objects import Object
from muster.workflows.model import Launch, Outcome
from muster.workflows.task_graph import ROOT, GraphNode, Scope, TaskGraph, run_graph, to_json, version_graph
from tests.workflows.engine import test_conformance as examples
from tests.workflows.engine.simulation import Simulation, manifest, succeed

SAY = "{name: say, container: {image: alpine}}"


def workflow(*templates: str, **spec: Any) -> Object:
    found = [yaml.safe_load(template) for template in templates]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "wf", "namespace": "default", "uid": "u"},
        "spec": {"entrypoint": found[0]["name"], "templates": found, **spec},
    }


def run_of(document: Object, answer: Any = succeed) -> Object:
    sim = Simulation(document, answer)
    sim.finish(200)
    return {**sim.workflow, "status": {**sim.workflow.get("status", {}), "nodes": dict(sim.run.nodes)}}


def edges_of(scope: Scope) -> set[str]:
    return {f"{scope.nodes[a].name}>{scope.nodes[b].name}" for a, b in scope.edges}


def one(graph: TaskGraph, name: str, scope: str = ROOT) -> GraphNode:
    [found] = [node for node in graph.scopes[scope].nodes if node.name == name]
    return found


def unfold(graph: TaskGraph, scope: str = ROOT, prefix: str = "", depth: int = 12) -> Iterable[tuple[str, GraphNode]]:
    """All nodes by their whole names."""
    for node in graph.scopes[scope].nodes:
        yield prefix + node.key, node
        if node.inside and depth:
            yield from unfold(graph, node.inside, prefix + node.key, depth - 1)


@pytest.mark.parametrize(
    ("template", "edges"),
    [
        ("{name: m, dag: {tasks: [{name: a, template: say}, {name: b, template: say, dependencies: [a]}]}}", {"a>b"}),
        (
            "{name: m, dag: {tasks: [{name: a, template: say}, {name: b, template: say},"
            " {name: c, template: say, depends: 'a.Failed && (b || !a.Skipped)'}]}}",
            {"a>c", "b>c"},
        ),
        (
            "{name: m, dag: {tasks: [{name: a, template: say}, {name: b, template: say, depends: '{{x}} && a'}]}}",
            {"a>b"},
        ),
        ("{name: m, dag: {tasks: [{name: a, template: say, dependencies: [gone, a]}]}}", set()),
        (
            "{name: m, steps: [[{name: a, template: say}, {name: b, template: say}], [{name: c, template: say}]]}",
            {"a>c", "b>c"},
        ),
        ("{name: m, steps: [[{name: a, template: say}], [], [{name: c, template: say}]]}", {"a>c"}),
        (
            "{name: m, dag: {tasks: [{name: a, template: say, onExit: say, hooks: {running: {template: say}}}]}}",
            {"a>a.onExit", "a>a.hooks.running"},
        ),
        ("{name: m, containerSet: {containers: [{name: a}, {name: b, dependencies: [a]}]}}", {"a>b"}),
        ("{name: m, container: {image: alpine}}", set()),
        ("{name: m, dag: {}}", set()),
    ],
)
def test_edges(template: str, edges: set[str]) -> None:
    assert edges_of(version_graph(workflow(template, SAY)).scopes[ROOT]) == edges


def test_an_exit_handler_follows_everything() -> None:
    dag = "{name: m, dag: {tasks: [{name: a, template: say}, {name: b, template: say}]}}"
    graph = version_graph(workflow(dag, SAY, onExit="say", hooks={"running": {"template": "say", "expression": "x"}}))
    assert edges_of(graph.scopes[ROOT]) == {"a>onExit", "b>onExit"}
    assert one(graph, "onExit").hook == "exit"
    assert one(graph, "hooks.running") == GraphNode(
        "hooks.running", "hooks.running", type="container", template="say", condition="x", hook="running"
    )


def test_what_a_node_says() -> None:
    steps = (
        "{name: m, steps: [[{name: a, template: say, when: '{{x}} == 1', withItems: [1, 2]},"
        " {name: b, templateRef: {name: lib, template: t}}, {name: c, template: inner, withSequence: {count: 3}},"
        " {name: d, inline: {script: {image: alpine}}, withParam: '{{y}}'}]]}"
    )
    inner = "{name: inner, dag: {tasks: [{name: x, template: say}]}}"
    graph = version_graph(workflow(steps, inner, SAY))
    assert graph.scopes[ROOT].nodes == [
        GraphNode("[0].a", "a", "loop", "container", "say", condition="{{x}} == 1", over="2"),
        GraphNode("[0].b", "b", template="lib/t"),
        GraphNode("[0].c", "c", "loop", "dag", "inner", inside="local//inner", over="count 3"),
        GraphNode("[0].d", "d", "loop", "script", over="{{y}}"),
    ]
    assert [node.key for node in graph.scopes["local//inner"].nodes] == [".x"]


def test_a_workflow_that_is_a_template_elsewhere_is_one_node() -> None:
    graph = version_graph({"spec": {"workflowTemplateRef": {"name": "lib"}}})
    assert [(node.name, node.template) for node in graph.scopes[ROOT].nodes] == [("lib", "lib/")]


def test_a_template_is_drawn_once_even_if_it_calls_itself() -> None:
    again = "{name: m, steps: [[{name: flip, template: say}], [{name: again, template: m, when: x}]]}"
    graph = version_graph(workflow(again, SAY))
    assert sorted(graph.scopes) == [ROOT, "local//m"]
    assert one(graph, "again").inside == one(graph, "again", "local//m").inside == "local//m"


def test_the_graph_is_not_larger_than_the_manifest() -> None:
    tasks = [", ".join(f"{{name: a{i}, template: t{depth + 1}}}" for i in range(10)) for depth in range(9)]
    ten = [f"{{name: t{depth}, dag: {{tasks: [{inside}]}}}}" for depth, inside in enumerate(tasks)]
    graph = version_graph(workflow(*ten, "{name: t9, container: {image: alpine}}"))
    assert sum(len(scope.nodes) for scope in graph.scopes.values()) == 90


def test_wide_groups_of_steps_meet_in_one_node() -> None:
    wide = ", ".join(f"{{name: NAME{index}, template: say}}" for index in range(100))
    text = f"{{name: m, steps: [[{wide.replace('NAME', 'a')}], [{wide.replace('NAME', 'b')}]]}}"
    graph = version_graph(workflow(text, SAY))
    assert len(graph.scopes[ROOT].edges) == 200
    assert one(graph, "[1]").kind == "join"


def test_a_run_has_the_iterations_of_its_loops() -> None:
    dag = (
        "{name: m, dag: {tasks: [{name: a, template: inner, withItems: ['x.y', 'p[0]']},"
        " {name: b, template: say, depends: a}]}}"
    )
    inner = "{name: inner, steps: [[{name: s, template: say, withItems: [1]}]]}"
    graph = run_graph(run_of(workflow(dag, inner, SAY)))
    loop = one(graph, "a")
    assert (loop.kind, edges_of(graph.scopes[ROOT])) == ("loop", {"a>b"})
    assert [node.key for node in graph.scopes[loop.inside].nodes] == ["(0:x.y)", "(1:p[0])"]
    names = {name for name, node in unfold(graph) if not node.inside}
    assert names == {"a(0:x.y)[0].s(0:1)", "a(1:p[0])[0].s(0:1)", "b"}


def test_iterations_and_attempts_are_in_their_order_whatever_the_status_says() -> None:
    dag = "{name: m, dag: {tasks: [{name: a, template: inner, withSequence: {count: 12}}]}}"
    inner = "{name: inner, retryStrategy: {limit: 2}, dag: {tasks: [{name: s, template: say}]}}"
    run = run_of(workflow(dag, inner, SAY), fail_first)
    nodes = {key: {**node, "children": node.get("children", [])[::-1]} for key, node in run["status"]["nodes"].items()}
    graph = run_graph({**run, "status": {**run["status"], "nodes": dict(reversed(nodes.items()))}})
    iterations = graph.scopes[one(graph, "a").inside].nodes
    assert [node.key for node in iterations] == [f"({number}:{number})" for number in range(12)]
    assert [node.key for node in graph.scopes[iterations[0].inside].nodes] == ["(0)", "(1)"]


def test_iterations_share_the_scope_of_their_template() -> None:
    dag = "{name: m, dag: {tasks: [{name: a, template: inner, withSequence: {count: 50}}]}}"
    inner = "{name: inner, dag: {tasks: [{name: s, template: say}, {name: t, template: say}]}}"
    graph = run_graph(run_of(workflow(dag, inner, SAY)))
    assert {node.inside for node in graph.scopes[one(graph, "a").inside].nodes} == {"local//inner"}


def fail_first(launch: Launch) -> Outcome:
    return Outcome("Failed" if "(0)" in launch.node["name"] else "Succeeded", exit_code=0)


def test_attempts_of_a_leaf_collapse_and_those_of_a_group_follow_each_other() -> None:
    dag = "{name: m, dag: {tasks: [{name: a, template: inner}, {name: b, template: leaf, depends: a}]}}"
    inner = "{name: inner, retryStrategy: {limit: 2}, dag: {tasks: [{name: s, template: say}]}}"
    leaf = "{name: leaf, retryStrategy: {limit: 2}, container: {image: alpine}}"
    graph = run_graph(run_of(workflow(dag, inner, leaf, SAY), fail_first))
    again, once = one(graph, "a"), one(graph, "b")
    assert (again.kind, once.kind, once.inside) == ("retry", "task", "")
    assert edges_of(graph.scopes[again.inside]) == {"#1>#2"}
    assert {name for name, node in unfold(graph) if not node.inside} == {"a(0).s", "a(1).s", "b"}


def test_hooks_of_iterations_are_inside_of_the_loop() -> None:
    dag = "{name: m, dag: {tasks: [{name: a, template: say, withItems: [x], hooks: {exit: {template: say}}}]}}"
    graph = run_graph(run_of(workflow(dag, SAY)))
    assert edges_of(graph.scopes[one(graph, "a").inside]) == {"0:x>onExit"}


def test_empty_fields_are_left_out_of_the_answer() -> None:
    graph = version_graph(workflow("{name: m, container: {image: alpine}}"))
    node = {"key": "m", "name": "m", "kind": "task", "type": "container", "template": "m"}
    assert to_json(graph) == {"scopes": {"": {"nodes": [node], "edges": []}}}


@pytest.mark.skipif(examples._FOLDER is None, reason="Argo's examples are not here (shared/conformance/argo)")
@pytest.mark.parametrize("name", examples._workflows())
def test_an_example_is_drawn(name: str) -> None:
    document = dict(examples._documents())[name]
    written = version_graph(document)
    check(written)
    sim = Simulation(manifest(yaml.safe_dump(document)), examples._answers(document), view=examples._world())
    sim.finish(200)
    graph = run_graph({**sim.workflow, "status": {**sim.workflow.get("status", {}), "nodes": dict(sim.run.nodes)}})
    check(graph)
    attempts = {
        child for node in sim.run.nodes.values() if node["type"] == "Retry" for child in node.get("children", ())
    }
    told = {
        node["name"].removeprefix(str(sim.workflow["metadata"]["name"])).removeprefix(".")
        for node in sim.run.nodes.values()
        if node["type"] not in ("StepGroup", "TaskGroup") and node["id"] not in attempts
    }
    assert {path for path in told if not draws(graph, path)} == set()


def draws(graph: TaskGraph, path: str) -> bool:
    """Whether a node has this name. Only what is around it is unfolded: a template may call itself."""
    ahead = [(ROOT, "")]
    for scope, prefix in ahead:
        for node in graph.scopes[scope].nodes:
            whole = prefix + node.key
            if whole == path:
                return True
            if node.inside and path.startswith(whole):
                ahead.append((node.inside, whole))
    return not path


def check(graph: TaskGraph) -> None:
    """Names are unique, edges lead from one node to another without a cycle, and every scope can be reached."""
    reached = {ROOT}
    for scope in graph.scopes.values():
        keys = [node.key for node in scope.nodes]
        assert len(keys) == len(set(keys)) and all(keys)
        reached |= {node.inside for node in scope.nodes if node.inside}
        after: dict[int, set[int]] = {}
        for start, end in scope.edges:
            assert start != end and 0 <= start < len(keys) and 0 <= end < len(keys)
            after.setdefault(start, set()).add(end)
        visited, left = 0, {place: sum(place in ends for ends in after.values()) for place in range(len(keys))}
        ready = [place for place, count in left.items() if not count]
        while ready:
            visited += 1
            for end in after.get(ready.pop(), ()):
                left[end] -= 1
                if not left[end]:
                    ready.append(end)
        assert visited == len(keys)
    assert reached == set(graph.scopes)
    assert graph.scopes[ROOT].nodes
