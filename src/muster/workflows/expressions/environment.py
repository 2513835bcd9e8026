"""What an expression of Argo sees: the scope's variables as nested maps, and the functions Argo adds to expr-lang."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from muster.workflows.expressions import jsonpath
from muster.workflows.expressions.builtins_numbers import to_float, to_integer
from muster.workflows.expressions.chance import REAL, Chance
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.evaluator import evaluate
from muster.workflows.expressions.gojson import to_json
from muster.workflows.expressions.references import roots
from muster.workflows.expressions.sprig import sprig_functions
from muster.workflows.expressions.values import Function, shown


def environment(scope: Mapping[str, Any], text: str | None = None, chance: Chance = REAL) -> dict[str, Any]:
    """The environment over a flat scope such as `{"inputs.parameters.size": "3"}`, or as much of it as an expression
    can see. Where one name is the beginning of another (`inputs.parameters`, a JSON text for simple tags), the longer
    ones win. Raises ExpressionError if the expression cannot be read."""
    return expanded(scope, None if text is None else roots(text)) | _functions(chance)


def evaluate_in(text: str, scope: Mapping[str, Any], chance: Chance = REAL) -> Any:
    """The value of an expression over a flat scope. Raises ExpressionError."""
    return evaluate(text, environment(scope, text, chance), chance)


def evaluate_bool(text: str, scope: Mapping[str, Any], chance: Chance = REAL) -> bool:
    """The value of a condition, such as that of a hook or of a retry strategy."""
    result = evaluate_in(text, scope, chance)
    if not isinstance(result, bool):
        raise ExpressionError(f"unable to cast expression result '{shown(result)}' to bool", text, 0)
    return result


def expanded(scope: Mapping[str, Any], wanted: Collection[str] | None = None) -> dict[str, Any]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`: everything, or only what is below the wanted names."""
    out: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {"": out}
    for name, value in scope.items():
        if wanted is not None and name.partition(".")[0] not in wanted:
            continue
        prefix, _, last = name.rpartition(".")
        if prefix not in inner:
            _open(inner, prefix)
        if name not in inner:
            inner[prefix][last] = value
    return out


def _open(inner: dict[str, dict[str, Any]], prefix: str) -> None:
    """Makes the maps that lead to a prefix."""
    upper = ""
    for part in prefix.split("."):
        name = f"{upper}.{part}" if upper else part
        if name not in inner:
            inner[name] = inner[upper][part] = {}
        upper = name


@lru_cache(maxsize=8)
def _functions(chance: Chance) -> dict[str, Any]:
    return {
        "asInt": Function("asInt", "any", to_integer),
        "asFloat": Function("asFloat", "any", to_float),
        "jsonpath": Function("jsonpath", "string, string", jsonpath.query),
        "toJson": Function("toJson", "any", to_json, result="string"),
        "sprig": sprig_functions(chance),
    }
