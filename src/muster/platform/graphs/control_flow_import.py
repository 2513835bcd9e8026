"""Reads timeouts, conditions and loops of a manifest that was exported from a graph: the opposite of `control_flow`.

Only what `control_flow` writes is understood. `argo_import` exports the result again and compares, so a text that is
read wrongly is never stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.kube.objects import Object
from muster.platform.graphs.bindings import escape_tags
from muster.platform.graphs.control_flow import NUMBER

FLOW_FIELDS: Final = ("when", "withItems", "withParam", "withSequence")
"""The fields of a task that say whether and how often it runs."""
ITEM: Final = "{{item}}"

_OUTPUT = r"tasks\['(?P<task>[\w-]+)'\]\.outputs\.parameters\['(?P<output>[\w.-]+)'\]"
_PARAMETER = r"workflow\.parameters\['(?P<parameter>[\w.-]+)'\]"
_OPERAND: Final = re.compile(rf"'(?P<literal>[^']*)'|{_PARAMETER}|{_OUTPUT}")
_TAG: Final = re.compile(
    r"\{\{(workflow\.parameters\.(?P<parameter>[\w-]+)|tasks\.(?P<task>[\w-]+)\.outputs\.parameters\.(?P<output>[\w-]+))\}\}"
)
_SUCCEEDED = r"tasks\['[\w-]+'\]\.status == 'Succeeded'"
_CONDITION: Final = re.compile(rf"(?:{_SUCCEEDED}(?: && |$))*(?:\((?P<comparisons>.*)\))?", re.DOTALL)
_CHOICE: Final = re.compile(r"\((?P<condition>.*)\) \? (?P<list>.*) : '\[\]'", re.DOTALL)
_SIDE = r"'[^']*'|workflow\.parameters\['[^']*'\]|tasks\['[^']*'\]\.outputs\.parameters\['[^']*'\]"
_COMPARISON: Final = re.compile(rf"(?P<left>{_SIDE}) (?P<operator>==|!=|<=|>=|<|>|contains) (?P<right>{_SIDE})")
_ESCAPE: Final = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")

Source = Callable[[str, str], Object]
"""Returns the reference to an output, by the names of a task and an output."""


class UnknownFlow(ValueError):
    """`control_flow` does not write this."""


def timeout_text(seconds: int) -> str:
    """`10m` for 600; the largest unit without a rest."""
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds % unit == 0:
            return f"{seconds // unit}{name}"
    return f"{seconds}s"


def read_flow(task: Mapping[str, Any], output: Source) -> Object:
    """Returns the `condition` and the `loop` of a task, the loop without its variable. Raises UnknownFlow."""
    found: Object = {}
    if (when := task.get("when")) is not None:
        found["condition"] = _condition(_expression(str(when)), output)
    if items := task.get("withItems"):
        if not all(isinstance(item, str) for item in items):
            raise UnknownFlow("the items are not texts")
        found["loop"] = {"items": [item.replace(escape_tags("{{"), "{{") for item in items]}
    elif sequence := task.get("withSequence"):
        found["loop"] = _sequence(sequence)
    elif (listed := task.get("withParam")) is not None:
        found |= _listed(str(listed), output)
    return {name: value for name, value in found.items() if value is not None}


def _sequence(sequence: Mapping[str, Any]) -> Object:
    start, count = str(sequence.get("start") or "0"), str(sequence.get("count") or "")
    if not set(sequence) <= {"start", "count"} or not re.fullmatch(r"-?\d+", start) or not count.isdecimal():
        raise UnknownFlow("the sequence has more than a start and a count")
    return {"count": int(count), **({"start": int(start)} if int(start) else {})}


def _listed(text: str, output: Source) -> Object:
    tag = _TAG.fullmatch(text)
    if tag is not None:
        return {"loop": {"from": _reference(tag, output)}}
    choice = _CHOICE.fullmatch(_expression(text))
    if choice is None:
        raise UnknownFlow(f"the list {text} is an expression of its own")
    operand = _operand(choice["list"], output)
    loop = {"items": json.loads(operand["value"])} if "value" in operand else operand
    return {"condition": _condition(choice["condition"], output), "loop": loop}


def _expression(text: str) -> str:
    if not text.startswith("{{=") or not text.endswith("}}"):
        raise UnknownFlow(f"{text} is no expression")
    return text.removeprefix("{{=").removesuffix("}}")


def _condition(expression: str, output: Source) -> Object | None:
    """None if it only says that the nodes before were not skipped: that goes without saying in a graph."""
    plain = expression.replace(f" matches '{NUMBER}'", " is-number")
    plain = re.sub(r"float\(([^()]*)\)", r"\1", plain)
    whole = _CONDITION.fullmatch(plain)
    if whole is None:
        raise UnknownFlow(f"the condition {expression} is an expression of its own")
    text = whole["comparisons"]
    if text is None:
        return None
    # Literals have no parentheses, quotation marks, & or |: they are escaped.
    comparisons, between = re.findall(r"\(([^()]*)\)", text), set(re.findall(r"\) (&&|\|\|) \(", text))
    if len(between) > 1:
        raise UnknownFlow("the condition has both && and ||")
    match = {"match": "any"} if between == {"||"} else {}
    return {**match, "comparisons": [_comparison(each, output) for each in comparisons]}


def _comparison(text: str, output: Source) -> Object:
    term = text.split(" && ")[-1]
    found = _COMPARISON.fullmatch(term)
    if found is None:
        raise UnknownFlow(f"{text} is no comparison")
    sides = {side: _operand(found[side], output) for side in ("left", "right")}
    operator = {} if found["operator"] == "==" else {"operator": found["operator"]}
    return {"left": sides["left"], **operator, "right": sides["right"]}


def _operand(text: str, output: Source) -> Object:
    found = _OPERAND.fullmatch(text)
    if found is None:
        raise UnknownFlow(f"{text} is neither a text nor a value of the workflow")
    if found["literal"] is None:
        return {"from": _reference(found, output)}
    return {"value": _ESCAPE.sub(lambda escape: chr(int(escape[1] or escape[2] or escape[3], 16)), found["literal"])}


def _reference(found: re.Match[str], output: Source) -> Object:
    return {"parameter": found["parameter"]} if found["parameter"] else output(found["task"], found["output"])
