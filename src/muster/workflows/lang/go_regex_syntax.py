"""The syntax of Go's regular expressions (RE2): text to a small tree. What RE2 leaves out to stay linear, such as
backreferences and lookaround, is refused as Go refuses it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_regex_classes import (
    PERL,
    POSIX,
    Test,
    any_of,
    anything,
    between,
    either_case,
    negated,
    no_newline,
    unicode_class,
)
from muster.workflows.lang.limits import MAX_DEPTH

_MAX_REPEAT = 1000
_MAX_PATTERN = 20_000
_COUNT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}", re.ASCII)
_GROUP_NAME = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>")
_CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Character:
    test: Test


@dataclass(frozen=True, slots=True)
class Assertion:
    """One of `\\A`, `\\z`, `^` and `$` of a line (`(?m)`), `\\b` and `\\B`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Group:
    inner: Tree
    number: int
    """Of the capture; 0 when it is none."""


@dataclass(frozen=True, slots=True)
class Repeat:
    inner: Tree
    least: int
    most: int | None
    greedy: bool


@dataclass(frozen=True, slots=True)
class Concatenation:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    options: tuple[Tree, ...]


Tree: TypeAlias = Character | Assertion | Group | Repeat | Concatenation | Alternatives


@dataclass(frozen=True, slots=True)
class Pattern:
    tree: Tree
    groups: tuple[str, ...]
    """Names of the captures from the first on; empty where there is none."""


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    ungreedy: bool = False


