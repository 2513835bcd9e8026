"""`jqFilter`: the part of jq that people read objects with. What is not there is refused by name.

There are paths, pipes, commas, `?`, `//`, arithmetic, comparisons, objects and arrays, interpolation, `if`, `try`,
`reduce`, `as`, formats, and the functions of `jq_functions`; no definitions, no assignments, no `foreach`, no dates.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import orjson

from muster.workflows.lang.jq_functions import PLAIN, add, compare, fetch, formatted, kind, order, shown, sliced, truth
from muster.workflows.lang.jq_syntax import (
    Array,
    Binary,
    Bind,
    Call,
    Each,
    Field,
    Filter,
    Fold,
    If,
    JqError,
    Literal,
    Negative,
    Object,
    Slice,
    Text,
    Try,
    UnknownFunction,
    Variable,
    parse,
)

__all__ = ["JqError", "jq", "jq_text"]

_MOST = 200_000
"""How many values a filter may make on its way: the server has other things to do."""

_parsed = lru_cache(maxsize=256)(parse)


def jq(text: str, value: Any) -> list[Any]:
    """Everything the filter finds. Raises JqError."""
    try:
        return list(_Run().values(_parsed(text), value, {}))
    except RecursionError:
        raise JqError(f'"{text}" goes too deep') from None


def jq_text(text: str, value: Any) -> str:
    """As Argo makes a parameter of it: a line for each value, strings without quotes."""
    return "\n".join(shown(found) for found in jq(text, value)).strip()


class _Run:
    def __init__(self) -> None:
        self.made = 0

    def values(self, node: Filter, value: Any, names: dict[str, Any]) -> Iterator[Any]:
        self.made += 1
        if self.made > _MOST:
            raise JqError("the filter makes too many values")
        match node:
            case Literal(constant):
                yield constant
            case Variable(name):
                yield self.variable(name, names)
            case Field(of, key):
                for at in self.values(key, value, names):
                    for found in self.values(of, value, names):
                        yield fetch(found, at)
            case Each(of):
                for found in self.values(of, value, names):
                    yield from _each(found)
            case Slice(of, start, end):
                for found in self.values(of, value, names):
                    yield sliced(found, self.bound(start, value, names), self.bound(end, value, names))
            case Try(body, otherwise):
                try:
                    yield from self.values(body, value, names)
                except UnknownFunction:
                    raise
                except JqError as error:
                    if otherwise is not None:
                        yield from self.values(otherwise, str(error), names)
            case Negative(of):
                for found in self.values(of, value, names):
                    yield PLAIN["_negate"](found)
            case Bind(source, name, body):
                for found in self.values(source, value, names):
                    yield from self.values(body, value, {**names, name: found})
            case Fold(source, name, start, update):
                yield self.folded(source, name, start, update, value, names)
            case If(condition, then, otherwise):
                for found in self.values(condition, value, names):
                    yield from self.values(then if truth(found) else otherwise, value, names)
            case Array(items):
                yield list(self.values(items, value, names)) if items is not None else []
            case Object(pairs):
                yield from self.objects(pairs, value, names)
            case Text(parts, format):
                yield from self.texts(parts, format, value, names)
            case Binary(operator, left, right):
                yield from self.binary(operator, left, right, value, names)
            case Call(name, arguments):
                yield from self.call(name, arguments, value, names)

    def variable(self, name: str, names: dict[str, Any]) -> Any:
        if name not in names:
            raise JqError(f"${name} is not defined")
        return names[name]

    def bound(self, node: Filter | None, value: Any, names: dict[str, Any]) -> Any:
        return None if node is None else next(self.values(node, value, names), None)

    def folded(
        self, source: Filter, name: str, start: Filter, update: Filter, value: Any, names: dict[str, Any]
    ) -> Any:
        made = next(self.values(start, value, names), None)
        for found in self.values(source, value, names):
            results = list(self.values(update, made, {**names, name: found}))
            made = results[-1] if results else None
        return made

    def objects(self, pairs: tuple[tuple[Any, Any], ...], value: Any, names: dict[str, Any]) -> Iterator[Any]:
        if not pairs:
            yield {}
            return
        (key, of), *rest = pairs
        for name in self.values(key, value, names):
            if not isinstance(name, str):
                raise JqError(f"an object's key must be a string, not {_named(name)}")
            for found in self.values(of, value, names):
                for others in self.objects(tuple(rest), value, names):
                    yield {name: found, **others}

    def texts(self, parts: tuple[Any, ...], format: str, value: Any, names: dict[str, Any]) -> Iterator[str]:
        if not parts:
            yield ""
            return
        head, *rest = parts
        for found in self.values(head, value, names):
            text = found if isinstance(head, Literal) else formatted(format, found)
            for others in self.texts(tuple(rest), format, value, names):
                yield text + others

    def binary(self, operator: str, left: Filter, right: Filter, value: Any, names: dict[str, Any]) -> Iterator[Any]:
        if operator == "|":
            for found in self.values(left, value, names):
                yield from self.values(right, found, names)
        elif operator == ",":
            yield from self.values(left, value, names)
            yield from self.values(right, value, names)
        elif operator == "//":
            good = [found for found in self.values(Try(left), value, names) if truth(found)]
            yield from good if good else self.values(right, value, names)
        elif operator in ("and", "or"):
            for first in self.values(left, value, names):
                if truth(first) is (operator == "or"):
                    yield operator == "or"
                else:
                    yield from (truth(second) for second in self.values(right, value, names))
        else:
            for second in self.values(right, value, names):
                for first in self.values(left, value, names):
                    yield compare(operator, first, second)

    def call(self, name: str, arguments: tuple[Filter, ...], value: Any, names: dict[str, Any]) -> Iterator[Any]:
        def of(node: Filter, given: Any) -> Iterator[Any]:
            return self.values(node, given, names)

        def key(node: Filter) -> Any:
            return lambda item: order(list(of(node, item)))

        match name, arguments:
            case ".", ():
                yield value
            case "empty", ():
                return
            case "select", (test,):
                for found in of(test, value):
                    if truth(found):
                        yield value
            case "map", (change,):
                yield [new for item in _each(value) for new in of(change, item)]
            case "map_values", (change,):
                firsts = {k: list(of(change, v))[:1] for k, v in _items(value)}
                made = {k: new[0] for k, new in firsts.items() if new}
                yield list(made.values()) if isinstance(value, list) else made
            case "with_entries", (change,):
                entries = PLAIN["to_entries"](value)
                yield PLAIN["from_entries"]([new for entry in entries for new in of(change, entry)])
            case (("any" | "all"), (test,)):
                found = (truth(said) for item in _each(value) for said in of(test, item))
                yield any(found) if name == "any" else all(found)
            case (("any" | "all"), (source, test)):
                found = (truth(said) for item in of(source, value) for said in of(test, item))
                yield any(found) if name == "any" else all(found)
            case "recurse", ():
                yield from self.recursed(value)
            case "first", (source,):
                yield from list(_limited(of(source, value), 1))
            case "last", (source,):
                yield from list(of(source, value))[-1:]
            case "limit", (count, source):
                for most in of(count, value):
                    yield from _limited(of(source, value), most)
            case "range", (end,):
                for last in of(end, value):
                    yield from self.counted(0, last)
            case "range", (start, end):
                for first in of(start, value):
                    for last in of(end, value):
                        yield from self.counted(first, last)
            case "add", (source,):
                yield add(list(of(source, value)))
            case "sort_by", (by,):
                yield sorted(_list(value), key=key(by))
            case "min_by", (by,):
                yield min(_list(value), key=key(by), default=None)
            case "max_by", (by,):
                yield max(reversed(_list(value)), key=key(by), default=None)
            case "group_by", (by,):
                groups: dict[bytes, list[Any]] = {}
                for item in sorted(_list(value), key=key(by)):
                    groups.setdefault(orjson.dumps(list(of(by, item))), []).append(item)
                yield list(groups.values())
            case "unique_by", (by,):
                distinct = {orjson.dumps(list(of(by, item))): item for item in reversed(_list(value))}
                yield sorted(distinct.values(), key=key(by))
            case (("nulls" | "booleans" | "numbers" | "strings" | "arrays" | "objects"), ()):
                if f"{kind(value)}s" == name:
                    yield value
            case (("values" | "scalars" | "iterables"), ()):
                if {"values": value is not None}.get(name, isinstance(value, dict | list) is (name == "iterables")):
                    yield value
            case "error", ():
                raise JqError(shown(value))
            case "error", (message,):
                raise JqError(shown(next(of(message, value), None)))
            case _:
                function = PLAIN.get(name)
                if function is None or name.startswith("_"):
                    raise UnknownFunction(f'there is no function "{name}" with {len(arguments)} arguments here')
                for given in self.products(arguments, value, names):
                    yield _called(name, value, given)

    def products(self, arguments: tuple[Filter, ...], value: Any, names: dict[str, Any]) -> Iterator[list[Any]]:
        if not arguments:
            yield []
            return
        for found in self.values(arguments[0], value, names):
            for rest in self.products(arguments[1:], value, names):
                yield [found, *rest]

    def recursed(self, value: Any) -> Iterator[Any]:
        self.made += 1
        if self.made > _MOST:
            raise JqError("the filter makes too many values")
        yield value
        if isinstance(value, dict | list):
            for item in _each(value):
                yield from self.recursed(item)

    def counted(self, first: Any, last: Any) -> Iterator[Any]:
        if isinstance(first, bool | str) or not isinstance(first, int | float) or not isinstance(last, int | float):
            raise JqError("range takes numbers")
        while first < last:
            self.made += 1
            if self.made > _MOST:
                raise JqError("the filter makes too many values")
            yield first
            first += 1


def _called(name: str, value: Any, given: list[Any]) -> Any:
    try:
        return PLAIN[name](value, *given)
    except JqError:
        raise
    except TypeError as error:
        if "argument" in str(error):
            raise UnknownFunction(f'there is no function "{name}" with {len(given)} arguments here') from None
        raise JqError(f"{_named(value)} cannot be given to {name}") from None
    except (ValueError, AttributeError, KeyError, IndexError, OverflowError):
        raise JqError(f"{_named(value)} cannot be given to {name}") from None


def _limited(values: Iterator[Any], most: int) -> Iterator[Any]:
    for number, found in enumerate(values):
        if number >= most:
            return
        yield found
        if number + 1 >= most:
            return


def _each(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return _list(value, "iterate over")


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else list(enumerate(_list(value)))


def _list(value: Any, doing: str = "index") -> list[Any]:
    if not isinstance(value, list):
        raise JqError(f"cannot {doing} {_named(value)}")
    return value


def _named(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return kind(value) if value is None else f"{kind(value)} ({text[:30]}{'...' * (len(text) > 30)})"
