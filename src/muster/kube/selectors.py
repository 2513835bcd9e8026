"""Label selectors, node-affinity expressions and field selectors: compiled once, then matched fast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeAlias

from muster.kube.errors import BadRequest, Cause
from muster.kube.objects import Object

Test: TypeAlias = Callable[[Mapping[str, str]], bool]


class Requirement(NamedTuple):
    """One condition on one label. The operators are those of the API: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in ("In", "NotIn"):
            if len(self.values) == 1:
                return f"{self.key}{'=' if self.operator == 'In' else '!='}{self.values[0]}"
            return f"{self.key} {self.operator.lower()} ({','.join(sorted(self.values))})"
        if self.operator == "DoesNotExist":
            return f"!{self.key}"
        sign = {"Gt": ">", "Lt": "<"}.get(self.operator, "")
        return f"{self.key}{sign}{''.join(self.values)}"


@dataclass(frozen=True, slots=True, eq=False)
class LabelSelector:
    """Matches labels that meet all requirements; without any, everything. `str()` is the form for a URL."""

    requirements: tuple[Requirement, ...]
    _exact: tuple[tuple[str, str], ...]
    _tests: tuple[Test, ...]

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        present = labels or {}
        for key, value in self._exact:
            if present.get(key) != value:
                return False
        return not self._tests or all(test(present) for test in self._tests)

    def __bool__(self) -> bool:
        """Whether it restricts anything."""
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(r) for r in self.requirements)


class SelectableField(NamedTuple):
    """A field that field selectors may name."""

    path: str
    """Where its value is, which the name does not always say."""
    default: str = ""
    """The value of an object without the field."""
    instead: str = ""
    """Another path, for objects without a value at the first one."""


class _FieldTest(NamedTuple):
    path: tuple[str, ...]
    equal: bool
    value: str
    default: str = ""
    instead: tuple[str, ...] = ()


def _text_at(obj: Any, path: tuple[str, ...]) -> str:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj if isinstance(obj, str) else _as_text(obj)


@dataclass(frozen=True, slots=True, eq=False)
class FieldSelector:
    """Matches objects whose fields have, or do not have, certain values. A missing field counts as ''."""

    requirements: tuple[tuple[str, bool, str], ...]
    """(path, whether it must be equal, value)"""
    _tests: tuple[_FieldTest, ...]

    def matches(self, obj: Object) -> bool:
        for path, equal, value, default, instead in self._tests:
            found = _text_at(obj, path)
            if instead and not found:
                found = _text_at(obj, instead)
            if ((found or default) == value) is not equal:
                return False
        return True

    def select_from(self, fields: Mapping[str, SelectableField]) -> FieldSelector:
        """Returns the selector with the paths and defaults of the kind's fields. Raises BadRequest for a field that
        they lack: an empty list would look like an answer."""
        known = {**_COMMON_FIELDS, **fields}
        for name, _, _ in self.requirements:
            if name not in known:
                why = f"field label not supported: {name}; this kind has {', '.join(known)}"
                _raise_invalid("fieldSelector", f'the field selector "{self}" cannot be used: {why}')
        return FieldSelector(
            self.requirements,
            tuple(
                _FieldTest(
                    tuple(known[name].path.split(".")),
                    equal,
                    value,
                    known[name].default,
                    tuple(known[name].instead.split(".")) if known[name].instead else (),
                )
                for name, equal, value in self.requirements
            ),
        )

    def exact(self, path: str) -> str | None:
        """Returns the one value that the field at `path` must have, if any: `metadata.name` makes a list a get."""
        return next((value for at, equal, value in self.requirements if at == path and equal), None)

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(f"{path}{'=' if equal else '!='}{_escape(value)}" for path, equal, value in self.requirements)


_COMMON_FIELDS = {path: SelectableField(path) for path in ("metadata.name", "metadata.namespace")}

LONGEST_CACHED = 1024
"""Longer selectors are parsed each time, so that they do not fill the memory."""


def parse_labels(text: str) -> LabelSelector:
    """Parses `app=web,tier in (a, b),!legacy,gpus>3`: the form of `kubectl get -l` and of the labelSelector
    parameter."""
    return _parse_labels(text) if len(text) <= LONGEST_CACHED else _parse_labels.__wrapped__(text)


@lru_cache(maxsize=4096)
def _parse_labels(text: str) -> LabelSelector:
    return compile_requirements(_Parser(text).requirements())


