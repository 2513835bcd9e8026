"""A Workflow as a graph to draw: the tasks of its templates, and of a run also the iterations and attempts it has made.
Pure.

A graph consists of scopes. A scope has the nodes of one template, and the edges between them; a node that has others
inside names their scope. Templates are not unfolded: two tasks of one template name the same scope, and a template that
calls itself names its own. So the graph is as large as the manifest, whatever it expands to. A run adds scopes only
where it differs from its templates: for the iterations of a loop, and for repeated attempts of a template with tasks
inside.

The keys of the nodes around a node and its own, one after the other, are the name that Argo gives it, without that of
the Workflow: `[1].fan(0:a).train`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.workflows.engine.templates import Context, type_of
from muster.workflows.lang import depends
from muster.workflows.lang.errors import ExpressionError

NodeKind = Literal["task", "group", "loop", "retry", "join"]

ROOT: Final = ""
"""The scope of the entrypoint."""
MOST_EDGES_BETWEEN_STEPS = 25
"""If two groups of parallel steps would need more edges than this, they meet in a node of the kind `join`."""
MOST_RUN_NODES = 50_000
"""The largest number of nodes that a run adds to those of its templates. What is inside the others is drawn as its
template says."""

_LOOPS = ("withItems", "withParam", "withSequence")
_INNER_TYPES = frozenset(("dag", "steps", "containerSet"))
_WORD = re.compile(r"[\w-]+")
_ALL_OF = re.compile(r"\s*[\w-]+(\s*&&\s*[\w-]+)*\s*")
"""The usual `depends`. It need not be parsed to find its tasks."""
_STEP = re.compile(r"\[\d+\]\.[^.(\[]+")
_TASK = re.compile(r"\.?[^.(\[]+")
_ITERATION = re.compile(r"\(\d+:.*\)", re.DOTALL)
_ITERATION_HOOK = re.compile(r"(\(\d+:.*\))(\.onExit|\.hooks\.[\w-]+)", re.DOTALL)
_LONGEST_LABEL = 200


@dataclass(frozen=True, slots=True)
class GraphNode:
    key: str
    """What it adds to the name of the node around it."""
    name: str
    kind: NodeKind = "task"
    type: str = ""
    """The type of its template: container, script, dag, steps ...; '' if it is not known."""
    template: str = ""
    """The name of its template; NAME/TEMPLATE if it belongs to the WorkflowTemplate NAME."""
    inside: str = ""
    """The scope of what is inside of it; '' if nothing is."""
    condition: str = ""
    """When it runs: `when`, or the expression of a hook."""
    over: str = ""
    """What a loop runs over."""
    hook: str = ""
    """Of a lifecycle hook: the event; `exit` for an exit handler."""


@dataclass(frozen=True, slots=True)
class Scope:
    nodes: list[GraphNode] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    """Between nodes, by their places in the list."""


@dataclass(frozen=True, slots=True)
class TaskGraph:
    scopes: dict[str, Scope]
    """That of the entrypoint has the name ''."""


def version_graph(workflow: Object) -> TaskGraph:
    """Returns the graph of a Workflow that does not run."""
    return _Builder(spec_of(workflow), {}, _Started("", {})).build()


def run_graph(workflow: Object) -> TaskGraph:
    """Returns the graph of a Workflow with the nodes in its status."""
    status = status_of(workflow)
    spec = status.get("storedWorkflowTemplateSpec") or spec_of(workflow)
    started = _Started(name_of(workflow), status.get("nodes") or {})
    return _Builder(spec, status.get("storedTemplates") or {}, started).build()


def refers_to_templates(graph: TaskGraph) -> bool:
    """Whether templates of WorkflowTemplates are in it. These may differ between runs of the same Workflow."""
    return any("/" in node.template for scope in graph.scopes.values() for node in scope.nodes)


def to_json(graph: TaskGraph) -> dict[str, Any]:
    """Leaves empty fields out: a graph may have ten thousand nodes."""
    return {
        "scopes": {
            name: {
                "nodes": [{f: v for f in GraphNode.__slots__ if (v := getattr(node, f))} for node in scope.nodes],
                "edges": scope.edges,
            }
            for name, scope in graph.scopes.items()
        }
    }


Members = Mapping[str, dict[str, Mapping[str, Any]]]
"""The nodes of one execution of a template, without attempts: by task or step (`.train`, `[0].fan`), then by what
follows in their names (`(0:a)`, `.onExit`)."""


class _Started:
    """The nodes of a run, by the template they belong to."""

    def __init__(self, workflow: str, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        self.workflow = workflow
        self.nodes = nodes
        self.by_name = {str(node.get("name")): node for node in nodes.values()}
        self.attempts: dict[str, list[Mapping[str, Any]]] = {}
        """Those of each Retry node, by its id."""
        self.members: dict[str, dict[str, dict[str, Mapping[str, Any]]]] = {}
        """By the id of the template's node."""
        repeated: set[str] = set()
        for key, node in nodes.items():
            if node.get("type") == "Retry":
                start = f"{node.get('name')}("
                own = [nodes[child] for child in node.get("children") or () if child in nodes]
                self.attempts[key] = sorted(
                    (each for each in own if str(each.get("name")).startswith(start)),
                    key=lambda each: _number(str(each.get("name"))[len(start) - 1 :]),
                )
                repeated.update(str(each.get("id")) for each in self.attempts[key])
        self._deviating: set[str] = set()
        boundaries = {node.get("boundaryID") for node in nodes.values()}
        for key, node in nodes.items():
            boundary = str(node.get("boundaryID") or "")
            rest = str(node.get("name")).removeprefix(str(nodes.get(boundary, {}).get("name") or workflow))
            place = _STEP.match(rest) or _TASK.match(rest)
            if key not in repeated and place is not None:
                self.members.setdefault(boundary, {}).setdefault(place[0], {})[rest[place.end() :]] = node
            if rest.endswith(")") and (key not in repeated or key in boundaries):
                self._mark(boundary)

    def deviates(self, node: Mapping[str, Any]) -> bool:
        """Whether the run has made more of it than its template says."""
        return str(node.get("id")) in self._deviating

    def _mark(self, boundary: str) -> None:
        while boundary and boundary not in self._deviating:
            self._deviating.add(boundary)
            boundary = str(self.nodes.get(boundary, {}).get("boundaryID") or "")


