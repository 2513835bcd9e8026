"""`globalName`: outputs that the whole workflow sees, and that become those of the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from muster.workflows.model import Outputs, Template


def with_outputs(known: Outputs, outputs: Mapping[str, Any] | None) -> Outputs:
    """The workflow's outputs after a node's have been added; the same object if that changes nothing."""
    for field in ("parameters", "artifacts"):
        for output in (outputs or {}).get(field) or ():
            if output.get("globalName"):
                known = _with(known, field, output)
    return known


def named_globally(outputs: Outputs, template: Template) -> Outputs:
    """A node's outputs with the global names that its template declares."""
    declared = template.get("outputs") or {}
    out: dict[str, Any] = {**outputs}
    for field in ("parameters", "artifacts"):
        known = {o["name"]: o["globalName"] for o in declared.get(field) or () if o.get("globalName")}
        if known and out.get(field):
            out[field] = [_named(o, known) for o in _listed(out[field])]
    return cast(Outputs, out)


def _named(output: dict[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    name = known.get(output["name"])
    return {**output, "globalName": name} if name else output


def _listed(value: Any) -> list[dict[str, Any]]:
    return list(value)


def _with(known: Outputs, field: str, output: Mapping[str, Any]) -> Outputs:
    name = output["globalName"]
    if field == "parameters":
        if output.get("value") is None:
            return known
        entry: dict[str, Any] = {"name": name, "value": output["value"]}
    else:
        entry = {f: v for f, v in output.items() if f not in ("globalName", "path")} | {"name": name}
    entries = _listed(known.get(field) or ())
    for index, old in enumerate(entries):
        if old["name"] == name:
            if old == entry:
                return known
            entries[index] = entry
            break
    else:
        entries.append(entry)
    return cast(Outputs, {**known, field: entries})
