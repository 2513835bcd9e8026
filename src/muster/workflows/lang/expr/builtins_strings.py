"""Functions of expr-lang on strings."""

from __future__ import annotations

from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.operators import as_int, as_string
from muster.workflows.lang.expr.types import BuiltinFunction, typed
from muster.workflows.lang.go_strings import SPACES, lower, upper
from muster.workflows.lang.go_values import NilStrings, Strings, byte_length, go_type
from muster.workflows.lang.limits import MEMORY, check_count, check_length


def go_split(text: str, separator: str, most: int = -1) -> list[str]:
    """strings.SplitN: every character for an empty separator, all pieces for a negative count, none for zero."""
    if most == 0:
        return []
    if not separator:
        check_count(len(text))
        return list(text) if most < 0 or most >= len(text) else [*text[: most - 1], text[most - 1 :]]
    return text.split(separator, most - 1 if most > 0 else -1)


def go_replace(text: str, old: str, new: str, most: int = -1) -> str:
    """strings.Replace: an empty `old` is found between all characters."""
    times = text.count(old) if most < 0 else min(most, text.count(old))
    check_length(len(text) + times * max(len(new) - len(old), 0))
    return text.replace(old, new, most)


def _trim(text: Any, cutset: Any = None) -> str:
    return as_string(text).strip(SPACES) if cutset is None else as_string(text).strip(as_string(cutset))


def _trim_prefix(text: Any, prefix: Any = " ") -> str:
    return as_string(text).removeprefix(as_string(prefix))


def _trim_suffix(text: Any, suffix: Any = " ") -> str:
    return as_string(text).removesuffix(as_string(suffix))


def _split(text: Any, separator: Any, most: Any = -1) -> Strings:
    return _pieces(go_split(as_string(text), as_string(separator), as_int(most)))


def _split_after(text: Any, separator: Any, most: Any = -1) -> Strings:
    pieces = go_split(as_string(text), as_string(separator), as_int(most))
    return _pieces([piece + separator for piece in pieces[:-1]] + pieces[-1:])


def _pieces(pieces: list[str]) -> Strings:
    """None at all only when none were asked for, and then Go has no list either."""
    return Strings(pieces) if pieces else NilStrings()


def _replace(text: Any, old: Any, new: Any, most: Any = -1) -> str:
    return go_replace(as_string(text), as_string(old), as_string(new), as_int(most))


def _repeat(text: Any, times: Any) -> str:
    count = as_int(times)
    if count < 0:
        raise ExpressionError(f"invalid argument for repeat (expected positive integer, got {count})")
    if count > MEMORY or byte_length(as_string(text)) * count >= MEMORY:
        raise ExpressionError("memory budget exceeded")
    return as_string(text) * count


def _join(parts: Any, glue: Any = "") -> str:
    if not isinstance(parts, list):
        raise ExpressionError(f"invalid argument for join (type {go_type(parts)})")
    strings = [as_string(part) for part in parts]
    check_length(sum(map(len, strings)) + len(as_string(glue)) * len(strings))
    return as_string(glue).join(strings)


def _index(text: Any, part: Any) -> int:
    return _byte_index(as_string(text), as_string(text).find(as_string(part)))


def _last_index(text: Any, part: Any) -> int:
    return _byte_index(as_string(text), as_string(text).rfind(as_string(part)))


def _byte_index(text: str, at: int) -> int:
    return at if at < 0 else byte_length(text[:at])


FUNCTIONS: dict[str, BuiltinFunction] = {
    "trim": typed(_trim, "string -> string", "string, string -> string"),
    "trimPrefix": typed(_trim_prefix, "string, string -> string", "string -> string"),
    "trimSuffix": typed(_trim_suffix, "string, string -> string", "string -> string"),
    "upper": typed(lambda text: upper(as_string(text)), "string -> string"),
    "lower": typed(lambda text: lower(as_string(text)), "string -> string"),
    "split": typed(_split, "string, string -> []string", "string, string, int -> []string"),
    "splitAfter": typed(_split_after, "string, string -> []string", "string, string, int -> []string"),
    "replace": typed(_replace, "string, string, string, int -> string", "string, string, string -> string"),
    "repeat": typed(_repeat, "string, int -> string"),
    "join": typed(
        _join,
        "[]string, string -> string",
        "[]interface {}, string -> string",
        "[]interface {} -> string",
        "[]string, string -> string",
        "[]string -> string",
    ),
    "indexOf": typed(_index, "string, string -> int"),
    "lastIndexOf": typed(_last_index, "string, string -> int"),
    "hasPrefix": typed(lambda text, part: as_string(text).startswith(as_string(part)), "string, string -> bool"),
    "hasSuffix": typed(lambda text, part: as_string(text).endswith(as_string(part)), "string, string -> bool"),
}
