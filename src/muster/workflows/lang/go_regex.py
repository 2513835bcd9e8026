"""Regular expressions as Go runs them: leftmost-first like Perl's, but in time linear in the text.

Python's own engine backtracks, so that `(a+)+b` on thirty letters can stop the whole server; hence this one, a set of
places in the pattern that moves along the text together.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_regex_classes import Test
from muster.workflows.lang.go_regex_syntax import (
    Alternatives,
    Assertion,
    Character,
    Concatenation,
    Group,
    Pattern,
    Repeat,
    Tree,
    parse_pattern,
)
from muster.workflows.lang.go_strings import is_digit, is_letter
from muster.workflows.lang.limits import check_length

_MAX_PROGRAM = 20_000
_MAX_WORK = 600_000
_MAX_REMEMBERED = 2_000
_LONG = 1_000
"""Characters from which on it pays to ask first whether there is a match at all."""
_WORD = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_META = frozenset("\\.+*?()|[]{}^$")


class Span(NamedTuple):
    """Where a match and its captures are: (start, end) pairs, (-1, -1) for a capture that took no part."""

    groups: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        return self.groups[0][0]

    @property
    def end(self) -> int:
        return self.groups[0][1]


class _Step(NamedTuple):
    kind: str
    """character, split, save, assert or match."""
    test: Test | None = None
    targets: tuple[int, ...] = ()
    argument: str | int = 0


class _Work:
    """Counts what a search costs, and ends one that costs too much."""

    def __init__(self) -> None:
        self.spent = 0

    def spend(self, amount: int) -> None:
        self.spent += amount
        if self.spent > _MAX_WORK:
            raise ExpressionError("the text is too long for this regular expression")


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: Pattern, *, empty: bool = False) -> None:
        self._empty = empty
        self.names = ("", *pattern.groups)
        self._program: list[_Step] = []
        self._emit(Group(pattern.tree, 0))
        self._program.append(_Step("match"))
        self._moves: dict[tuple[frozenset[int], str, str], frozenset[int] | None] = {}

    def matches(self, text: str) -> bool:
        """Whether the pattern matches anywhere."""
        work = _Work()
        state: frozenset[int] = frozenset((0,))
        before = ""
        for char in text:
            key = (state, before if before in ("", "\n") else "w" if before in _WORD else " ", char)
            if key not in self._moves:
                if len(self._moves) > _MAX_REMEMBERED:
                    self._moves.clear()
                work.spend(len(state))
                self._moves[key] = self._move(state, before, char)
            following = self._moves[key]
            if following is None:
                return True
            state, before = following, char
        return any(self._program[at].kind == "match" for at in self._reached(state, before, ""))

    def find(self, text: str, start: int = 0, work: _Work | None = None) -> Span | None:
        """The leftmost match from `start` on."""
        work = work or _Work()
        if start == 0 and len(text) > _LONG and not self.matches(text):
            return None
        found: tuple[int, ...] | None = None
        threads: dict[int, tuple[int, ...]] = {}
        for at in range(start, len(text) + 1):
            char = text[at : at + 1]
            if found is None:
                threads.setdefault(0, ())
            elif not threads:
                break
            reached: dict[int, tuple[int, ...]] = {}
            for place, captured in threads.items():
                self._spread(place, captured, at, text, reached)
            work.spend(len(reached))
            threads = {}
            for place, captured in reached.items():
                step = self._program[place]
                if step.kind == "match":
                    found = captured
                    break
                if char and step.test is not None and step.test(char):
                    threads.setdefault(place + 1, captured)
        return None if found is None else self._span(found)

    def find_all(self, text: str, most: int = -1) -> Iterator[Span]:
        """Matches that do not overlap, from the left; an empty one never touches the match before it."""
        at, previous, count = 0, -1, 0
        work = _Work()
        while at <= len(text) and count != most:
            found = self.find(text, at, work)
            if found is None:
                return
            empty = found.start == found.end
            if not empty or found.end != previous:
                yield found
                count += 1
            previous = found.end
            at = found.end + 1 if empty else found.end

    def replace(self, text: str, replacement: str, *, literal: bool = False) -> str:
        """Every match replaced; `$1` and `${name}` mean captures unless `literal`."""
        out: list[str] = []
        at = size = 0
        for found in self.find_all(text):
            out.append(text[at : found.start])
            out.append(replacement if literal else self._expanded(replacement, text, found))
            size = check_length(size + len(out[-2]) + len(out[-1]))
            at = found.end
        return "".join(out) + text[at:]

    def split(self, text: str, most: int) -> list[str]:
        """The pieces between matches, at most `most` of them unless negative."""
        if most == 0:
            return []
        if not self._empty and not text:
            return [""]
        pieces: list[str] = []
        begin = end = 0
        for found in self.find_all(text):
            if most > 0 and len(pieces) == most - 1:
                break
            end = found.start
            if found.end != 0:
                pieces.append(text[begin:end])
            begin = found.end
        if end != len(text):
            pieces.append(text[begin:])
        return pieces

    # -- compiling

    def _emit(self, tree: Tree) -> None:
        program = self._program
        if len(program) > _MAX_PROGRAM:
            raise ExpressionError("error parsing regexp: expression too large")
        match tree:
            case Character(test):
                program.append(_Step("character", test))
            case Assertion(kind):
                program.append(_Step("assert", argument=kind))
            case Group(inner, number):
                if number:
                    program.append(_Step("save", argument=2 * number))
                self._emit(inner)
                if number:
                    program.append(_Step("save", argument=2 * number + 1))
            case Concatenation(parts):
                for part in parts:
                    self._emit(part)
            case Alternatives(options):
                self._emit_alternatives(options)
            case Repeat(inner, least, most, greedy):
                for _ in range(least):
                    self._emit(inner)
                if most is None:
                    self._emit_loop(inner, greedy)
                for _ in range((most or 0) - least):
                    self._emit_optional(inner, greedy)

    def _emit_alternatives(self, options: tuple[Tree, ...]) -> None:
        leaving: list[int] = []
        for option in options[:-1]:
            fork = len(self._program)
            self._program.append(_Step("split"))
            self._emit(option)
            leaving.append(len(self._program))
            self._program.append(_Step("split"))
            self._program[fork] = _Step("split", targets=(fork + 1, len(self._program)))
        self._emit(options[-1])
        for place in leaving:
            self._program[place] = _Step("split", targets=(len(self._program),))

    def _emit_loop(self, inner: Tree, greedy: bool) -> None:
        fork = len(self._program)
        self._program.append(_Step("split"))
        self._emit(inner)
        self._program.append(_Step("split", targets=(fork,)))
        self._program[fork] = self._fork(fork, greedy)

    def _emit_optional(self, inner: Tree, greedy: bool) -> None:
        fork = len(self._program)
        self._program.append(_Step("split"))
        self._emit(inner)
        self._program[fork] = self._fork(fork, greedy)

    def _fork(self, fork: int, greedy: bool) -> _Step:
        onwards, past = fork + 1, len(self._program)
        return _Step("split", targets=(onwards, past) if greedy else (past, onwards))

    # -- running

    def _move(self, state: frozenset[int], before: str, char: str) -> frozenset[int] | None:
        """Where the pattern can be after a character; None once it has matched."""
        following = {0}
        for place in self._reached(state, before, char):
            step = self._program[place]
            if step.kind == "match":
                return None
            if step.test is not None and step.test(char):
                following.add(place + 1)
        return frozenset(following)

    def _reached(self, state: frozenset[int], before: str, after: str) -> set[int]:
        waiting, seen = list(state), set(state)
        while waiting:
            for target in self._onwards(waiting.pop(), before, after):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen

    def _onwards(self, place: int, before: str, after: str) -> tuple[int, ...]:
        step = self._program[place]
        match step.kind:
            case "split":
                return step.targets
            case "save":
                return (place + 1,)
            case "assert" if _holds(str(step.argument), before, after):
                return (place + 1,)
            case _:
                return ()

    def _spread(
        self, place: int, captured: tuple[int, ...], at: int, text: str, reached: dict[int, tuple[int, ...]]
    ) -> None:
        """Adds every place that can be reached without a character, the preferred ones first."""
        if not captured:
            captured = (at,) + (-1,) * (2 * len(self.names) - 1)
        before, after = text[at - 1 : at] if at else "", text[at : at + 1]
        waiting = [(place, captured)]
        while waiting:
            here, saved = waiting.pop()
            if here in reached:
                continue
            reached[here] = saved
            step = self._program[here]
            if step.kind == "save":
                slot = int(step.argument)
                saved = (*saved[:slot], at, *saved[slot + 1 :])
            elif step.kind == "match":
                reached[here] = (saved[0], at, *saved[2:])
            waiting.extend((target, saved) for target in reversed(self._onwards(here, before, after)))

    def _span(self, captured: tuple[int, ...]) -> Span:
        pairs = [(captured[2 * n], captured[2 * n + 1]) for n in range(len(self.names))]
        return Span(tuple(pair if min(pair) >= 0 else (-1, -1) for pair in pairs))

    def _expanded(self, template: str, text: str, found: Span) -> str:
        out: list[str] = []
        at = 0
        while True:
            dollar = template.find("$", at)
            if dollar < 0:
                return "".join(out) + template[at:]
            out.append(template[at:dollar])
            at = dollar + 1
            if template.startswith("$", at):
                out.append("$")
                at += 1
                continue
            name, end = _reference(template, at)
            if not name:
                out.append("$")
                continue
            at = end
            number = int(name) if name.isascii() and name.isdigit() else self._named(name)
            if 0 <= number < len(found.groups):
                start, stop = found.groups[number]
                out.append(text[max(start, 0) : max(stop, 0)])

    def _named(self, name: str) -> int:
        return self.names.index(name) if name in self.names else -1


@lru_cache(maxsize=256)
def compile_regex(pattern: str) -> Regex:
    """The regular expression of a text. Raises ExpressionError with Go's words."""
    return Regex(parse_pattern(pattern), empty=not pattern)


def quote_meta(text: str) -> str:
    """A pattern that matches the text itself."""
    return "".join("\\" + char if char in _META else char for char in text)


def _reference(template: str, at: int) -> tuple[str, int]:
    """The name after a `$`, as long as it can be, with or without braces."""
    braced = template.startswith("{", at)
    start = at + braced
    end = start
    while end < len(template) and (is_letter(template[end]) or is_digit(template[end]) or template[end] == "_"):
        end += 1
    if braced:
        return (template[start:end], end + 1) if template.startswith("}", end) else ("", at)
    return template[start:end], end


def _holds(kind: str, before: str, after: str) -> bool:
    match kind:
        case "start":
            return before == ""
        case "end":
            return after == ""
        case "line start":
            return before in ("", "\n")
        case "line end":
            return after in ("", "\n")
        case _:
            boundary = (before in _WORD) != (after in _WORD)
            return boundary == (kind == "word")
