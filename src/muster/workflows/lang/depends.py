"""`depends`: which results of which tasks a DAG task waits for, as in `A.Succeeded && (B || C.Failed)`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.limits import MAX_DEPTH, MAX_TEXT, cache_short_texts

RESULTS = ("Succeeded", "Failed", "Errored", "Skipped", "Omitted", "Daemoned", "AnySucceeded", "AllFailed")
OF_ITEMS = frozenset(("AnySucceeded", "AllFailed"))
"""Results that only a task with items has."""
WITHOUT_RESULT = ("Succeeded", "Skipped", "Daemoned")
"""A task that is named without a result must have one of these."""

_WORD = re.compile(r"\s*(?:([a-zA-Z0-9][-a-zA-Z0-9]*)(?:\.([A-Za-z]*))?|(&&|\|\||[!()]))", re.ASCII)


@dataclass(frozen=True, slots=True)
class Task:
    """`name.result`, or `name` alone with an empty result."""

    name: str
    result: str
    at: int


@dataclass(frozen=True, slots=True)
class Not:
    operand: Depends


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Depends, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Depends, ...]


Depends: TypeAlias = Task | Not | And | Or


@cache_short_texts(2048)
def parse(text: str) -> Depends:
    """Parses the condition of a `depends`. Raises ExpressionError."""
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"a 'depends' of {len(text)} characters is too long (at most {MAX_TEXT})")
    parser = _Parser(text)
    found = parser.parse_or()
    if parser.word is not None:
        parser.fail("'&&', '||' or the end")
    return found


def from_dependencies(names: Iterable[str]) -> Depends:
    """Returns the `depends` that `dependencies: [A, B]` means."""
    return And(tuple(Task(name, "", 0) for name in names))


def tasks(depends: Depends) -> dict[str, bool]:
    """Returns the tasks that the condition names, in the order of the text.

    The value is true for a task whose items the condition asks about.
    """
    found: dict[str, bool] = {}
    for task in _iterate_tasks(depends):
        found[task.name] = found.get(task.name, False) or task.result in OF_ITEMS
    return found


def evaluate(
    depends: Depends,
    results: Mapping[str, Collection[str]],
    tolerated: Mapping[str, Collection[str]] | None = None,
) -> bool:
    """Returns whether the condition holds for the results of the tasks, such as `{"A": {"Succeeded"}}`.

    `tolerated` has further results by task, those of its `continueOn`, that suffice for a task named without a result.
    """
    match depends:
        case Task(name, result):
            if name not in results:
                raise ExpressionError(f"unknown name {name}")
            accepted = (result,) if result else (*WITHOUT_RESULT, *(tolerated or {}).get(name, ()))
            return any(word in results[name] for word in accepted)
        case Not(operand):
            return not evaluate(operand, results, tolerated)
        case And(parts):
            return all(evaluate(part, results, tolerated) for part in parts)
        case Or(parts):
            return any(evaluate(part, results, tolerated) for part in parts)


def _iterate_tasks(depends: Depends) -> Iterable[Task]:
    match depends:
        case Task():
            yield depends
        case Not(operand):
            yield from _iterate_tasks(operand)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _iterate_tasks(part)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text.rstrip())
        self.depth = 0
        self.word: re.Match[str] | None = None
        self.advance()

    def advance(self) -> None:
        if self.at >= self.end:
            self.word, self.at = None, len(self.text)
            return
        self.word = _WORD.match(self.text, self.at)
        if self.word is None:
            self.at = len(self.text) - len(self.text[self.at :].lstrip())
            self.fail("a task, '&&', '||', '!' or a parenthesis")
        self.at = self.word.end()

    @property
    def symbol(self) -> str:
        return self.word[3] or "" if self.word is not None else ""

    def fail(self, expected: str) -> NoReturn:
        if self.word is not None:
            at = self.word.start(1) if self.word[1] else self.word.start(3)
            found = f"'{self.word[0].strip()}'"
        else:
            at, found = self.at, f"'{self.text[self.at]}'" if self.at < len(self.text) else "the end"
        raise ExpressionError(f"unexpected {found}, expected {expected}", self.text, at)

    def parse_or(self) -> Depends:
        parts = [self.parse_and()]
        while self.symbol == "||":
            self.advance()
            parts.append(self.parse_and())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def parse_and(self) -> Depends:
        parts = [self.one()]
        while self.symbol == "&&":
            self.advance()
            parts.append(self.one())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def one(self) -> Depends:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExpressionError(f"nested more than {MAX_DEPTH} levels deep", self.text, self.at)
        found = self.operand()
        self.depth -= 1
        return found

    def operand(self) -> Depends:
        if self.symbol == "!":
            self.advance()
            return Not(self.one())
        if self.symbol == "(":
            self.advance()
            inner = self.parse_or()
            if self.symbol != ")":
                self.fail("')'")
            self.advance()
            return inner
        if self.word is None or not self.word[1]:
            self.fail("a task")
        task = self.task(self.word)
        self.advance()
        return task

    def task(self, word: re.Match[str]) -> Task:
        name, result = word[1], word[2]
        if name[0].isdigit():
            message = f"the name of a task in 'depends' cannot begin with a digit: '{name}'"
            raise ExpressionError(message, self.text, word.start(1))
        if result is not None and result not in RESULTS:
            message = f"task result '{result}' for task '{name}' is invalid, expected one of {', '.join(RESULTS)}"
            raise ExpressionError(message, self.text, word.start(2))
        return Task(name, result or "", word.start(1))
