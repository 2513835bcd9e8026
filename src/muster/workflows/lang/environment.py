"""The environment of an Argo expression: the variables it sees and needs, and the functions Argo adds to expr-lang."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from muster.kube.errors import closest_word
from muster.workflows.lang import jsonpath
from muster.workflows.lang.clock import SYSTEM_CLOCK, Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.builtins import to_float, to_integer
from muster.workflows.lang.expr.evaluator import evaluate
from muster.workflows.lang.expr.parser import parse
from muster.workflows.lang.expr.syntax import BUILTINS, Binary, Call, Let, Member, Name, Node, String, walk
from muster.workflows.lang.go_encoding import to_json
from muster.workflows.lang.go_values import Function, format_value
from muster.workflows.lang.limits import cache_short_texts
from muster.workflows.lang.sprig.catalog import SPRIG_FUNCTIONS

# -- Variables and functions that an expression sees


def build_environment(scope: Mapping[str, Any], text: str | None = None) -> dict[str, Any]:
    """Returns the environment for a flat scope such as `{"inputs.parameters.size": "3"}`.

    With an expression (`text`), it has only what that expression can see. Where one name is a prefix of another
    (`inputs.parameters`, a JSON text for simple tags), the longer one wins. Raises ExpressionError if the expression is
    invalid.
    """
    return expand_scope(scope, None if text is None else root_variables(text)) | _FUNCTIONS


def evaluate_in(text: str, scope: Mapping[str, Any], clock: Clock = SYSTEM_CLOCK) -> Any:
    """Evaluates an expression in a flat scope. Raises ExpressionError."""
    return evaluate(text, build_environment(scope, text), clock)


def evaluate_bool(text: str, scope: Mapping[str, Any], clock: Clock = SYSTEM_CLOCK) -> bool:
    """Evaluates a condition, such as that of a hook or of a retry strategy."""
    result = evaluate_in(text, scope, clock)
    if not isinstance(result, bool):
        raise ExpressionError(f"unable to cast expression result '{format_value(result)}' to bool", text, 0)
    return result


def expand_scope(scope: Mapping[str, Any], wanted: Collection[str] | None = None) -> dict[str, Any]:
    """Returns `{"a.b": 1}` as `{"a": {"b": 1}}`: the whole scope, or only what is below the wanted names."""
    out: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {"": out}
    for name, value in scope.items():
        if wanted is not None and name.partition(".")[0] not in wanted:
            continue
        prefix, _, last = name.rpartition(".")
        if prefix not in inner:
            _create_maps(inner, prefix)
        if name not in inner:
            inner[prefix][last] = value
    return out


def _create_maps(inner: dict[str, dict[str, Any]], prefix: str) -> None:
    """Creates the maps that lead to a prefix."""
    upper = ""
    for part in prefix.split("."):
        name = f"{upper}.{part}" if upper else part
        if name not in inner:
            inner[name] = inner[upper][part] = {}
        upper = name


_FUNCTIONS: dict[str, Any] = {
    "asInt": Function("asInt", "any", to_integer),
    "asFloat": Function("asFloat", "any", to_float),
    "jsonpath": Function("jsonpath", "string, string", jsonpath.query),
    "toJson": Function("toJson", "any", to_json, result="string"),
    "sprig": SPRIG_FUNCTIONS,
}


# -- Variables that an expression needs


@cache_short_texts(2048)
def required_variables(text: str) -> tuple[str, ...]:
    """Returns the names and member paths (`tasks`, `tasks.a`, `tasks.a.outputs`, ...) that an expression needs.

    Members left of `??` and those that `?.` looks into may be missing, so they are not needed, but the variable they
    start from is. Raises ExpressionError if the expression is invalid.
    """
    tree = parse(text)
    guarded = set(_optional_members(tree))
    declared = {node.name for node in walk(tree) if isinstance(node, Let)}
    found: dict[str, None] = {}
    for node in walk(tree):
        if isinstance(node, Name) and node.value not in declared:
            found.setdefault(node.value)
        elif isinstance(node, Member) and node not in guarded:
            path = _member_path(node)
            if path and path[0] not in declared:
                found.setdefault(".".join(path))
    return tuple(found)


@cache_short_texts(2048)
def root_variables(text: str) -> frozenset[str] | None:
    """Returns the variables of a scope that can affect an expression, or None for all of them.

    Those are the variables it names and those that would replace one of the language's functions. Raises
    ExpressionError if the expression is invalid.
    """
    tree = parse(text)
    names = {node.value for node in walk(tree) if isinstance(node, Name)}
    # A `let` with the name of a variable is an error, so declared names matter, too.
    declared = {node.name for node in walk(tree) if isinstance(node, Let)}
    return None if "$env" in names else BUILTINS | names | declared


def find_unknown_functions(text: str) -> dict[str, str]:
    """Returns the functions that an expression calls and that do not exist, with the closest name of one that does, or
    "". Raises ExpressionError if the expression is invalid."""
    tree = parse(text)
    declared = {node.name for node in walk(tree) if isinstance(node, Let)}
    found: dict[str, str] = {}
    for node in walk(tree):
        if not isinstance(node, Call):
            continue
        if isinstance(node.callee, Name) and node.callee.value not in declared | _FUNCTIONS.keys() | BUILTINS:
            name = node.callee.value
            found[name] = closest_word(name, [*BUILTINS, *_FUNCTIONS]) or ""
        elif isinstance(node.callee, Member):
            path = _member_path(node.callee) or [""]
            if path[0] == "sprig" and path[1] not in SPRIG_FUNCTIONS:
                near = closest_word(path[1], list(SPRIG_FUNCTIONS))
                found[f"sprig.{path[1]}"] = f"sprig.{near}" if near else ""
    return found


def find_missing(names: tuple[str, ...], env: Mapping[str, Any]) -> list[str]:
    """Returns the names that the environment does not have. A variable that is nil exists."""
    return [name for name in names if not _exists(name, env)]


def _optional_members(tree: Node) -> Iterator[Node]:
    for node in walk(tree):
        if isinstance(node, Binary) and node.operator == "??":
            yield from (part for part in walk(node.left) if isinstance(part, Member))
        elif isinstance(node, Member) and node.optional and isinstance(node.base, Member):
            yield node.base


def _member_path(node: Member) -> list[str] | None:
    parts: list[str] = []
    current: Node = node
    while isinstance(current, Member):
        if current.optional or not isinstance(current.key, String):
            return None
        parts.append(current.key.value)
        current = current.base
    return [current.value, *reversed(parts)] if isinstance(current, Name) else None


def _exists(name: str, env: Mapping[str, Any]) -> bool:
    if name in env:
        return True
    current: Any = env
    for part in name.split("."):
        if not isinstance(current, Mapping) or part not in current:
            return False
        current = current[part]
    return True
