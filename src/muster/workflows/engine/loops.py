"""Loops: what `withItems`, `withParam` and `withSequence` expand to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from muster.workflows.engine.budget import NodeBudget
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.templates import to_text
from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import to_json
from muster.workflows.lang.govaluate import evaluate_when
from muster.workflows.lang.limits import check_budget
from muster.workflows.lang.tags import substitute, without_marks

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_TEXT_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')
_HTML = re.compile("[<>&\u2028\u2029]")


class RawJson(str):
    """JSON other than a string, as it was written, but without spaces."""

    __slots__ = ()


def parse_raw_items(text: str) -> list[Any]:
    """Parses a text that is known to be a JSON list. Items are strings, booleans, None and RawJson, and lists and maps
    of these."""
    return [_item(part) for part in _parts(text, _skip_space(text, 0) + 1)]


def raw_json_text(item: Any) -> str:
    """Returns an item as JSON with the keys of a map sorted; nested values keep their order."""
    if isinstance(item, RawJson):
        return _HTML.sub(lambda found: f"\\u{ord(found[0]):04x}", item)
    if isinstance(item, dict):
        return "{" + ",".join(f"{to_json(key)}:{raw_json_text(item[key])}" for key in sorted(item)) + "}"
    if isinstance(item, list):
        return "[" + ",".join(raw_json_text(inner) for inner in item) + "]"
    return to_json(item)


def _item(text: str) -> Any:
    if text.startswith("["):
        return [_leaf(part) for part in _parts(text, 1)]
    if text.startswith("{"):
        return dict(_pairs(text))
    return _leaf(text)


def _leaf(text: str) -> Any:
    if text.startswith('"') or text in ("true", "false", "null"):
        return json.loads(text)
    return RawJson(_TEXT_OR_SPACE.sub(lambda found: found[1] or "", text))


def _parts(text: str, at: int) -> Iterator[str]:
    """Yields the items of a list, starting after its bracket."""
    at = _skip_space(text, at)
    while text[at] != "]":
        start = _skip_space(text, at + 1) if text[at] == "," else at
        _, at = _DECODER.raw_decode(text, start)
        yield text[start:at]
        at = _skip_space(text, at)


def _pairs(text: str) -> Iterator[tuple[str, Any]]:
    at = _skip_space(text, 1)
    while text[at] != "}":
        start = _skip_space(text, at + 1) if text[at] == "," else at
        key, colon = _DECODER.raw_decode(text, start)
        start = _skip_space(text, _skip_space(text, colon) + 1)
        _, at = _DECODER.raw_decode(text, start)
        yield key, _leaf(text[start:at])
        at = _skip_space(text, at)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


_LOOPS = ("withItems", "withParam", "withSequence")
_DIRECTIVE = re.compile(r"%([-+ 0]*)(\d*)(?:\.(\d+))?([dxXob%cqvU])", re.ASCII)
_MAX_ITEMS = 1_000_000
_LONGEST_NUMBER = 1000


class LoopItem(NamedTuple):
    name: str
    """`fan(0:red)`"""
    step: dict[str, Any]


def is_loop(step: Mapping[str, Any]) -> bool:
    return bool(step.get("withItems")) or bool(step.get("withParam")) or step.get("withSequence") is not None


def expand_loop(
    step: Mapping[str, Any], scope: Mapping[str, Any], clock: Clock, budget: NodeBudget | None = None
) -> list[LoopItem]:
    """Returns one step or task per item. Raises WorkflowError, ExpressionError and BudgetExceeded."""
    try:
        items = _loop_items(step)
        if budget is not None:
            budget.count_items(len(items))
    except WorkflowError:
        if _may_run(step):
            raise
        items = []
    body = {field: value for field, value in step.items() if field not in _LOOPS and field not in ("hooks", "inline")}
    kept = {field: step[field] for field in ("hooks", "inline") if field in step}
    runs = _may_run(step)
    out = []
    for index, item in enumerate(items):
        check_budget()
        variables, shown = _variables(item)
        name = f"{step['name']}({index}:{shown.replace('(', '').replace(')', '')})"
        # An inline template sees the item as well, but some of its tags are not known yet.
        inline = {"inline": _substitute_known(kept["inline"], variables, scope, clock)} if "inline" in kept else {}
        hooks = {"hooks": _substitute_known(kept["hooks"], variables, {}, clock)} if kept.get("hooks") else {}
        filled = (
            _substitute(body, variables, scope, clock) if runs else _substitute_known(body, variables, scope, clock)
        )
        out.append(LoopItem(name, {**filled, **inline, **hooks, "name": name, **_template_name(step)}))
    return out


def _template_name(step: Mapping[str, Any]) -> dict[str, Any]:
    return {"template": step["template"]} if step.get("template") else {}


def _substitute(
    body: dict[str, Any], variables: dict[str, str], scope: Mapping[str, Any], clock: Clock
) -> dict[str, Any]:
    filled: dict[str, Any] = substitute(body, _ItemScope(variables, scope), clock=clock, mark=True)
    return filled


def _substitute_known(value: Any, variables: dict[str, str], scope: Mapping[str, Any], clock: Clock) -> Any:
    known = {name: found for name, found in scope.items() if found is not None}
    return substitute(value, {**known, **variables}, allow_unresolved=True, clock=clock, mark=True)


class _ItemScope(dict[str, Any]):
    """The item's variables on top of the scope, without copying it."""

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
        return evaluate_when(without_marks(str(when)))
    except ExpressionError:
        return True  # it may refer to the item


