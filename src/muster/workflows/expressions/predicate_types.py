"""Types of the functions that ask a predicate about every element of a list."""

from __future__ import annotations

from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gotypes import ARRAY, BOOL, INT, UNKNOWN, Type, list_of, named

_GROUPS = named("map[interface {}][]interface {}")
_BOOLEAN = frozenset(("all", "none", "any", "one", "filter", "find", "findLast", "findIndex", "findLastIndex", "count"))


def predicate_type(name: str, collection: Type, result: Type) -> Type:
    """The type of `name(collection, predicate)` for what the predicate gives. Raises ExpressionError if that will not
    do."""
    if result.known_nil:
        parameters = "two input" if name == "reduce" else "one input"
        raise ExpressionError(f"predicate should has {parameters} and one output param")
    if name in _BOOLEAN and result.name != "bool" and not result.is_unknown:
        raise ExpressionError(f"predicate should return boolean (got {result.name})")
    match name:
        case "all" | "none" | "any" | "one":
            return BOOL
        case "filter":
            return ARRAY if collection.is_unknown else list_of(collection.element)
        case "map":
            return list_of(result)
        case "count" | "findIndex" | "findLastIndex":
            return INT
        case "find" | "findLast":
            return UNKNOWN if collection.is_unknown else collection.element
        case "groupBy":
            return _GROUPS
        case "sortBy":
            return collection
        case _:
            return result
