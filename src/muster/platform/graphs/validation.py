"""Validates a graph document: names, nodes, edges, cycles, inputs.

Every finding says where the fault is and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from posixpath import normpath
from typing import Any, NamedTuple

from muster.kube.schema_validation import validate
from muster.platform.graphs.argo_manifest import validate_manifest
from muster.platform.graphs.context import Context, with_modules
from muster.platform.graphs.control_flow_validation import flow_problems
from muster.platform.graphs.document import SECRET_NAME
from muster.platform.graphs.model import (
    NODE_SCHEMA,
    RANGE,
    RESERVED_PREFIX,
    SCHEMA,
    WORKSPACE,
    Edge,
    Graph,
    Node,
    SortOrder,
    Task,
    is_graph,
    read,
)
from muster.platform.graphs.source_validation import input_problems
from muster.platform.graphs.templates import active_roles, check_roles, find_job_kind, job_kinds, role_names
from muster.platform.messages import make_finding
from muster.platform.records.workflows import Finding
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_regex import compile_regex

MOST_FINDINGS = 200
"""Some findings list all names, so that many would be very many bytes."""


def edge_problems(graph: Graph) -> Iterator[Finding]:
    names = [node.name for node in graph.nodes]
    known = set(names)
    seen: set[Edge] = set()
    for index, edge in enumerate(graph.edges):
        for end, name in (("from", edge.before), ("to", edge.after)):
            if name not in known:
                yield make_finding(f"edges[{index}].{end}", "edge.unknown", name=name, nodes=names)
        if edge.before == edge.after:
            yield make_finding(f"edges[{index}]", "edge.self", name=edge.before)
        elif edge in seen:
            yield make_finding(f"edges[{index}]", "edge.duplicate", before=edge.before, after=edge.after)
        seen.add(edge)
    for cycle in _cycles(graph):
        index = graph.edges.index(Edge(cycle[-1], cycle[0]))
        yield make_finding(f"edges[{index}]", "cycle", cycle=" -> ".join([*cycle, cycle[0]]), nodes=cycle)


def _cycles(graph: Graph) -> list[list[str]]:
    """Returns one cycle for each group of nodes that wait for each other."""
    known = {node.name for node in graph.nodes}
    after: dict[str, list[str]] = {name: [] for name in known}
    for edge in graph.edges:
        if edge.before in known and edge.after in known and edge.before != edge.after:
            after[edge.before].append(edge.after)
    done: set[str] = set()
    cycles: list[list[str]] = []
    for node in graph.nodes:
        if node.name in done:
            continue
        # Depth first, without recursion: `trail` is the way from `node` to where we are.
        trail: list[str] = [node.name]
        choices = [iter(after[node.name])]
        on_trail = {node.name}
        caught = False
        while choices:
            step = next(choices[-1], None)
            if step is None:
                done.add(trail[-1])
                on_trail.discard(trail.pop())
                choices.pop()
            elif step in on_trail:
                if not caught:
                    cycles.append(trail[trail.index(step) :])
                    caught = True
            elif step not in done:
                trail.append(step)
                on_trail.add(step)
                choices.append(iter(after[step]))
    return cycles


_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|<<-?\s*(['"])(\w+)\1.*?^\t*\2$""", re.DOTALL | re.MULTILINE)
_USED = re.compile(r"\\.|\$(?:\{[#!]?)?([A-Za-z_]\w*)", re.DOTALL | re.ASCII)
_SET = re.compile(
    r"(?:^|[;&|({\s])(?:(?:export|local|readonly|declare)\s+)?([A-Za-z_]\w*)\+?=|\bfor\s+([A-Za-z_]\w*)\b"
    r"|\$\{([A-Za-z_]\w*):?=|\bread(?:\s+-\w+)*((?:\s+[A-Za-z_]\w*)+)",
    re.ASCII,
)


class Variables(NamedTuple):
    used: list[str]
    """Used as $name or ${name}, each once, in order; not in single quotes."""
    set: set[str]
    """Variables that the text sets itself."""


