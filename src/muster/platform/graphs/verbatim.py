"""Gets a user's text through Kubernetes and Argo unchanged.

Both look for something to fill in: Kubernetes for `$(NAME)` in the environment and arguments of a container, Argo for
`{{...}}` anywhere. What a user writes, or hands in as a parameter, is neither.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

_DOLLARS = re.compile(r"\$\$+|\$(?=\()")
_TAG = "{{"

UNBOUND_SECRET = "ai-hub"  # noqa: S105  (the name of one)
"""Where an exported manifest looks for what it must not hold."""


def has_tag(text: str) -> bool:
    """Whether Argo would look into it."""
    return _TAG in text


def escape_dollars(text: str) -> str:
    """What Kubernetes turns back into the text: of several dollars, and of one before a bracket, it takes half."""
    return _DOLLARS.sub(lambda found: found[0] * 2, text)


def escape_tags(text: str) -> str:
    """What Argo turns back into the text, unless it holds a tag that Argo knows."""
    return text.replace(_TAG, "{{='{{'}}")


def from_input(name: str) -> str:
    """The value of a template's input, for the environment of its container."""
    return f"{{{{=replace(inputs.parameters['{name}'], '$', '$$')}}}}"


def from_input_as_json(name: str) -> str:
    """The same, quoted: for a manifest inside of a template."""
    return f"{{{{=toJson(replace(inputs.parameters['{name}'], '$', '$$'))}}}}"


class Literals:
    """Environment variables whose values are known. Secret ones, and those in which Argo would find something, go into
    a Secret, which nobody looks into; without a Secret the latter are escaped as far as that goes."""

    def __init__(self, secret: str = "") -> None:
        self.secret = secret
        self.stored: dict[str, str] = {}
        """What the Secret has to hold."""

    def variable(self, name: str, text: str, *, secret: bool = False) -> dict[str, Any]:
        if secret and not self.secret:
            reference = {"name": UNBOUND_SECRET, "key": name, "optional": True}
            return {"name": name, "valueFrom": {"secretKeyRef": reference}}
        if not has_tag(text) and not secret:
            return {"name": name, "value": escape_dollars(text)}
        if not self.secret:
            return {"name": name, "value": escape_tags(escape_dollars(text))}
        key = f"text-{sha256(text.encode()).hexdigest()[:16]}"
        self.stored[key] = text
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": self.secret, "key": key}}}