@dataclass(frozen=True, slots=True)
class _Call:
    """A step, task, hook or the entrypoint, with the template that it names."""

    holder: Mapping[str, Any]
    context: Context
    """Where the template looks up others."""
    template: Mapping[str, Any]
    """{} if it is not known."""

    @property
    def type(self) -> str:
        return type_of(self.template)

    @property
    def has_tasks(self) -> bool:
        return self.type in _INNER_TYPES

    @property
    def loop(self) -> str:
        return next((name for name in _LOOPS if self.holder.get(name) is not None), "")


class _Builder:
    def __init__(self, spec: Mapping[str, Any], stored: Mapping[str, Mapping[str, Any]], started: _Started) -> None:
        self._spec = spec
        self._stored = stored
        self._started = started
        self._local = {str(t.get("name")): t for t in spec.get("templates") or ()}
        self._scopes: dict[str, Scope] = {}
        self._later: deque[tuple[str, _Call, Mapping[str, Any] | None, str]] = deque()
        self._inline: dict[int, int] = {}
        self._free = MOST_RUN_NODES

    def build(self) -> TaskGraph:
        self._scopes[ROOT] = self._root()
        while self._later:
            name, call, node, prefix = self._later.popleft()
            self._scopes[name] = self._template(call, node, prefix)
        return TaskGraph(self._scopes)

    def _root(self) -> Scope:
        reference = self._spec.get("workflowTemplateRef")
        if reference and not self._local:
            name = str(reference.get("name") or "")
            return Scope([GraphNode(name, name, template=f"{name}/")])
        entry = self._call({"template": self._spec.get("entrypoint") or ""}, Context("local", ""))
        node = self._started.by_name.get(self._started.workflow)
        attempts = self._attempts(node)
        if not entry.has_tasks:
            name = str(self._spec.get("entrypoint") or "")
            scope = Scope([self._node(entry, name, name, None)])
        elif len(attempts) > 1:
            scope = self._attempts_scope(entry, attempts)
        else:
            scope = self._template(entry, attempts[0] if attempts else node, "(0)" if attempts else "")
        return self._with_hooks(scope)

    def _with_hooks(self, scope: Scope) -> Scope:
        """Adds the exit handler and the hooks of the workflow itself."""
        nodes = [replace(node, key=node.key[1:]) if node.key.startswith(".") else node for node in scope.nodes]
        edges = list(scope.edges)
        last = set(range(len(nodes))) - {before for before, _ in edges}
        for key, event, hook in _hooks(self._spec):
            if event == "exit":
                edges += [(each, len(nodes)) for each in sorted(last)]
            call = self._call(hook, Context("local", ""))
            node = self._started.by_name.get(f"{self._started.workflow}{key}")
            nodes.append(self._node(call, key.removeprefix("."), key.removeprefix("."), node, event))
        return Scope(nodes, edges)

    def _call(self, holder: Mapping[str, Any], context: Context) -> _Call:
        inline, ref = holder.get("inline"), holder.get("templateRef")
        if inline is not None:
            return _Call(holder, context, inline)
        if ref:
            inner = Context("cluster" if ref.get("clusterScope") else "namespaced", str(ref.get("name") or ""))
            return _Call(holder, inner, self._find(inner, str(ref.get("template") or "")))
        return _Call(holder, context, self._find(context, str(holder.get("template") or "")))

    def _find(self, context: Context, name: str) -> Mapping[str, Any]:
        found = self._local.get(name) if context.kind == "local" else self._stored.get(f"{context.scope}/{name}")
        return found or {}

    def _template(self, call: _Call, node: Mapping[str, Any] | None, prefix: str) -> Scope:
        """Returns the tasks of a template; with a node, those of one execution of it. `prefix` is put before their
        keys."""
        members = self._started.members.get(str(node.get("id")), {}) if node is not None else {}
        match call.type:
            case "steps":
                return self._steps(call, members, prefix)
            case "dag":
                return self._dag(call, members, prefix)
            case _:
                return _containers(call.template, prefix)

    def _dag(self, call: _Call, members: Members, prefix: str) -> Scope:
        tasks: Sequence[Mapping[str, Any]] = call.template["dag"].get("tasks") or ()
        nodes, edges = list[GraphNode](), list[tuple[int, int]]()
        places = dict[str, int]()
        names = frozenset(str(task.get("name")) for task in tasks)
        for task in tasks:
            places[str(task.get("name"))] = len(nodes)
            self._add(nodes, edges, call, task, f".{task.get('name')}", members, prefix)
        for task in tasks:
            place = places[str(task.get("name"))]
            edges += [(places[before], place) for before in _dependencies(task, names)]
        return Scope(nodes, edges)

    def _steps(self, call: _Call, members: Members, prefix: str) -> Scope:
        nodes, edges = list[GraphNode](), list[tuple[int, int]]()
        before = list[int]()
        for index, group in enumerate(call.template["steps"] or ()):
            parallel: Sequence[Mapping[str, Any]] = [group] if isinstance(group, Mapping) else group or ()
            if len(before) * len(parallel) > MOST_EDGES_BETWEEN_STEPS:
                nodes.append(GraphNode(f"{prefix}[{index}]", f"[{index}]", "join"))
                edges += [(each, len(nodes) - 1) for each in before]
                before = [len(nodes) - 1]
            places = list[int]()
            for step in parallel:
                places.append(len(nodes))
                edges += [(each, len(nodes)) for each in before]
                self._add(nodes, edges, call, step, f"[{index}].{step.get('name')}", members, prefix)
            before = places or before
        return Scope(nodes, edges)

    def _add(
        self,
        nodes: list[GraphNode],
        edges: list[tuple[int, int]],
        around: _Call,
        step: Mapping[str, Any],
        key: str,
        members: Members,
        prefix: str,
    ) -> None:
        """Adds a step or task, and its hooks."""
        place, name = len(nodes), str(step.get("name") or "")
        own = members.get(key, {})
        call = self._call(step, around.context)
        if any(_ITERATION.fullmatch(rest) for rest in own):
            nodes.append(self._loop(call, around, prefix + key, name, own))
        else:
            nodes.append(self._node(call, prefix + key, name, own.get("")))
        for suffix, event, hook in _hooks(step):
            edges.append((place, len(nodes)))
            inner = self._call(hook, around.context)
            nodes.append(self._node(inner, f"{prefix}{key}{suffix}", f"{name}{suffix}", own.get(suffix), event))

    def _loop(self, call: _Call, around: _Call, key: str, name: str, own: Mapping[str, Mapping[str, Any]]) -> GraphNode:
        """A loop with the iterations that exist, and their hooks."""
        hooks = {suffix: (event, hook) for suffix, event, hook in _hooks(call.holder)}
        nodes, edges, places = list[GraphNode](), list[tuple[int, int]](), dict[str, int]()
        once = _once(call)
        iterations = sorted(filter(_ITERATION.fullmatch, own), key=_number)
        for rest in iterations:
            places[rest] = len(nodes)
            nodes.append(self._node(once, rest, rest[1:-1], own[rest]))
        for rest, node in own.items():
            hooked = _ITERATION_HOOK.fullmatch(rest)
            if hooked is not None and hooked[1] in places and hooked[2] in hooks:
                event, hook = hooks[hooked[2]]
                edges.append((places[hooked[1]], len(nodes)))
                nodes.append(self._node(self._call(hook, around.context), rest, hooked[2][1:], node, event))
        scope = f"loop {key} {own[iterations[0]].get('id')}"
        self._scopes[scope] = Scope(nodes, edges)
        self._free -= len(nodes)
        return _labelled(call, key, name, "loop", scope)

    def _node(self, call: _Call, key: str, name: str, node: Mapping[str, Any] | None, hook: str = "") -> GraphNode:
        """A step, task or iteration, with what is inside of it."""
        kind: NodeKind = "loop" if call.loop else "group" if call.has_tasks else "task"
        if not call.has_tasks:
            return _labelled(call, key, name, kind, "", hook)
        attempts = self._attempts(node)
        if len(attempts) > 1:
            scope = f"attempts {(node or {}).get('id')}"
            self._scopes[scope] = self._attempts_scope(call, attempts)
            return _labelled(call, key, name, "retry", scope, hook)
        if attempts:
            return _labelled(call, key, name, kind, self._inside(call, attempts[0], "(0)"), hook)
        return _labelled(call, key, name, kind, self._inside(call, node, ""), hook)

    def _attempts(self, node: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
        return self._started.attempts.get(str(node.get("id")), []) if node is not None else []

    def _attempts_scope(self, call: _Call, attempts: Sequence[Mapping[str, Any]]) -> Scope:
        """The attempts of a template with tasks inside, one after the other."""
        once = _once(call)
        nodes = [self._node(once, f"({index})", f"#{index + 1}", node) for index, node in enumerate(attempts)]
        return Scope(nodes, [(place, place + 1) for place in range(len(nodes) - 1)])

    def _inside(self, call: _Call, node: Mapping[str, Any] | None, prefix: str) -> str:
        """Returns the scope of what is inside: one of its own where the run has made more of it than its template
        says, else the template's."""
        is_own = node is not None and self._started.deviates(node) and self._free > 0
        own = f"node {node.get('id')}" if is_own and node is not None else ""
        holder = call.holder
        shared = f"{call.context.scope}/{holder.get('template') or (holder.get('templateRef') or {}).get('template')}"
        if holder.get("inline") is not None:
            shared = f"inline {self._inline.setdefault(id(holder['inline']), len(self._inline))}"
        name = own or f"{shared}{prefix}"
        if name not in self._scopes:
            self._scopes[name] = Scope()  # it is built later: a template may call itself
            self._later.append((name, call, node if own else None, prefix))
            if own:
                self._free -= _size(call.template)
        return name


def _number(suffix: str) -> int:
    """That of an iteration, `(12:x)`, or of an attempt, `(1)`."""
    found = re.match(r"\((\d+)", suffix)
    return int(found[1]) if found is not None else 0


def _once(call: _Call) -> _Call:
    """An iteration or attempt of it."""
    return replace(call, holder={name: value for name, value in call.holder.items() if name not in (*_LOOPS, "when")})


def _labelled(call: _Call, key: str, name: str, kind: NodeKind, inside: str, hook: str = "") -> GraphNode:
    holder = call.holder
    ref = holder.get("templateRef") or {}
    template = f"{ref.get('name')}/{ref.get('template')}" if ref else str(holder.get("template") or "")
    condition = str(holder.get("when") or (holder.get("expression") if hook else "") or "")
    return GraphNode(key, name, kind, call.type, template, inside, condition[:_LONGEST_LABEL], _over(call), hook)


def _over(call: _Call) -> str:
    match call.loop:
        case "withItems":
            items = call.holder["withItems"]
            return f"{len(items)}" if isinstance(items, list) else str(items)[:_LONGEST_LABEL]
        case "withSequence":
            sequence = call.holder["withSequence"] or {}
            parts = [f"{name} {sequence[name]}" for name in ("count", "start", "end") if sequence.get(name) is not None]
            return ", ".join(parts)[:_LONGEST_LABEL]
        case "withParam":
            return str(call.holder["withParam"])[:_LONGEST_LABEL]
        case _:
            return ""


def _hooks(holder: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yields the key, the event and the hook."""
    hooks: Mapping[str, Mapping[str, Any]] = holder.get("hooks") or {}
    for event, hook in hooks.items():
        if event != "exit":
            yield f".hooks.{event}", event, hook
    last = hooks.get("exit") or ({"template": holder["onExit"]} if holder.get("onExit") else None)
    if last is not None:
        yield ".onExit", "exit", last


def _dependencies(task: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    known = names if isinstance(names, frozenset) else frozenset(names)
    listed = [str(name) for name in task.get("dependencies") or ()]
    text = str(task.get("depends") or "")
    if _ALL_OF.fullmatch(text):
        listed = _WORD.findall(text)
    elif text:
        try:
            listed = list(depends.tasks(depends.parse(text)))
        except ExpressionError:
            listed = _WORD.findall(text)  # a tag is in it, which the run fills in
    return [name for name in dict.fromkeys(listed) if name in known and name != task.get("name")]


def _containers(template: Mapping[str, Any], prefix: str) -> Scope:
    containers: Sequence[Mapping[str, Any]] = (template.get("containerSet") or {}).get("containers") or ()
    names = [str(container.get("name")) for container in containers]
    places = {name: place for place, name in enumerate(names)}
    nodes = [GraphNode(f"{prefix}.{name}", name, type="container") for name in names]
    edges = [
        (places[before], places[str(container.get("name"))])
        for container in containers
        for before in _dependencies(container, names)
    ]
    return Scope(nodes, edges)


def _size(template: Mapping[str, Any]) -> int:
    steps = sum(1 if isinstance(group, Mapping) else len(group or ()) for group in template.get("steps") or ())
    return steps + len((template.get("dag") or {}).get("tasks") or ())
