"""CEL (Common Expression Language), as far as rules of CustomResourceDefinitions and compiled pipelines use it.

    self.replicas <= self.maxReplicas && self.names.all(n, n.startsWith('a'))
    inputs.parameter_values['flip'] == 'heads' && !(int(inputs.parameter_values['n']) > 3)

Types are strict, as in CEL: `'1' == 1` is false, and `'1' < 2` is an error. `&&` and `||` need only one of their sides
if that decides: `false && error` is false. Users write the expressions, so evaluating one is limited in steps, and its
text in length. Regular expressions are RE2's, which are linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from muster.kube.cel_values import (
    FUNCTIONS,
    METHODS,
    CelError,
    Function,
    StepBudget,
    TooExpensive,
    UnknownFunction,
    bounded,
    combine,
    member,
    to_bool,
    to_number,
    type_name,
)

__all__ = [
    "FUNCTIONS", "CelError", "Function", "Node", "StepBudget", "TooExpensive", "UnknownFunction", "evaluate", "parse",
    "type_name",
]  # fmt: skip

MOST_STEPS = 50_000
"""Parts of an expression that are evaluated, counted again for each item that a macro looks at."""
MACROS: Final = frozenset(("all", "exists", "exists_one", "filter", "map"))
LONGEST_EXPRESSION = 10_000
"""Characters."""
DEEPEST_EXPRESSION = 100
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?u?)
    | (?P<text>[rR]?'(?:[^'\\\n]|\\.)*'|[rR]?"(?:[^"\\\n]|\\.)*")
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>==|!=|<=|>=|&&|\|\||[<>!()\[\]{}.,+\-*/%?:])
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_BINARY = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3, "+": 4, "-": 4, "*": 5, "/": 5,
    "%": 5,
}  # fmt: skip
"""How strongly operators bind."""


@dataclass(frozen=True, slots=True)
class Node:
    kind: Literal[
        "constant", "name", "member", "index", "call", "method", "macro", "has", "list", "map", "not", "negative",
        "binary", "choice",
    ]  # fmt: skip
    value: Any = None
    """The constant, or the name of a variable, member, function or operator."""
    inner: tuple[Node, ...] = ()


def parse(text: str, variables: frozenset[str], functions: Mapping[str, Function]) -> Node:
    """Parses an expression that may use these variables and functions. Raises CelError."""
    return _Parser(text, variables, functions).parse()


def evaluate(
    node: Node, variables: Mapping[str, Any], functions: Mapping[str, Function], steps: StepBudget | None = None
) -> Any:
    """Evaluates a whole expression. Raises CelError, whatever is wrong with it or with the values."""
    try:
        return _Evaluation(functions, steps or StepBudget(MOST_STEPS)).value(node, variables)
    except CelError:
        raise
    except (ValueError, OverflowError):  # infinity as an integer
        raise CelError("a number is not finite") from None
    except RecursionError:
        raise CelError("the expression, or a value in it, has too many levels") from None


class _Parser:
    def __init__(self, text: str, variables: frozenset[str], functions: Mapping[str, Function]) -> None:
        self.text = text
        self.variables = variables
        self.functions = functions
        self.depth = 0
        if len(text) > LONGEST_EXPRESSION:
            raise CelError(f"the expression has {len(text)} characters; at most {LONGEST_EXPRESSION} are allowed")
        self.tokens = list(_tokens(text))
        self.at = 0

    def parse(self) -> Node:
        found = self.expression()
        if self.peek() is not None:
            raise self.error(f"unexpected {self.tokens[self.at][1]}")
        return found

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST_EXPRESSION:
            raise self.error(f"nested more than {DEEPEST_EXPRESSION} levels deep")
        found = self.binary(1)
        if self.take("?"):
            chosen = self.expression()
            self.expect(":")
            found = Node("choice", inner=(found, chosen, self.expression()))
        self.depth -= 1
        return found

    def binary(self, level: int) -> Node:
        left = self.unary()
        while (sign := self.peek_text()) in _BINARY and _BINARY[sign] >= level:
            self.at += 1
            left = Node("binary", sign, (left, self.binary(_BINARY[sign] + 1)))
        return left

    def unary(self) -> Node:
        signs = list[str]()
        while (sign := self.peek_text()) in ("!", "-"):
            signs.append(sign)
            self.at += 1
        if len(signs) > DEEPEST_EXPRESSION:
            raise self.error(f"more than {DEEPEST_EXPRESSION} signs in a row")
        found = self.postfix(self.primary())
        for sign in reversed(signs):
            found = Node("not" if sign == "!" else "negative", inner=(found,))
        return found

    def primary(self) -> Node:
        token = self.peek()
        if token is None:
            raise self.error("the expression ends too early")
        kind, text, _ = token
        self.at += 1
        if kind == "number":
            return Node("constant", _number(text))
        if kind == "text":
            return Node("constant", text[2:-1] if text[0] in "rR" else _unescape(text[1:-1]))
        if text == "[":
            return Node("list", inner=self.arguments("]"))
        if text == "{":
            return self.map_literal()
        if text == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if kind == "name":
            return self.named(text)
        self.at -= 1
        raise self.error(f"unexpected {text!r}")

    def named(self, name: str) -> Node:
        if name in ("true", "false", "null"):
            return Node("constant", {"true": True, "false": False, "null": None}[name])
        if self.take("("):
            if name == "has":
                return self.has()
            if name not in self.functions:
                known = ", ".join(sorted(self.functions))
                raise UnknownFunction(str(self.error(f"unknown function {name}(): known are {known}")))
            return Node("call", name, self.arguments(")"))
        if name not in self.variables:
            raise self.error(f'unknown name "{name}": known are {", ".join(sorted(self.variables))}')
        return Node("name", name)

    def postfix(self, found: Node) -> Node:
        for _ in range(DEEPEST_EXPRESSION):
            if self.take("."):
                token = self.peek()
                if token is None or token[0] != "name":
                    raise self.error("expected a name after '.'")
                self.at += 1
                found = self.method(found, token[1]) if self.take("(") else Node("member", token[1], (found,))
            elif self.take("["):
                index = self.expression()
                self.expect("]")
                found = Node("index", inner=(found, index))
            else:
                return found
        raise self.error(f"more than {DEEPEST_EXPRESSION} members in a row")

    def arguments(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self.take(end):
            if found:
                self.expect(",")
                if self.take(end):
                    break
            found.append(self.expression())
        return tuple(found)

    def map_literal(self) -> Node:
        found: list[Node] = []
        while not self.take("}"):
            if found:
                self.expect(",")
                if self.take("}"):
                    break
            found.append(self.expression())
            self.expect(":")
            found.append(self.expression())
        return Node("map", inner=tuple(found))

    def has(self) -> Node:
        argument = self.expression()
        self.expect(")")
        if argument.kind != "member":
            raise self.error("has() takes a field, such as has(self.name)")
        return Node("has", argument.value, argument.inner)

    def method(self, target: Node, name: str) -> Node:
        if name not in MACROS:
            if name not in METHODS:
                raise UnknownFunction(str(self.error(f"unknown function {name}()")))
            return Node("method", name, (target, *self.arguments(")")))
        token = self.peek()
        if token is None or token[0] != "name":
            raise self.error(f"{name}() begins with the name of a variable")
        self.at += 1
        before = self.variables
        self.variables = before | {token[1]}
        self.expect(",")
        parts = [self.expression()]
        if name == "map" and self.take(","):
            parts.append(self.expression())
        self.expect(")")
        self.variables = before
        return Node("macro", (name, token[1]), (target, *parts))

    def peek(self) -> tuple[str, str, int] | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def peek_text(self) -> str:
        token = self.peek()
        return token[1] if token is not None and token[0] != "text" else ""

    def take(self, sign: str) -> bool:
        token = self.peek()
        if token is None or token[0] != "sign" or token[1] != sign:
            return False
        self.at += 1
        return True

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise self.error(f"expected '{sign}'")

    def error(self, message: str) -> CelError:
        token = self.peek()
        at = token[2] if token is not None else len(self.text)
        return CelError(f"{message} (character {at + 1} of {self.text[:200]})")


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise CelError(f"unexpected {text[at : at + 10].strip()!r} (character {at + 1} of {text[:200]})")
        kind = str(found.lastgroup)
        yield kind, found[kind], found.start(kind)
        at = found.end()


def _number(text: str) -> int | float:
    text = text.removesuffix("u")
    return bounded(int(text)) if text.isdecimal() and len(text) < 100 else float(text)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def replaced(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code:
            number = int(code, 16)
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                raise CelError(f"\\{found[0][1:]} is not a character")
            return chr(number)
        return _ESCAPED.get(found[4], found[4])

    return _ESCAPE.sub(replaced, text)


class _Evaluation:
    def __init__(self, functions: Mapping[str, Function], steps: StepBudget) -> None:
        self.functions = functions
        self.steps = steps

    def value(self, node: Node, variables: Mapping[str, Any]) -> Any:
        self.steps.take()
        inner = node.inner
        match node.kind:
            case "constant":
                return node.value
            case "name":
                return variables[node.value]
            case "member":
                return member(self.value(inner[0], variables), field_name(node.value))
            case "has":
                return self.has(self.value(inner[0], variables), field_name(node.value))
            case "index":
                return member(self.value(inner[0], variables), self.value(inner[1], variables))
            case "list":
                return [self.value(item, variables) for item in inner]
            case "map":
                values = [self.value(item, variables) for item in inner]
                if any(isinstance(key, list | dict) for key in values[::2]):
                    raise CelError("the keys of an object are strings, numbers or booleans")
                return dict(zip(values[::2], values[1::2], strict=True))
            case "call":
                return self.call(node.value, self.functions[node.value], [self.value(a, variables) for a in inner])
            case "method":
                return self.call(node.value, METHODS[node.value], [self.value(a, variables) for a in inner])
            case "macro":
                return self.macro(node, variables)
            case "not":
                return not to_bool(self.value(inner[0], variables), "!")
            case "negative":
                return -to_number(self.value(inner[0], variables), "-")
            case "choice":
                chosen = to_bool(self.value(inner[0], variables), "?")
                return self.value(inner[1 if chosen else 2], variables)
            case _:
                if node.value in ("&&", "||"):
                    return self.logical(node, variables)
                left, right = (self.value(part, variables) for part in inner)
                self.steps.take(_size(left) + _size(right))
                return combine(node.value, left, right, self.steps)

    def call(self, name: str, function: Function, arguments: list[Any]) -> Any:
        self.steps.take(sum(map(_size, arguments)))
        try:
            return function(*arguments)
        except CelError:
            raise
        except (TypeError, ValueError, OverflowError, AttributeError, RecursionError):
            shown = ", ".join(type_name(argument) for argument in arguments)
            raise CelError(f"{name}() cannot be called with {shown}") from None

    def has(self, value: Any, name: str) -> bool:
        if not isinstance(value, dict):
            raise CelError(f"has() needs an object, not {type_name(value)}")
        return name in value

    def logical(self, node: Node, variables: Mapping[str, Any]) -> bool:
        """One side that decides is enough, whichever it is."""
        tests = (lambda inner=inner: self.value(inner, variables) for inner in node.inner)
        return _decide(tests, node.value, decides=node.value == "||")

    def macro(self, node: Node, variables: Mapping[str, Any]) -> Any:
        (name, variable), (target, *parts) = node.value, node.inner
        items = self.value(target, variables)
        if not isinstance(items, list | dict):
            raise CelError(f"{name}() needs a list or an object, not {type_name(items)}")

        def of(part: Node, item: Any) -> Any:
            return self.value(part, {**variables, variable: item})

        if name in ("all", "exists"):
            tests = (lambda item=item: of(parts[0], item) for item in items)
            return _decide(tests, f"{name}()", decides=name == "exists")
        if name == "map":
            chosen = [i for i in items if to_bool(of(parts[0], i), "map()")] if len(parts) == 2 else items
            return [of(parts[-1], item) for item in chosen]
        kept = [item for item in items if to_bool(of(parts[0], item), f"{name}()")]
        return kept if name == "filter" else len(kept) == 1


def _decide(tests: Iterator[Callable[[], Any]], sign: str, *, decides: bool) -> bool:
    """Returns `decides` if one of the tests has that result, even if others fail."""
    problem: CelError | None = None
    for test in tests:
        try:
            if to_bool(test(), sign) is decides:
                return decides
        except TooExpensive:
            raise
        except CelError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return not decides


_ESCAPES: Final = {"__dot__": ".", "__dash__": "-", "__slash__": "/", "__underscores__": "__"}


def field_name(written: str) -> str:
    """Returns the field that a rule means: names that are no identifiers are escaped, and reserved words, too."""
    if "__" not in written:
        return written
    if len(written) > 4 and written.startswith("__") and written.endswith("__") and written not in _ESCAPES:
        return written[2:-2]
    return re.sub("|".join(_ESCAPES), lambda found: _ESCAPES[found[0]], written)


def _size(value: Any) -> int:
    """What it costs to look at a value as a whole, beyond one step."""
    return len(value) // 64 if isinstance(value, str) else len(value) if isinstance(value, list | dict) else 0
