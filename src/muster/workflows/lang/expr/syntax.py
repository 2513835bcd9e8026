"""The syntax of expr-lang: operator precedence, the names of its functions, and the nodes of the syntax tree.

Every node knows its position in the text (`at`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

# -- Grammar tables

UNARY = {"not": 50, "!": 50, "-": 90, "+": 90}
BINARY = {
    "|": 0, "or": 10, "||": 10, "and": 15, "&&": 15,
    "==": 20, "!=": 20, "<": 20, ">": 20, ">=": 20, "<=": 20,
    "in": 20, "matches": 20, "contains": 20, "startsWith": 20, "endsWith": 20,
    "..": 25, "+": 30, "-": 30, "*": 60, "/": 60, "%": 60, "**": 100, "^": 100, "??": 500,
}  # fmt: skip
EXPRESSION, PREDICATE, OPTIONAL = 1, 2, 4
PREDICATES = {
    "all": (EXPRESSION, PREDICATE),
    "none": (EXPRESSION, PREDICATE),
    "any": (EXPRESSION, PREDICATE),
    "one": (EXPRESSION, PREDICATE),
    "filter": (EXPRESSION, PREDICATE),
    "map": (EXPRESSION, PREDICATE),
    "count": (EXPRESSION, PREDICATE | OPTIONAL),
    "sum": (EXPRESSION, PREDICATE | OPTIONAL),
    "find": (EXPRESSION, PREDICATE),
    "findIndex": (EXPRESSION, PREDICATE),
    "findLast": (EXPRESSION, PREDICATE),
    "findLastIndex": (EXPRESSION, PREDICATE),
    "groupBy": (EXPRESSION, PREDICATE),
    "sortBy": (EXPRESSION, PREDICATE, EXPRESSION | OPTIONAL),
    "reduce": (EXPRESSION, PREDICATE, EXPRESSION | OPTIONAL),
}
"""Functions that take a predicate, with the kinds of their arguments."""

FUNCTIONS = frozenset(
    (
        "len", "type", "abs", "ceil", "floor", "round", "int", "float", "string", "trim", "trimPrefix", "trimSuffix",
        "upper", "lower", "split", "splitAfter", "replace", "repeat", "join", "indexOf", "lastIndexOf", "hasPrefix",
        "hasSuffix", "max", "min", "mean", "median", "toJSON", "fromJSON", "toBase64", "fromBase64", "now", "duration",
        "date", "timezone", "first", "last", "get", "take", "keys", "values", "toPairs", "fromPairs", "reverse",
        "uniq", "concat", "flatten", "sort", "bitand", "bitor", "bitxor", "bitnand", "bitshl", "bitshr", "bitushr",
        "bitnot",
    )
)  # fmt: skip
"""The other functions of the language."""
BUILTINS = FUNCTIONS | PREDICATES.keys()


# -- Nodes of the syntax tree


@dataclass(frozen=True, slots=True, eq=False)
class Nil:
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Boolean:
    value: bool
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Integer:
    value: int
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Float:
    value: float
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class String:
    value: str
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A variable of the environment or of a `let`."""

    value: str
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Unary:
    operator: str
    operand: Node
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Binary:
    operator: str
    left: Node
    right: Node
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """`base.name` or `base[index]`; with `optional`, after `?.`. `called` means that a call follows."""

    base: Node
    key: Node
    at: int
    optional: bool = False
    called: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Members of which some are optional. The whole is nil if an optional one has no base."""

    inner: Node
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    base: Node
    start: Node | None
    stop: Node | None
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a function of the environment."""

    callee: Node
    arguments: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Builtin:
    """A call of a function of the language."""

    name: str
    arguments: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Predicate:
    """What `filter` and similar functions evaluate for every element: `{# > 1}`, braces optional."""

    body: Node
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """`#`, the current element of a predicate; `#index` and `#acc` have a name."""

    name: str
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Let:
    name: str
    value: Node
    body: Node
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """`a; b; c`. Its value is that of the last one."""

    steps: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Conditional:
    condition: Node
    then: Node
    otherwise: Node
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    elements: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    pairs: tuple[tuple[Node, Node], ...]
    at: int


Node: TypeAlias = (
    Nil
    | Boolean
    | Integer
    | Float
    | String
    | Name
    | Unary
    | Binary
    | Member
    | Chain
    | Slice
    | Call
    | Builtin
    | Predicate
    | Pointer
    | Let
    | Sequence
    | Conditional
    | Array
    | Map
)


def children(node: Node) -> Iterator[Node]:
    """Returns the direct children of a node, in the order of the text."""
    match node:
        case Unary(_, operand):
            yield operand
        case Binary(_, left, right):
            yield left
            yield right
        case Member(base, key):
            yield base
            yield key
        case Chain(inner) | Predicate(inner):
            yield inner
        case Slice(base, start, stop):
            yield base
            yield from (part for part in (start, stop) if part is not None)
        case Call(callee, arguments):
            yield callee
            yield from arguments
        case Builtin(_, arguments):
            yield from arguments
        case Let(_, value, body):
            yield value
            yield body
        case Sequence(parts) | Array(parts):
            yield from parts
        case Conditional(condition, then, otherwise):
            yield from (condition, then, otherwise)
        case Map(pairs):
            for pair in pairs:
                yield from pair
        case _:
            return


def walk(node: Node) -> list[Node]:
    """Yields every node, children before their parents.

    It does not recurse, since a sum of a thousand terms is a thousand levels deep.
    """
    waiting, found = [node], []
    while waiting:
        found.append(waiting.pop())
        waiting.extend(children(found[-1]))
    return found[::-1]
