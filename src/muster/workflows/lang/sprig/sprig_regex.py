"""sprig: regular expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_regex import Regex, compile_regex, quote_meta
from muster.workflows.lang.go_values import NilStrings, Strings
from muster.workflows.lang.sprig.sprig_functions import function_table


def _must(pattern: str) -> Regex:
    """As Go's MustCompile complains."""
    try:
        return compile_regex(pattern)
    except ExpressionError as error:
        raise ExpressionError(f"regexp: Compile(`{pattern}`): {error.message}") from None


def _matches(pattern: str, text: str) -> bool:
    try:
        return compile_regex(pattern).matches(text)
    except ExpressionError:
        return False


def _with(compile_: Callable[[str], Regex], function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda pattern, *arguments: function(compile_(pattern), *arguments)


def _find_all(regex: Regex, text: str, most: int) -> Strings:
    return Strings(text[found.start : found.end] for found in regex.find_all(text, most)) or NilStrings()


def _find(regex: Regex, text: str) -> str:
    found = regex.find(text)
    return "" if found is None else text[found.start : found.end]


def _replace(regex: Regex, text: str, replacement: str) -> str:
    return regex.replace(text, replacement)


def _replace_literal(regex: Regex, text: str, replacement: str) -> str:
    return regex.replace(text, replacement, literal=True)


def _split(regex: Regex, text: str, most: int) -> Strings:
    return NilStrings() if most == 0 else Strings(regex.split(text, most))


FUNCTIONS = function_table(
    ("regexMatch", "string, string", _matches),
    ("mustRegexMatch", "string, string", _with(compile_regex, Regex.matches)),
    ("regexFindAll", "string, string, int", _with(_must, _find_all)),
    ("mustRegexFindAll", "string, string, int", _with(compile_regex, _find_all)),
    ("regexFind", "string, string", _with(_must, _find)),
    ("mustRegexFind", "string, string", _with(compile_regex, _find)),
    ("regexReplaceAll", "string, string, string", _with(_must, _replace)),
    ("mustRegexReplaceAll", "string, string, string", _with(compile_regex, _replace)),
    ("regexReplaceAllLiteral", "string, string, string", _with(_must, _replace_literal)),
    ("mustRegexReplaceAllLiteral", "string, string, string", _with(compile_regex, _replace_literal)),
    ("regexSplit", "string, string, int", _with(_must, _split)),
    ("mustRegexSplit", "string, string, int", _with(compile_regex, _split)),
    ("regexQuoteMeta", "string", quote_meta),
)