def label_selector_from(selector: Mapping[str, Any]) -> LabelSelector:
    """Converts the form in objects: `matchLabels` and `matchExpressions`."""
    for name in selector:
        if name not in ("matchLabels", "matchExpressions"):
            _raise_invalid(name, f'unknown field "{name}" in a label selector; it has matchLabels and matchExpressions')
    labels = selector.get("matchLabels") or {}
    if not isinstance(labels, Mapping):
        _raise_invalid("matchLabels", "matchLabels must be a map of label names to values")
    exact = [Requirement(str(key), "In", (_text("matchLabels", value),)) for key, value in labels.items()]
    expressions = _requirements(
        selector.get("matchExpressions") or (), "matchExpressions", ("In", "NotIn", "Exists", "DoesNotExist")
    )
    return compile_requirements([*exact, *expressions])


def compile_expressions(expressions: Sequence[Mapping[str, Any]]) -> LabelSelector:
    """Compiles the `matchExpressions` of a node selector term, which also have Gt and Lt."""
    return compile_requirements(_requirements(expressions, "matchExpressions", tuple(_TESTS)))


_TOLERATION = re.compile(
    r"(?P<key>([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)"
    r"(=(?P<value>([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?))?"
    r"(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
)


def parse_toleration(taint: str) -> dict[str, str] | None:
    """Returns the toleration of a taint as `kubectl taint` writes it, `key[=value][:effect]`; None if it is not one.
    Without a value or an effect, every value and effect is tolerated."""
    found = _TOLERATION.fullmatch(taint)
    if found is None:
        return None
    value, effect = found["value"], found["effect"]
    toleration = {"key": found["key"], "operator": "Exists" if value is None else "Equal"}
    if value is not None:
        toleration["value"] = value
    if effect:
        toleration["effect"] = effect
    return toleration


def match_expressions(expressions: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """Matches once. To match many nodes, keep the result of `compile_expressions`."""
    return compile_expressions(expressions).matches(labels)


def parse_fields(text: str) -> FieldSelector:
    """Parses `metadata.name=web,status.phase!=Running`: the form of `kubectl get --field-selector`. In a value, `,`,
    `=` and `\\` are escaped with a backslash."""
    return _parse_fields(text) if len(text) <= LONGEST_CACHED else _parse_fields.__wrapped__(text)


@lru_cache(maxsize=4096)
def _parse_fields(text: str) -> FieldSelector:
    found = [_field_requirement(term, text) for term in _split_terms(text) if term.strip()]
    tests = tuple(_FieldTest(tuple(path.split(".")), equal, value) for path, equal, value in found)
    return FieldSelector(tuple(found), tests)


def compile_requirements(requirements: Iterable[Requirement]) -> LabelSelector:
    checked = tuple(requirements)
    for requirement in checked:
        _check(requirement)
    exact = [r for r in checked if r.operator == "In" and len(r.values) == 1]
    return LabelSelector(
        checked,
        tuple((r.key, r.values[0]) for r in exact),
        tuple(_TESTS[r.operator](r.key, r.values) for r in checked if r.operator != "In" or len(r.values) != 1),
    )


def _in(key: str, values: tuple[str, ...]) -> Test:
    allowed = frozenset(values)
    return lambda labels: labels.get(key) in allowed


def _not_in(key: str, values: tuple[str, ...]) -> Test:
    refused = frozenset(values)
    return lambda labels: labels.get(key) not in refused


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[+-]?[0-9]{1,19}", text) else None


def _greater(key: str, values: tuple[str, ...]) -> Test:
    bound = int(values[0])
    return lambda labels: (found := _integer(labels.get(key))) is not None and found > bound


def _less(key: str, values: tuple[str, ...]) -> Test:
    bound = int(values[0])
    return lambda labels: (found := _integer(labels.get(key))) is not None and found < bound


_TESTS: dict[str, Callable[[str, tuple[str, ...]], Test]] = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": lambda key, values: lambda labels: key in labels,
    "DoesNotExist": lambda key, values: lambda labels: key not in labels,
    "Gt": _greater,
    "Lt": _less,
}

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_NAME_RULE = (
    'it starts and ends with a letter or digit, has "-", "_" and "." only in between, and at most 63 characters'
)
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def _check(requirement: Requirement) -> None:
    key, operator, values = requirement
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name):
        _raise_invalid(key, f'"{key}" is not a label name: {_NAME_RULE}')
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        _raise_invalid(key, f'"{key}" is not a label name: what stands before the "/" must be a DNS name in lower case')
    if operator in ("In", "NotIn") and not values:
        _raise_invalid(key, f"label {key}: {operator} needs at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        _raise_invalid(key, f"label {key}: {operator} takes no values; it was given {', '.join(values)}")
    if operator in ("Gt", "Lt"):
        if len(values) != 1 or _integer(values[0]) is None:
            _raise_invalid(
                key, f"label {key}: {operator} needs exactly one value, an integer; it was given {list(values)}"
            )
        return
    for value in values:
        if value and not _NAME.fullmatch(value):
            _raise_invalid(key, f'label {key}: "{value}" is not a label value: {_NAME_RULE}')


def _requirements(expressions: Any, where: str, operators: tuple[str, ...]) -> list[Requirement]:
    if not isinstance(expressions, list | tuple):
        _raise_invalid(where, f"{where} must be a list")
    found = []
    for number, expression in enumerate(expressions):
        at = f"{where}[{number}]"
        if not isinstance(expression, Mapping) or not expression.get("key"):
            _raise_invalid(f"{at}.key", f"{at}: a key is required, the name of a label")
        operator = expression.get("operator")
        if operator not in operators:
            _raise_invalid(f"{at}.operator", f'{at}: "{operator}" is not an operator; one of {", ".join(operators)}')
        values = expression.get("values") or ()
        if not isinstance(values, list | tuple):
            _raise_invalid(f"{at}.values", f"{at}: values must be a list")
        found.append(Requirement(str(expression["key"]), operator, tuple(_text(f"{at}.values", v) for v in values)))
    return found


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        _raise_invalid(where, f'{where}: {value!r} is not text; put it in quotes, "{_as_text(value)}"')
    return value


def _raise_invalid(field: str, message: str) -> NoReturn:
    raise BadRequest(message, causes=[Cause(field, message)])


_TOKEN = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^\s=!(),<>]+))")


