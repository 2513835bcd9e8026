"""The functions of expr-lang that take no predicate: on strings, numbers, lists and maps, times, and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.operators import as_int, as_string, fetch, less, sort_by_keys
from muster.workflows.lang.expr.types import (
    ANY,
    ARRAY,
    FLOAT,
    INT,
    TIME,
    BuiltinFunction,
    Type,
    check_kind,
    expect_count,
    is_of_kind,
    type_named,
    with_check,
    with_signatures,
)
from muster.workflows.lang.go_encoding import decode64, encode64, from_json, to_json
from muster.workflows.lang.go_numbers import divide, parse_float, parse_int, to_int, wrap_int64
from muster.workflows.lang.go_strings import SPACES, lower, upper
from muster.workflows.lang.go_time import Zone, load_zone, parse_duration
from muster.workflows.lang.go_time_layout import RFC822, RFC850, RFC1123, RFC3339
from muster.workflows.lang.go_time_values import Duration, Month, Time, Weekday, parse_time
from muster.workflows.lang.go_values import (
    AnyMap,
    NilList,
    NilStrings,
    Opaque,
    Pairs,
    Strings,
    byte_length,
    equality_key,
    format_value,
    go_kind,
    go_type,
    is_integer,
    is_number,
)
from muster.workflows.lang.limits import MEMORY, check_count, check_length

# -- Lists and maps


def length(value: Any) -> int:
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise ExpressionError(f"invalid argument for len (type {go_type(value)})")


def get(base: Any, key: Any) -> Any:
    """Returns an element or a field, or nil if there is none."""
    if base is None:
        return None
    if isinstance(base, list | str):
        at = as_int(key)
        size = len(base) if isinstance(base, list) else byte_length(base)
        return fetch(base, at) if -size <= at < size else None
    if isinstance(base, Mapping):
        wanted = "" if key is None else key
        return None if type(wanted) is str and wanted not in base else fetch(base, wanted)
    return base.method(key) if isinstance(base, Opaque) and type(key) is str else None


def _end_element(name: str, at: int) -> BuiltinFunction:
    def call(values: Any) -> Any:
        try:
            return fetch(values, at)
        except ExpressionError:
            return None

    def check(arguments: Sequence[Type]) -> Type:
        expect_count(arguments, 1)
        if arguments[0].is_unknown:
            return ANY
        if not arguments[0].is_array:
            raise ExpressionError(f"cannot get {name} element from {arguments[0].label}")
        return type_named(arguments[0].name[2:])

    return with_check(call, check)


def _take(values: Any, count: Any) -> Any:
    _expect_list("take from", values)
    if not is_integer(count):
        raise ExpressionError(f"cannot take {go_kind(count)} elements")
    if count < 0:
        raise ExpressionError("reflect.Value.Slice: slice index out of bounds")
    return type(values)(values[: int(count)])


def _check_take(arguments: Sequence[Type]) -> Type:
    expect_count(arguments, 2)
    if not is_of_kind(arguments[0], "array"):
        raise ExpressionError(f"cannot take from {arguments[0].label}")
    if not is_of_kind(arguments[1], "integer"):
        raise ExpressionError(f"cannot take {arguments[1].label} elements")
    return arguments[0]


def _keys(value: Any) -> list[Any]:
    return _sorted_keys("get keys from %s", value)


def _values(value: Any) -> list[Any]:
    return [value[key] for key in _sorted_keys("get values from %s", value)]


def _to_pairs(value: Any) -> Pairs:
    return Pairs([key, value[key]] for key in _sorted_keys("transform %s to pairs", value))


def _sorted_keys(doing: str, value: Any) -> list[Any]:
    """Returns the keys in a fixed order. Go's maps have none."""
    if not isinstance(value, Mapping):
        raise ExpressionError("cannot " + doing.replace("%s", go_kind(value)))
    return sorted(value, key=lambda key: (str(type(key)), key if isinstance(key, str | int | float) else str(key)))


def _from_pairs(pairs: Any) -> AnyMap:
    if not isinstance(pairs, list):
        raise ExpressionError(f"cannot transform {format_value(pairs)} from pairs")
    out = AnyMap()
    for pair in pairs:
        if not isinstance(pair, list):
            raise ExpressionError(f"invalid pair {format_value(pair)}")
        if len(pair) != 2:
            raise ExpressionError(f"invalid pair length {format_value(pair)}")
        if isinstance(pair[0], list | dict):
            raise ExpressionError(f"runtime error: hash of unhashable type {go_type(pair[0])}")
        out[pair[0]] = pair[1]
    return out


def _reverse(values: Any) -> list[Any]:
    _expect_list("reverse", values)
    return list(reversed(values))


