"""Conditions and selectors of compiled pipelines, which are CEL (`kube/cel.py`) with one more function.

inputs.parameter_values['pipelinechannel--flip-Output'] == 'heads' && !(int(inputs.parameter_values['n']) > 3)
parseJson(string_value)["name"]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from muster.kube import cel
from muster.kube.cel import CelError, Function, Node, type_name
from muster.pipelines.values import to_text, whole_numbers

__all__ = ["CelError", "evaluate_condition", "parse_condition", "parse_selector", "select"]


def _parse_json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise CelError(f"parseJson() cannot convert {str(value)[:100]!r}") from None


_FUNCTIONS: Final[Mapping[str, Function]] = {**cel.FUNCTIONS, "string": to_text, "parseJson": _parse_json}


@lru_cache(maxsize=4096)
def parse_condition(text: str) -> Node:
    """Parses the condition of a task. Raises CelError."""
    return cel.parse(text, frozenset(("inputs",)), _FUNCTIONS)


@lru_cache(maxsize=4096)
def parse_selector(text: str) -> Node:
    """Parses the `parameterExpressionSelector` of an input. Raises CelError."""
    return cel.parse(text, frozenset(("string_value", "struct_value", "list_value")), _FUNCTIONS)


def evaluate_condition(text: str, parameters: Mapping[str, Any]) -> bool:
    """Returns whether a task runs, given the values of its inputs. Raises CelError."""
    values = dict(parameters)
    variables = {"inputs": {"parameter_values": values, "parameters": values}}
    result = cel.evaluate(parse_condition(text), variables, _FUNCTIONS)
    if not isinstance(result, bool):
        raise CelError(f"the condition {text} is {type_name(result)}, but has to be true or false")
    return result


def select(text: str, value: Any) -> Any:
    """Returns the part of a value that a selector names. Raises CelError."""
    variables = {"string_value": to_text(value), "struct_value": value, "list_value": value}
    return whole_numbers(cel.evaluate(parse_selector(text), variables, _FUNCTIONS))