class _Parser:
    """Recursive descent over the tokens of a label selector. `in` and `notin` are special only as operators."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        position = 0
        while found := _TOKEN.match(text, position):
            self._tokens.append((found[1] or found[2], found.start(1) if found[1] else found.start(2)))
            position = found.end()
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if not self._tokens:
            return found
        while True:
            found.append(self._requirement())
            if self._peek() == "":
                return found
            self._expect(",", "',' or the end")
            if self._peek() == "":
                self._fail("a label after ','")

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._word("a label name after '!'"), "DoesNotExist")
        key = self._word("a label name or '!'")
        operator = self._peek()
        if operator in ("", ","):
            return Requirement(key, "Exists")
        if operator in ("=", "==", "!="):
            self._take()
            value = "" if self._peek() in ("", ",") else self._word("a value")
            return Requirement(key, "NotIn" if operator == "!=" else "In", (value,))
        if operator in (">", "<"):
            self._take()
            return Requirement(key, "Gt" if operator == ">" else "Lt", (self._word("an integer"),))
        if operator in ("in", "notin"):
            self._take()
            return Requirement(key, "In" if operator == "in" else "NotIn", self._values())
        return self._fail("one of =, ==, !=, in, notin, <, >, ',' or the end")

    def _values(self) -> tuple[str, ...]:
        """`(a, b)`; nothing between two commas is the empty value."""
        self._expect("(", "'('")
        values: list[str] = []
        while True:
            values.append("" if self._peek() in (",", ")") else self._word("a value, ',' or ')'"))
            if self._peek() == ")":
                self._take()
                return tuple(dict.fromkeys(values))
            self._expect(",", "',' or ')'")

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _word(self, expected: str) -> str:
        token = self._peek()
        if token == "" or token[0] in "=!(),<>":
            self._fail(expected)
        return self._take()

    def _expect(self, token: str, expected: str) -> None:
        if self._peek() != token:
            self._fail(expected)
        self._take()

    def _fail(self, expected: str) -> NoReturn:
        token = self._peek()
        found = f"'{token}' at position {self._tokens[self._next][1] + 1}" if token else "the end"
        _raise_invalid(
            "labelSelector", f'unable to parse the label selector "{self._text}": found {found}, expected {expected}'
        )


def _split_terms(text: str) -> list[str]:
    return re.findall(r"(?:\\.|[^,\\]|\\$)+", text)


def _field_requirement(term: str, text: str) -> tuple[str, bool, str]:
    found = re.fullmatch(r"\s*([^\s=!]+)\s*(==|!=|=)((?:\\.|[^=\\])*)", term, re.DOTALL)
    if found is None:
        why = f'"{term.strip()}" is not path=value, path==value or path!=value'
        _raise_invalid("fieldSelector", f'unable to parse the field selector "{text}": {why}')
    path, operator, value = found.groups()
    if not all(path.removeprefix(".").split(".")):
        _raise_invalid("fieldSelector", f'"{path}" is not the path of a field; one looks like status.phase')
    return path.removeprefix("."), operator != "!=", _unescape(value.strip(), term)


def _unescape(value: str, term: str) -> str:
    for escaped in re.findall(r"\\(.?)", value):
        if escaped not in ("\\", ",", "="):
            _raise_invalid("fieldSelector", f'"{term.strip()}": a backslash may only stand before "\\", "," or "="')
    return re.sub(r"\\(.)", r"\1", value)


def _escape(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
