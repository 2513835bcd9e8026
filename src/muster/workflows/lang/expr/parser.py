"""The parser of expr-lang: text to syntax tree, by operator precedence."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NoReturn

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.lexer import Kind, Token, tokenize
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
from muster.workflows.lang.go_strings import is_letter, is_word
from muster.workflows.lang.limits import MAX_DEPTH, MAX_NODES, MAX_TEXT

_COMPARISONS = ("<", ">", ">=", "<=")
_NEGATABLE = ("contains", "matches", "startsWith", "endsWith", "in")
_MAX_INT64 = 2**63 - 1


def parse(text: str, overridden: Collection[str] = ()) -> Node:
    """Returns the syntax tree of an expression. Raises ExpressionError.

    A call of a name in `overridden`, the names of the environment, does not mean the language's function of that name.
    """
    return _parse(text, frozenset(overridden) & BUILTINS)


@lru_cache(maxsize=2048)
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
