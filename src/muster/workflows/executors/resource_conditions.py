"""successCondition and failureCondition: label selectors over the fields of an object, `status.phase == Succeeded`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from muster.kube.errors import BadRequest
from muster.kube.objects import Object
from muster.kube.selectors import LabelSelector, compile_requirements, parse_labels


class ResourceError(Exception):
    """The step cannot do what it says, and a retry would not help. The message is that of the node."""


class Term(NamedTuple):
    """One requirement, and its text in messages."""

    text: str
    test: LabelSelector


class Conditions(NamedTuple):
    success: tuple[Term, ...] = ()
    failure: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self.success or self.failure)


def parse_conditions(success: str, failure: str) -> Conditions:
    return Conditions(_terms("success", success), _terms("fail", failure))


def evaluate_conditions(conditions: Conditions, obj: Object) -> str | None:
    """Returns '' once all terms of the success condition hold, a message once a term of the failure condition holds,
    and None while waiting. Without a success condition, an object that has not failed has succeeded."""
    fields = _Fields(obj)
    for term in conditions.failure:
        if term.test.matches(fields):
            return f"failure condition '{term.text}' evaluated true"
    return "" if all(term.test.matches(fields) for term in conditions.success) else None


def _terms(what: str, text: str) -> tuple[Term, ...]:
    try:
        requirements = parse_labels(text).requirements
    except BadRequest as error:
        raise ResourceError(f"{what} condition '{text}' failed to parse: {error.message}") from None
    return tuple(Term(_shown(str(r), r.key, r.operator, text), compile_requirements([r])) for r in requirements)


def _shown(requirement: str, key: str, operator: str, text: str) -> str:
    """Shows the operator as the user wrote it: a selector treats `=`, `==` and `in` with one value the same."""
    written = re.search(rf"(?<![\w./-]){re.escape(key)}\s*(==|in\b|notin\b)\s*\(?\s*([\w.-]*)", text)
    if operator not in ("In", "NotIn") or written is None or " " in requirement:
        return requirement
    value = requirement.partition("=")[2]
    return f"{key}=={value}" if written[1] == "==" else f"{key} {written[1]} ({value})"


class _Fields(Mapping[str, str]):
    """An object's fields by path (`status.conditions.0.type`), each as text."""

    def __init__(self, obj: Object) -> None:
        self._object = obj

    def __getitem__(self, path: str) -> str:
        found: Any = self._object
        for step in path.split("."):
            if isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            elif isinstance(found, dict) and step in found:
                found = found[step]
            else:
                raise KeyError(path)
        return _text(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._object)

    def __len__(self) -> int:
        return len(self._object)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()
