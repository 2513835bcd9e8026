"""What has changed between two versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any, Literal, TypeAlias

from muster.platform.graphs.document import canonical
from muster.platform.graphs.model import is_graph
from muster.platform.graphs.secrecy import without_secret

Action: TypeAlias = Literal["added", "removed", "changed"]

_NOT_SHOWN = frozenset(("name", "position"))
_LISTS = {"inputs": "input", "outputs": "output", "env": "variable", "storage": "storage root"}
"""Fields of a node that are lists of things with names."""


@dataclass(frozen=True, slots=True)
class Change:
    action: Action
    what: str
    """`parameter`, `node`, `edge`, `input` ..., or `field`."""
    name: str
    """`train`, `step1 -> step2`, `lr of train`, or `command of train`."""
    path: str
    """By names: `nodes[train].command`."""
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        thing = self.name if self.what == "field" else f"{self.what} {self.name}"
        if self.action != "changed" or self.before == self.after:  # a secret
            return f"{thing} {self.action}"
        if self.lines():
            return f"{thing} changed:\n" + "\n".join(f"  {line}" for line in self.lines())
        return f"{thing} changed from {_shown(self.before)} to {_shown(self.after)}"

    def lines(self) -> list[str]:
        """Of a text of several lines: what a diff of it shows."""
        texts = [text if isinstance(text, str) else "" for text in (self.before, self.after)]
        if not any("\n" in text for text in texts):
            return []
        return list(unified_diff(texts[0].splitlines(), texts[1].splitlines(), lineterm="", n=2))[2:]

    def to_json(self) -> dict[str, Any]:
        return {
            "action": self.action,
            "what": self.what,
            "name": self.name,
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "text": str(self),
        }


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """In the order of the new document, what is gone at the end of its kind. Where things are drawn does not count."""
    before, after = canonical(old), canonical(new)
    if is_graph(before) != is_graph(after):
        kinds = ["graph" if is_graph(each) else "yaml" for each in (before, after)]
        return [Change("changed", "field", "type", "type", *kinds)]
    found = list(_fields(before, after, "", "", ("manifest",)))
    found += _named(before.get("parameters"), after.get("parameters"), "parameter", "parameters", "")
    found += _nodes(before.get("nodes") or [], after.get("nodes") or [])
    found += _edges(before, after)
    return [replace(change, before=_hidden(change.before), after=_hidden(change.after)) for change in found]


def _hidden(value: Any) -> Any:
    """Of what was added, removed or changed, no secrets: that they changed is enough."""
    if isinstance(value, dict) and isinstance(value.get("env"), list):
        return {**value, "env": [without_secret(variable) for variable in value["env"]]}
    return without_secret(value) if isinstance(value, dict) else value


def _nodes(old: list[Any], new: list[Any]) -> Iterator[Change]:
    known = {node["name"]: node for node in old}
    names = {node["name"] for node in new}
    for node in new:
        name = node["name"]
        path = f"nodes[{name}]"
        if name not in known:
            yield Change("added", "node", name, path, after=node)
            continue
        before = known[name]
        plain = [field for field in dict.fromkeys((*before, *node)) if field not in _LISTS and field not in _NOT_SHOWN]
        yield from _fields(before, node, path, name, plain)
        for field, what in _LISTS.items():
            yield from _named(before.get(field), node.get(field), what, f"{path}.{field}", name)
    for node in old:
        if node["name"] not in names:
            yield Change("removed", "node", node["name"], f"nodes[{node['name']}]", before=node)


def _named(old: list[Any] | None, new: list[Any] | None, what: str, path: str, owner: str) -> Iterator[Change]:
    """Of things that have a name of their own; of storage it is the root's."""
    key = "root" if what == "storage root" else "name"
    known = {each[key]: each for each in old or ()}
    names = {each[key] for each in new or ()}
    for each in new or ():
        name = each[key]
        place, shown = f"{path}[{name}]", f"{name} of {owner}" if owner else name
        if name not in known:
            yield Change("added", what, shown, place, after=each)
        elif known[name] != each:
            yield Change("changed", what, shown, place, known[name], each)
    for name, each in known.items():
        if name not in names:
            shown = f"{name} of {owner}" if owner else name
            yield Change("removed", what, shown, f"{path}[{name}]", before=each)


def _fields(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str, owner: str, fields: list[str] | tuple[str, ...]
) -> Iterator[Change]:
    for field in fields:
        if old.get(field) != new.get(field):
            name = f"{field} of {owner}" if owner else field
            place = f"{path}.{field}" if path else field
            yield Change("changed", "field", name, place, old.get(field), new.get(field))


def _edges(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, after = (
        list(dict.fromkeys((edge["from"], edge["to"]) for edge in each.get("edges") or ())) for each in (old, new)
    )
    for action, edges, others in (("added", after, before), ("removed", before, after)):
        for start, end in edges:
            if (start, end) not in others:
                name = f"{start} -> {end}"
                yield Change("added" if action == "added" else "removed", "edge", name, f"edges[{name}]")


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        inside = ", ".join(f"{key}: {_shown(item)}" for key, item in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
