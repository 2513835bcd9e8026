"""Loops: what `withItems`, `withParam` and `withSequence` expand to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from muster.workflows.engine.dice import CHANCE
from muster.workflows.engine.errors import Refused
from muster.workflows.engine.values import text_of
from muster.workflows.engine.written import Written, items_as_written, json_of
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gojson import to_json
from muster.workflows.expressions.govaluate import evaluate_when
from muster.workflows.expressions.tags import substitute

_LOOPS = ("withItems", "withParam", "withSequence")
_DIRECTIVE = re.compile(r"%([-+ 0]*)(\d*)(?:\.(\d+))?([dxXob%cqvU])", re.ASCII)
_MOST = 1_000_000


class Expanded(NamedTuple):
    name: str
    """`fan(0:red)`"""
    step: dict[str, Any]


def is_loop(step: Mapping[str, Any]) -> bool:
    return bool(step.get("withItems")) or bool(step.get("withParam")) or step.get("withSequence") is not None


def expand(step: Mapping[str, Any], scope: Mapping[str, Any]) -> list[Expanded]:
    """One step or task for each item. Raises Refused and ExpressionError."""
    try:
        items = _items(step)
    except Refused:
        if _may_run(step):
            raise
        items = []
    body = {field: value for field, value in step.items() if field not in _LOOPS and field not in ("hooks", "inline")}
    kept = {field: step[field] for field in ("hooks", "inline") if field in step}
    runs = _may_run(step)
    out = []
    for index, item in enumerate(items):
        variables, shown = _variables(item)
        name = f"{step['name']}({index}:{shown.replace('(', '').replace(')', '')})"
        # An inline template sees the item, too, but not all of its tags can be known yet.
        inline = {"inline": _partly(kept["inline"], variables, scope)} if "inline" in kept else {}
        hooks = {"hooks": _partly(kept["hooks"], variables, {})} if kept.get("hooks") else {}
        filled = _filled(body, variables, scope) if runs else _partly(body, variables, scope)
        out.append(Expanded(name, {**filled, **inline, **hooks, "name": name, **_template_name(step)}))
    return out


def _template_name(step: Mapping[str, Any]) -> dict[str, Any]:
    return {"template": step["template"]} if step.get("template") else {}


def _filled(body: dict[str, Any], variables: dict[str, str], scope: Mapping[str, Any]) -> dict[str, Any]:
    filled: dict[str, Any] = substitute(body, _Over(variables, scope), chance=CHANCE)
    return filled


def _partly(value: Any, variables: dict[str, str], scope: Mapping[str, Any]) -> Any:
    known = {name: found for name, found in scope.items() if found is not None}
    return substitute(value, {**known, **variables}, allow_unresolved=True, chance=CHANCE)


class _Over(dict[str, Any]):
    """The item's variables before all others, without copying those."""

    def __init__(self, variables: dict[str, str], scope: Mapping[str, Any]) -> None:
        super().__init__(variables)
        self.scope = scope

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.scope

    def __missing__(self, name: str) -> Any:
        return self.scope[name]

    def items(self) -> Any:
        return {**self.scope, **self}.items()


def _may_run(step: Mapping[str, Any]) -> bool:
    when = step.get("when")
    if not when:
        return True
    try:
        return evaluate_when(str(when))
    except ExpressionError:
        return True  # it may ask about the item


def _items(step: Mapping[str, Any]) -> list[Any]:
    if step.get("withItems"):
        return list(step["withItems"])
    if step.get("withParam"):
        return _listed(text_of(step["withParam"]))
    return _sequence(step["withSequence"])


def _listed(text: str) -> list[Any]:
    try:
        found = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise Refused(f"withParam value could not be parsed as a JSON list: {text.strip()[:2000]}: {error}") from None
    if found is None:
        return []
    if not isinstance(found, list):
        raise Refused(f"withParam value could not be parsed as a JSON list: {text.strip()[:2000]}: it is no list")
    return items_as_written(text)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _sequence(sequence: Mapping[str, Any]) -> list[str]:
    start = _number(sequence, "start", 0)
    if sequence.get("end") is not None:
        end = _number(sequence, "end", 0)
    elif sequence.get("count") is not None:
        count = _number(sequence, "count", 0)
        if count == 0:
            return []
        end = start + count - 1
    else:
        raise Refused("neither end nor count was specified in withSequence")
    if abs(end - start) >= _MOST:
        raise Refused(f"withSequence from {start} to {end} has more than {_MOST} items")
    written = str(sequence.get("format") or "%d")
    step = 1 if start <= end else -1
    return [_formatted(written, number) for number in range(start, end + step, step)]


def _number(sequence: Mapping[str, Any], field: str, default: int) -> int:
    value = sequence.get(field)
    if value is None:
        return default
    try:
        return int(str(value))
    except ValueError:
        raise Refused(f"withSequence.{field} must be a whole number, not '{value}'") from None


def _formatted(written: str, number: int) -> str:
    """As Go's Sprintf does for one whole number."""

    def replaced(found: re.Match[str]) -> str:
        flags, width, precision, verb = found.groups()
        if verb == "%":
            return "%"
        kind = "d" if verb in "vd" else verb
        digits = format(abs(number), "d" if kind not in "xXob" else kind)
        if precision is not None:
            digits = digits.rjust(int(precision), "0")
        sign = "-" if number < 0 else "+" if "+" in flags else " " if " " in flags else ""
        size = min(int(width or 0), 1000)
        if "-" in flags:
            return (sign + digits).ljust(size)
        if "0" in flags:
            return sign + digits.rjust(size - len(sign), "0")
        return (sign + digits).rjust(size)

    return _DIRECTIVE.sub(replaced, written)


def _variables(item: Any) -> tuple[dict[str, str], str]:
    """What an item is known by, and how it is shown in the name of a node."""
    if isinstance(item, dict):
        texts = {str(key): _inside(value) for key, value in item.items()}
        variables = {f"item.{key}": text for key, text in texts.items()} | {"item": json_of(item)}
        return variables, ",".join(sorted(f"{key}:{text}" for key, text in texts.items()))
    if isinstance(item, list):
        return {"item": json_of(item)}, f"[{' '.join(_inside(value) for value in item)}]"
    if item is None:
        return {"item": "null"}, "[]"
    return {"item": text_of(item)}, _inside(item)


def _inside(value: Any) -> str:
    """As Argo shows a part of an item: JSON, of a text what is between its quotes."""
    if isinstance(value, Written):
        return value
    written = to_json(value, escape_html=False)
    return written[1:-1] if isinstance(value, str) else written
