"""The tables of expr-lang's grammar: how tightly operators bind, and which functions are the language's own."""

from __future__ import annotations

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
"""Functions that take a predicate, and the kinds of their arguments."""

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
