"""Classes of characters in Go's regular expressions: Perl's, POSIX's and Unicode's."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

Test: TypeAlias = Callable[[str], bool]
"""Whether a character may stand here."""

_DIGIT, _SPACE = frozenset("0123456789"), frozenset("\t\n\f\r ")
_WORD = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
PERL = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_UPPER, _LOWER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), frozenset("abcdefghijklmnopqrstuvwxyz")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
POSIX = {
    "alnum": _UPPER | _LOWER | _DIGIT,
    "alpha": _UPPER | _LOWER,
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, [*range(32), 127])),
    "digit": _DIGIT,
    "graph": _UPPER | _LOWER | _DIGIT | _PUNCTUATION,
    "lower": _LOWER,
    "print": _UPPER | _LOWER | _DIGIT | _PUNCTUATION | {" "},
    "punct": _PUNCTUATION,
    "space": frozenset("\t\n\v\f\r "),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": frozenset("0123456789ABCDEFabcdef"),
}
_CATEGORIES = frozenset(
    (
        "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe",
        "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Cs", "Co",
    )
)  # fmt: skip
_SCRIPTS = {
    "Arabic": "ARABIC", "Armenian": "ARMENIAN", "Bengali": "BENGALI", "Cyrillic": "CYRILLIC",
    "Devanagari": "DEVANAGARI", "Georgian": "GEORGIAN", "Greek": "GREEK", "Hangul": "HANGUL", "Han": "CJK",
    "Hebrew": "HEBREW",
    "Hiragana": "HIRAGANA", "Katakana": "KATAKANA", "Latin": "LATIN", "Thai": "THAI",
}  # fmt: skip


@lru_cache(maxsize=128)
def unicode_class(name: str) -> Test | None:
    name = name.capitalize()
    if name == "Any":
        return anything
    if name in _CATEGORIES:
        return lambda char: unicodedata.category(char).startswith(name)
    prefix = _SCRIPTS.get(name)
    return None if prefix is None else lambda char: unicodedata.name(char, "").startswith(prefix)


def anything(char: str) -> bool:
    return True


def no_newline(char: str) -> bool:
    return char != "\n"


def negated(test: Test) -> Test:
    return lambda char: not test(char)


def any_of(tests: tuple[Test, ...]) -> Test:
    return lambda char: any(test(char) for test in tests)


def between(low: str, high: str) -> Test:
    return lambda char: low <= char <= high


def either_case(test: Test) -> Test:
    return lambda char: test(char) or test(char.lower()) or test(char.upper())
