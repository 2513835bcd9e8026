"""What jq's operators and functions do to values, once their arguments are known."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import orjson

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_regex import Regex, compile_regex
from muster.workflows.lang.jq_syntax import JqError

_ORDER = ("null", "boolean", "number", "string", "array", "object")


def truth(value: Any) -> bool:
    return value is not None and value is not False


def kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return "null" if value is None else names[type(value)]


def shown(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def to_json(value: Any) -> str:
    return orjson.dumps(_whole(value)).decode()


def _whole(value: Any) -> Any:
    """Numbers without a fraction are written without one."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e17 else value
    if isinstance(value, dict):
        return {name: _whole(inner) for name, inner in value.items()}
    return [_whole(inner) for inner in value] if isinstance(value, list) else value


def fetch(value: Any, key: Any) -> Any:
    if value is None and (key is None or isinstance(key, str | int | float)):
        return None
    if isinstance(value, dict) and isinstance(key, str):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int | float) and not isinstance(key, bool):
        at = math.floor(key)
        return value[at] if -len(value) <= at < len(value) else None
    with_key = f' with "{key}"' if isinstance(key, str) else f" with {kind(key)}"
    raise JqError(f"cannot index {kind(value)}{with_key}")


def sliced(value: Any, start: Any, end: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, list | str):
        raise JqError(f"cannot slice {kind(value)}")
    return value[None if start is None else math.floor(start) : None if end is None else math.ceil(end)]


def order(value: Any) -> tuple[Any, ...]:
    """A key that sorts all values as jq does."""
    rank = _ORDER.index(kind(value))
    if isinstance(value, dict):
        names = sorted(value)
        return rank, names, [order(value[name]) for name in names]
    if isinstance(value, list):
        return rank, [order(item) for item in value]
    return rank, value if value is not None else 0


def add(values: list[Any]) -> Any:
    total: Any = None
    for value in values:
        total = compare("+", total, value)
    return total


def compare(operator: str, a: Any, b: Any) -> Any:
    """Comparisons and arithmetic."""
    match operator:
        case "==":
            return order(a) == order(b)
        case "!=":
            return order(a) != order(b)
        case "<":
            return order(a) < order(b)
        case "<=":
            return order(a) <= order(b)
        case ">":
            return order(a) > order(b)
        case ">=":
            return order(a) >= order(b)
    if operator == "+" and (a is None or b is None):
        return a if b is None else b
    kinds = {kind(a), kind(b)}
    if kinds == {"number"}:
        return _computed(operator, a, b)
    if operator == "+" and len(kinds) == 1 and kinds <= {"string", "array"}:
        return a + b
    if operator == "+" and kinds == {"object"}:
        return {**a, **b}
    if operator == "-" and kinds == {"array"}:
        return [item for item in a if not any(order(item) == order(other) for other in b)]
    if operator == "*" and kinds == {"object"}:
        return _merged(a, b)
    if operator == "/" and kinds == {"string"}:
        return _split(a, b)
    raise JqError(f"{kind(a)} and {kind(b)} cannot be combined by {operator}")


def _computed(operator: str, a: Any, b: Any) -> Any:
    if operator in ("/", "%") and int(b) == 0 and (operator == "%" or b == 0):
        raise JqError(f"{a} cannot be divided by zero")
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "%":
            return int(math.fmod(int(a), int(b)))
    return a // b if isinstance(a, int) and isinstance(b, int) and a % b == 0 else a / b


