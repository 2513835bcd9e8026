"""Reads jq filters: a text becomes a tree of plain nodes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias


class JqError(ValueError):
    """The filter cannot be read, or does not fit what it is given."""


class UnknownFunction(JqError):
    """Not what `?` is for: the filter asks for something that is not there."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Text:
    """A string with `\\(...)` in it, behind an optional format."""

    parts: tuple[Any, ...]
    format: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """`.a`, `.[0]`, `.["a"]`: one value of another. `key` is looked up on the whole input."""

    of: Any
    key: Any


@dataclass(frozen=True, slots=True)
class Each:
    of: Any


@dataclass(frozen=True, slots=True)
class Slice:
    of: Any
    start: Any
    end: Any


@dataclass(frozen=True, slots=True)
class Try:
    body: Any
    otherwise: Any = None


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class Negative:
    of: Any


@dataclass(frozen=True, slots=True)
class Bind:
    source: Any
    name: str
    body: Any


@dataclass(frozen=True, slots=True)
class Fold:
    """`reduce SOURCE as $name (START; UPDATE)`"""

    source: Any
    name: str
    start: Any
    update: Any


@dataclass(frozen=True, slots=True)
class If:
    condition: Any
    then: Any
    otherwise: Any


@dataclass(frozen=True, slots=True)
class Array:
    items: Any


@dataclass(frozen=True, slots=True)
class Object:
    pairs: tuple[tuple[Any, Any], ...]


Filter: TypeAlias = (
    Literal
    | Text
    | Variable
    | Call
    | Field
    | Each
    | Slice
    | Try
    | Binary
    | Negative
    | Bind
    | Fold
    | If
    | Array
    | Object
)
IDENTITY = Call(".")

_TOKEN = re.compile(
    r"""(?>(?:\s|\#[^\n]*)*)(?:
        (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<string>")
      | (?P<field>\.[A-Za-z_]\w*)
      | (?P<variable>\$[A-Za-z_]\w*)
      | (?P<format>@[a-z0-9]+)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<symbol>\?//|//|==|!=|<=|>=|\.\.|[.\[\]{}()|,:;=<>+*/%?-])
    )""",
    re.VERBOSE,
)
_PRECEDENCE = (("//",), ("or",), ("and",), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))
_DEEPEST = 40


def parse(text: str) -> Filter:
    parser = _Parser(text)
    found = parser.pipe() if parser.kind else IDENTITY
    if parser.kind:
        parser.fail("the end")
    return found


