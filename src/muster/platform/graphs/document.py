"""Documents as they are stored: one way to write each, and a name for what it says."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import orjson

from muster.platform.graphs.model import FORMAT, Document

_DEFAULTS: dict[str, Any] = {"type": "graph", "kind": "plain", "retries": 0, "required": False, "readOnly": False}
_TASK_DEFAULTS: dict[str, Any] = {"type": "monitor"}
_ROLE_DEFAULTS: dict[str, Any] = {"replicas": 1}


def canonical(document: Mapping[str, Any]) -> Document:
    """The same, with nothing in it that need not be said. Of a document that fits the schema."""
    found = _trimmed(document, _DEFAULTS)
    for kind in ("parameters", "edges"):
        if found.get(kind):
            found[kind] = [_trimmed(each, _DEFAULTS) for each in found[kind]]
    if found.get("nodes"):
        found["nodes"] = [_node(each) for each in found["nodes"]]
    return {"format": FORMAT, **found}


def content_hash(document: Mapping[str, Any]) -> str:
    """Of what runs: where nodes are drawn, and in which order nodes and edges are listed, makes no difference."""
    found = canonical(document)
    nodes = [{name: value for name, value in node.items() if name != "position"} for node in found.get("nodes") or ()]
    said = {
        **found,
        "nodes": sorted(nodes, key=lambda node: str(node["name"])),
        "edges": sorted({(edge["from"], edge["to"]) for edge in found.get("edges") or ()}),
    }
    return sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _node(node: Mapping[str, Any]) -> Document:
    found = _trimmed(node, _DEFAULTS)
    for kind, defaults in (
        ("inputs", {}),
        ("outputs", {"type": "text"}),
        ("env", {"secret": False}),
        ("storage", _DEFAULTS),
    ):
        if found.get(kind):
            found[kind] = [_trimmed(each, defaults) for each in found[kind]]
    if "task" in found:
        found["task"] = _task(found["task"])
    if "training" in found:
        training = _trimmed(found["training"], {})
        training["roles"] = [_role(role) for role in training.get("roles") or ()]
        found["training"] = training
    return {name: value for name, value in found.items() if value != {}}


def _role(role: Mapping[str, Any]) -> Document:
    found = _trimmed(role, _ROLE_DEFAULTS)
    # A role's own monitor task says something: the node's may be another.
    return {**found, "task": _task(found["task"]) or dict(_TASK_DEFAULTS)} if "task" in found else found


def _task(task: Mapping[str, Any]) -> Document:
    return _trimmed(task, {**_TASK_DEFAULTS, "skus": 1})


def _trimmed(mapping: Mapping[str, Any], defaults: Mapping[str, Any]) -> Document:
    """Without what is empty, and what is so anyway. A value that is an empty text is one."""
    return {
        name: value
        for name, value in mapping.items()
        if value is not None
        and value != []
        and not (value == "" and name not in ("value", "default"))
        and not (name in defaults and value == defaults[name])
    }
