"""The part of CEL (Common Expression Language) that compiled pipelines use: conditions and selectors.

    inputs.parameter_values['pipelinechannel--flip-Output'] == 'heads' && !(int(inputs.parameter_values['n']) > 3)
    parseJson(string_value)["name"]

Types are strict, as in CEL: `'1' == 1` is false, and `'1' < 2` is an error. `&&` and `||` need only one of their sides
if that decides: `false && error` is false. There are no macros and no loops, so the work is bounded by the text, which
has a limit, and by the values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from muster.pipelines.values import to_text, whole_numbers
from muster.workflows.lang.limits import count_text

LONGEST_EXPRESSION = 10_000
"""Characters."""
DEEPEST_EXPRESSION = 100
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?u?)
    | (?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>==|!=|<=|>=|&&|\|\||[<>!()\[\].,+\-*/%?:])
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
_FUNCTIONS = frozenset(("int", "double", "string", "bool", "size", "parseJson"))


class CelError(ValueError):
    """An expression cannot be parsed or evaluated."""


@dataclass(frozen=True, slots=True)
class Node:
    kind: Literal["constant", "name", "member", "index", "call", "not", "negative", "binary", "choice"]
    value: Any = None
    """The constant, or the name of a variable, member, function or operator."""
    inner: tuple[Node, ...] = ()


@lru_cache(maxsize=4096)
def parse_condition(text: str) -> Node:
    """Parses the condition of a task. Raises CelError."""
    return _Parser(text, frozenset(("inputs",))).parse()


@lru_cache(maxsize=4096)
def parse_selector(text: str) -> Node:
    """Parses the `parameterExpressionSelector` of an input. Raises CelError."""
    return _Parser(text, frozenset(("string_value", "struct_value", "list_value"))).parse()


def evaluate_condition(text: str, parameters: Mapping[str, Any]) -> bool:
    """Returns whether a task runs, given the values of its inputs. Raises CelError."""
    values = dict(parameters)
    result = _result(parse_condition(text), {"inputs": {"parameter_values": values, "parameters": values}})
    if not isinstance(result, bool):
        raise CelError(f"the condition {text} is {_type_name(result)}, but has to be true or false")
    return result


def select(text: str, value: Any) -> Any:
    """Returns the part of a value that a selector names. Raises CelError."""
    variables = {"string_value": to_text(value), "struct_value": value, "list_value": value}
    return whole_numbers(_result(parse_selector(text), variables))


class _Parser:
    def __init__(self, text: str, variables: frozenset[str]) -> None:
        self.text = text
        self.variables = variables
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
            return Node("constant", _unescape(text[1:-1]))
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
            if name not in _FUNCTIONS:
                raise self.error(f"unknown function {name}(): known are {', '.join(sorted(_FUNCTIONS))}")
            argument = self.expression()
            self.expect(")")
            return Node("call", name, (argument,))
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
                found = Node("member", token[1], (found,))
            elif self.take("["):
                index = self.expression()
                self.expect("]")
                found = Node("index", inner=(found, index))
            else:
                return found
        raise self.error(f"more than {DEEPEST_EXPRESSION} members in a row")

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


def _tokens(text: str) -> Any:
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
    return _bounded(int(text)) if text.isdecimal() and len(text) < 100 else float(text)


def _bounded(number: int | float) -> int | float:
    """Integers of CEL have 64 bits."""
    if isinstance(number, int) and not -(2**63) <= number < 2**64:
        raise CelError("integer overflow")
    return number


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


def _result(node: Node, variables: Mapping[str, Any]) -> Any:
    """Evaluates a whole expression. Raises CelError, whatever is wrong with it or with the values."""
    try:
        return _evaluate(node, variables)
    except CelError:
        raise
    except (ValueError, OverflowError):  # infinity as an integer
        raise CelError("a number is not finite") from None
    except RecursionError:
        raise CelError("the expression, or a value in it, has too many levels") from None


def _evaluate(node: Node, variables: Mapping[str, Any]) -> Any:
    match node.kind:
        case "constant":
            return node.value
        case "name":
            return variables[node.value]
        case "member":
            return _member(_evaluate(node.inner[0], variables), node.value)
        case "index":
            return _member(_evaluate(node.inner[0], variables), _evaluate(node.inner[1], variables))
        case "call":
            return _call(node.value, _evaluate(node.inner[0], variables))
        case "not":
            return not _bool(_evaluate(node.inner[0], variables), "!")
        case "negative":
            return -_numeric(_evaluate(node.inner[0], variables), "-")
        case "choice":
            chosen = _bool(_evaluate(node.inner[0], variables), "?")
            return _evaluate(node.inner[1 if chosen else 2], variables)
        case _:
            if node.value in ("&&", "||"):
                return _logical(node, variables)
            left, right = (_evaluate(inner, variables) for inner in node.inner)
            return _binary(node.value, left, right)


def _logical(node: Node, variables: Mapping[str, Any]) -> bool:
    """One side that decides is enough, whichever it is."""
    decides = node.value == "||"
    problem: CelError | None = None
    for inner in node.inner:
        try:
            if _bool(_evaluate(inner, variables), node.value) is decides:
                return decides
        except CelError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return not decides


def _binary(sign: str, left: Any, right: Any) -> Any:
    if sign in ("==", "!="):
        return _equal(left, right) is (sign == "==")
    if sign == "in":
        if isinstance(right, list):
            return any(_equal(left, item) for item in right)
        if isinstance(right, dict):
            return left in right if isinstance(left, str) else False
        raise CelError(f"'in' needs a list or an object on its right side, not {_type_name(right)}")
    if sign in ("<", "<=", ">", ">="):
        return _compare(sign, left, right)
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        count_text(len(left) + len(right))
        return left + right
    a, b = _numeric(left, sign), _numeric(right, sign)
    if sign in ("/", "%") and not b:
        raise CelError("division by zero")
    match sign:
        case "+":
            return _bounded(a + b)
        case "-":
            return _bounded(a - b)
        case "*":
            return _bounded(a * b)
        case "%":
            return int(abs(a) % abs(b)) * (1 if a >= 0 else -1)
        case _:
            return int(a / b) if isinstance(a, int) and isinstance(b, int) else a / b


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    return bool(left == right)


def _compare(sign: str, left: Any, right: Any) -> bool:
    texts = isinstance(left, str) and isinstance(right, str)
    flags = isinstance(left, bool) and isinstance(right, bool)
    if not (texts or flags or (_is_number(left) and _is_number(right))):
        raise CelError(f"{_type_name(left)} and {_type_name(right)} cannot be compared with {sign}")
    match sign:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


def _member(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(key, str) and key in value:
            return value[key]
        raise CelError(f"no such key: {key!r}")
    if isinstance(value, list):
        if not _is_number(key) or key != int(key):
            raise CelError(f"a list has no item {key!r}")
        if 0 <= key < len(value):
            return value[int(key)]
        raise CelError(f"index {int(key)} is out of bounds: the list has {len(value)} items")
    raise CelError(f"{_type_name(value)} has no member {key!r}")


def _call(name: str, value: Any) -> Any:
    try:
        match name:
            case "int":
                if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 100:
                    raise CelError(f"int() cannot convert {_type_name(value)}")
                return _bounded(int(value))
            case "double":
                if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 100:
                    raise CelError(f"double() cannot convert {_type_name(value)}")
                return float(value)
            case "string":
                return to_text(value)
            case "bool":
                if isinstance(value, bool):
                    return value
                if isinstance(value, str) and value.lower() in ("true", "false", "t", "f", "1", "0"):
                    return value.lower() in ("true", "t", "1")
                raise CelError(f"bool() cannot convert {_type_name(value)}")
            case "size":
                if isinstance(value, str | list | dict):
                    return len(value)
                raise CelError(f"size() cannot measure {_type_name(value)}")
            case _:
                return json.loads(value) if isinstance(value, str) else value
    except (ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, CelError):
            raise
        raise CelError(f"{name}() cannot convert {str(value)[:100]!r}") from None


def _bool(value: Any, sign: str) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{sign} needs true or false, not {_type_name(value)}")
    return value


def _numeric(value: Any, sign: str) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise CelError(f"{sign} needs a number, not {_type_name(value)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")
