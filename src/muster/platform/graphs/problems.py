"""What is wrong with a document, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster.kube.schema import validate
from muster.platform.graphs.context import Context, with_modules
from muster.platform.graphs.manifest import manifest_problems
from muster.platform.graphs.messages import Problem, problem
from muster.platform.graphs.model import RESERVED_PREFIX, Graph, Node, Order, is_graph, read
from muster.platform.graphs.problems_flow import edge_problems, input_problems
from muster.platform.graphs.problems_node import node_problems
from muster.platform.graphs.schema import SCHEMA
from muster.platform.graphs.secrecy import SECRET_NAME

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_REFERABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_LONGEST_NODE_NAME = 63
_SHELL_NEEDS = frozenset(
    ("PATH", "HOME", "PWD", "OLDPWD", "SHELL", "USER", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH")
)
_GRAPH_FIELDS = ("parameters", "nodes", "edges")


def problems(document: Mapping[str, Any], context: Context) -> list[Problem]:
    """In the order of the document. One with an error cannot be compiled. A document whose shape is wrong is not looked
    at any further."""
    causes = validate(document, SCHEMA)
    if causes:
        return [problem(cause.field, "schema", detail=cause.message or "this field is not known") for cause in causes]
    if not is_graph(document):
        fields = (problem(f, "type.field", field=f, type="yaml") for f in _GRAPH_FIELDS if document.get(f))
        return [*fields, *manifest_problems(document.get("manifest") or "", context)]
    graph = read(document)
    found = list(_parameter_names(graph))
    if document.get("manifest"):
        found.append(problem("manifest", "type.field", field="manifest", type="graph"))
    if not graph.nodes:
        found.append(problem("nodes", "graph.empty"))
    found += _node_names(graph)
    order = Order(graph)
    filled = with_modules(graph, context)
    for index, (node, whole) in enumerate(zip(graph.nodes, filled.nodes, strict=True)):
        path = f"nodes[{index}]"
        found += _names_inside(node, path)
        found += node_problems(node, document["nodes"][index], path, context)
        found += input_problems(filled, whole, document["nodes"][index], path, order)
    found += edge_problems(graph)
    return found


def errors(found: Iterable[Problem]) -> list[Problem]:
    return [each for each in found if not each.is_warning]


def _parameter_names(graph: Graph) -> Iterator[Problem]:
    yield from _checked(
        "parameters", [p.name for p in graph.parameters], _REFERABLE, "parameter.name", "parameter.duplicate"
    )


def _node_names(graph: Graph) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, node in enumerate(graph.nodes):
        path, name = f"nodes[{index}].name", node.name
        if not _is_node_name(name):
            yield problem(path, "node.name", name=name)
        elif name in seen:
            yield problem(path, "node.duplicate", name=name)
        seen.add(name)


def _is_node_name(name: str) -> bool:
    plain = name.strip() == name and name.isprintable() and "{{" not in name and "/" not in name
    return 0 < len(name) <= _LONGEST_NODE_NAME and plain


def _names_inside(node: Node, path: str) -> Iterator[Problem]:
    inputs, outputs, env = (
        [each.name for each in named] for named in (node.inputs, node.outputs, node.env)
    )  # fmt: skip
    yield from _checked(f"{path}.inputs", inputs, _IDENTIFIER, "input.name", "input.duplicate")
    yield from _checked(f"{path}.outputs", outputs, _REFERABLE, "output.name", "output.duplicate")
    yield from _checked(f"{path}.env", env, _IDENTIFIER, "env.name", "env.duplicate")
    for index, name in enumerate(inputs):
        if name.upper() in _SHELL_NEEDS and name == name.upper():
            yield problem(f"{path}.inputs[{index}].name", "input.shell", name=name)
    for index, variable in enumerate(node.env):
        if variable.secret and not variable.value:
            yield problem(f"{path}.env[{index}].value", "env.secret-value", name=variable.name)
        elif not variable.secret and variable.value and SECRET_NAME.search(variable.name):
            yield problem(f"{path}.env[{index}]", "env.secret", name=variable.name)
    for index, name in enumerate(env):
        if name in inputs:
            yield problem(f"{path}.env[{index}].name", "env.input", name=name)
    for field, names in (("inputs", inputs), ("env", env)):
        for index, name in enumerate(names):
            if name.startswith(RESERVED_PREFIX):
                yield problem(f"{path}.{field}[{index}].name", "name.reserved", name=name)


def _checked(path: str, names: list[str], allowed: re.Pattern[str], bad: str, twice: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if allowed.fullmatch(name) is None:
            yield problem(f"{path}[{index}].name", bad, name=name)
        elif name in seen:
            yield problem(f"{path}[{index}].name", twice, name=name)
        seen.add(name)
