"""Functions of expr-lang that ask a predicate about every element of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster.workflows.expressions.characters import to_bytes
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.operators import add, as_bool, as_string, sorted_by
from muster.workflows.expressions.values import Byte, Groups, go_kind, go_type


class Rounds:
    """The list a predicate is asked about, and where in it the asking is."""

    def __init__(self, values: Any) -> None:
        if isinstance(values, str):
            values = [Byte(byte) for byte in to_bytes(values)]
        if isinstance(values, Mapping) and not values:
            values = []
        if not isinstance(values, list):
            held = "zero" if values is None else go_kind(values)
            method = "Index" if held == "map" else "Len"
            raise ExpressionError(f"reflect: call of reflect.Value.{method} on {held} Value")
        self.values: list[Any] = values
        self.index = 0
        self.accumulator: Any = None

    def element(self) -> Any:
        if self.index >= len(self.values):
            raise ExpressionError("reflect: slice index out of range")
        return self.values[self.index]

    def forwards(self, start: int = 0) -> Iterator[Any]:
        """Every element from `start` on, the predicate looking at it."""
        for index in range(start, len(self.values)):
            self.index = index
            yield self.values[index]

    def backwards(self) -> Iterator[Any]:
        for index in range(len(self.values) - 1, -1, -1):
            self.index = index
            yield self.values[index]


def _all(rounds: Rounds, asked: Callable[[], Any]) -> bool:
    return all(as_bool(asked()) for _ in rounds.forwards())


def _none(rounds: Rounds, asked: Callable[[], Any]) -> bool:
    return not any(as_bool(asked()) for _ in rounds.forwards())


def _any(rounds: Rounds, asked: Callable[[], Any]) -> bool:
    return any(as_bool(asked()) for _ in rounds.forwards())


def _count(rounds: Rounds, asked: Callable[[], Any]) -> int:
    return sum(as_bool(asked()) for _ in rounds.forwards())


def _filter(rounds: Rounds, asked: Callable[[], Any]) -> list[Any]:
    return [element for element in rounds.forwards() if as_bool(asked())]


def _map(rounds: Rounds, asked: Callable[[], Any]) -> list[Any]:
    return [asked() for _ in rounds.forwards()]


def _find(rounds: Rounds, asked: Callable[[], Any]) -> Any:
    return next((element for element in rounds.forwards() if as_bool(asked())), None)


def _find_last(rounds: Rounds, asked: Callable[[], Any]) -> Any:
    return next((element for element in rounds.backwards() if as_bool(asked())), None)


def _find_index(rounds: Rounds, asked: Callable[[], Any]) -> int | None:
    return next((rounds.index for _ in rounds.forwards() if as_bool(asked())), None)


def _find_last_index(rounds: Rounds, asked: Callable[[], Any]) -> int | None:
    return next((rounds.index for _ in rounds.backwards() if as_bool(asked())), None)


def _sum(rounds: Rounds, asked: Callable[[], Any]) -> Any:
    total: Any = 0
    for _ in rounds.forwards():
        total = add(asked(), total)
    return total


def _group_by(rounds: Rounds, asked: Callable[[], Any]) -> Groups:
    groups = Groups()
    for element in rounds.forwards():
        key = asked()
        if isinstance(key, list | dict):
            raise ExpressionError(f"runtime error: hash of unhashable type {go_type(key)}")
        groups.setdefault(key, []).append(element)
    return groups


def _sort_by(rounds: Rounds, asked: Callable[[], Any], order: Any = "asc") -> list[Any]:
    if as_string(order) not in ("asc", "desc"):
        raise ExpressionError("unknown order, use asc or desc")
    keys = [asked() for _ in rounds.forwards()]
    return sorted_by(rounds.values, keys, descending=order == "desc")


def _reduce(rounds: Rounds, asked: Callable[[], Any], *initial: Any) -> Any:
    rounds.accumulator = initial[0] if initial else rounds.element()
    for _ in rounds.forwards(0 if initial else 1):
        rounds.accumulator = asked()
    return rounds.accumulator


PREDICATE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "all": _all,
    "none": _none,
    "any": _any,
    "one": lambda rounds, asked: _count(rounds, asked) == 1,
    "filter": _filter,
    "map": _map,
    "count": _count,
    "sum": _sum,
    "find": _find,
    "findIndex": _find_index,
    "findLast": _find_last,
    "findLastIndex": _find_last_index,
    "groupBy": _group_by,
    "sortBy": _sort_by,
    "reduce": _reduce,
}
