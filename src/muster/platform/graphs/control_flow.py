"""Conditions and loops of nodes: what the task of a node says to Argo about whether and how often it runs.

A condition is an expression tag (`{{=...}}`). Values of outputs are variables of the expression, and all other texts
are literals in which every character that could end the literal or the tag is escaped. So no text of a user is ever
read as an expression.

A loop runs over `withItems`, `withParam` or `withSequence`. Items that Argo would change on their way are stored in the
Secret of the run; then the loop runs over their numbers, and each iteration reads its item from the Secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from muster.kube.objects import Object
from muster.platform.graphs.bindings import BoundInputs, CompileContext, escape_tags, has_tag
from muster.platform.graphs.model import (
    NUMERIC_OPERATORS,
    Comparison,
    FromOutput,
    FromParameter,
    FromValue,
    Graph,
    Loop,
    Node,
    Operator,
    Source,
)
from muster.workflows.engine.loops import parse_raw_items, raw_json_text

NUMBER: Final = "^[+-]?([0-9]{1,99}([.][0-9]{0,99})?|[.][0-9]{1,99})([eE][+-]?[0-9]{1,2})?$"
"""What a comparison of numbers takes for a number: always one that a float can hold."""
_NUMBER: Final = re.compile(NUMBER.removesuffix("$") + r"\Z")

LOOP_INDEX: Final = "loop-index"
"""An input of the template that is no variable: no input of a node can have this name."""


def is_number(text: str) -> bool:
    return _NUMBER.match(text) is not None


def compare(left: str, operator: Operator, right: str) -> bool:
    """Whether a comparison holds, as the expression of a condition decides it."""
    match operator:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "contains":
            return right in left
    if not is_number(left) or not is_number(right):
        return False
    first, second = float(left), float(right)
    return {"<": first < second, "<=": first <= second, ">": first > second, ">=": first >= second}[operator]


def skippable_nodes(graph: Graph) -> frozenset[str]:
    """Returns the nodes that may be skipped although nothing fails: those with a condition, loops whose list may be
    empty, and nodes that use an output of one of these."""
    found = {node.name for node in graph.nodes if node.condition is not None or _may_be_empty(node.loop)}
    uses = {node.name: {source.node for source in _outputs_used(node)} for node in graph.nodes}
    while more := {name for name, used in uses.items() if name not in found and used & found}:
        found |= more
    return frozenset(found)


def task_fields(setting: CompileContext, node: Node) -> Object:
    """Returns the fields of a node's task that say whether and how often it runs."""
    condition = " && ".join([*_needed_nodes(setting, node), *_conditions(setting, node)])
    if node.loop is None:
        return {"when": f"{{{{={condition}}}}}"} if condition else {}
    runs_over = _runs_over(setting, node.loop)
    if not condition:
        return runs_over.fields
    # With `when`, Argo would create and skip every iteration, and the loop itself would succeed without outputs.
    return {"withParam": f"{{{{=({condition}) ? {runs_over.expression} : '[]'}}}}"}


def bind_item(setting: CompileContext, node: Node, bound: BoundInputs) -> None:
    """Adds the item of a loop to the inputs of its node."""
    if node.loop is None:
        return
    name, items = node.loop.variable, _known_items(setting, node.loop)
    if setting.literals.secret and items is not None and not all(map(_is_plain, items)):
        bound.arguments.append({"name": LOOP_INDEX, "value": "{{item}}"})
        bound.hidden.append(LOOP_INDEX)
        bound.env.append(setting.literals.stored_item(name, items, f"{{{{inputs.parameters.{LOOP_INDEX}}}}}"))
        return
    bound.arguments.append({"name": name, "value": "{{item}}"})
    bound.parameters.append(name)


class ListError(ValueError):
    """A text is not a JSON list."""


def parse_items(text: str) -> list[str]:
    """Returns the items of a JSON list as texts, as Argo has them. Raises ListError."""
    try:
        found = json.loads(text, parse_constant=_reject)
    except (ValueError, RecursionError) as error:
        raise ListError(str(error)) from None
    if not isinstance(found, list):
        raise ListError("it is not a list")
    return [item if isinstance(item, str) else raw_json_text(item) for item in parse_raw_items(text)]


def _reject(word: str) -> Any:
    raise ValueError(f"{word} is not valid JSON")


class _RunsOver(NamedTuple):
    fields: Object
    expression: str
    """The same as a JSON list, for an expression."""


