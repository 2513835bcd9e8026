"""CEL rules (`x-kubernetes-validations`) of CustomResourceDefinitions: checks the rules, and objects by them.

As in Kubernetes: a rule sees the value it is written at as `self`; one that names `oldSelf` is about changes, and is
evaluated only where there is an old value; what an update leaves as it was is not checked again. A rule that uses a
function which is not known here is not evaluated, and creating the definition warns about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from muster.kube.cel import FUNCTIONS, CelError, Node, StepBudget, TooExpensive, UnknownFunction, evaluate, parse
from muster.kube.errors import Cause
from muster.kube.kinds import Rule, Schema
from muster.kube.objects import Object

MOST_STEPS: Final = 100_000
"""Of all rules for one write of an object: about a tenth of a second."""
_VARIABLES = frozenset(("self", "oldSelf"))
_OLD_SELF = re.compile(r"\boldSelf\b")
_MOST_CAUSES = 20
_SUBSCRIPT = re.compile(r"\['([^']*)'\]")


def find_rule_problems(rules: Any, path: str) -> Iterator[Cause]:
    """Yields what is wrong with the rules of one level of a schema."""
    if not isinstance(rules, list):
        yield Cause(path, "Invalid value: must be a list of rules")
        return
    for number, rule in enumerate(rules):
        at = f"{path}[{number}]"
        if not isinstance(rule, dict) or not isinstance(rule.get("rule"), str) or not rule["rule"].strip():
            yield Cause(f"{at}.rule", "Required value: an expression", "FieldValueRequired")
            continue
        for field in ("rule", "messageExpression"):
            try:
                if rule.get(field):
                    _parse(str(rule[field]))
            except UnknownFunction:
                continue
            except CelError as error:
                yield Cause(f"{at}.{field}", f"Invalid value: {rule[field]!r:.200}: compilation failed: {error}")


def unevaluated_rules(rules: Any) -> list[str]:
    """Returns why some of these rules are not evaluated."""
    found = []
    for rule in rules if isinstance(rules, list) else ():
        try:
            _parse(str(rule.get("rule")))
        except UnknownFunction as error:
            found.append(str(error))
        except CelError:
            continue
    return found


def rules_of(schema: Schema) -> Rule | None:
    """Returns the check of objects by the rules of a schema, or None if it has none."""
    if not _has_rules(schema):
        return None

    def check(obj: Object, old: Object | None) -> list[Cause]:
        causes: list[Cause] = []
        try:
            for cause in _check(obj, old, schema, "", StepBudget(MOST_STEPS)):
                causes.append(cause)
                if len(causes) >= _MOST_CAUSES:
                    break
        except TooExpensive:
            causes.append(Cause("", "the rules of the definition take too many steps for this object"))
        return causes

    return check


class _Level(NamedTuple):
    """A schema with its rules parsed."""

    rule: Mapping[str, Any]
    node: Node
    is_transition: bool


def _check(value: Any, old: Any, schema: Schema, path: str, steps: StepBudget) -> Iterator[Cause]:
    if value is None or (old is not None and value == old):
        return
    for level in _levels(schema):
        yield from _check_rule(level, value, old, path, schema, steps)
    fields, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    if isinstance(value, dict):
        for name, inner in value.items():
            below = fields.get(name, rest)
            if isinstance(below, dict) and _has_rules(below):
                before = old.get(name) if isinstance(old, dict) else None
                yield from _check(inner, before, below, f"{path}.{name}" if path else name, steps)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict) and _has_rules(items):
        for number, inner in enumerate(value):
            yield from _check(inner, _old_item(inner, old, schema), items, f"{path}[{number}]", steps)


def _check_rule(level: _Level, value: Any, old: Any, path: str, schema: Schema, steps: StepBudget) -> Iterator[Cause]:
    if level.is_transition and old is None:
        return
    rule, variables = level.rule, {"self": value, "oldSelf": old}
    at = path + _SUBSCRIPT.sub(r"[\1]", str(rule.get("fieldPath") or ""))
    shown = value if isinstance(value, str | int | float) else schema.get("type", "object")
    prefix = f'Invalid value: "{shown}"' if isinstance(shown, str) else f"Invalid value: {shown}"
    try:
        result = evaluate(level.node, variables, FUNCTIONS, steps)
    except TooExpensive:
        raise
    except CelError as error:
        yield Cause(at.lstrip("."), f"{prefix}: rule evaluation error: {error} (rule: {rule['rule']!s:.200})")
        return
    if result is not True:
        yield Cause(at.lstrip("."), f"{prefix}: {_message(rule, variables, steps)}", _reason(rule))


def _message(rule: Mapping[str, Any], variables: Mapping[str, Any], steps: StepBudget) -> str:
    if rule.get("messageExpression"):
        try:
            found = evaluate(_parse(rule["messageExpression"]), variables, FUNCTIONS, steps)
            if isinstance(found, str) and found.strip() and "\n" not in found:
                return found[:2000]
        except TooExpensive:
            raise
        except CelError:
            pass  # the plain message is used, as in Kubernetes
    return str(rule.get("message") or f"failed rule: {' '.join(str(rule['rule']).split())}")


def _reason(rule: Mapping[str, Any]) -> str:
    return str(rule.get("reason") or "FieldValueInvalid")


def _old_item(item: Any, old: Any, schema: Schema) -> Any:
    """Returns the old item of a list: the one with the same keys. Items of other lists have no identity."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") != "map" or not keys or not isinstance(old, list):
        return None
    if not isinstance(item, dict):
        return None
    wanted = [item.get(key) for key in keys]
    return next((o for o in old if isinstance(o, dict) and [o.get(key) for key in keys] == wanted), None)


def _levels(schema: Schema) -> Iterator[_Level]:
    for rule in schema.get("x-kubernetes-validations") or ():
        text = str(rule.get("rule") or "")
        try:
            node = _parse(text)
        except CelError:
            continue  # the definition was refused, or creating it warned about this rule
        yield _Level(rule, node, bool(_OLD_SELF.search(text)))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Node:
    return parse(text, _VARIABLES, FUNCTIONS)


def _has_rules(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    if schema.get("x-kubernetes-validations"):
        return True
    inner = (*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties"))
    return any(map(_has_rules, inner))