def _uniq(values: Any) -> list[Any]:
    _expect_list("uniq", values)
    first: dict[Any, Any] = {}
    for value in values:
        first.setdefault(equality_key(value, of_numbers=True), value)
    return list(first.values())


def _concat(*lists: Any) -> list[Any]:
    for values in lists:
        _expect_list("concat", values)
    check_count(sum(map(len, lists)))
    return [value for values in lists for value in values] or NilList()


def _check_concat(arguments: Sequence[Type]) -> Type:
    if not arguments:
        raise ExpressionError("invalid number of arguments (expected at least 1, got 0)")
    for argument in arguments:
        if not is_of_kind(argument, "array"):
            raise ExpressionError(f"cannot concat {argument.label}")
    return ARRAY


def _flatten(values: Any) -> list[Any]:
    _expect_list("flatten", values)
    out: list[Any] = []
    waiting = [iter(values)]
    while waiting:
        for value in waiting[-1]:
            if isinstance(value, list):
                waiting.append(iter(value))
                break
            out.append(value)
        else:
            waiting.pop()
    check_count(len(out))
    return out


def _sort(values: Any, order: Any = "asc") -> list[Any]:
    if as_string(order) not in ("asc", "desc"):
        raise ExpressionError(f"invalid order {order}, expected asc or desc")
    if not isinstance(values, list):
        return NilList()
    return sort_by_keys(values, values, descending=order == "desc")


def _expect_list(doing: str, value: Any) -> None:
    if not isinstance(value, list):
        raise ExpressionError(f"cannot {doing} {go_kind(value)}")


_COLLECTION_FUNCTIONS: dict[str, BuiltinFunction] = {
    "len": with_check(length, check_kind("array map string", "invalid argument for len (type %s)", INT)),
    "first": _end_element("first", 0),
    "last": _end_element("last", -1),
    "get": BuiltinFunction(get),
    "take": with_check(_take, _check_take),
    "keys": with_check(_keys, check_kind("map", "cannot get keys from %s", ARRAY)),
    "values": with_check(_values, check_kind("map", "cannot get values from %s", ARRAY)),
    "toPairs": with_check(_to_pairs, check_kind("map", "cannot transform %s to pairs", ARRAY)),
    "fromPairs": with_check(
        _from_pairs, check_kind("array", "cannot transform %s from pairs", type_named("map[interface {}]interface {}"))
    ),
    "reverse": with_check(_reverse, check_kind("array", "cannot reverse %s", ARRAY)),
    "uniq": with_check(_uniq, check_kind("array", "cannot uniq %s", ARRAY)),
    "concat": with_check(_concat, _check_concat),
    "flatten": with_check(_flatten, check_kind("array", "cannot flatten %s", ARRAY)),
    "sort": with_signatures(
        _sort,
        "[]interface {}, string -> []interface {}",
        "[]int, string -> []interface {}",
        "[]float64, string -> []interface {}",
        "[]string, string -> []interface {}",
        "[]interface {} -> []interface {}",
        "[]float64 -> []interface {}",
        "[]string -> []interface {}",
        "[]int -> []interface {}",
    ),
}


# -- Conversions

_NAMES = {"int64": "int", "uint8": "uint", "float64": "float"}


def type_name(value: Any) -> str:
    """Returns `type(value)`: nil, bool, int, uint, float, string, array, map, func, or the name of a Go type."""
    name = go_type(value)
    if value is None:
        return "nil"
    if name.startswith("["):
        return "array"
    if name.startswith("map["):
        return "map"
    if name.startswith("func("):
        return "func"
    return _NAMES.get(name, name)


_CONVERSION_FUNCTIONS: dict[str, BuiltinFunction] = {
    "type": with_signatures(type_name, "any -> string"),
    "string": with_signatures(format_value, "any -> string"),
    "toJSON": with_signatures(lambda value: to_json(value, indent="  "), "any -> string"),
    "fromJSON": with_signatures(lambda text: from_json(as_string(text)), "string -> any"),
    "toBase64": with_signatures(lambda text: encode64(as_string(text)), "string -> string"),
    "fromBase64": with_signatures(lambda text: decode64(as_string(text)), "string -> string"),
}


# -- Numbers and bits


def to_integer(value: Any) -> int:
    """Returns `int(value)`, which Argo also calls `asInt`."""
    if type(value) is float:
        return to_int(value)
    if is_integer(value) or isinstance(value, Duration | Month | Weekday):
        return int(value)
    number = parse_int(value) if type(value) is str else None
    if number is None:
        raise ExpressionError(f"invalid operation: int({value if type(value) is str else go_type(value)})")
    return number


def to_float(value: Any) -> float:
    """Returns `float(value)`, which Argo also calls `asFloat`."""
    if is_number(value):
        return float(value)
    number = parse_float(value) if type(value) is str else None
    if number is None:
        raise ExpressionError(f"invalid operation: float({value if type(value) is str else go_type(value)})")
    return number


