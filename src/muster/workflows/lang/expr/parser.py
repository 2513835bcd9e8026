"""The parser of expr-lang: text to tokens to a syntax tree, by operator precedence."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple, NoReturn, TypeAlias

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.syntax import (
    BINARY,
    BUILTINS,
    OPTIONAL,
    PREDICATE,
    PREDICATES,
    UNARY,
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
    children,
)
from muster.workflows.lang.go_strings import is_letter, is_space, is_word, quote_string
from muster.workflows.lang.limits import MAX_DEPTH, MAX_NODES, MAX_TEXT, cache_short_texts

# The lexer of expr-lang: text to tokens.


Kind: TypeAlias = Literal["Identifier", "Number", "String", "Operator", "Bracket", "EOF"]

_WORD_OPERATORS = frozenset(
    ("not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else")
)
_DIGITS = "0123456789"
_OCTAL = "01234567"
_HEX = "0123456789abcdefABCDEF"
_RADIX = {"x": _HEX, "X": _HEX, "o": _OCTAL, "O": _OCTAL, "b": "01", "B": "01"}
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


class Token(NamedTuple):
    kind: Kind
    value: str
    at: int
    """Where the token starts, in characters."""

    def __str__(self) -> str:
        return self.kind if self.kind == "EOF" else f"{self.kind}({quote_string(self.value)})"


def tokenize(text: str) -> Iterator[Token]:
    """Returns the tokens of an expression, with an EOF at the end. Raises ExpressionError where there is no token."""
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        if is_space(char):
            at += 1
            continue
        if text.startswith(("//", "/*"), at):
            at = _skip_comment(text, at)
            continue
        token, at = _read_token(text, at)
        yield token
        if token.value in ("#", "##") and token.kind == "Operator":
            word = _read_word(text, at)
            if word:
                yield Token("Identifier", word, at)
                at += len(word)
    yield Token("EOF", "", max(end - 1, 0))


def _read_token(text: str, at: int) -> tuple[Token, int]:
    char = text[at]
    following = text[at + 1 : at + 2]
    if char in ("'", '"'):
        value, end = _read_string(text, at)
        return Token("String", value, at), end
    if char == "`":
        value, end = _read_raw_string(text, at)
        return Token("String", value, at), end
    if char in _DIGITS or (char == "." and following in tuple(_DIGITS)):
        end = _find_number_end(text, at)
        return Token("Number", text[at:end], at), end
    if char in "([{)]}":
        return Token("Bracket", char, at), at + 1
    double = {"|": "|", ":": ":", "?": ".?", "#": "#", ".": "."}.get(char, "&=*" if char in "&!=*<>" else "")
    if double or char in ",;%+-^/":
        end = at + (2 if following and following in double else 1)
        return Token("Operator", text[at:end], at), end
    word = _read_word(text, at)
    if word:
        return Token("Operator" if word in _WORD_OPERATORS else "Identifier", word, at), at + len(word)
    raise ExpressionError(f"unrecognized character: U+{ord(char):04X} '{char}'", text, at)


def _read_word(text: str, at: int) -> str:
    end = at
    while end < len(text) and is_word(text[end]):
        end += 1
    return text[at:end]


def _skip_comment(text: str, at: int) -> int:
    if text[at + 1] == "/":
        end = text.find("\n", at)
        return len(text) if end < 0 else end + 1
    end = text.find("*/", at + 2)
    if end < 0:
        raise ExpressionError("unclosed comment", text, len(text))
    return end + 2


def _find_number_end(text: str, at: int) -> int:
    end = at + (text[at] == ".")
    digits = _DIGITS
    if text[end] == "0":
        end += 1
        if text[end : end + 1] in tuple(_RADIX):
            digits = _RADIX[text[end]]
            end += 1
    end = _skip_run(text, end, digits + "_")
    if text[end : end + 1] == ".":
        if text[end + 1 : end + 2] == ".":
            return end
        end = _skip_run(text, end + 1, digits + "_")
    if text[end : end + 1] in ("e", "E"):
        end += 1
        if text[end : end + 1] in ("+", "-"):
            end += 1
        end = _skip_run(text, end, digits + "_")
    if end < len(text) and is_word(text[end]):
        raise ExpressionError(f"bad number syntax: {quote_string(text[at : end + 1])}", text, end)
    return end


def _skip_run(text: str, at: int, allowed: str) -> int:
    while at < len(text) and text[at] in allowed:
        at += 1
    return at


def _read_raw_string(text: str, at: int) -> tuple[str, int]:
    """Reads a `raw string`, in which two backticks mean one."""
    parts: list[str] = []
    start = at + 1
    while True:
        end = text.find("`", start)
        if end < 0:
            raise ExpressionError("literal not terminated", text, len(text))
        parts.append(text[start:end])
        if text[end + 1 : end + 2] != "`":
            return "`".join(parts), end + 1
        start = end + 2


def _read_string(text: str, at: int) -> tuple[str, int]:
    quote = text[at]
    out: list[str] = []
    here = at + 1
    while True:
        char = text[here : here + 1]
        if char in ("", "\n"):
            raise ExpressionError("literal not terminated", text, here)
        here += 1
        if char == quote:
            return "".join(out), here
        if char == "\\":
            value, here = _read_escape(text, here, quote)
            out.append(value)
        elif char == "\r":
            if text[here : here + 1] != "\n":
                out.append("\n")
        else:
            out.append(char)


def _read_escape(text: str, at: int, quote: str) -> tuple[str, int]:
    """Reads the rest of an escape; `at` is the position after the backslash."""
    char = text[at : at + 1]
    if char == quote:
        return quote, at + 1
    if char in _ESCAPES:
        return _ESCAPES[char], at + 1
    if char == "u" and text[at + 1 : at + 2] == "{":
        return _read_code_point(text, at + 2, text.find("}", at), most=6)
    if char in _HEX_ESCAPES:
        value, end = _read_code_point(text, at + 1, at + 1 + _HEX_ESCAPES[char], most=8)
        return value, end - 1
    octal = text[at : at + 3]
    if len(octal) == 3 and octal[0] in "0123" and all(c in _OCTAL for c in octal):
        return chr(int(octal, 8)), at + 3
    raise ExpressionError("invalid char escape", text, at)


def _read_code_point(text: str, start: int, end: int, most: int) -> tuple[str, int]:
    digits = text[start:end] if end >= start else ""
    if not 1 <= len(digits) <= most or any(c not in _HEX for c in digits) or len(digits) != end - start:
        raise ExpressionError("invalid char escape", text, start)
    code = int(digits, 16)
    if code > 0x10FFFF:
        raise ExpressionError("unable to unescape string", text, start)
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code), end + 1


_COMPARISONS = ("<", ">", ">=", "<=")
_NEGATABLE = ("contains", "matches", "startsWith", "endsWith", "in")
_MAX_INT64 = 2**63 - 1


def parse(text: str, overridden: Collection[str] = ()) -> Node:
    """Returns the syntax tree of an expression. Raises ExpressionError.

    A call of a name in `overridden`, the names of the environment, does not mean the language's function of that name.
    """
    return _parse(text, frozenset(overridden) & BUILTINS)


@cache_short_texts(2048)
def _parse(text: str, overridden: frozenset[str]) -> Node:
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"an expression of {len(text)} characters is too long (at most {MAX_TEXT})")
    return _Parser(text, overridden).whole()


class _Parser:
    def __init__(self, text: str, overridden: frozenset[str]) -> None:
        self.text = text
        self.overridden = overridden
        self.tokens = tokenize(text)
        self.current = next(self.tokens)
        self.predicates = 0
        self.nodes = 0
        self.depth = 0

    def whole(self) -> Node:
        node = self.sequence()
        if self.current.kind != "EOF":
            self.unexpected("an operator or the end")
        self.check_depth(node)
        return node

    def check_depth(self, tree: Node) -> None:
        """Raises ExpressionError if the tree is too deep: pipes nest their first arguments without nesting the text.

        The left-hand sides of operators do not count, since they are evaluated in a loop.
        """
        waiting = [(tree, 0)]
        while waiting:
            node, depth = waiting.pop()
            if depth > 2 * MAX_DEPTH:
                raise ExpressionError(f"expression is nested more than {2 * MAX_DEPTH} levels deep", self.text, node.at)
            if isinstance(node, Binary):
                waiting += [(node.left, depth), (node.right, depth + 1)]
            else:
                waiting.extend((child, depth + 1) for child in children(node))

    # -- tokens

    def advance(self) -> Token:
        token = self.current
        if token.kind == "EOF":
            self.fail("unexpected end of expression")
        self.current = next(self.tokens)
        return token

    def at(self, kind: Kind, value: str) -> bool:
        return self.current.kind == kind and self.current.value == value

    def expect(self, kind: Kind, value: str = "") -> Token:
        if self.current.kind != kind or (value and self.current.value != value):
            self.unexpected(f"'{value}'" if value else "a name")
        return self.advance()

    def ends(self, bracket: str) -> bool:
        """Reads the comma between two elements. Returns whether the closing bracket follows."""
        if not self.at("Operator", ","):
            self.unexpected(f"',' or '{bracket}'")
        self.advance()
        return self.at("Bracket", bracket)

    def unexpected(self, expected: str) -> NoReturn:
        self.fail(f"unexpected token {self.current}, expected {expected}")

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        raise ExpressionError(message, self.text, (token or self.current).at)

    def count(self) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.fail("compilation failed: expression exceeds maximum allowed nodes")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"expression is nested more than {MAX_DEPTH} levels deep")

    # -- expressions, from the loosest binding to the tightest

    def sequence(self) -> Node:
        first = self.expression()
        steps = [first]
        while self.at("Operator", ";"):
            self.advance()
            if self.current.kind == "EOF":
                break
            steps.append(self.expression())
        return first if len(steps) == 1 else Sequence(tuple(steps), first.at)

    def expression(self, precedence: int = 0) -> Node:
        self.deeper()
        self.count()
        if precedence == 0 and self.at("Operator", "let"):
            node = self.declaration()
        elif precedence == 0 and self.at("Operator", "if"):
            node = self.choice()
        else:
            node = self.operation(precedence)
            if precedence == 0:
                node = self.ternary(node)
        self.depth -= 1
        return node

    def operation(self, precedence: int) -> Node:
        left = self.primary()
        previous = ""
        while self.current.kind == "Operator":
            operator = self.current
            negated = operator.value == "not"
            if negated:
                if BINARY["in"] < precedence:
                    break
                self.advance()
                operator = self.current
                if operator.value not in _NEGATABLE:
                    self.unexpected("'in', 'matches', 'contains', 'startsWith' or 'endsWith'")
            binding = BINARY.get(operator.value, -1)
            if binding < precedence:
                break
            self.count()
            self.advance()
            if operator.value == "|":
                left = self.call(self.expect("Identifier"), (left,))
            elif previous == "??" and operator.value != "??":
                self.fail(
                    f"Operator ({operator.value}) and coalesce expressions (??) cannot be mixed. "
                    "Wrap either by parentheses.",
                    operator,
                )
            elif operator.value in _COMPARISONS:
                left = self.comparison(left, operator, binding)
            else:
                right = self.expression(binding if operator.value in ("**", "^") else binding + 1)
                left = Binary(operator.value, left, right, operator.at)
                if negated:
                    left = Unary("not", left, operator.at)
            previous = operator.value
        return left

    def comparison(self, left: Node, operator: Token, binding: int) -> Node:
        """Parses `1 < x <= 5`, which means `1 < x && x <= 5`."""
        whole: Node | None = None
        while True:
            right = self.expression(binding + 1)
            part = Binary(operator.value, left, right, operator.at)
            whole = part if whole is None else Binary("&&", whole, part, operator.at)
            if self.current.kind != "Operator" or self.current.value not in _COMPARISONS:
                return whole
            left, operator = right, self.advance()

    def declaration(self) -> Node:
        self.advance()
        name = self.expect("Identifier")
        self.expect("Operator", "=")
        value = self.expression()
        self.expect("Operator", ";")
        return Let(name.value, value, self.sequence(), name.at)

    def choice(self) -> Node:
        start = self.advance()
        condition = self.expression()
        then = self.block()
        self.expect("Operator", "else")
        if self.at("Operator", "if"):
            self.deeper()
            otherwise = self.choice()
            self.depth -= 1
        else:
            otherwise = self.block()
        return Conditional(condition, then, otherwise, start.at)

    def block(self) -> Node:
        self.expect("Bracket", "{")
        body = self.sequence()
        self.expect("Bracket", "}")
        return body

    def ternary(self, node: Node) -> Node:
        while self.at("Operator", "?"):
            self.advance()
            if self.at("Operator", ":"):
                self.advance()
                then = node
            else:
                then = self.expression()
                self.expect("Operator", ":")
            node = Conditional(node, then, self.expression(), node.at)
        return node

    # -- operands

    def primary(self) -> Node:
        token = self.current
        if token.kind == "Operator" and token.value in UNARY:
            self.advance()
            operand = self.expression(UNARY[token.value])
            return self.postfix(Unary(token.value, operand, token.at))
        if self.at("Bracket", "("):
            self.advance()
            inner = self.sequence()
            self.expect("Bracket", ")")
            return self.postfix(inner)
        if self.predicates and token.kind == "Operator" and token.value in ("#", "."):
            name = ""
            if token.value == "#":
                self.advance()
                if self.current.kind == "Identifier":
                    name = self.advance().value
            return self.postfix(Pointer(name, token.at))
        if self.at("Operator", "::"):
            self.advance()
            return self.postfix(self.call(self.expect("Identifier"), (), overridable=False))
        return self.literal()

    def literal(self) -> Node:
        token = self.current
        match token.kind:
            case "Identifier":
                self.advance()
                if token.value in ("true", "false"):
                    return Boolean(token.value == "true", token.at)
                if token.value == "nil":
                    return Nil(token.at)
                called = self.at("Bracket", "(")
                return self.postfix(self.call(token, ()) if called else Name(token.value, token.at))
            case "Number":
                self.advance()
                return self.number(token)
            case "String":
                self.advance()
                return self.postfix(String(token.value, token.at))
            case "Bracket" if token.value == "[":
                return self.postfix(self.array())
            case "Bracket" if token.value == "{":
                return self.postfix(self.map())
            case _:
                return self.unexpected("a value")

    def number(self, token: Token) -> Node:
        digits = token.value.replace("_", "").lower()
        radix = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 10)
        if radix != 16 and ("." in digits or "e" in digits):
            try:
                return Float(float(digits), token.at)
            except ValueError:
                self.fail(f'invalid float literal: strconv.ParseFloat: parsing "{digits}": invalid syntax')
        kind = {16: "hex", 2: "binary", 8: "octal", 10: "integer"}[radix]
        try:
            value = int(digits if radix == 10 else digits[2:], radix)
        except ValueError:
            self.fail(f'invalid {kind} literal: strconv.ParseInt: parsing "{digits}": invalid syntax')
        if value > _MAX_INT64:
            self.fail(f'invalid {kind} literal: strconv.ParseInt: parsing "{digits}": value out of range')
        return Integer(value, token.at)

    def array(self) -> Node:
        start = self.advance()
        elements: list[Node] = []
        while not self.at("Bracket", "]"):
            if elements and self.ends("]"):
                break
            elements.append(self.expression())
        self.advance()
        return Array(tuple(elements), start.at)

    def map(self) -> Node:
        start = self.advance()
        pairs: list[tuple[Node, Node]] = []
        while not self.at("Bracket", "}"):
            if pairs and self.ends("}"):
                break
            key = self.map_key()
            self.expect("Operator", ":")
            pairs.append((key, self.expression()))
        self.advance()
        return Map(tuple(pairs), start.at)

    def map_key(self) -> Node:
        if self.current.kind in ("Number", "String", "Identifier"):
            token = self.advance()
            return String(token.value, token.at)
        if self.at("Bracket", "("):
            return self.expression()
        return self.fail(
            "a map key must be a quoted string, a number, a identifier, or an expression enclosed in parentheses "
            f"(unexpected token {self.current})"
        )

    # -- calls and members

    def call(self, name: Token, first: tuple[Node, ...], *, overridable: bool = True) -> Node:
        """Parses a call of `name`. The first argument is given if it comes through a pipe."""
        own = name.value in BUILTINS and not (overridable and name.value in self.overridden)
        if own and name.value in PREDICATES:
            return Builtin(name.value, (*first, *self.predicate_arguments(name.value, len(first))), name.at)
        arguments = (*first, *self.arguments())
        if own:
            return Builtin(name.value, arguments, name.at)
        return Call(Name(name.value, name.at), arguments, name.at)

    def predicate_arguments(self, name: str, given: int) -> list[Node]:
        self.expect("Bracket", "(")
        kinds = PREDICATES[name][given:]
        arguments: list[Node] = []
        for kind in kinds:
            if self.at("Bracket", ")"):
                if kind & OPTIONAL:
                    break
                self.fail(f"expected at least {len(kinds)} arguments")
            if arguments:
                self.expect("Operator", ",")
            arguments.append(self.predicate() if kind & PREDICATE else self.expression())
        if self.at("Operator", ","):
            self.advance()
        self.expect("Bracket", ")")
        return arguments

    def predicate(self) -> Node:
        start = self.current
        self.predicates += 1
        if self.at("Bracket", "{"):
            body = self.block()
        else:
            body = self.expression()
            if self.at("Operator", ";"):
                self.fail("wrap predicate with brackets { and }")
        self.predicates -= 1
        return Predicate(body, start.at)

    def arguments(self) -> list[Node]:
        self.expect("Bracket", "(")
        arguments: list[Node] = []
        while not self.at("Bracket", ")"):
            if arguments and self.ends(")"):
                break
            arguments.append(self.expression())
        self.advance()
        return arguments

    def postfix(self, node: Node) -> Node:
        levels = 0
        while self.current.value in (".", "?.", "[") and self.current.kind in ("Operator", "Bracket"):
            levels += 1
            self.count()
            self.deeper()
            if self.current.value == "[":
                node = self.index(node, optional=False)
                continue
            optional = self.advance().value == "?."
            subscript = optional and self.at("Bracket", "[")
            node = self.index(node, optional) if subscript else self.member(node, optional)
        self.depth -= levels
        return node

    def member(self, node: Node, optional: bool) -> Node:
        token = self.current
        if token.kind != "Identifier" and not (token.kind == "Operator" and _is_name(token.value)):
            self.fail("expected name" if token.kind != "EOF" else "unexpected end of expression, expected a name")
        self.advance()
        chained = isinstance(node, Chain)
        base = node.inner if isinstance(node, Chain) else node
        called = self.at("Bracket", "(")
        found: Node = Member(base, String(token.value, token.at), token.at, optional, called)
        if called:
            found = Call(found, tuple(self.arguments()), token.at)
        return Chain(found, token.at) if chained or optional else found

    def index(self, node: Node, optional: bool) -> Node:
        bracket = self.advance()
        start: Node | None = None
        if not self.at("Operator", ":"):
            start = self.expression()
            if not self.at("Operator", ":"):
                self.expect("Bracket", "]")
                found = Member(node, start, bracket.at, optional)
                return Chain(found, bracket.at) if optional else found
        self.advance()
        stop = None if self.at("Bracket", "]") else self.expression()
        self.expect("Bracket", "]")
        return Slice(node, start, stop, bracket.at)


def _is_name(word: str) -> bool:
    return (is_letter(word[0]) or word[0] in "_$") and all(map(is_word, word))
