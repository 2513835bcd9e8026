"""The type checker of expr-lang: rejects what expr-lang does not run, such as `"a" + 1` or an unknown name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.builtins import BUILTIN_FUNCTIONS
from muster.workflows.lang.expr.syntax import (
    BUILTINS,
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
    Slice,
    String,
    Unary,
)
from muster.workflows.lang.expr.syntax import Sequence as Steps
from muster.workflows.lang.expr.types import (
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    MAP,
    NIL,
    OPERATOR_TYPES,
    STRING,
    UNKNOWN,
    Signature,
    Type,
    coalesce_types,
    list_of,
    predicate_type,
    type_named,
    type_of,
)
from muster.workflows.lang.go_regex import compile_regex
from muster.workflows.lang.go_time import Zone
from muster.workflows.lang.go_time_values import Duration, Month, Time, Weekday
from muster.workflows.lang.go_values import Function, Opaque

_OPAQUE: dict[str, type[Opaque]] = {cls.go_type: cls for cls in (Time, Duration, Month, Weekday, Zone)}


def check(node: Node, text: str, env: Mapping[str, Any]) -> Type:
    """Returns the type of an expression in an environment. Raises ExpressionError if types do not fit."""
    return _Checker(text, env).visit(node)


class _Checker:
    def __init__(self, text: str, env: Mapping[str, Any]) -> None:
        self.text = text
        self.env = env
        self.variables: list[tuple[str, Type]] = []
        self.scopes: list[tuple[Type, dict[str, Type]]] = []

    def fail(self, node: Node, message: str) -> ExpressionError:
        return ExpressionError(message, self.text, node.at)

    def visit(self, node: Node) -> Type:
        match node:
            case Nil():
                return NIL
            case Boolean():
                return BOOL
            case Integer():
                return INT
            case Float():
                return FLOAT
            case String():
                return STRING
            case Name():
                return self.name(node)
            case Unary():
                return self.unary(node)
            case Binary():
                return self.binary(node)
            case Chain(inner):
                return self.visit(inner)
            case Member():
                return self.member(node)
            case Slice():
                return self.slice(node)
            case Call():
                return self.call(node)
            case Builtin():
                return self.builtin(node)
            case Predicate(body):
                return self.visit(body)
            case Pointer():
                return self.pointer(node)
            case Let():
                return self.let(node)
            case Steps(steps):
                return [self.visit(step) for step in steps][-1]
            case Conditional():
                return self.conditional(node)
            case Array(elements):
                return self.array([self.visit(element) for element in elements])
            case Map(pairs):
                for key, value in pairs:
                    self.visit(key)
                    self.visit(value)
                return MAP

    # -- names

    def name(self, node: Name) -> Type:
        for name, found in reversed(self.variables):
            if name == node.value:
                return found
        if node.value == "$env":
            return UNKNOWN
        if node.value in self.env:
            return type_of(self.env[node.value])
        if node.value in BUILTINS:
            return UNKNOWN
        raise self.fail(node, f"unknown name {node.value}")

    def let(self, node: Let) -> Type:
        if node.name in self.env:
            raise self.fail(node, f"cannot redeclare {node.name}")
        if node.name in BUILTINS:
            raise self.fail(node, f"cannot redeclare builtin {node.name}")
        if any(name == node.name for name, _ in self.variables):
            raise self.fail(node, f"cannot redeclare variable {node.name}")
        self.variables.append((node.name, self.visit(node.value)))
        result = self.visit(node.body)
        self.variables.pop()
        return result

    def pointer(self, node: Pointer) -> Type:
        if not self.scopes:
            raise self.fail(node, "cannot use pointer accessor outside predicate")
        collection, extra = self.scopes[-1]
        if not node.name:
            return collection.element if collection.is_array else UNKNOWN
        if node.name not in extra:
            raise self.fail(node, f"unknown pointer #{node.name}")
        return extra[node.name]

    # -- operators

    def unary(self, node: Unary) -> Type:
        operand = self.visit(node.operand)
        if node.operator in ("!", "not"):
            if operand is BOOL or operand.name == "bool" or operand.is_unknown:
                return BOOL
        elif operand.is_number:
            return operand
        elif operand.is_unknown:
            return UNKNOWN
        raise self.fail(node, f"invalid operation: {node.operator} (mismatched type {operand.name})")

    def binary(self, node: Binary) -> Type:
        spine = [node]
        while isinstance(spine[-1].left, Binary):
            spine.append(spine[-1].left)
        left = self.visit(spine[-1].left)
        for part in reversed(spine):
            left = self.operation(part, left, self.visit(part.right))
        return left

    def operation(self, node: Binary, left: Type, right: Type) -> Type:
        operator = node.operator
        if operator == "??":
            return coalesce_types(left, right)
        if operator == "in":
            found = self.membership(node, left, right)
        elif operator in ("==", "!="):
            found = BOOL if left.comparable_to(right) else None
        else:
            if operator == "matches" and isinstance(node.right, String):
                self.pattern(node, node.right.value)
            if operator == "%" and isinstance(node.left, Integer) and _is_zero(node.right):
                raise self.fail(node, "integer divide by zero")
            found = OPERATOR_TYPES[operator](left, right)
        if found is None:
            mismatch = f"(mismatched types {left.name} and {right.name})"
            raise self.fail(node, f"invalid operation: {operator} {mismatch}")
        return found

    def pattern(self, node: Binary, pattern: str) -> None:
        try:
            compile_regex(pattern)
        except ExpressionError as error:
            raise self.fail(node, error.message) from None

    def membership(self, node: Binary, left: Type, right: Type) -> Type | None:
        if right.kind == "struct" and (left.name == "string" or left.is_unknown):
            return BOOL
        if right.is_map:
            if not left.is_unknown and not left.assignable_to(right.key):
                raise self.fail(node, f"cannot use {left.name} as type {right.key.name} in map key")
            return BOOL
        if right.is_array:
            if not left.comparable_to(right.element):
                raise self.fail(node, f"cannot use {left.name} as type {right.element.name} in array")
            return BOOL
        return BOOL if right.is_unknown or (left.is_unknown and right.name == "string") else None

    def conditional(self, node: Conditional) -> Type:
        condition = self.visit(node.condition)
        if condition.name != "bool" and not condition.is_unknown:
            raise self.fail(node.condition, f"non-bool expression (type {condition.name}) used as condition")
        then, otherwise = self.visit(node.then), self.visit(node.otherwise)
        if then.known_nil or otherwise.known_nil:
            return otherwise if then.known_nil else then
        if not then.assignable_to(otherwise):
            return UNKNOWN
        if then.is_array and otherwise.is_array:
            one, other = then.element, otherwise.element
            if not (one.assignable_to(other) and other.assignable_to(one)):
                return ARRAY
        return then

    def array(self, elements: list[Type]) -> Type:
        if any(element.kind != elements[0].kind for element in elements):
            return ARRAY
        return list_of(elements[-1] if elements else UNKNOWN)

    # -- members

    def member(self, node: Member) -> Type:
        if isinstance(node.base, Name) and node.base.value == "$env":
            return self.environment_member(node)
        base, key = self.visit(node.base), self.visit(node.key)
        if base.is_unknown:
            return UNKNOWN
        name = node.key.value if isinstance(node.key, String) else None
        if name is not None:
            if base.known_nil:
                raise self.fail(node, f"type nil has no field {name}")
            method = _OPAQUE[base.name].methods.get(name) if base.name in _OPAQUE else None
            if method is not None:
                function = Function(name, method.parameters, method.call, method.result)
                return Type(f"func({method.parameters}) {method.result}", function=function)
        if base.is_map:
            if not key.assignable_to(base.key) and not key.is_unknown:
                raise self.fail(node.key, f"cannot use {key.name} to get an element from {base.name}")
            return base.element
        if base.is_array:
            if not key.is_integer and not key.is_unknown:
                message = f"array elements can only be selected using an integer (got {key.name})"
                raise self.fail(node.key, message)
            return base.element
        if name is None:
            raise self.fail(node, f"type {base.name}[{key.name}] is undefined")
        raise self.fail(node, f"type {base.name} has no {'method' if node.called else 'field'} {name}")

    def environment_member(self, node: Member) -> Type:
        if not isinstance(node.key, String):
            return UNKNOWN
        if node.key.value in self.env:
            return type_of(self.env[node.key.value])
        if node.optional:
            return UNKNOWN
        raise self.fail(node, f"unknown name {node.key.value}")

    def slice(self, node: Slice) -> Type:
        base = self.visit(node.base)
        if base.is_unknown:
            return UNKNOWN
        if not base.is_array and base.name != "string":
            raise self.fail(node, f"cannot slice {base.name}")
        for end in (node.start, node.stop):
            if end is not None:
                found = self.visit(end)
                if not found.is_integer and not found.is_unknown:
                    raise self.fail(end, f"non-integer slice index {found.name}")
        return base

    # -- calls

    def call(self, node: Call) -> Type:
        callee = self.visit(node.callee)
        if callee.is_unknown:
            # As in expr-lang, the arguments of an unknown function are not checked: their errors appear when they are
            # evaluated, and an unknown name in them is nil.
            return UNKNOWN
        name = "function"
        if isinstance(node.callee, Name):
            name = node.callee.value
        elif isinstance(node.callee, Member) and isinstance(node.callee.key, String):
            name = node.callee.key.value
        if callee.known_nil:
            raise self.fail(node, f"{name} is nil; cannot call nil as function")
        if callee.function is None:
            raise self.fail(node, f"{callee.name} is not callable")
        function = callee.function
        signature = Signature(tuple(map(type_named, function.parameters)), type_named(function.result))
        self.arguments(name, signature, _ArgumentTypes(self, node.arguments), node, variadic=function.variadic)
        return signature.result

    def arguments(
        self, name: str, signature: Signature, given: _ArgumentTypes, node: Node, *, variadic: bool = False
    ) -> None:
        parameters = signature.parameters
        least = len(parameters) - variadic
        if len(given.nodes) < least or (len(given.nodes) > least and not variadic):
            given.all()
            few = len(given.nodes) < least
            raise self.fail(node, f"{'not enough' if few else 'too many'} arguments to call {name}")
        for number, argument in enumerate(given.nodes):
            wanted = parameters[min(number, len(parameters) - 1)]
            found = given.type(number)
            if found.is_unknown or (wanted.is_number and found.is_integer):
                continue
            if wanted.kind in ("interface", "ptr") if found.known_nil else found.assignable_to(wanted):
                continue
            raise self.fail(argument, f"cannot use {found.label} as argument (type {wanted.name}) to call {name}")

    def builtin(self, node: Builtin) -> Type:
        if node.name in PREDICATES:
            return self.predicate_call(node)
        if node.name == "get":
            return self.get(node)
        function = BUILTIN_FUNCTIONS[node.name]
        if function.check is not None:
            types = [self.visit(argument) for argument in node.arguments]
            try:
                return function.check(types)
            except ExpressionError as error:
                raise self.fail(node, error.message) from None
        given = _ArgumentTypes(self, node.arguments)
        *others, last = function.overloads
        for signature in others:
            try:
                self.arguments(node.name, signature, given, node)
                return signature.result
            except ExpressionError:
                given.raise_problem()
        self.arguments(node.name, last, given, node)
        return last.result

    def get(self, node: Builtin) -> Type:
        if len(node.arguments) != 2:
            raise self.fail(node, f"invalid number of arguments (expected 2, got {len(node.arguments)})")
        base, key = (self.visit(argument) for argument in node.arguments)
        if base.is_unknown:
            return UNKNOWN
        if base.is_array:
            if not key.is_integer and not key.is_unknown:
                raise self.fail(node.arguments[1], f"non-integer slice index {key.name}")
            return base.element
        if base.is_map:
            if not key.assignable_to(base.key) and not key.is_unknown:
                raise self.fail(node.arguments[1], f"cannot use {key.name} to get an element from {base.name}")
            return base.element
        raise self.fail(node.arguments[0], f"type {base.name} does not support indexing")

    def predicate_call(self, node: Builtin) -> Type:
        name, (first, *rest) = node.name, node.arguments
        collection = self.visit(first)
        if not collection.is_array and not collection.is_unknown:
            raise self.fail(first, f"builtin {name} takes only array (got {collection.name})")
        if not rest:
            return INT if name == "count" else collection.element if collection.is_array else UNKNOWN
        extra = {"map": {"index": INT}, "reduce": {"index": INT, "acc": UNKNOWN}}.get(name, {})
        self.scopes.append((collection, extra))
        result = self.visit(rest[0])
        self.scopes.pop()
        for argument in rest[1:]:
            self.visit(argument)
        try:
            return predicate_type(name, collection, result)
        except ExpressionError as error:
            raise self.fail(rest[0], error.message) from None


class _ArgumentTypes:
    """The types of arguments. Each is checked when a signature first asks for it."""

    def __init__(self, checker: _Checker, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._checker = checker
        self._types: dict[int, Type] = {}
        self._problem: ExpressionError | None = None

    def type(self, number: int) -> Type:
        if number not in self._types:
            try:
                self._types[number] = self._checker.visit(self.nodes[number])
            except ExpressionError as error:
                self._problem = error
                raise
        return self._types[number]

    def all(self) -> None:
        for number in range(len(self.nodes)):
            self.type(number)

    def raise_problem(self) -> None:
        """Raises the error of an argument that is invalid by itself: it fits no other signature either."""
        if self._problem is not None:
            raise self._problem


def _is_zero(node: Node) -> bool:
    return isinstance(node, Integer) and node.value == 0
