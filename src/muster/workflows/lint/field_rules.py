"""Rules for single fields: names, template types, expressions, `when`, `depends`, durations; what a `{{tag}}` may refer
to at a given place; and the list of findings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from muster.kube.errors import Cause, closest_word, join_path
from muster.workflows.lang import depends, go_time, govaluate
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr import parser
from muster.workflows.lang.tags import find_tags

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


CHECKED = ("item.", "steps.", "inputs.", "outputs.", "pod.", "workflow.", "tasks.")
"""Other tags are assumed to be for other programs and are left as they are."""
_LATE = (
    "outputs.",
    "workflow.creationTimestamp",
    "workflow.scheduledTime",
    "workflow.duration",
    "tasks.name",
    "steps.name",
    "node.name",
)
_KNOWN_TAG = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_PARAMETERS = "workflow.outputs.parameters."
_ARTIFACTS = "workflow.outputs.artifacts."


@dataclass(slots=True)
class Globals:
    """What every template of a workflow sees."""

    names: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)
    """Those whose value is known already."""
    any_parameter: bool = False
    """`workflow.parameters.*` may come from the user of this template."""
    any_artifact_output: bool = False


@dataclass(slots=True)
class Scope:
    """What one template sees. `extra` is what one of its steps or tasks sees in addition."""

    everywhere: Globals
    names: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    """Prefixes of which all names are allowed, such as those of a step whose template is not available."""
    any_item: bool = False
    any_parameter_output: bool = False
    any_artifact_output: bool = False

    def without_known(self, text: str) -> str:
        """Returns the text with an x for every tag that will certainly be filled in."""
        return _KNOWN_TAG.sub(lambda tag: "x" if self._is_known(tag[1]) else tag[0], text)

    def _is_known(self, inside: str) -> bool:
        name = inside.strip()
        return inside.startswith("=") or name in self.names or name in self.everywhere.names

    def has(self, name: str, extra: frozenset[str] | set[str] = frozenset()) -> bool:
        """Also true for tags that are not ours, and for those known only when it runs."""
        if name in self.names or name in extra or name in self.everywhere.names:
            return True
        if not name.startswith(CHECKED) or name.startswith(_LATE):
            return True
        if name.startswith("item."):
            return self.any_item or "item.*" in extra
        if name.startswith(_PARAMETERS):
            return self.any_parameter_output
        if name.startswith(_ARTIFACTS):
            return self.any_artifact_output or self.everywhere.any_artifact_output
        if name.startswith("workflow.parameters"):
            return self.everywhere.any_parameter
        if self.open:
            head = name.split(".", 2)
            return len(head) > 2 and f"{head[0]}.{head[1]}." in self.open
        return False


def check_tags(
    findings: Findings,
    value: Any,
    path: str,
    scope: Scope,
    extra: frozenset[str] | set[str] = frozenset(),
    *,
    skip: frozenset[str] = frozenset(),
) -> None:
    """Checks that every tag in the value resolves and every expression parses. `skip`: fields of the value that are
    checked elsewhere."""
    for where, text in tagged_strings(value, path, skip):
        after = _open_tag(text)
        if after.startswith(CHECKED):
            findings.add(where, f"failed to resolve {{{{{after[:50]}: the tag has no }}}}")
        for tag in find_tags(text, allow_open=True):
            if tag.is_expression:
                wrong = expression_problem(tag.text)
                if wrong:
                    findings.add(where, wrong)
            elif not scope.has(tag.path, extra) and not _completed_later(tag.text, scope, extra):
                advice = _advice(findings, tag.path, scope, extra) if findings.may_hint else ""
                findings.add(where, f"failed to resolve {{{{{tag.text}}}}}{advice}")


def tagged_strings(value: Any, path: str, skip: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Yields the strings with a tag in them, including keys, and their paths."""
    if isinstance(value, str):
        if "{{" in value:
            yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in skip:
                continue
            if "{{" in key:
                yield path, key
            if isinstance(inner, str):
                if "{{" in inner:
                    yield join_path(path, _spelled(key)), inner
            elif inner and isinstance(inner, dict | list):
                yield from tagged_strings(inner, join_path(path, _spelled(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if isinstance(inner, str):
                if "{{" in inner:
                    yield f"{path}[{index}]", inner
            elif inner and isinstance(inner, dict | list):
                yield from tagged_strings(inner, f"{path}[{index}]")


def _completed_later(text: str, scope: Scope, extra: frozenset[str] | set[str]) -> bool:
    """For `workflow.parameters.{{inputs.parameters.which`: whether the inner tag is known, so the outer one will be."""
    before, _, inner = text.rpartition("{{")
    return bool(before) and inner.startswith(CHECKED) and scope.has(inner, extra)


def _open_tag(text: str) -> str:
    """Returns what follows braces that are not closed."""
    end = text.rfind("}}")
    _, braces, after = text[max(end, 0) :].partition("{{")
    return after if braces else ""


def _spelled(key: str) -> str:
    return f"[{key}]" if "." in key or "/" in key else key


def _advice(findings: Findings, name: str, scope: Scope, extra: frozenset[str] | set[str]) -> str:
    known = scope.names | scope.everywhere.names | extra
    root, *rest = name.split(".")
    if root in ("steps", "tasks") and rest:
        there = {k.split(".")[1] for k in known if k.startswith(f"{root}.")}
        if rest[0] not in there:
            what = "step that comes before" if root == "steps" else "task of this DAG"
            ending = "".join(f".{part}" for part in rest[1:])
            meant = findings.suggestion(rest[0], there, f"{{{{{root}.", ending + "}}")
            return meant or f'; "{rest[0]}" is not a {what}'
    parent = name.rpartition(".")[0] + "."
    alike = {k.removeprefix(parent) for k in known if k.startswith(parent)}
    meant = findings.suggestion(name.removeprefix(parent), alike, "{{" + parent, "}}")
    if meant:
        return meant
    if root in ("steps", "tasks") and rest:
        return f'; "{rest[0]}" has no such output; declare it under outputs of its template'
    if root == "inputs":
        return "; declare it under inputs of the template"
    if name.startswith("workflow.parameters."):
        return "; declare it under spec.arguments.parameters"
    if root == "item":
        return "; it needs withItems, withParam or withSequence"
    return ""