def _runs_over(setting: CompileContext, loop: Loop) -> _RunsOver:
    items = _known_items(setting, loop)
    if items is None:
        assert loop.source is not None
        tag = _operand(setting, loop.source)
        if isinstance(loop.source, FromParameter):
            return _RunsOver({"withParam": f"{{{{workflow.parameters.{loop.source.parameter}}}}}"}, tag)
        task = setting.tasks[loop.source.node].last
        return _RunsOver({"withParam": f"{{{{tasks.{task}.outputs.parameters.{loop.source.output}}}}}"}, tag)
    if not items:
        return _RunsOver({"withParam": "[]"}, "'[]'")
    if loop.count is not None:
        written = json.dumps(items)
        return _RunsOver({"withSequence": {"start": str(loop.start), "count": str(loop.count)}}, _literal(written))
    if not setting.literals.secret:
        escaped = [escape_tags(item) for item in items]
        return _RunsOver({"withItems": escaped}, _literal(json.dumps(items)))
    if all(map(_is_plain, items)):
        return _RunsOver({"withItems": items}, _literal(json.dumps(items)))
    numbers = json.dumps([str(number) for number in range(len(items))])
    return _RunsOver({"withSequence": {"count": str(len(items))}}, _literal(numbers))


def _known_items(setting: CompileContext, loop: Loop) -> list[str] | None:
    return items_of(loop, setting.values if setting.run is not None else None)


def items_of(loop: Loop, parameters: Mapping[str, str] | None) -> list[str] | None:
    """Returns the items of a loop; None if they are not known before the run. `parameters`: the values of a run."""
    if loop.items is not None:
        return list(loop.items)
    if loop.count is not None:
        return [str(loop.start + number) for number in range(loop.count)]
    if isinstance(loop.source, FromParameter) and parameters is not None:
        return parse_items(parameters.get(loop.source.parameter, "") or "[]")
    return None


def _is_plain(item: str) -> bool:
    """Whether Argo passes it on unchanged: it writes other characters in a way that JSON does not have, and takes some
    texts for escapes."""
    shown = item.replace("\n", "").replace("\t", "").replace("\r", "")
    return shown.isprintable() and not has_tag(item) and not _REPLACED.search(item)


_REPLACED: Final = re.compile(r"\\u00(3c|3e|26)")
"""Argo replaces these in the JSON of items and of expressions, also behind an escaped backslash."""


def _may_be_empty(loop: Loop | None) -> bool:
    return loop is not None and loop.items is None and loop.count is None


def _outputs_used(node: Node) -> list[FromOutput]:
    """The outputs that have to exist before the node can run. Those in its condition need not."""
    sources: list[Source | None] = [given.source for given in node.inputs]
    if node.loop is not None:
        sources.append(node.loop.source)
    return [source for source in sources if isinstance(source, FromOutput)]


def _needed_nodes(setting: CompileContext, node: Node) -> list[str]:
    """A node is skipped if a node was skipped whose outputs it uses."""
    used = dict.fromkeys(source.node for source in _outputs_used(node))
    return [_has_succeeded(setting, name) for name in used if name in setting.skippable]


def _has_succeeded(setting: CompileContext, name: str) -> str:
    return f"tasks['{setting.tasks[name].last}'].status == 'Succeeded'"


def _conditions(setting: CompileContext, node: Node) -> list[str]:
    if node.condition is None:
        return []
    terms = [_comparison(setting, comparison) for comparison in node.condition.comparisons]
    return [f"({(' && ' if node.condition.match == 'all' else ' || ').join(terms)})"]


def _comparison(setting: CompileContext, comparison: Comparison) -> str:
    """A comparison with an output of a skipped node does not hold."""
    sides = (comparison.left, comparison.right)
    assert sides[0] is not None
    assert sides[1] is not None
    left, right = (_operand(setting, side) for side in sides if side is not None)
    exist = [
        _has_succeeded(setting, name)
        for name in dict.fromkeys(side.node for side in sides if isinstance(side, FromOutput))
        if name in setting.skippable
    ]
    if comparison.operator in NUMERIC_OPERATORS:
        numbers = [f"{left} matches '{NUMBER}'", f"{right} matches '{NUMBER}'"]
        terms = [*exist, *numbers, f"float({left}) {comparison.operator} float({right})"]
    else:
        terms = [*exist, f"{left} {comparison.operator} {right}"]
    return f"({' && '.join(terms)})"


def _operand(setting: CompileContext, source: Source) -> str:
    """The value in an expression. In a run, the initial parameters are known."""
    if isinstance(source, FromValue):
        return _literal(source.value)
    if isinstance(source, FromParameter):
        if setting.run is not None:
            return _literal(setting.values.get(source.parameter, ""))
        return f"workflow.parameters['{source.parameter}']"
    return f"tasks['{setting.tasks[source.node].last}'].outputs.parameters['{source.output}']"


def _literal(text: str) -> str:
    """A literal of an expression inside of a tag."""
    return f"'{''.join(map(_escape, text))}'"


def _escape(char: str) -> str:
    if char.isalnum() or char in " _-.,:;/=+[]":
        return char
    if ord(char) < 0x80:
        return f"\\x{ord(char):02x}"  # not \\u: see _REPLACED
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