def parse_pattern(text: str) -> Pattern:
    """The tree of a regular expression. Raises ExpressionError with Go's words."""
    if len(text) > _MAX_PATTERN:
        raise ExpressionError(f"error parsing regexp: a pattern of {len(text)} characters is too long")
    parser = _Parser(text)
    tree = parser.alternatives()
    if parser.at < len(text):
        parser.fail("unexpected )", text)
    return Pattern(tree, tuple(parser.names))


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.flags = _Flags()
        self.names: list[str] = []
        self.depth = 0

    def fail(self, problem: str, culprit: str) -> NoReturn:
        raise ExpressionError(f"error parsing regexp: {problem}: `{culprit}`")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, word: str) -> bool:
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True

    def alternatives(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExpressionError("error parsing regexp: expression nests too deeply")
        options = [self.concatenation()]
        while self.take("|"):
            options.append(self.concatenation())
        self.depth -= 1
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def concatenation(self) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.text) and self.peek() not in "|)":
            if self.take("\\Q"):
                end = self.text.find("\\E", self.at)
                quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
                self.at += len(quoted) + (0 if end < 0 else 2)
                parts.extend(Character(self.literal(char)) for char in quoted)
                if quoted:
                    parts.append(self.repeated(parts.pop(), self.at))
                continue
            start = self.at
            part = self.atom()
            if part is not None:
                parts.append(self.repeated(part, start))
        return Concatenation(tuple(parts))

    def repeated(self, part: Tree, start: int) -> Tree:
        first = True
        while True:
            begin = self.at
            bounds = self.bounds()
            if bounds is None:
                return part
            if not first:
                self.fail("invalid nested repetition operator", self.text[start : self.at])
            first, start = False, begin
            lazy = self.take("?")
            part = Repeat(part, *bounds, greedy=lazy == self.flags.ungreedy)
            if bounds[1] is not None or bounds[0] > 1:
                self.check_size(part, self.text[begin : self.at])

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return counts
        found = _COUNT.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if least > _MAX_REPEAT or (most is not None and (most > _MAX_REPEAT or most < least)):
            self.fail("invalid repeat count", found[0])
        return least, most

    def check_size(self, tree: Tree, culprit: str) -> None:
        if _copies(tree) > _MAX_REPEAT:
            self.fail("invalid repeat count", culprit)

    def atom(self) -> Tree | None:
        """One thing that can be repeated; None for flags, which match nothing."""
        char = self.peek()
        if char == "(":
            return self.group()
        if char == "[":
            return Character(self.character_class())
        if char == "\\":
            return self.escape()
        if char in "*+?":
            self.fail("missing argument to repetition operator", char)
        self.at += 1
        if char == ".":
            return Character(anything if self.flags.dot_all else no_newline)
        if char == "^":
            return Assertion("line start" if self.flags.multi_line else "start")
        if char == "$":
            return Assertion("line end" if self.flags.multi_line else "end")
        return Character(self.literal(char))

    def group(self) -> Tree | None:
        opened, before = self.at, self.flags
        number = 0
        if not self.text.startswith("(?", self.at):
            self.at += 1
            number = self.capture("")
        elif self.text.startswith(("(?P<", "(?<"), self.at):
            found = _GROUP_NAME.match(self.text, self.at)
            if found is None:
                name, closing, _ = self.text[self.at :].partition(">")
                self.fail("invalid named capture", name + closing)
            self.at = found.end()
            number = self.capture(found[1])
        elif self.set_flags():
            return None
        inner = self.alternatives()
        if not self.take(")"):
            self.at = opened
            self.fail("missing closing )", self.text)
        self.flags = before
        return Group(inner, number)

    def capture(self, name: str) -> int:
        self.names.append(name)
        return len(self.names)

    def set_flags(self) -> bool:
        """Reads `(?i)` and `(?i:`; true when nothing is left open."""
        start = self.at
        self.at += 2
        on, seen, flags = True, False, self.flags
        fields = {"i": "ignore_case", "m": "multi_line", "s": "dot_all", "U": "ungreedy"}
        while self.at < len(self.text):
            char = self.peek()
            self.at += 1
            if char in fields:
                flags = _Flags(**{**{f: getattr(flags, f) for f in fields.values()}, fields[char]: on})
                seen = True
            elif char == "-" and on:
                on, seen = False, False
            elif char in ":)" and (on or seen):
                self.flags = flags
                return char == ")"
            else:
                break
        return self.fail("invalid or unsupported Perl syntax", self.text[start : self.at])

    def escape(self) -> Tree:
        following = self.text[self.at + 1 : self.at + 2]
        kind = {"A": "start", "z": "end", "b": "word", "B": "inside"}.get(following)
        if kind:
            self.at += 2
            return Assertion(kind)
        test = self.class_escape()
        return Character(test if test is not None else self.literal(self.escaped()))

    def class_escape(self) -> Test | None:
        """`\\d`, `\\pL` and the like, if that is what comes."""
        following = self.text[self.at + 1 : self.at + 2]
        if following.lower() in PERL and following:
            self.at += 2
            allowed = PERL[following.lower()]
            return allowed.__contains__ if following.islower() else negated(allowed.__contains__)
        if following not in ("p", "P"):
            return None
        start = self.at
        name = self.text[self.at + 2 : self.at + 3]
        self.at += 3
        if name == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                self.fail("invalid character class range", self.text[start:])
            name = self.text[self.at : end]
            self.at = end + 1
        negative = (following == "P") != name.startswith("^")
        test = unicode_class(name.removeprefix("^"))
        if test is None:
            self.fail("invalid character class range", self.text[start : self.at])
        return negated(test) if negative else test

    def escaped(self) -> str:
        """The character that an escape stands for."""
        start = self.at
        char = self.text[self.at + 1 : self.at + 2]
        if not char:
            self.fail("trailing backslash at end of expression", "")
        self.at += 2
        if char in _CONTROL:
            return _CONTROL[char]
        if char in "1234567" and not self.peek().isdigit():
            self.fail("invalid escape sequence", self.text[start : self.at])
        if char in "01234567":
            found = re.compile(r"[0-7]{0,2}").match(self.text, self.at)
            digits = char + (found[0] if found else "")
            self.at += len(digits) - 1
            return chr(int(digits, 8))
        if char == "x":
            found = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,8})\}").match(self.text, self.at)
            code = int(found[1] or found[2], 16) if found else 0x110000
            if found is None or code > 0x10FFFF:
                wrong = re.compile(r"\{?[0-9a-fA-F]*.?").match(self.text, self.at)
                self.fail("invalid escape sequence", self.text[start : self.at] + (wrong[0] if wrong else ""))
            self.at = found.end()
            return chr(code)
        if char < "\x80" and not char.isalnum():
            return char
        return self.fail("invalid escape sequence", self.text[start : self.at])

    def character_class(self) -> Test:
        start = self.at
        self.at += 1
        negative = self.take("^")
        tests: list[Test] = []
        first = True
        while first or self.peek() != "]":
            if self.at >= len(self.text):
                self.fail("missing closing ]", self.text[start:])
            first = False
            tests.append(self.class_part(start))
        self.at += 1
        union = tests[0] if len(tests) == 1 else any_of(tuple(tests))
        return negated(union) if negative else union

    def class_part(self, start: int) -> Test:
        if self.text.startswith("[:", self.at):
            end = self.text.find(":]", self.at + 2)
            if end >= 0:
                name = self.text[self.at + 2 : end]
                allowed = POSIX.get(name.removeprefix("^"))
                if allowed is None:
                    self.fail("invalid character class range", self.text[self.at : end + 2])
                self.at = end + 2
                return self.cased(negated(allowed.__contains__) if name.startswith("^") else allowed.__contains__)
        if self.peek() == "\\":
            test = self.class_escape()
            if test is not None:
                return test
        begin = self.at
        low = self.class_character(start)
        if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
            self.at += 1
            high = self.class_character(start)
            if high < low:
                self.fail("invalid character class range", self.text[begin : self.at])
            return self.cased(between(low, high))
        return self.literal(low)

    def class_character(self, start: int) -> str:
        if self.at >= len(self.text):
            self.fail("missing closing ]", self.text[start:])
        if self.peek() == "\\":
            return self.escaped()
        self.at += 1
        return self.text[self.at - 1]

    def literal(self, char: str) -> Test:
        if not self.flags.ignore_case:
            return char.__eq__
        return frozenset((char, char.lower(), char.upper(), char.swapcase())).__contains__

    def cased(self, test: Test) -> Test:
        return either_case(test) if self.flags.ignore_case else test


def _copies(tree: Tree) -> int:
    """How many times the innermost part of nested repetitions would be written out."""
    match tree:
        case Repeat(inner, least, most):
            return _copies(inner) * max(least if most is None else most, 1)
        case Group(inner):
            return _copies(inner)
        case Concatenation(parts) | Alternatives(parts):
            return max(map(_copies, parts), default=1)
        case _:
            return 1