class _Parser:
    def __init__(self, text: str, at: int = 0, depth: int = 0) -> None:
        self.text = text
        self.end = at
        self.depth = depth
        self.advance()

    def advance(self) -> str:
        """Takes the token that was next."""
        token = getattr(self, "next", "")
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            rest = self.text[self.end :].strip()
            if rest and not rest.startswith("#"):
                raise JqError(f'"{self.text}": "{rest[:10]}" at position {self.end + 1} is not jq')
            self.kind = self.next = ""
            self.at = len(self.text)
            return token
        self.kind = str(match.lastgroup)
        self.next = match[self.kind]
        self.at = match.start(self.kind)
        self.end = match.end()
        return token

    def fail(self, expected: str) -> NoReturn:
        found = f'"{self.next}" at position {self.at + 1}' if self.kind else "the end"
        hint = " (definitions of functions are not read here)" if self.next == "def" else ""
        raise JqError(f'"{self.text}": found {found}, expected {expected}{hint}')

    def take(self, token: str) -> bool:
        if self.kind not in ("symbol", "word") or self.next != token:
            return False
        self.advance()
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            self.fail(f'"{token}"')

    def pipe(self, *, comma: bool = True) -> Filter:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise JqError(f'"{self.text}" is nested too deeply')
        left = self.comma() if comma else self.operation(0)
        if self.kind == "word" and self.next == "as":
            self.advance()
            name = self.variable()
            self.expect("|")
            left = Bind(left, name, self.pipe(comma=comma))
        elif self.take("|"):
            left = Binary("|", left, self.pipe(comma=comma))
        self.depth -= 1
        return left

    def comma(self) -> Filter:
        left = self.operation(0)
        while self.take(","):
            left = Binary(",", left, self.operation(0))
        return left

    def operation(self, level: int) -> Filter:
        if level == len(_PRECEDENCE):
            return self.postfix()
        left = self.operation(level + 1)
        while self.kind in ("symbol", "word") and self.next in _PRECEDENCE[level]:
            operator = self.advance()
            # `//` binds to the right
            left = Binary(operator, left, self.operation(level if operator == "//" else level + 1))
        return left

    def variable(self) -> str:
        if self.kind != "variable":
            self.fail("a $variable")
        return self.advance()[1:]

    def postfix(self) -> Filter:
        if self.take("-"):
            return Negative(self.postfix())
        found = self.term()
        while True:
            if self.kind == "field":
                found = Field(found, Literal(self.advance()[1:]))
            elif self.kind == "symbol" and self.next == "." and self.text[self.end : self.end + 1] in ('"', "["):
                self.advance()
                if self.kind == "string":
                    found = Field(found, self.string())
            elif self.take("["):
                found = self.bracket(found)
            elif self.take("?"):
                found = Try(found)
            else:
                return found

    def bracket(self, found: Filter) -> Filter:
        if self.take("]"):
            return Each(found)
        if self.take(":"):
            last = self.pipe()
            self.expect("]")
            return Slice(found, None, last)
        key = self.pipe()
        if self.take(":"):
            end = None if self.next == "]" and self.kind == "symbol" else self.pipe()
            self.expect("]")
            return Slice(found, key, end)
        self.expect("]")
        return Field(found, key)

    def term(self) -> Filter:
        match self.kind:
            case "number":
                return Literal(_number(self.advance()))
            case "string":
                return self.string()
            case "field":
                return Field(IDENTITY, Literal(self.advance()[1:]))
            case "variable":
                return Variable(self.advance()[1:])
            case "format":
                return self.formatted(self.advance()[1:])
            case "word":
                return self.word()
        if self.take(".."):
            return Call("recurse")
        if self.take("."):
            return Field(IDENTITY, self.string()) if self.kind == "string" else IDENTITY
        if self.take("("):
            found = self.pipe()
            self.expect(")")
            return found
        if self.take("["):
            items = None if self.next == "]" and self.kind == "symbol" else self.pipe()
            self.expect("]")
            return Array(items)
        if self.take("{"):
            return self.object()
        return self.fail("a filter")

    def formatted(self, name: str) -> Filter:
        return self.string(name) if self.kind == "string" else Text((IDENTITY,), name)

    def word(self) -> Filter:
        name = self.next
        if name in ("def", "foreach", "and", "or", "as", "then", "elif", "else", "end", "catch"):
            self.fail("a filter")
        self.advance()
        if name == "if":
            return self.conditional()
        if name == "try":
            body = self.postfix()
            return Try(body, self.postfix() if self.take("catch") else None)
        if name == "reduce":
            return self.fold()
        if name in ("true", "false", "null"):
            return Literal({"true": True, "false": False, "null": None}[name])
        arguments = []
        if self.take("("):
            arguments.append(self.pipe())
            while self.take(";"):
                arguments.append(self.pipe())
            self.expect(")")
        return Call(name, tuple(arguments))

    def conditional(self) -> Filter:
        condition = self.pipe()
        self.expect("then")
        then = self.pipe()
        if self.take("elif"):
            return If(condition, then, self.conditional())
        otherwise = self.pipe() if self.take("else") else IDENTITY
        self.expect("end")
        return If(condition, then, otherwise)

    def fold(self) -> Filter:
        source = self.postfix()
        self.expect("as")
        name = self.variable()
        self.expect("(")
        start = self.pipe()
        self.expect(";")
        update = self.pipe()
        self.expect(")")
        return Fold(source, name, start, update)

    def object(self) -> Filter:
        pairs: list[tuple[Any, Any]] = []
        while not self.take("}"):
            if pairs:
                self.expect(",")
            pairs.append(self.pair())
        return Object(tuple(pairs))

    def pair(self) -> tuple[Any, Any]:
        key: Filter
        if self.kind == "variable":
            name = self.advance()[1:]
            return Literal(name), Variable(name)
        if self.take("("):
            key = self.pipe()
            self.expect(")")
        elif self.kind == "string":
            key = self.string()
        elif self.kind == "word":
            key = Literal(self.advance())
        else:
            self.fail("a key")
        if not self.take(":"):
            return key, Field(IDENTITY, key)
        return key, self.pipe(comma=False)

    def string(self, format: str = "") -> Filter:
        """From behind its first quote."""
        parts: list[Any] = []
        at = self.end
        plain = at
        while at < len(self.text) and self.text[at] != '"':
            if self.text.startswith("\\(", at):
                parts.append(Literal(self.unescaped(plain, at)))
                inner = _Parser(self.text, at + 2, self.depth)
                parts.append(inner.pipe())
                if inner.next != ")":
                    inner.fail('")"')
                at = plain = inner.end
            else:
                at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise JqError(f'"{self.text}": a string has no end')
        parts.append(Literal(self.unescaped(plain, at)))
        self.end = at + 1
        self.advance()
        return parts[0] if len(parts) == 1 else Text(tuple(parts), format)

    def unescaped(self, start: int, end: int) -> str:
        try:
            return str(json.loads(f'"{self.text[start:end]}"', strict=False))
        except ValueError:
            raise JqError(f'"{self.text}": bad escape in a string') from None


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)