def variables_in(text: str) -> Variables:
    bare = _QUOTED.sub(_unquoted, text)
    used = dict.fromkeys(found[1] for found in _USED.finditer(bare) if found[1])
    names: set[str] = set()
    for found in _SET.finditer(bare):
        names.update(name for group in found.groups() if group for name in group.split())
    return Variables(list(used), names)


def mentions(text: str, name: str) -> bool:
    """Whether the name occurs anywhere: a Python program in the text may read the variable by name."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _unquoted(found: re.Match[str]) -> str:
    whole = found[0]
    return "''" if whole.startswith("'") or found[1] else whole


_FIELDS = {
    "plain": ("module", "training"),
    "module": ("training",),
    "training": ("module",),
}
"""Fields that belong to other kinds of nodes."""
_IMAGE = re.compile(r"[\w.\-/:@+]+", re.ASCII)
_OF_THE_MODULE = ("command", "image", "outputs")


def node_problems(node: Node, written: Mapping[str, Any], path: str, context: Context) -> Iterator[Finding]:
    for field in _FIELDS[node.kind]:
        if written.get(field):
            yield make_finding(f"{path}.{field}", "kind.field", field=field, kind=node.kind)
    yield from _range_problems(written, path)
    yield from _task_problems(node.task, written.get("task") or {}, f"{path}.task", context)
    if node.kind == "module":
        yield from _module_problems(node, written, path, context)
    else:
        if node.kind == "training":
            yield from _training_problems(node, written, path, context)
        yield from _program_problems(node, path)
        yield from _output_problems(node, path)
    yield from _storage_problems(node, path, context)
    yield from _metrics_problems(node, path)


def _metrics_problems(node: Node, path: str) -> Iterator[Finding]:
    detail = ""
    try:
        compile_regex(node.metrics_pattern)
    except ExpressionError as error:
        detail = str(error)
    if "{{" in node.metrics_pattern:
        detail = "it contains {{, which begins a variable of a workflow; write [{]{"
    if detail:
        yield make_finding(f"{path}.metricsPattern", "metrics.pattern", detail=detail)


def _range_problems(written: Mapping[str, Any], path: str) -> Iterator[Finding]:
    for name, field in NODE_SCHEMA["properties"].items():
        value = written.get(name)
        if RANGE not in field or value is None:
            continue
        least, most = field[RANGE]
        if not least <= value <= most:
            yield make_finding(f"{path}.{name}", "number.range", value=value, least=least, most=most)


def is_clean_path(path: str) -> bool:
    """Whether the path is absolute, below /, and contains nothing that would be replaced."""
    if not path.startswith("/") or normpath(path) in ("/", "//") or ".." in path.split("/"):
        return False
    return path.isprintable() and "{{" not in path and "$" not in path


def _program_problems(node: Node, path: str) -> Iterator[Finding]:
    own = [role for role in node.training.roles if role.command or role.image] if node.training else []
    members = len(node.training.roles) if node.training else 0
    if not node.command.strip() and not (members and sum(bool(role.command) for role in own) == members):
        yield make_finding(f"{path}.command", "command.missing", name=node.name)
    if not node.image.strip() and not (members and sum(bool(role.image) for role in own) == members):
        yield make_finding(f"{path}.image", "image.missing", name=node.name)
    for image in dict.fromkeys([node.image, *(role.image or "" for role in own)]):
        if image.strip() and _IMAGE.fullmatch(image) is None:
            yield make_finding(f"{path}.image", "image.name", image=image)
    texts = [node.command, *(role.command or "" for role in own)]
    declared = {given.name for given in node.inputs} | {variable.name for variable in node.env}
    if node.loop is not None:
        declared.add(node.loop.variable)
        if any(texts) and not any(mentions(text, node.loop.variable) for text in texts):
            yield make_finding(f"{path}.loop.variable", "loop.unused", variable=node.loop.variable)
    warned: set[str] = set()
    for text in texts:
        used, known = variables_in(text)
        for name in used:
            # Names in capitals belong to images, shells and frameworks: MASTER_ADDR, CUDA_VISIBLE_DEVICES.
            expected = name in declared or name in known or name.isupper() or name.startswith(RESERVED_PREFIX)
            if not expected and name not in warned:
                warned.add(name)
                yield make_finding(f"{path}.command", "command.undeclared", name=name)
    for index, given in enumerate(node.inputs):
        if any(texts) and not any(mentions(text, given.name) for text in texts):
            yield make_finding(f"{path}.inputs[{index}]", "input.unused", name=given.name)


def _output_problems(node: Node, path: str) -> Iterator[Finding]:
    places: dict[str, str] = {}
    for index, output in enumerate(node.outputs):
        where = f"{path}.outputs[{index}].path"
        if not is_clean_path(output.path):
            yield make_finding(where, "output.path", name=output.name, path=output.path)
            continue
        if node.kind == "training" and not normpath(output.path).startswith(f"{WORKSPACE}/"):
            yield make_finding(where, "output.training", name=output.name, path=output.path)
        place = normpath(output.path)
        if place in places:
            yield make_finding(where, "output.same-path", name=output.name, other=places[place])
        places.setdefault(place, output.name)


def _task_problems(task: Task, written: Mapping[str, Any], path: str, context: Context) -> Iterator[Finding]:
    if task.type == "monitor":
        if written.get("cluster") or written.get("skus") is not None:
            yield make_finding(path, "task.monitor")
        return
    if task.skus < 1:
        yield make_finding(f"{path}.skus", "task.sku", skus=task.skus)
    usable = sorted(cluster.name for cluster in context.clusters.values() if cluster.usable)
    cluster = context.clusters.get(task.cluster)
    if not task.cluster:
        yield make_finding(f"{path}.cluster", "task.no-cluster", clusters=usable)
    elif cluster is None:
        yield make_finding(f"{path}.cluster", "task.cluster", cluster=task.cluster, clusters=usable)
    elif not cluster.usable:
        yield make_finding(f"{path}.cluster", "task.forbidden", cluster=task.cluster, clusters=usable)


def _storage_problems(node: Node, path: str, context: Context) -> Iterator[Finding]:
    usable = sorted(root.name for root in context.roots.values() if root.usable)
    places: set[str] = set()
    for index, mount in enumerate(node.storage):
        where = f"{path}.storage[{index}]"
        root = context.roots.get(mount.root)
        if root is None:
            yield make_finding(f"{where}.root", "storage.root", root=mount.root, roots=usable)
            continue
        if not root.usable:
            yield make_finding(f"{where}.root", "storage.forbidden", root=mount.root, roots=usable)
        if root.read_only and not mount.read_only:
            yield make_finding(f"{where}.readOnly", "storage.read-only", root=mount.root)
        place = normpath(mount.path or root.path)
        if mount.path and not is_clean_path(mount.path):
            yield make_finding(f"{where}.path", "storage.path", path=mount.path)
        elif place in ("/tmp", WORKSPACE):  # noqa: S108  (a container's own)
            yield make_finding(f"{where}.path", "storage.covers", path=place)
        elif place in places:
            yield make_finding(f"{where}.path", "storage.same-path", path=place)
        places.add(place)


def _module_problems(node: Node, written: Mapping[str, Any], path: str, context: Context) -> Iterator[Finding]:
    for field in _OF_THE_MODULE:
        if written.get(field):
            yield make_finding(f"{path}.{field}", "module.field", field=field)
    if node.module is None:
        yield make_finding(f"{path}.module", "module.missing", name=node.name)
        return
    name, version = node.module
    module = context.modules.get(node.module)
    if module is None:
        versions = sorted(v for n, v in context.modules if n == name)
        if versions:
            yield make_finding(
                f"{path}.module.version", "module.version", module=name, version=version, versions=versions
            )
            return
        names = sorted({n for (n, _), known in context.modules.items() if known.usable})
        yield make_finding(f"{path}.module.name", "module.unknown", module=name, modules=names)
        return
    if not module.usable:
        yield make_finding(f"{path}.module", "module.forbidden", module=name, version=version)
    elif module.retired:
        yield make_finding(f"{path}.module", "module.retired", module=name, version=version)
    elif module.deprecated:
        yield make_finding(f"{path}.module", "module.deprecated", module=name, version=version)
    given = [each.name for each in node.inputs]
    if node.loop is not None:
        if node.loop.variable not in module.inputs:
            yield make_finding(
                f"{path}.loop.variable", "loop.module", module=name, variable=node.loop.variable,
                inputs=list(module.inputs),
            )  # fmt: skip
        given.append(node.loop.variable)
    for index, each in enumerate(given[: len(node.inputs)]):
        if each not in module.inputs:
            yield make_finding(
                f"{path}.inputs[{index}]", "module.no-input", module=name, input=each, inputs=list(module.inputs)
            )
    for each in module.inputs:
        if each not in given:
            yield make_finding(f"{path}.inputs", "module.input", module=name, input=each)


def _training_problems(node: Node, written: Mapping[str, Any], path: str, context: Context) -> Iterator[Finding]:
    wanted = node.training
    if wanted is None:
        yield make_finding(f"{path}.training", "training.missing", name=node.name)
        return
    job_kind = find_job_kind(wanted)
    if job_kind is None:
        shown = f"{wanted.api_version} {wanted.kind}".strip()
        yield make_finding(f"{path}.training.kind", "training.kind", kind=shown, kinds=job_kinds())
        return
    roles = list(role_names(job_kind))
    sound, seen = True, set[str]()
    for index, role in enumerate(wanted.roles):
        where = f"{path}.training.roles[{index}]"
        if role.name not in roles:
            yield make_finding(f"{where}.name", "training.role", kind=wanted.kind, role=role.name, roles=roles)
            sound = False
        elif role.name in seen:
            yield make_finding(f"{where}.name", "training.duplicate", role=role.name)
            sound = False
        seen.add(role.name)
        if role.task is not None:
            raw = written["training"]["roles"][index].get("task") or {}
            yield from _task_problems(role.task, raw, f"{where}.task", context)
    if not active_roles(wanted):
        yield make_finding(f"{path}.training.roles", "training.empty", roles=roles)
    elif sound:
        for name, detail in check_roles(wanted, job_kind):
            place = next((f"[{i}]" for i, role in enumerate(wanted.roles) if role.name == name), "")
            yield make_finding(f"{path}.training.roles{place}", "training.invalid", detail=detail)


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_REFERABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_LONGEST_NODE_NAME = 63
_SHELL_NEEDS = frozenset(
    ("PATH", "HOME", "PWD", "OLDPWD", "SHELL", "USER", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH")
)
_GRAPH_FIELDS = ("parameters", "nodes", "edges")


def validate_graph(document: Mapping[str, Any], context: Context) -> list[Finding]:
    """Returns the findings in the order of the document. A document with errors cannot be compiled. If it does not fit
    the schema, nothing else is checked."""
    wrong = shape_problems(document)
    if wrong:
        return wrong
    if not is_graph(document):
        fields = (make_finding(f, "type.field", field=f, type="yaml") for f in _GRAPH_FIELDS if document.get(f))
        return [*fields, *validate_manifest(document.get("manifest") or "", context)]
    graph = read(document)
    found = list(_parameter_names(graph))
    if document.get("manifest"):
        found.append(make_finding("manifest", "type.field", field="manifest", type="graph"))
    if not graph.nodes:
        found.append(make_finding("nodes", "graph.empty"))
    found += _node_names(graph)
    order = SortOrder(graph)
    filled = with_modules(graph, context)
    for index, (node, whole) in enumerate(zip(graph.nodes, filled.nodes, strict=True)):
        path = f"nodes[{index}]"
        found += _names_inside(node, path)
        found += node_problems(node, document["nodes"][index], path, context)
        found += input_problems(filled, whole, document["nodes"][index], path, order)
        found += flow_problems(filled, whole, document["nodes"][index], path, order)
        if len(found) >= MOST_FINDINGS:
            break
    found += islice(edge_problems(graph), MOST_FINDINGS)
    return found[:MOST_FINDINGS]


def shape_problems(document: Any) -> list[Finding]:
    """Returns where a document does not fit the schema. All other functions rely on its types."""
    return [
        make_finding(cause.field, "schema", detail=cause.message or "this field is not known")
        for cause in validate(document, SCHEMA)
    ]


def only_errors(found: Iterable[Finding]) -> list[Finding]:
    return [each for each in found if not each.is_warning]


def _parameter_names(graph: Graph) -> Iterator[Finding]:
    yield from _check_names(
        "parameters", [p.name for p in graph.parameters], _REFERABLE, "parameter.name", "parameter.duplicate"
    )


def _node_names(graph: Graph) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, node in enumerate(graph.nodes):
        path, name = f"nodes[{index}].name", node.name
        if not _is_node_name(name):
            yield make_finding(path, "node.name", name=name)
        elif name in seen:
            yield make_finding(path, "node.duplicate", name=name)
        seen.add(name)
        loop = graph.node(name.partition("(")[0]) if "(" in name else None
        if loop is not None and loop.loop is not None:
            yield make_finding(path, "node.iteration", name=name, loop=loop.name)


def _is_node_name(name: str) -> bool:
    plain = name.strip() == name and name.isprintable() and "{{" not in name and "/" not in name
    return 0 < len(name) <= _LONGEST_NODE_NAME and plain


def _names_inside(node: Node, path: str) -> Iterator[Finding]:
    inputs, outputs, env = (
        [each.name for each in named] for named in (node.inputs, node.outputs, node.env)
    )  # fmt: skip
    yield from _check_names(f"{path}.inputs", inputs, _IDENTIFIER, "input.name", "input.duplicate")
    yield from _check_names(f"{path}.outputs", outputs, _REFERABLE, "output.name", "output.duplicate")
    yield from _check_names(f"{path}.env", env, _IDENTIFIER, "env.name", "env.duplicate")
    for index, name in enumerate(inputs):
        if name in _SHELL_NEEDS:
            yield make_finding(f"{path}.inputs[{index}].name", "input.shell", name=name)
    if node.loop is not None:
        yield from _loop_variable(node.loop.variable, [*inputs, *env], f"{path}.loop.variable")
    for index, variable in enumerate(node.env):
        if variable.secret and not variable.value:
            yield make_finding(f"{path}.env[{index}].value", "env.secret-value", name=variable.name)
        elif not variable.secret and variable.value and SECRET_NAME.search(variable.name):
            yield make_finding(f"{path}.env[{index}]", "env.secret", name=variable.name)
    for index, name in enumerate(env):
        if name in inputs:
            yield make_finding(f"{path}.env[{index}].name", "env.input", name=name)
    for field, names in (("inputs", inputs), ("env", env)):
        for index, name in enumerate(names):
            if name.startswith(RESERVED_PREFIX):
                yield make_finding(f"{path}.{field}[{index}].name", "name.reserved", name=name)


def _loop_variable(name: str, others: list[str], path: str) -> Iterator[Finding]:
    if _IDENTIFIER.fullmatch(name) is None:
        yield make_finding(path, "input.name", name=name)
    elif name in _SHELL_NEEDS:
        yield make_finding(path, "input.shell", name=name)
    elif name.startswith(RESERVED_PREFIX):
        yield make_finding(path, "name.reserved", name=name)
    elif name in others:
        yield make_finding(path, "loop.variable", variable=name)


def _check_names(path: str, names: list[str], allowed: re.Pattern[str], bad: str, twice: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if allowed.fullmatch(name) is None:
            yield make_finding(f"{path}[{index}].name", bad, name=name)
        elif name in seen:
            yield make_finding(f"{path}[{index}].name", twice, name=name)
        seen.add(name)
