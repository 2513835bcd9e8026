"""The evaluator of expr-lang: the value of a syntax tree in an environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

from muster.workflows.lang.clock import SYSTEM_CLOCK, Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.builtins import BUILTIN_FUNCTIONS, length
from muster.workflows.lang.expr.checker import check
from muster.workflows.lang.expr.operators import (
    add,
    arithmetic,
    as_bool,
    as_int,
    as_string,
    compare,
    equal,
    fetch,
    is_in,
    match_strings,
    negate,
    slice_value,
    sort_by_keys,
)
from muster.workflows.lang.expr.parser import parse
from muster.workflows.lang.expr.syntax import (
    PREDICATES,
    Array,
    Binary,
    Boolean,
    Builtin,
    Call,
    Chain,
    Conditional,
    Float,
    Integer,
    Let,
    Map,
    Member,
    Name,
    Nil,
    Node,
    Pointer,
    Predicate,
    Sequence,
    Slice,
    String,
    Unary,
)
from muster.workflows.lang.go_strings import to_bytes
from muster.workflows.lang.go_values import Byte, Function, Groups, Ints, go_kind, go_type, is_nil
from muster.workflows.lang.limits import MAX_CREATED, MAX_STEPS, MEMORY, SizeTracker, check_budget

# -- Evaluation


def evaluate(text: str, env: Mapping[str, Any], clock: Clock = SYSTEM_CLOCK) -> Any:
    """Returns the value of an expression in an environment.

    Raises ExpressionError, with the position, if the expression is invalid, its types do not fit, or it fails.
    """
    tree = parse(text, overridden=env.keys())
    try:
        check(tree, text, env)
        return _Evaluator(text, env, clock).value(tree)
    except RecursionError:
        raise ExpressionError("a value is nested too deeply", text, 0) from None


class _ChainEnd(Exception):
    """The base of an optional member is nil."""


class _Evaluator:
    def __init__(self, text: str, env: Mapping[str, Any], clock: Clock) -> None:
        self.text = text
        self.env = env
        self.clock = clock
        self.variables: dict[str, Any] = {}
        self.iterations: list[Iteration] = []
        self.steps = 0
        self.memory = 0
        self.created = 0
        self.next_check = 1
        self.sizes = SizeTracker()

    def value(self, node: Node) -> Any:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise ExpressionError(f"the expression takes more than {MAX_STEPS} steps", self.text, node.at)
        if self.steps >= self.next_check:
            self.next_check = self.steps + _STEPS_PER_CHECK
            check_budget()
        try:
            result = _HANDLERS[type(node)](self, node)
            if type(node) in _CREATES_VALUES and isinstance(result, str | list | dict):
                self.count_created(self.sizes.size_of(result))
            return result
        except ExpressionError as error:
            raise error.with_position(self.text, node.at) from None

    def spend(self, *operands: Any) -> None:
        """Counts additional steps for long lists and strings."""
        for operand in operands:
            if isinstance(operand, str | list | dict):
                self.steps += self.sizes.size_of(operand) // _ELEMENTS_PER_STEP

    def count_created(self, size: int) -> None:
        self.created += size
        if self.created > MAX_CREATED:
            raise ExpressionError("memory budget exceeded")

    def grow(self, size: int) -> None:
        self.memory += size
        if self.memory >= MEMORY:
            raise ExpressionError("memory budget exceeded")

    # -- names

    def name(self, node: Name) -> Any:
        if node.value in self.variables:
            return self.variables[node.value]
        return self.env if node.value == "$env" else self.env.get(node.value)

    def let(self, node: Let) -> Any:
        self.variables[node.name] = self.value(node.value)
        try:
            return self.value(node.body)
        finally:
            del self.variables[node.name]

    def pointer(self, node: Pointer) -> Any:
        here = self.iterations[-1]
        if node.name == "index":
            return here.index
        return here.accumulator if node.name == "acc" else here.element()

    # -- operators

    def unary(self, node: Unary) -> Any:
        operand = self.value(node.operand)
        if node.operator in ("!", "not"):
            return not as_bool(operand)
        return negate(operand) if node.operator == "-" else operand

    def binary(self, node: Binary) -> Any:
        """Evaluates the left-hand sides of a chain of operators in a loop: they may be a thousand levels deep."""
        spine = [node]
        while not _is_decided(spine[-1]) and isinstance(spine[-1].left, Binary):
            spine.append(spine[-1].left)
        left = None if _is_decided(spine[-1]) else self.value(spine[-1].left)
        for part in reversed(spine):
            try:
                left = self.operation(part, left)
            except ExpressionError as error:
                raise error.with_position(self.text, part.at) from None
        return left

    def operation(self, node: Binary, left: Any) -> Any:
        operator = node.operator
        match operator:
            case "||" | "or" | "&&" | "and":
                return self.logical(node, left)
            case "??":
                return self.value(node.right) if is_nil(left) else left
        right = self.value(node.right)
        self.spend(left, right)
        match operator:
            case "==":
                return equal(left, right)
            case "!=":
                return not equal(left, right)
            case "<" | ">" | "<=" | ">=":
                return compare(operator, left, right)
            case "in":
                return self.membership(node.right, left, right)
            case "..":
                return self.range(as_int(left), as_int(right))
            case "matches" | "contains" | "startsWith" | "endsWith":
                return match_strings(operator, left, right)
            case _:
                return arithmetic(operator, left, right)

    def logical(self, node: Binary, left: Any) -> Any:
        """As in expr-lang, only the left-hand side must be a bool, and not even that if the right one is constant."""
        decisive = node.operator in ("||", "or")
        if isinstance(node.right, Boolean):
            return decisive if node.right.value is decisive else left
        return decisive if as_bool(left) is decisive else self.value(node.right)

    def membership(self, container: Node, needle: Any, haystack: Any) -> bool:
        if needle is not None and type(needle) is not str and _is_set_of_strings(container):
            kind = go_type(needle)
            raise ExpressionError(f"reflect.Value.MapIndex: value of type {kind} is not assignable to type string")
        return is_in(needle, haystack)

    def range(self, first: int, last: int) -> Ints:
        self.grow(max(last - first + 1, 0))
        return Ints(range(first, last + 1))

    def conditional(self, node: Conditional) -> Any:
        try:
            holds = as_bool(self.value(node.condition))
        except ExpressionError as error:
            raise error.with_position(self.text, node.condition.at) from None
        return self.value(node.then if holds else node.otherwise)

    # -- members and literals

    def member(self, node: Member) -> Any:
        base = self.value(node.base)
        if node.optional and is_nil(base):
            raise _ChainEnd
        return fetch(base, self.value(node.key))

    def chain(self, node: Chain) -> Any:
        try:
            found = self.value(node.inner)
        except _ChainEnd:
            return None
        return None if is_nil(found) else found

    def slice(self, node: Slice) -> Any:
        base = self.value(node.base)
        stop = self.value(node.stop) if node.stop is not None else None
        start = self.value(node.start) if node.start is not None else 0
        if node.stop is None:
            stop = len(base.encode("utf-8", "surrogateescape")) if isinstance(base, str) else length(base)
        return slice_value(base, start, stop)

    def array(self, node: Array) -> list[Any]:
        self.grow(len(node.elements))
        return [self.value(element) for element in node.elements]

    def map(self, node: Map) -> dict[str, Any]:
        self.grow(len(node.pairs))
        out: dict[str, Any] = {}
        for key_node, value_node in node.pairs:
            key, value = self.value(key_node), self.value(value_node)
            if type(key) is not str:
                kind = "nil" if key is None else go_type(key)
                raise ExpressionError(f"interface conversion: interface {{}} is {kind}, not string")
            out[key] = value
        return out

    # -- calls

    def call(self, node: Call) -> Any:
        arguments = [self.value(argument) for argument in node.arguments]
        function = self.value(node.callee)
        if function is None:
            raise ExpressionError(f"invalid operation: cannot call nil{self.hint(node.callee)}")
        if not isinstance(function, Function):
            raise ExpressionError(f"invalid operation: cannot call non-function of type {go_type(function)}")
        self.spend(*arguments)
        return function(*arguments, clock=self.clock)

    def hint(self, callee: Node) -> str:
        """Returns the name of a function that does not exist. It is nil to Go, which says less."""
        if not isinstance(callee, Member) or not isinstance(callee.key, String):
            return ""
        return f" (there is no function {callee.key.value} here)"

    def builtin(self, node: Builtin) -> Any:
        if node.name in PREDICATES:
            return self.predicate_call(node)
        arguments = [self.value(argument) for argument in node.arguments]
        self.spend(*arguments)
        if node.name == "now":
            return BUILTIN_FUNCTIONS["now"].call(self.clock.now(), *arguments)
        result = BUILTIN_FUNCTIONS[node.name].call(*arguments)
        if node.name in _COUNTS_RESULT:
            self.grow(len(result))
        return result

    def predicate_call(self, node: Builtin) -> Any:
        collection, *rest = node.arguments
        if node.name == "sum" and not rest and _is_sum_of_terms(collection):
            terms = [self.value(element) for element in collection.elements]
            total = terms.pop()
            while terms:
                total = add(terms.pop(), total)
            return total
        iteration = Iteration(self.value(collection))
        further = [self.value(argument) for argument in rest[1:]]
        body = rest[0] if rest else None
        self.iterations.append(iteration)
        try:
            result = PREDICATE_FUNCTIONS[node.name](iteration, self.predicate(body), *further)
        finally:
            self.iterations.pop()
        if node.name in ("filter", "map", "sortBy"):
            self.grow(len(result))
        return result

    def predicate(self, body: Node | None) -> Callable[[], Any]:
        """Returns what evaluates the predicate for the current element; without a predicate, the element itself."""
        return self.iterations[-1].element if body is None else lambda: self.value(body)


_HANDLERS: dict[type, Callable[[_Evaluator, Any], Any]] = {
    Nil: lambda evaluator, node: None,
    Boolean: lambda evaluator, node: node.value,
    Integer: lambda evaluator, node: node.value,
    Float: lambda evaluator, node: node.value,
    String: lambda evaluator, node: node.value,
    Name: _Evaluator.name,
    Unary: _Evaluator.unary,
    Binary: _Evaluator.binary,
    Member: _Evaluator.member,
    Chain: _Evaluator.chain,
    Slice: _Evaluator.slice,
    Call: _Evaluator.call,
    Builtin: _Evaluator.builtin,
    Predicate: lambda evaluator, node: evaluator.value(node.body),
    Pointer: _Evaluator.pointer,
    Let: _Evaluator.let,
    Sequence: lambda evaluator, node: [evaluator.value(step) for step in node.steps][-1],
    Conditional: _Evaluator.conditional,
    Array: _Evaluator.array,
    Map: _Evaluator.map,
}
_CREATES_VALUES = frozenset((Array, Map, Builtin, Call, Binary, Slice))
"""Nodes that create new strings, lists and maps."""
_STEPS_PER_CHECK = 256
_ELEMENTS_PER_STEP = 32
"""Characters or elements that cost as much as one step."""
_COUNTS_RESULT = frozenset(("repeat", "reverse", "concat", "flatten", "sort"))


def _is_decided(node: Binary) -> bool:
    """Returns whether the result is known without x: expr-lang does not evaluate x in `x && false` or `x || true`."""
    decisive = {"||": True, "or": True, "&&": False, "and": False}.get(node.operator)
    return isinstance(node.right, Boolean) and node.right.value is decisive


def _is_set_of_strings(node: Node) -> bool:
    """Returns whether expr-lang makes the list a set of strings, in which it cannot look for a number."""
    return isinstance(node, Array) and bool(node.elements) and all(isinstance(e, String) for e in node.elements)


def _is_sum_of_terms(node: Node) -> TypeGuard[Array]:
    """Returns whether a sum over a list literal is `a + (b + c)` to expr-lang, which it is unless all is constant."""
    constants = (Integer, Float, String, Boolean)
    return (
        isinstance(node, Array)
        and len(node.elements) > 1
        and not all(isinstance(element, constants) for element in node.elements)
    )


# -- Functions with a predicate


class Iteration:
    """The list that a function with a predicate goes through, and its current position."""

    def __init__(self, values: Any) -> None:
        if isinstance(values, str):
            values = [Byte(byte) for byte in to_bytes(values)]
        if isinstance(values, Mapping) and not values:
            values = []
        if not isinstance(values, list):
            held = "zero" if values is None else go_kind(values)
            method = "Index" if held == "map" else "Len"
            raise ExpressionError(f"reflect: call of reflect.Value.{method} on {held} Value")
        self.values: list[Any] = values
        self.index = 0
        self.accumulator: Any = None

    def element(self) -> Any:
        if self.index >= len(self.values):
            raise ExpressionError("reflect: slice index out of range")
        return self.values[self.index]

    def forwards(self, start: int = 0) -> Iterator[Any]:
        """Yields every element from `start` on and makes it the current one."""
        for index in range(start, len(self.values)):
            self.index = index
            yield self.values[index]

    def backwards(self) -> Iterator[Any]:
        for index in range(len(self.values) - 1, -1, -1):
            self.index = index
            yield self.values[index]


def _all(iteration: Iteration, predicate: Callable[[], Any]) -> bool:
    return all(as_bool(predicate()) for _ in iteration.forwards())


def _none(iteration: Iteration, predicate: Callable[[], Any]) -> bool:
    return not any(as_bool(predicate()) for _ in iteration.forwards())


def _any(iteration: Iteration, predicate: Callable[[], Any]) -> bool:
    return any(as_bool(predicate()) for _ in iteration.forwards())


def _count(iteration: Iteration, predicate: Callable[[], Any]) -> int:
    return sum(as_bool(predicate()) for _ in iteration.forwards())


def _filter(iteration: Iteration, predicate: Callable[[], Any]) -> list[Any]:
    return [element for element in iteration.forwards() if as_bool(predicate())]


def _map(iteration: Iteration, predicate: Callable[[], Any]) -> list[Any]:
    return [predicate() for _ in iteration.forwards()]


def _find(iteration: Iteration, predicate: Callable[[], Any]) -> Any:
    return next((element for element in iteration.forwards() if as_bool(predicate())), None)


def _find_last(iteration: Iteration, predicate: Callable[[], Any]) -> Any:
    return next((element for element in iteration.backwards() if as_bool(predicate())), None)


def _find_index(iteration: Iteration, predicate: Callable[[], Any]) -> int | None:
    return next((iteration.index for _ in iteration.forwards() if as_bool(predicate())), None)


def _find_last_index(iteration: Iteration, predicate: Callable[[], Any]) -> int | None:
    return next((iteration.index for _ in iteration.backwards() if as_bool(predicate())), None)


def _sum(iteration: Iteration, predicate: Callable[[], Any]) -> Any:
    total: Any = 0
    for _ in iteration.forwards():
        total = add(predicate(), total)
    return total


def _group_by(iteration: Iteration, predicate: Callable[[], Any]) -> Groups:
    groups = Groups()
    for element in iteration.forwards():
        key = predicate()
        if isinstance(key, list | dict):
            raise ExpressionError(f"runtime error: hash of unhashable type {go_type(key)}")
        groups.setdefault(key, []).append(element)
    return groups


def _sort_by(iteration: Iteration, predicate: Callable[[], Any], order: Any = "asc") -> list[Any]:
    if as_string(order) not in ("asc", "desc"):
        raise ExpressionError("unknown order, use asc or desc")
    keys = [predicate() for _ in iteration.forwards()]
    return sort_by_keys(iteration.values, keys, descending=order == "desc")


def _reduce(iteration: Iteration, predicate: Callable[[], Any], *initial: Any) -> Any:
    iteration.accumulator = initial[0] if initial else iteration.element()
    for _ in iteration.forwards(0 if initial else 1):
        iteration.accumulator = predicate()
    return iteration.accumulator


PREDICATE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "all": _all,
    "none": _none,
    "any": _any,
    "one": lambda iteration, predicate: _count(iteration, predicate) == 1,
    "filter": _filter,
    "map": _map,
    "count": _count,
    "sum": _sum,
    "find": _find,
    "findIndex": _find_index,
    "findLast": _find_last,
    "findLastIndex": _find_last_index,
    "groupBy": _group_by,
    "sortBy": _sort_by,
    "reduce": _reduce,
}
