"""Documents without the values of secret variables, for those who may not see them; and with them again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muster.platform.graphs.model import Document

SECRET_NAME = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL", re.IGNORECASE)
"""What people call variables that nobody else should read."""


def masked(document: Mapping[str, Any]) -> Document:
    nodes = [_with_env(node, without_secret) for node in document.get("nodes") or ()]
    return {**document, "nodes": nodes} if nodes else dict(document)


def unmasked(document: Mapping[str, Any], base: Mapping[str, Any]) -> Document:
    """With the secrets of `base` where the document has the same variable of the same node without a value: whoever
    edits a copy keeps what they did not touch."""
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


def without_secret(variable: Mapping[str, Any]) -> Document:
    if variable.get("secret"):
        return {name: value for name, value in variable.items() if name != "value"}
    return dict(variable)


def _with_env(node: Mapping[str, Any], change: Any) -> Document:
    env = node.get("env")
    return {**node, "env": [change(variable) for variable in env]} if env else dict(node)