def _abs(value: Any) -> Any:
    _expect_number("abs", value)
    return abs(value) if type(value) is float else type(value)(wrap_int64(abs(value)))


def _rounding_function(name: str, function: Callable[[float], float]) -> BuiltinFunction:
    def call(value: Any) -> float:
        _expect_number(name, value)
        number = float(value)
        return number if is_integer(value) or not math.isfinite(number) else math.copysign(function(number), number)

    return with_check(call, check_kind("number", f"invalid argument for {name} (type %s)", FLOAT))


def _away_from_zero(number: float) -> float:
    whole = math.floor(abs(number))
    return float(whole + (abs(number) - whole >= 0.5))


def _expect_number(name: str, value: Any) -> None:
    if not is_number(value):
        raise ExpressionError(f"invalid argument for {name} (type {go_type(value)})")


def _flatten_numbers(name: str, values: Sequence[Any]) -> list[Any]:
    """Returns the numbers in nested lists."""
    numbers: list[Any] = []
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(reversed(value))
        else:
            _expect_number(name, value)
            numbers.append(value)
    return numbers


def _extreme_function(name: str, better: Callable[[Any, Any], bool]) -> BuiltinFunction:
    def call(*values: Any) -> Any:
        if len(values) == 1 and not isinstance(values[0], list):
            return values[0]
        best: Any = None
        for value in _flatten_numbers(name, values):
            if best is None or better(value, best):
                best = value
        return best

    return with_check(call, _check_numbers(name))


def _mean(*values: Any) -> float:
    numbers = [float(n) for n in _flatten_numbers("mean", values)]
    total = 0.0
    for number in numbers:
        total += number
    return divide(total, len(numbers)) if numbers else 0.0


def _median(*values: Any) -> float:
    numbers = sorted(float(n) for n in _flatten_numbers("median", values))
    middle = len(numbers) // 2
    if not numbers:
        return 0.0
    return numbers[middle] if len(numbers) % 2 else (numbers[middle - 1] + numbers[middle]) / 2


def _check_numbers(name: str) -> Callable[[Sequence[Type]], Type]:
    def check(arguments: Sequence[Type]) -> Type:
        if not arguments:
            raise ExpressionError(f"not enough arguments to call {name}")
        for argument in arguments:
            if argument.is_unknown or argument.is_array:
                return ANY
            if not argument.is_number and argument.kind not in ("int", "int64"):
                raise ExpressionError(f"invalid argument for {name} (type {argument.label})")
        return arguments[0]

    return check


def _bit_function(name: str, function: Callable[[int, int], int]) -> BuiltinFunction:
    def call(a: Any, b: Any) -> int:
        for value in (a, b):
            if not is_integer(value):
                raise ExpressionError(f"cannot use {go_type(value)} as argument (type int) to call {name}")
        if name in ("bitshl", "bitshr", "bitushr") and b < 0:
            raise ExpressionError(f"invalid operation: negative shift count {int(b)} (type int)")
        return wrap_int64(function(int(a), int(b)))

    return with_signatures(call, "int, int -> int")


def _not(value: Any) -> int:
    if not is_integer(value):
        raise ExpressionError(f"cannot use {go_type(value)} as argument (type int) to call bitnot")
    return ~int(value)


_NUMBER_FUNCTIONS: dict[str, BuiltinFunction] = {
    "abs": with_check(_abs, check_kind("number", "invalid argument for abs (type %s)")),
    "ceil": _rounding_function("ceil", math.ceil),
    "floor": _rounding_function("floor", math.floor),
    "round": _rounding_function("round", _away_from_zero),
    "int": with_check(to_integer, check_kind("number string", "invalid argument for int (type %s)", INT)),
    "float": with_check(to_float, check_kind("number string", "invalid argument for float (type %s)", FLOAT)),
    "max": _extreme_function("max", lambda value, best: less(best, value)),
    "min": _extreme_function("min", lambda value, best: less(value, best)),
    "mean": with_check(_mean, _check_numbers("mean")),
    "median": with_check(_median, _check_numbers("median")),
    "bitand": _bit_function("bitand", lambda a, b: a & b),
    "bitor": _bit_function("bitor", lambda a, b: a | b),
    "bitxor": _bit_function("bitxor", lambda a, b: a ^ b),
    "bitnand": _bit_function("bitnand", lambda a, b: a & ~b),
    "bitshl": _bit_function("bitshl", lambda a, b: a << b if b < 64 else 0),
    "bitshr": _bit_function("bitshr", lambda a, b: a >> b),
    "bitushr": _bit_function("bitushr", lambda a, b: (a % 2**64) >> b),
    "bitnot": with_signatures(_not, "int -> int"),
}


