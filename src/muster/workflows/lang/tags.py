"""Template tags: replaces `{{ path }}` and `{{= expression }}` in any JSON-like value by Argo's rules.

A tag ends at the first `}}`. Blanks around a path are ignored, but `=` must follow the braces directly. A replacement
is not searched for tags again: a tag inside a tag needs another substitution. Two things differ from Argo: unclosed
braces stay where tags may stay, and `let` works in every mode.

Values are data: they come from Pods and other users. Where a text is substituted several times, braces that came from a
value are marked, so that no later substitution takes them for a tag. In Argo, a value that looks like a tag is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from muster.workflows.lang.clock import SYSTEM_CLOCK, Clock
from muster.workflows.lang.environment import build_environment, evaluate_in, find_missing, required_variables
from muster.workflows.lang.errors import ExpressionError, MissingVariable
from muster.workflows.lang.expr.evaluator import evaluate
from muster.workflows.lang.go_encoding import to_json
from muster.workflows.lang.go_strings import SPACES, replace_invalid_bytes
from muster.workflows.lang.limits import count_text

_LATE_VARIABLES = frozenset(
    (
        "item",
        "retries",
        "lastRetry.exitCode",
        "lastRetry.status",
        "lastRetry.duration",
        "lastRetry.message",
        "workflow.status",
        "workflow.failures",
    )
)
"""Variables that are set late. An expression that names one waits for it, even if it could be evaluated without."""
_ARTIFACTS = ".outputs.artifacts."
_MARK = "\ufdd0"
"""Separates two braces of a value. Unicode reserves this character for such internal use."""
_BLANKS = "".join(char for char in SPACES if char >= " ")


class Tag(NamedTuple):
    text: str
    """The text between the braces; of an expression, without its `=`."""
    is_expression: bool
    at: int
    """Where the braces start in the string."""

    @property
    def path(self) -> str:
        """The variable that a simple tag names.

        Line breaks and tabs around it are part of the name: Argo looks at JSON text, where they are escaped.
        """
        return self.text.strip(_BLANKS)


def substitute(
    value: Any,
    scope: Mapping[str, Any],
    *,
    allow_unresolved: bool = False,
    required: Sequence[str] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    mark: bool = False,
) -> Any:
    """Returns the value with every tag in its strings, keys included, replaced from a flat scope such as
    `{"inputs.parameters.size": "3"}`.

    Raises MissingVariable if a tag's variable is not in the scope. With `allow_unresolved`, such a tag stays as it is.
    With `required`, it stays unless it starts with one of those words (`tasks`, `steps`); tags of output artifacts,
    which are resolved elsewhere, may always stay. A variable that is None is an output that was not produced: an
    expression can fall back from it with `??`. In a simple tag it is an error in every mode, and so is an invalid
    expression. With `mark`, the result can be substituted again; `without_marks` returns the final value.
    """
    replacer = _Replacer(scope, allow_unresolved, required, clock, mark)
    try:
        return _map_strings(value, replacer.replace)
    except RecursionError:
        raise ExpressionError("the template is nested too deeply") from None


def mark_value(value: Any) -> Any:
    """Returns a value (data) such that nothing in it is a tag. `without_marks` returns it as it was."""
    return _map_strings(value, _mark)


def without_marks(value: Any) -> Any:
    """Returns the final value: texts that were substituted with `mark` as they are meant."""
    if isinstance(value, str):
        return _unmark(value)
    return _map_strings(value, _unmark) if _has_marks(value) else value


def _mark(text: str) -> str:
    return text.replace("{{", f"{{{_MARK}{{").replace("{{", f"{{{_MARK}{{") if "{{" in text else text


def _unmark(text: str) -> str:
    return text.replace(_MARK, "") if _MARK in text else text


def _has_marks(value: Any) -> bool:
    if isinstance(value, str):
        return _MARK in value
    if isinstance(value, dict):
        return any(_MARK in key or _has_marks(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_has_marks, value))


def find_tags(text: str, *, allow_open: bool = False) -> Iterator[Tag]:
    """Yields the tags of a string. Raises ExpressionError for unclosed braces, unless those are allowed."""
    at = 0
    while (start := text.find("{{", at)) >= 0:
        end = text.find("}}", start + 2)
        if end < 0:
            if allow_open:
                return
            raise ExpressionError("the tag that starts here has no '}}'", text, start)
        inside = text[start + 2 : end]
        is_expression = inside.startswith("=")
        yield Tag(inside[1:] if is_expression else inside, is_expression, start)
        at = end + 2


def find_tags_in(value: Any) -> Iterator[Tag]:
    """Yields the tags of every string in a value."""
    for text in _iterate_strings(value):
        yield from find_tags(text)


def resolve(text: str, scope: Mapping[str, Any], clock: Clock = SYSTEM_CLOCK) -> Any:
    """Returns the value of the one variable or expression that a text consists of, with or without braces.

    This is what `parameter:` and `from:` contain.
    """
    inside = text.removeprefix("{{").removesuffix("}}").strip(SPACES)
    if not inside.startswith("="):
        if inside not in scope:
            raise MissingVariable(f'Unable to resolve: "{inside}"', text, 0)
        return scope[inside]
    result = evaluate_in(inside[1:], scope, clock)
    if result is None:
        raise ExpressionError(f'Unable to resolve: "{inside}"', text, 0)
    return result


class _Replacer:
    def __init__(
        self, scope: Mapping[str, Any], allow_unresolved: bool, required: Sequence[str] | None, clock: Clock, mark: bool
    ) -> None:
        self.mark = mark
        self.scope = scope
        self.required = required
        self.strict = required is None and not allow_unresolved
        self.clock = clock

    def replace(self, text: str) -> str:
        if "{{" not in text:
            return text if self.mark else _unmark(text)
        out: list[str] = []
        end = 0
        for tag in find_tags(text, allow_open=not self.strict):
            out.append(text[end : tag.at])
            found = self.replace_expression(tag, text) if tag.is_expression else self.replace_simple(tag, text)
            out.append(found)
            end = tag.at + len(tag.text) + 4 + tag.is_expression
            count_text(len(out[-2]) + len(out[-1]))
        count_text(len(text) - end)
        out.append(text[end:])
        return _join_marked(out) if self.mark else _unmark("".join(out))

    def must_resolve(self, name: str) -> bool:
        if self.required is None:
            return self.strict
        return any(name == word or name.startswith(word + ".") for word in self.required)

    def replace_simple(self, tag: Tag, text: str) -> str:
        if tag.path not in self.scope:
            return self.replace_nested(tag, text)
        value = self.scope[tag.path]
        if value is None:
            message = f"unable to substitute {{{{{tag.text}}}}}: output is an absent optional"
            raise ExpressionError(f"{message} (skipped/omitted node with no default)", text, tag.at)
        if not isinstance(value, str):
            raise ExpressionError(f"failed to resolve {{{{{tag.text}}}}} to string", text, tag.at)
        return _mark(value) if self.mark else value

    def replace_nested(self, tag: Tag, text: str) -> str:
        """Replaces the inner tag of `{{a-{{b}}}}` and leaves the result for the next substitution."""
        before, braces, inner = tag.text.rpartition("{{")
        if braces and before and inner in self.scope:
            value = self.scope[inner]
            if value is None:
                message = f'unable to substitute nested tag {{{{{tag.text}}}}}: "{inner}" is an absent optional'
                raise ExpressionError(message, text, tag.at)
            if isinstance(value, str):
                return f"{{{{{before}{_mark(value) if self.mark else value}"
        if self.must_resolve(tag.path) and not (self.required is not None and _ARTIFACTS in tag.path):
            raise MissingVariable(f"failed to resolve {{{{{tag.text}}}}}", text, tag.at)
        return f"{{{{{tag.text}}}}}"

    def replace_expression(self, tag: Tag, text: str) -> str:
        kept = f"{{{{={tag.text}}}}}"
        try:
            env = build_environment(self.scope, tag.text)
            lacking = find_missing(required_variables(tag.text), env)
        except ExpressionError as error:
            raise self.expression_error(error, tag, text) from None
        for name in lacking:
            if self.must_resolve(name):
                raise MissingVariable(f"failed to evaluate expression: {name} is missing", text, tag.at)
        may_stay = bool(lacking) or not (self.strict or self.required)
        if may_stay and not _LATE_VARIABLES.isdisjoint(lacking):
            return kept
        try:
            result = evaluate(tag.text, env, self.clock)
            if result is not None:
                found = _to_text(result)
                return _mark(found) if self.mark else found
        except ExpressionError as error:
            if not may_stay:
                raise self.expression_error(error, tag, text) from None
        if not may_stay:
            raise ExpressionError(f'failed to evaluate expression "{tag.text}"', text, tag.at)
        return kept

    def expression_error(self, error: ExpressionError, tag: Tag, text: str) -> ExpressionError:
        """Returns the error of an expression with its position in the string that contains it."""
        hint = error.hint
        if "{" in tag.text and not hint and "unexpected token EOF" in error.message:
            hint = "A tag ends at the first '}}': put a space between the closing braces of an expression."
        at = tag.at + 3 + (error.at or 0)
        prefix = "" if error.message.startswith("failed to ") else "failed to evaluate expression: "
        return ExpressionError(prefix + error.message, text, at, hint)


def _join_marked(parts: list[str]) -> str:
    """Joins parts such that the braces at the end of one and the start of the next do not become a tag."""
    out: list[str] = []
    for part in parts:
        if part and out and part[0] == "{" and out[-1][-1] == "{":
            out.append(_MARK)
        if part:
            out.append(part)
    return "".join(out)


def _to_text(result: Any) -> str:
    """Returns a string as it is, and anything else as JSON."""
    if isinstance(result, str):
        return replace_invalid_bytes(result)
    try:
        written = to_json(result)
    except ExpressionError as error:
        raise ExpressionError(f"failed to marshal evaluated expression: {error.message}", at=0) from None
    # Times and versions are strings in JSON; their quotes are dropped.
    return written[1:-1] if len(written) > 1 and written[0] == written[-1] == '"' else written


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_strings(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_map_strings(inner, change) for inner in value]
    return value


def _iterate_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _iterate_strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_strings(inner)