def _merged(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    both = {k: _merged(a[k], v) if isinstance(a.get(k), dict) and isinstance(v, dict) else v for k, v in b.items()}
    return {**a, **both}


def formatted(format: str, value: Any) -> str:
    match format:
        case "" | "text":
            return shown(value)
        case "json":
            return to_json(value)
        case "base64":
            return base64.b64encode(shown(value).encode()).decode()
        case "base64d":
            try:
                return base64.b64decode(shown(value) + "==").decode(errors="replace")
            except ValueError:
                raise JqError("this is not base64") from None
        case "uri":
            return quote(shown(value), safe="-_.~")
        case "html":
            return html.escape(shown(value))
        case "csv" | "tsv" | "sh":
            return _row(format, value)
    raise JqError(f"there is no format @{format} here")


def _row(format: str, value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    if format == "sh":
        return " ".join("'" + shown(i).replace("'", "'\\''") + "'" if isinstance(i, str) else shown(i) for i in items)
    if format == "csv":
        return ",".join('"' + i.replace('"', '""') + '"' if isinstance(i, str) else _cell(i) for i in items)
    escapes = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
    return "\t".join(_cell(i).translate(escapes) for i in items)


def _cell(value: Any) -> str:
    if isinstance(value, dict | list):
        raise JqError(f"{kind(value)} cannot stand in a row")
    return "" if value is None else shown(value)


def _length(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, bool):
        raise JqError("boolean has no length")
    return abs(value) if isinstance(value, int | float) else len(value)


def _keys(value: Any) -> list[Any]:
    return sorted(value) if isinstance(value, dict) else list(range(len(_checked(value, list))))


def _has(value: Any, key: Any) -> bool:
    return key in value if isinstance(value, dict) else 0 <= key < len(_checked(value, list))


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, dict) and isinstance(part, dict):
        return all(k in value and _contains(value[k], v) for k, v in part.items())
    if isinstance(value, list) and isinstance(part, list):
        return all(any(kind(v) == kind(p) and _contains(v, p) for v in value) for p in part)
    if isinstance(value, str) and isinstance(part, str):
        return part in value
    if kind(value) != kind(part):
        raise JqError(f"{kind(value)} and {kind(part)} cannot have their containment checked")
    return order(value) == order(part)


def _entries(value: Any) -> list[dict[str, Any]]:
    return [{"key": k, "value": v} for k, v in _checked(value, dict).items()]


def _from_entries(value: Any) -> dict[str, Any]:
    made = {}
    for entry in _checked(value, list):
        key = next((entry[n] for n in ("key", "k", "name", "Name", "Key", "K") if entry.get(n) is not None), None)
        made["null" if key is None else shown(key)] = next(
            (entry[n] for n in ("value", "v", "Value") if n in entry), None
        )
    return made


def _to_number(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        return int(_checked(value, str)) if re.fullmatch(r"-?\d+", value) else float(value)
    except ValueError:
        raise JqError(f'"{value}" cannot be read as a number') from None


def _unique(value: Any) -> list[Any]:
    made: list[Any] = []
    for item in sorted(_checked(value, list), key=order):
        if not made or order(made[-1]) != order(item):
            made.append(item)
    return made


def _flatten(value: Any, depth: int = 1_000) -> list[Any]:
    made = []
    for item in _checked(value, list):
        made += _flatten(item, depth - 1) if isinstance(item, list) and depth > 0 else [item]
    return made


def _join(value: Any, between: str) -> str:
    return between.join("" if item is None else shown(item) for item in _checked(value, list))


def _split(value: Any, by: str, flags: str | None = None) -> list[str]:
    if not value:
        return []
    if flags is not None:
        return _pattern(by, flags).split(_checked(value, str), -1)
    return _checked(value, str).split(by) if by else list(value)


def _index(value: Any, part: Any, *, last: bool = False) -> Any:
    if isinstance(value, str):
        at = value.rfind(part) if last else value.find(part)
        return at if at >= 0 else None
    places = [n for n, item in enumerate(_checked(value, list)) if order(item) == order(part)]
    return places[-1 if last else 0] if places else None


def _pattern(pattern: str, flags: str | None) -> Regex:
    """Go's regular expressions, which never take long."""
    letters = "".join(sorted(set(flags or "") & set("is")))
    try:
        return compile_regex(f"(?{letters}){pattern}" if letters else pattern)
    except ExpressionError as error:
        raise JqError(str(error)) from None


def _test(value: Any, pattern: str, flags: str | None = None) -> bool:
    return _pattern(pattern, flags).matches(_checked(value, str))


def _capture(value: Any, pattern: str, flags: str | None = None) -> dict[str, Any]:
    regex = _pattern(pattern, flags)
    found = regex.find(_checked(value, str))
    if found is None:
        raise JqError(f'"{pattern}" does not match')
    pairs = zip(regex.names, found.groups, strict=True)
    return {name: value[start:end] if start >= 0 else None for name, (start, end) in pairs if name}


def _sub(value: Any, pattern: str, new: str, flags: str | None = None) -> str:
    if "g" in (flags or ""):
        return _gsub(value, pattern, new, flags)
    found = _pattern(pattern, flags).find(_checked(value, str))
    return str(value) if found is None else f"{value[: found.start]}{new}{value[found.end :]}"


def _gsub(value: Any, pattern: str, new: str, flags: str | None = None) -> str:
    return _pattern(pattern, flags).replace(_checked(value, str), new, literal=True)


def _from_json(value: Any) -> Any:
    try:
        return orjson.loads(_checked(value, str))
    except orjson.JSONDecodeError as error:
        raise JqError(f"this is not JSON: {error}") from None


def _checked(value: Any, wanted: type) -> Any:
    if not isinstance(value, wanted):
        raise JqError(f"{kind(value)} where {kind(wanted())} was expected")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise JqError(f"{kind(value)} where number was expected")
    return value


PLAIN: dict[str, Callable[..., Any]] = {
    "_negate": lambda v: -_number(v),
    "not": lambda v: not truth(v),
    "length": _length,
    "utf8bytelength": lambda v: len(_checked(v, str).encode()),
    "keys": _keys,
    "keys_unsorted": lambda v: list(v) if isinstance(v, dict) else _keys(v),
    "has": _has,
    "in": lambda v, where: _has(where, v),
    "contains": _contains,
    "inside": lambda v, whole: _contains(whole, v),
    "add": lambda v: add(list(v.values()) if isinstance(v, dict) else _checked(v or [], list)),
    "any": lambda v: any(truth(item) for item in _checked(v, list)),
    "all": lambda v: all(truth(item) for item in _checked(v, list)),
    "type": kind,
    "tostring": shown,
    "tonumber": _to_number,
    "tojson": to_json,
    "fromjson": _from_json,
    "to_entries": _entries,
    "from_entries": _from_entries,
    "sort": lambda v: sorted(_checked(v, list), key=order),
    "unique": _unique,
    "reverse": lambda v: (v or [])[::-1],
    "flatten": _flatten,
    "min": lambda v: min(_checked(v, list), key=order, default=None),
    "max": lambda v: max(_checked(v, list), key=order, default=None),
    "first": lambda v: fetch(v, 0),
    "last": lambda v: fetch(v, -1),
    "nth": fetch,
    "join": _join,
    "split": _split,
    "ascii_downcase": lambda v: _checked(v, str).lower(),
    "ascii_upcase": lambda v: _checked(v, str).upper(),
    "ltrimstr": lambda v, s: v.removeprefix(s) if isinstance(v, str) and isinstance(s, str) else v,
    "rtrimstr": lambda v, s: v.removesuffix(s) if isinstance(v, str) and isinstance(s, str) else v,
    "trim": lambda v: _checked(v, str).strip(),
    "ltrim": lambda v: _checked(v, str).lstrip(),
    "rtrim": lambda v: _checked(v, str).rstrip(),
    "startswith": lambda v, s: _checked(v, str).startswith(s),
    "endswith": lambda v, s: _checked(v, str).endswith(s),
    "test": _test,
    "capture": _capture,
    "sub": _sub,
    "gsub": _gsub,
    "index": _index,
    "rindex": lambda v, part: _index(v, part, last=True),
    "floor": lambda v: math.floor(_number(v)),
    "ceil": lambda v: math.ceil(_number(v)),
    "round": lambda v: math.floor(_number(v) + 0.5),
    "fabs": lambda v: abs(_number(v)),
    "sqrt": lambda v: math.sqrt(_number(v)),
}
"""The functions that take values, of the input and the arguments, and answer one."""
