"""Graph documents as they are stored: the canonical form and its hash, the same without secret values, and the
differences between two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import orjson

from muster.kube.kinds import Schema
from muster.platform.graphs.model import FORMAT, ROLE_SCHEMA, SCHEMA, Document, is_graph

_KEPT = frozenset(("value", "default"))
"""Fields of which an empty text is a value."""


def to_canonical(document: Mapping[str, Any]) -> Document:
    """The same document without what is empty or a default. The document must fit the schema."""
    return {"format": FORMAT, **_trim(document, SCHEMA)}


def content_hash(document: Mapping[str, Any]) -> str:
    """A hash of what runs. Positions, and the order of nodes and edges, make no difference."""
    found = to_canonical(document)
    nodes = [{name: value for name, value in node.items() if name != "position"} for node in found.get("nodes") or ()]
    said = {
        **found,
        "nodes": sorted(nodes, key=lambda node: str(node["name"])),
        "edges": sorted({(edge["from"], edge["to"]) for edge in found.get("edges") or ()}),
    }
    return sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _trim(written: Mapping[str, Any], schema: Schema) -> Document:
    found: Document = {}
    for name, value in written.items():
        field = schema["properties"].get(name) or {}
        if field.get("type") == "object" and isinstance(value, Mapping):
            value = _trim(value, field)
        elif field.get("type") == "array" and value:
            inner = field["items"]
            value = [_trim(item, inner) if inner.get("type") == "object" else item for item in value]
        is_empty = value is None or value in ([], {}) or (value == "" and name not in _KEPT)
        if not is_empty and not ("default" in field and value == field["default"]):
            found[name] = value
    if schema is ROLE_SCHEMA and "task" in written and "task" not in found:
        # The monitor task of a role is not a default: the task of the node may be another.
        found["task"] = {"type": "monitor"}
    return found


SECRET_NAME = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL", re.IGNORECASE)
"""Names that usually belong to secrets."""


def mask_secrets(document: Mapping[str, Any]) -> Document:
    nodes = [_with_env(node, drop_secret_value) for node in document.get("nodes") or ()]
    return {**document, "nodes": nodes} if nodes else dict(document)


def restore_secrets(document: Mapping[str, Any], base: Mapping[str, Any]) -> Document:
    """Fills in secrets of `base` where the document has the same variable of the same node without a value, so that
    editing a copy keeps them."""
    known = {
        (node["name"], variable["name"]): variable.get("value")
        for node in base.get("nodes") or ()
        for variable in node.get("env") or ()
        if variable.get("secret")
    }

    def filled(node: Mapping[str, Any]) -> Document:
        def with_value(variable: Mapping[str, Any]) -> Document:
            value = known.get((node.get("name"), variable.get("name")))
            is_empty = variable.get("secret") and not variable.get("value")
            return {**variable, "value": value} if is_empty and value else dict(variable)

        return _with_env(node, with_value)

    nodes = [filled(node) for node in document.get("nodes") or ()]
    return {**document, "nodes": nodes} if nodes else dict(document)


def has_secrets(document: Mapping[str, Any]) -> bool:
    return any(v.get("secret") for node in document.get("nodes") or () for v in node.get("env") or ())


def drop_secret_value(variable: Mapping[str, Any]) -> Document:
    if variable.get("secret"):
        return {name: value for name, value in variable.items() if name != "value"}
    return dict(variable)


def _with_env(node: Mapping[str, Any], change: Any) -> Document:
    env = node.get("env")
    return {**node, "env": [change(variable) for variable in env]} if env else dict(node)


Action: TypeAlias = Literal["added", "removed", "changed"]

_NOT_SHOWN = frozenset(("name", "position"))
_LISTS = {"inputs": "input", "outputs": "output", "env": "variable", "storage": "storage root"}
"""Fields of a node that are lists of named items."""


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
        return f"{thing} changed from {_format_value(self.before)} to {_format_value(self.after)}"

    def lines(self) -> list[str]:
        """The lines of a diff, for a text of several lines."""
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
    """Returns the changes in the order of the new document; what was removed follows at the end of its kind. Positions
    do not count."""
    before, after = to_canonical(old), to_canonical(new)
    if is_graph(before) != is_graph(after):
        kinds = ["graph" if is_graph(each) else "yaml" for each in (before, after)]
        return [Change("changed", "field", "type", "type", *kinds)]
    found = list(_fields(before, after, "", "", ("manifest",)))
    found += _named(before.get("parameters"), after.get("parameters"), "parameter", "parameters", "")
    found += _nodes(before.get("nodes") or [], after.get("nodes") or [])
    found += _edges(before, after)
    return [replace(change, before=_hidden(change.before), after=_hidden(change.after)) for change in found]


def _hidden(value: Any) -> Any:
    """The value without secrets: that they changed is enough."""
    if isinstance(value, dict) and isinstance(value.get("env"), list):
        return {**value, "env": [drop_secret_value(variable) for variable in value["env"]]}
    return drop_secret_value(value) if isinstance(value, dict) else value


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
    """Changes of named items; a storage mount is named by its root."""
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


def _format_value(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        inside = ", ".join(f"{key}: {_format_value(item)}" for key, item in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
