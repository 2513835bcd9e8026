"""What a request is about, read from its path and method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muster.embedded.identity.rbac import Action
from muster.kube.selectors import parse_fields

_NAMESPACE_SUBRESOURCES = frozenset(("status", "finalize"))
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_STREAMED = frozenset(("exec", "attach", "portforward"))


class Target(NamedTuple):
    """A resource, one object of it (`name`), or a part of that (`subresource`)."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str) -> Target | None:
    """None for paths that are no resource's: discovery, health, OpenAPI."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1 and parts[1]:
        group, rest = parts[1], parts[2:]
    else:
        return None
    if len(rest) < 2 or not all(rest):
        return None
    version, *rest = rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(group, version, plural, namespace, name, subresource)


def action_of(target: Target, method: str, query: Mapping[str, str]) -> Action:
    """The verb that roles grant for this request, and on what."""
    name = target.name
    if target.subresource in _STREAMED:
        # A WebSocket is opened by GET, but it is no reading: it does something in the Pod.
        verb = "create"
    elif method in _VERBS:
        verb = _VERBS[method]
    elif method == "DELETE":
        verb = "delete" if name else "deletecollection"
    elif name:
        verb = "get"
    else:
        verb = "watch" if is_true(query.get("watch")) else "list"
        fields = query.get("fieldSelector")
        if fields:
            name = parse_fields(fields).exact("metadata.name") or ""
    namespace = target.namespace
    if not target.group and target.plural == "namespaces":
        namespace = target.name
    return Action(verb, target.group, target.plural, target.subresource, namespace, name)


def is_true(value: str | None) -> bool:
    """As Go reads a boolean query parameter."""
    return value is not None and value.lower() not in ("false", "0", "f")
