"""Nodes that wait: for a time, or for somebody to resume them."""

from __future__ import annotations

import json
from typing import Any

from muster.workflows.engine.errors import Refused, message_of
from muster.workflows.engine.phases import is_ended
from muster.workflows.engine.times import duration, moment_of
from muster.workflows.engine.work import Work
from muster.workflows.model import Node


class Suspend(Work):
    def start(self) -> None:
        node = self.open("Suspend", "Running")
        outputs = self._wanted()
        if outputs:
            self.run.tree.change(self.id, outputs={"parameters": outputs})
        self._offer_choices(node)
        self.restore()

    def restore(self) -> None:
        self.run.suspended_nodes[self.id] = self
        span = self._span()
        if span is not None:
            self.run.agenda.add_at(moment_of(self.node["startedAt"]) + span, self)

    def advance(self) -> None:
        """Its time may be over."""
        if is_ended(self.node):
            return
        try:
            text = self.template["suspend"].get("duration")
            over = text and self.run.now >= moment_of(self.node["startedAt"]) + duration(text, "suspend.duration")
            outputs = _with_defaults(self.node) if over else None
        except Refused as error:
            self.run.suspended_nodes.pop(self.id, None)
            self.fail(message_of(error))
            return
        if not over:
            return
        if outputs is not None:
            self.run.tree.change(self.id, outputs={**self.node.get("outputs", {}), "parameters": outputs})
            self.run.add_outputs(self.node.get("outputs"))
        self.run.suspended_nodes.pop(self.id, None)
        self.end("Succeeded")

    def stop(self, message: str) -> None:
        self.run.suspended_nodes.pop(self.id, None)
        self.end("Failed", message)

    def _span(self) -> Any:
        text = self.template["suspend"].get("duration")
        if not text:
            return None
        try:
            return duration(text, "suspend.duration")
        except Refused:
            self.run.agenda.add(self)
            return None

    def _wanted(self) -> list[dict[str, Any]]:
        """Outputs that whoever resumes it has to supply."""
        inputs = {p["name"]: p for p in (self.template.get("inputs") or {}).get("parameters") or ()}
        wanted = []
        for parameter in (self.template.get("outputs") or {}).get("parameters") or ():
            source = parameter.get("valueFrom") or {}
            if source.get("supplied") is None:
                continue
            default = inputs.get(parameter["name"], {}).get("default")
            if source.get("default") is None and default is not None:
                parameter = {**parameter, "valueFrom": {**source, "default": default}}
            wanted.append(parameter)
        return wanted

    def _offer_choices(self, node: Node) -> None:
        """An input whose value is itself a parameter with an `enum` offers these to choose from."""
        parameters = (node.get("inputs") or {}).get("parameters") or []
        offered = [_with_choices(p) for p in parameters]
        if offered != parameters:
            self.run.tree.change(self.id, inputs={**node["inputs"], "parameters": offered})


def _with_defaults(node: Node) -> list[dict[str, Any]] | None:
    """The supplied outputs once nobody can supply them any more. Raises Refused."""
    parameters = (node.get("outputs") or {}).get("parameters")
    if parameters is None:
        return None
    out = []
    for parameter in parameters:
        source = parameter.get("valueFrom") or {}
        if source.get("supplied") is not None:
            if source.get("default") is None:
                name = parameter.get("name")
                raise Refused(f"raw output parameter '{name}' has not been set and does not have a default value")
            parameter = {**{f: v for f, v in parameter.items() if f != "valueFrom"}, "value": source["default"]}
        out.append(parameter)
    return out


def _with_choices(parameter: dict[str, Any]) -> dict[str, Any]:
    try:
        inner = json.loads(parameter.get("value") or "")
    except ValueError:
        return parameter
    choices = inner.get("enum") if isinstance(inner, dict) else None
    if not isinstance(choices, list) or not choices:
        return parameter
    out = {**parameter, "enum": choices}
    out.setdefault("default", choices[0])
    return out
