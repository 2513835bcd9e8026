"""The names that Argo gives to nodes and Pods. Other tools rely on them."""

from __future__ import annotations

import re

_LONGEST_PREFIX = 253 - 10 - 1
_SEPARATOR = re.compile(r"^(\[\d+\])?\.")


def node_id(workflow: str, node_name: str) -> str:
    """Returns the key of a node in `status.nodes`."""
    return workflow if node_name == workflow else f"{workflow}-{_fnv32a(node_name)}"


def pod_name(workflow: str, node_name: str, template_name: str) -> str:
    """Returns the name of a node's Pod in Argo's naming version v2."""
    if node_name == workflow:
        return workflow
    prefix = f"{workflow}-{template_name}" if template_name else workflow
    return f"{prefix[:_LONGEST_PREFIX]}-{_fnv32a(node_name)}"


def display_name(node_name: str, boundary_name: str) -> str:
    """Returns a node's name without the name of the template around it."""
    return _SEPARATOR.sub("", node_name.removeprefix(boundary_name)) if boundary_name else node_name


def on_exit(node_name: str) -> str:
    return f"{node_name}.onExit"


def hook(node_name: str, event: str) -> str:
    return f"{node_name}.hooks.{event}"


def step_of(node_name: str) -> str:
    """Returns the step or task of a node: `wf[0].fan(0:x)(1)` is an attempt of `fan`."""
    end, closing = len(node_name), ""
    for at in range(len(node_name) - 1, -1, -1):
        char = node_name[at]
        if closing:
            closing = "" if char == closing else closing
        elif char in ")]":
            closing = "(" if char == ")" else "["
        else:
            end = at + 1
            break
    return node_name[:end].rpartition(".")[2]


def _fnv32a(text: str) -> int:
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value