def _loop_items(step: Mapping[str, Any]) -> list[Any]:
    if step.get("withItems"):
        return [without_marks(item) for item in step["withItems"]]
    if step.get("withParam"):
        return _parse_list(without_marks(to_text(step["withParam"])))
    return _sequence_items(without_marks(step["withSequence"]))


def _parse_list(text: str) -> list[Any]:
    try:
        found = json.loads(text, parse_constant=_reject_constant)
    except ValueError as error:
        raise WorkflowError(
            f"withParam value could not be parsed as a JSON list: {text.strip()[:2000]}: {error}"
        ) from None
    if found is None:
        return []
    if not isinstance(found, list):
        raise WorkflowError(
            f"withParam value could not be parsed as a JSON list: {text.strip()[:2000]}: it is not a list"
        )
    return parse_raw_items(text)


def _reject_constant(word: str) -> Any:
    raise ValueError(f"{word} is not valid JSON")


def _sequence_items(sequence: Mapping[str, Any]) -> list[str]:
    start = _number(sequence, "start", 0)
    if sequence.get("end") is not None:
        end = _number(sequence, "end", 0)
    elif sequence.get("count") is not None:
        count = _number(sequence, "count", 0)
        if count == 0:
            return []
        end = start + count - 1
    else:
        raise WorkflowError("neither end nor count was specified in withSequence")
    if abs(end - start) >= _MAX_ITEMS:
        raise WorkflowError(f"withSequence from {start} to {end} has more than {_MAX_ITEMS} items")
    written = str(sequence.get("format") or "%d")
    step = 1 if start <= end else -1
    return [_sprintf(written, number) for number in range(start, end + step, step)]


def _number(sequence: Mapping[str, Any], field: str, default: int) -> int:
    value = sequence.get(field)
    if value is None:
        return default
    try:
        return int(str(value))
    except ValueError:
        raise WorkflowError(f"withSequence.{field} must be an integer, not '{value}'") from None


def _sprintf(written: str, number: int) -> str:
    """Formats one integer as Go's Sprintf does."""

    def replaced(found: re.Match[str]) -> str:
        flags, width, precision, verb = found.groups()
        if verb == "%":
            return "%"
        kind = "d" if verb in "vd" else verb
        digits = format(abs(number), "d" if kind not in "xXob" else kind)
        if precision is not None:
            digits = digits.rjust(min(int(precision), _LONGEST_NUMBER), "0")
        sign = "-" if number < 0 else "+" if "+" in flags else " " if " " in flags else ""
        size = min(int(width or 0), _LONGEST_NUMBER)
        if "-" in flags:
            return (sign + digits).ljust(size)
        if "0" in flags:
            return sign + digits.rjust(size - len(sign), "0")
        return (sign + digits).rjust(size)

    return _DIRECTIVE.sub(replaced, written)


def _variables(item: Any) -> tuple[dict[str, str], str]:
    """Returns the variables of an item, and its text in the name of a node."""
    if isinstance(item, dict):
        texts = {str(key): _item_text(value) for key, value in item.items()}
        variables = {f"item.{key}": text for key, text in texts.items()} | {"item": raw_json_text(item)}
        return variables, ",".join(sorted(f"{key}:{text}" for key, text in texts.items()))
    if isinstance(item, list):
        return {"item": raw_json_text(item)}, f"[{' '.join(_item_text(value) for value in item)}]"
    if item is None:
        return {"item": "null"}, "[]"
    return {"item": to_text(item)}, _item_text(item)


def _item_text(value: Any) -> str:
    """Returns a part of an item as Argo shows it: JSON, and for a string what is between the quotes."""
    if isinstance(value, RawJson):
        return value
    written = to_json(value, escape_html=False)
    return written[1:-1] if isinstance(value, str) else written