# -- Strings


def go_split(text: str, separator: str, most: int = -1) -> list[str]:
    """Go's strings.SplitN: an empty separator splits into characters, a negative count means all pieces."""
    if most == 0:
        return []
    if not separator:
        check_count(len(text))
        return list(text) if most < 0 or most >= len(text) else [*text[: most - 1], text[most - 1 :]]
    return text.split(separator, most - 1 if most > 0 else -1)


def go_replace(text: str, old: str, new: str, most: int = -1) -> str:
    """Go's strings.Replace: an empty `old` matches between all characters."""
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
    """Returns a nil list if there are no pieces, which is so only for a count of zero."""
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


_STRING_FUNCTIONS: dict[str, BuiltinFunction] = {
    "trim": with_signatures(_trim, "string -> string", "string, string -> string"),
    "trimPrefix": with_signatures(_trim_prefix, "string, string -> string", "string -> string"),
    "trimSuffix": with_signatures(_trim_suffix, "string, string -> string", "string -> string"),
    "upper": with_signatures(lambda text: upper(as_string(text)), "string -> string"),
    "lower": with_signatures(lambda text: lower(as_string(text)), "string -> string"),
    "split": with_signatures(_split, "string, string -> []string", "string, string, int -> []string"),
    "splitAfter": with_signatures(_split_after, "string, string -> []string", "string, string, int -> []string"),
    "replace": with_signatures(_replace, "string, string, string, int -> string", "string, string, string -> string"),
    "repeat": with_signatures(_repeat, "string, int -> string"),
    "join": with_signatures(
        _join,
        "[]string, string -> string",
        "[]interface {}, string -> string",
        "[]interface {} -> string",
        "[]string, string -> string",
        "[]string -> string",
    ),
    "indexOf": with_signatures(_index, "string, string -> int"),
    "lastIndexOf": with_signatures(_last_index, "string, string -> int"),
    "hasPrefix": with_signatures(
        lambda text, part: as_string(text).startswith(as_string(part)), "string, string -> bool"
    ),
    "hasSuffix": with_signatures(
        lambda text, part: as_string(text).endswith(as_string(part)), "string, string -> bool"
    ),
}


# -- Times

_LAYOUTS = ("2006-01-02", "15:04:05", "2006-01-02 15:04:05", RFC3339, RFC822, RFC850, RFC1123)
_LOCATION = "*time.Location"


def now(moment: int, *arguments: Any) -> Time:
    """Returns `now()` or `now(timezone)` for a time."""
    if len(arguments) == 1 and isinstance(arguments[0], Zone):
        return Time(moment, arguments[0])
    if arguments:
        raise ExpressionError(f"invalid number of arguments (expected 0, got {len(arguments)})")
    return Time(moment)


def _date(*arguments: Any) -> Time:
    zone = arguments[0] if isinstance(arguments[0], Zone) else None
    text, *rest = arguments[1:] if zone else arguments
    if len(rest) == 2:
        zone = load_zone(as_string(rest[1]))
    if rest:
        return parse_time(as_string(rest[0]), as_string(text), zone or load_zone("UTC"))
    for layout in _LAYOUTS:
        try:
            return parse_time(layout, as_string(text), zone or load_zone("UTC"))
        except ExpressionError:
            continue
    raise ExpressionError(f"invalid date {as_string(text)}")


def _check_date(arguments: Sequence[Type]) -> Type:
    if not arguments:
        raise ExpressionError("invalid number of arguments (expected at least 1, got 0)")
    given = len(arguments) - (arguments[0].name == _LOCATION)
    if given > 3:
        raise ExpressionError(f"invalid number of arguments (expected at most 3, got {given})")
    return TIME


def _check_now(arguments: Sequence[Type]) -> Type:
    if arguments and not (len(arguments) == 1 and arguments[0].name == _LOCATION):
        raise ExpressionError(f"invalid number of arguments (expected 0, got {len(arguments)})")
    return TIME


_TIME_FUNCTIONS: dict[str, BuiltinFunction] = {
    "now": with_check(now, _check_now),
    "duration": with_signatures(lambda text: Duration(parse_duration(as_string(text))), "string -> time.Duration"),
    "date": with_check(_date, _check_date),
    "timezone": with_signatures(lambda name: load_zone(as_string(name)), f"string -> {_LOCATION}"),
}


# -- All functions

BUILTIN_FUNCTIONS: dict[str, BuiltinFunction] = {
    **_STRING_FUNCTIONS,
    **_NUMBER_FUNCTIONS,
    **_COLLECTION_FUNCTIONS,
    **_CONVERSION_FUNCTIONS,
    **_TIME_FUNCTIONS,
}
