"""Texts in a small language of their own: expressions, `when`, `depends`, durations. Only what can be said before the
tags in them are filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from muster.workflows.expressions import depends, gotime, govaluate, parser
from muster.workflows.expressions.errors import ExpressionError

_TAG = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_MOST_TAGS = 6
_STAND_INS = ("true", "==")
"""What a tag of a `when` may turn into, as far as the grammar is concerned: a value or an operator."""


def expression_problem(text: str) -> str:
    """Of an expr-lang expression. With tags in it, anything may become of it."""
    if "{{" in text:
        return ""
    try:
        parser.parse(text)
    except ExpressionError as error:
        return f"failed to evaluate expression: {error}"
    return ""


def when_problem(text: str) -> str:
    """Of a `when`, where bare words are strings."""
    if not text:
        return ""
    if "{{" not in text:
        try:
            govaluate.evaluate_when(text)
        except ExpressionError as error:
            return str(error)
        return ""
    first = ""
    for variant in _filled(text):
        try:
            govaluate.parse_when(variant)
        except ExpressionError as error:
            first = first or error.message.replace(variant, text)
            continue
        return ""
    return first


def depends_problem(text: str) -> str:
    try:
        depends.parse(text)
    except ExpressionError as error:
        return str(error)
    return ""


def duration_problem(text: str, *, plain_seconds: bool = True) -> str:
    """Of `1h30m`; with `plain_seconds`, `90` will do."""
    if "{{" in text or (plain_seconds and _is_integer(text)):
        return ""
    try:
        gotime.parse_duration(text)
    except ExpressionError:
        seconds = ', or "90" for seconds' if plain_seconds else ""
        return f'unable to parse {text} as a duration; write it as "1h30m", "10s"{seconds}'
    return ""


def integer_problem(value: int | str) -> str:
    """Of a number that may be a tag: a limit, a count."""
    if isinstance(value, int) or "{{" in value or _is_integer(value):
        return ""
    return f"value '{value}' cannot be resolved to an int; write a number, or a tag like {{{{inputs.parameters.x}}}}"


def _filled(text: str) -> Iterator[str]:
    parts = _TAG.split(text)
    count = len(parts) - 1
    choices = product(_STAND_INS, repeat=count) if count <= _MOST_TAGS else [("true",) * count]
    for choice in choices:
        yield "".join(part + fill for part, fill in zip(parts, (*choice, ""), strict=True))


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"[-+]?[0-9]+", text) is not None
