"""The nodes of a workflow as a tree of what is part of what, and as a graph of what follows what."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.workflows.engine.names import step_of
from muster.workflows.model import Node, Template

GROUPS = frozenset(("Steps", "StepGroup", "DAG", "TaskGroup"))
_SEPARATORS = re.compile(r"[.\[(]")


class Tree:
    """Node names nest: `wf[0].fan(1:b)` is part of `wf[0]`, which is part of `wf`."""

    def __init__(self, workflow: Object) -> None:
        self._spec = spec_of(workflow)
        self._status = status_of(workflow)
        self.nodes: Mapping[str, Node] = self._status.get("nodes") or {}
        self._ids: dict[str, str] = {str(node["name"]): key for key, node in self.nodes.items()}
        self.root = self._ids.get(name_of(workflow))
        self.parts: dict[str, list[str]] = defaultdict(list)
        self.whole: dict[str, str] = {}
        """What a node is part of; the root, and what is part of nothing, are not in it."""
        for key, node in self.nodes.items():
            whole = self._whole(str(node["name"]))
            if whole is not None:
                self.whole[key] = whole
                self.parts[whole].append(key)
        self._followers: dict[str, set[str]] | None = None
        self._declared: dict[str, dict[str, Mapping[str, Any]]] = {}
        spec = self._status.get("storedWorkflowTemplateSpec") or self._spec
        self._templates: dict[str, Template] = {str(t.get("name")): t for t in spec.get("templates") or ()}

    def members(self, key: str) -> list[str]:
        """What makes up a node, hooks left out."""
        return [part for part in self.parts[key] if not is_hook(self.nodes[part])]

    def hooks(self, key: str) -> list[str]:
        return [part for part in self.parts[key] if is_hook(self.nodes[part])]

    def everything_in(self, key: str) -> Iterator[str]:
        """The node itself, too."""
        waiting = [key]
        while waiting:
            found = waiting.pop()
            yield found
            waiting += self.parts[found]

    def around(self, key: str) -> Iterator[str]:
        """What it is part of, from the inside to the outside."""
        while key in self.whole:
            key = self.whole[key]
            yield key

    def followers(self, task: str) -> set[str]:
        """The tasks of the same DAG that depend on this one."""
        if self._followers is None:
            self._followers = self._all_followers()
        return self._followers.get(task, set())

    def reachable(self, key: str) -> set[str]:
        """Everything that came after the node or a part of it."""
        found: set[str] = set()
        waiting = list(self.everything_in(key))
        while waiting:
            for child in self.nodes[waiting.pop()].get("children") or ():
                if child in self.nodes and child not in found:
                    found.add(child)
                    waiting += self.everything_in(child)
        return found

    def template(self, key: str) -> Template | None:
        """The template that a node runs, if the workflow has a copy of it."""
        node = self.nodes[key]
        stored = self._status.get("storedTemplates") or {}
        ref = node.get("templateRef")
        if ref:
            scope = "cluster" if ref.get("clusterScope") else "namespaced"
            return stored.get(f"{scope}/{ref.get('name')}/{ref.get('template')}")
        name = node.get("templateName")
        if not name:
            inline: Template | None = (self.declaration(key) or {}).get("inline")
            return inline
        found = stored.get(f"{node.get('templateScope')}/{name}")
        if found is not None:
            return dict(found)
        return self._templates.get(name)

    def declaration(self, key: str) -> Mapping[str, Any] | None:
        """The step or task that a node stems from, as it is written in the template around it."""
        node = self.nodes[key]
        boundary = node.get("boundaryID") or ""
        if boundary not in self._declared:
            self._declared[boundary] = _declarations(self.template(boundary) if boundary in self.nodes else None)
        return self._declared[boundary].get(step_of(str(node["name"])))

    def _whole(self, name: str) -> str | None:
        for separator in reversed(list(_SEPARATORS.finditer(name))):
            found = self._ids.get(name[: separator.start()])
            if found is not None:
                return found
        return None

    def _all_followers(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for key, node in self.nodes.items():
            inward = [key, *self.around(key)]
            for child in node.get("children") or ():
                dag = self.whole.get(child)
                if dag is None or self.nodes[dag].get("type") != "DAG" or is_hook(self.nodes[child]):
                    continue
                task = next((k for k in inward if self.whole.get(k) == dag), None)
                if task is not None and task != child:
                    found[task].add(child)
        return found


def is_hook(node: Node) -> bool:
    flag = node.get("nodeFlag") or {}
    return bool(flag.get("hooked") and not flag.get("retried")) or str(node["name"]).endswith(".onExit")


def _declarations(template: Template | None) -> dict[str, Mapping[str, Any]]:
    """The steps or tasks of a template by their names."""
    found = template or {}
    steps = [step for group in found.get("steps") or () for step in _listed(group)]
    return {str(step.get("name")): step for step in (*steps, *((found.get("dag") or {}).get("tasks") or ()))}


def _listed(group: Any) -> list[Any]:
    """A group of steps: a list, or as v3 also had it, a mapping with one."""
    return list(group.get("steps") or ()) if isinstance(group, Mapping) else list(group)
