"""Rules for single fields: names, template types, expressions, `when`, `depends`, durations; and the list of
findings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from muster.kube.errors import Cause
from muster.kube.field_errors import closest_word, join_path
from muster.workflows.lang import depends, go_time, govaluate
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr import parser

_HINTS = 20
"""How many findings get a hint: searching for similar names takes time."""
_CANDIDATES = 500


class Findings:
    """Collects causes. Those in another object that a template is taken from are reported at the field that names
    it."""

    def __init__(self, causes: list[Cause] | None = None, at: str = "", object_name: str = "") -> None:
        self.causes: list[Cause] = [] if causes is None else causes
        self._at = at
        self._object = object_name

    def add(self, field: str, message: str) -> None:
        if self._object:
            field, message = self._at, f"in {self._object}, {field}: {message}"
        self.causes.append(Cause(field, message))

    def elsewhere(self, at: str, object_name: str) -> Findings:
        """For problems in another object that the field `at` names. For references from there the field stays the
        same."""
        return Findings(self.causes, self._at if self._object else at, object_name)

    @property
    def may_hint(self) -> bool:
        return len(self.causes) < _HINTS

    def suggestion(self, word: str, words: Collection[str], before: str = '"', after: str = '"') -> str:
        """Returns `; did you mean "x"?` if a known name is similar."""
        if not self.may_hint:
            return ""
        some = list(words) if len(words) <= _CANDIDATES else [w for w in words if w[:1] == word[:1]][:_CANDIDATES]
        near = closest_word(word, some)
        return f"; did you mean {before}{near}{after}?" if near else ""


_FIELD = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9]*", re.ASCII)
_VALUE = re.compile(r"[-a-zA-Z0-9_]+", re.ASCII)
_TAG = re.compile(r"\{\{.+?\}\}", re.DOTALL)
_LONGEST = 128
_FIELD_RULE = (
    "name must consist of alpha-numeric characters or '-', and must start with an alpha-numeric character "
    "(e.g. My-name1-2, 123-NAME)"
)
_VALUE_RULE = "Parameter/Artifact name must consist of alpha-numeric characters, '_' or '-' e.g. my_param_1, MY-PARAM-1"


def field_name_problem(name: str) -> str:
    """Returns what is wrong with the name of a template, step, task or container, or ''."""
    if len(name) > _LONGEST:
        return f"must be no more than {_LONGEST} characters"
    return "" if _FIELD.fullmatch(name) else _FIELD_RULE


def value_name_problem(name: str) -> str:
    """Returns what is wrong with the name of a parameter or artifact, or ''."""
    return "" if _VALUE.fullmatch(name) else _VALUE_RULE


def check_names(
    findings: Findings, items: Sequence[Any], path: str, *, values: bool = False, tags: bool = False
) -> None:
    """Checks that every item has a valid, unique name. With `tags`, what they will be filled with is assumed to be
    valid."""
    seen: set[str] = set()
    problem = value_name_problem if values else field_name_problem
    for index, item in enumerate(items):
        name = item.get("name") or ""
        field = join_path(path, f"[{index}].name")
        if not name:
            findings.add(field, "name is required")
            continue
        wrong = problem(_TAG.sub("x", name) if tags else name)
        if wrong:
            findings.add(field, f"'{name}' is invalid: {wrong}")
        elif name in seen:
            findings.add(field, f"name '{name}' is not unique")
        seen.add(name)


_ANY_TAG = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_MOST_TAGS = 6
_STAND_INS = ("true", "==")
"""What a tag in a `when` may be replaced by, as far as the grammar is concerned: a value or an operator."""


def expression_problem(text: str) -> str:
    """Returns the problem of an expr-lang expression. With tags in it, it can be anything."""
    if "{{" in text:
        return ""
    try:
        parser.parse(text)
    except ExpressionError as error:
        return f"failed to evaluate expression: {error}"
    return ""


def when_problem(text: str) -> str:
    """Returns the problem of a `when`, where bare words are strings."""
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
    """Returns the problem of a duration such as `1h30m`; with `plain_seconds`, `90` is valid."""
    if "{{" in text or (plain_seconds and _is_integer(text)):
        return ""
    try:
        go_time.parse_duration(text)
    except ExpressionError:
        seconds = ', or "90" for seconds' if plain_seconds else ""
        return f'unable to parse {text} as a duration; write it as "1h30m", "10s"{seconds}'
    return ""


def integer_problem(value: int | str) -> str:
    """Returns the problem of a number that may be a tag: a limit, a count."""
    if isinstance(value, int) or "{{" in value or _is_integer(value):
        return ""
    return f"value '{value}' cannot be resolved to an int; write a number, or a tag like {{{{inputs.parameters.x}}}}"


def _filled(text: str) -> Iterator[str]:
    parts = _ANY_TAG.split(text)
    count = len(parts) - 1
    choices = product(_STAND_INS, repeat=count) if count <= _MOST_TAGS else [("true",) * count]
    for choice in choices:
        yield "".join(part + fill for part, fill in zip(parts, (*choice, ""), strict=True))


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"[-+]?[0-9]+", text) is not None


TYPES = ("container", "containerSet", "steps", "dag", "script", "resource", "data", "suspend", "http", "plugin")
LEAVES = frozenset(("container", "containerSet", "script", "resource", "data", "http", "plugin"))
"""The types that run something; suspend does not."""
POD_TYPES = frozenset(("container", "containerSet", "script", "resource", "data"))


def types_of(template: Mapping[str, Any]) -> list[str]:
    return [kind for kind in TYPES if template.get(kind) is not None]


def type_of(template: Mapping[str, Any]) -> str:
    """Returns '' for a template without a type."""
    return next((kind for kind in TYPES if template.get(kind) is not None), "")
