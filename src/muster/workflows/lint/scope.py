"""What a `{{tag}}` may refer to at a given place, and whether it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.kube.field_errors import join_path
from muster.workflows.lang.tags import find_tags
from muster.workflows.lint.field_rules import Findings, expression_problem

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
_TAG = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
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
        return _TAG.sub(lambda tag: "x" if self._is_known(tag[1]) else tag[0], text)

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
