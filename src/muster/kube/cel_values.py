"""The values of CEL: how they compare and combine, and the functions and methods that expressions may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final, TypeAlias

from muster.kube.quantity import QuantityError, parse_quantity
from muster.kube.schema_validation import compile_pattern

Function: TypeAlias = Callable[..., Any]
LONGEST_TEXT = 1_000_000
"""Characters of a string that an expression creates."""
_LONGEST_PATTERN = 10_000


class CelError(ValueError):
    """An expression cannot be parsed or evaluated."""


class UnknownFunction(CelError):
    """The expression is well-formed, but uses what this evaluator does not have."""


class TooExpensive(CelError):
    """The expression takes too many steps. `||` does not hide this."""


class StepBudget:
    """What several expressions may cost together."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def take(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooExpensive("the expression takes too many steps")


def to_bool(value: Any, sign: str) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{sign} needs true or false, not {type_name(value)}")
    return value


def bounded(number: int | float) -> int | float:
    """Integers of CEL have 64 bits."""
    if isinstance(number, int) and not -(2**63) <= number < 2**64:
        raise CelError("integer overflow")
    return number


def combine(sign: str, left: Any, right: Any, steps: StepBudget) -> Any:
    """Returns the result of a binary operator. Comparing values as a whole costs as many steps as they have parts."""
    if sign in ("==", "!="):
        return equal(left, right, steps) is (sign == "==")
    if sign == "in":
        if isinstance(right, list):
            return any(equal(left, item, steps) for item in right)
        if isinstance(right, dict):
            return left in right if isinstance(left, str) else False
        raise CelError(f"'in' needs a list or an object on its right side, not {type_name(right)}")
    if sign in ("<", "<=", ">", ">="):
        return compare(sign, left, right)
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > LONGEST_TEXT:
            raise TooExpensive(f"the expression creates a text of more than {LONGEST_TEXT} characters")
        return left + right
    if sign == "+" and isinstance(left, list) and isinstance(right, list):
        return left + right
    a, b = to_number(left, sign), to_number(right, sign)
    if sign in ("/", "%") and not b:
        raise CelError("division by zero")
    match sign:
        case "+":
            return bounded(a + b)
        case "-":
            return bounded(a - b)
        case "*":
            return bounded(a * b)
        case "%":
            return int(abs(a) % abs(b)) * (1 if a >= 0 else -1)
        case _:
            return int(a / b) if isinstance(a, int) and isinstance(b, int) else a / b


def equal(left: Any, right: Any, steps: StepBudget | None = None) -> bool:
    if steps is not None:
        steps.take(1 + len(left) // 64 if isinstance(left, str) else 1)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(equal(a, b, steps) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[name], right[name], steps) for name in left)
    return bool(left == right)


def compare(sign: str, left: Any, right: Any) -> bool:
    texts = isinstance(left, str) and isinstance(right, str)
    flags = isinstance(left, bool) and isinstance(right, bool)
    if not (texts or flags or (is_number(left) and is_number(right))):
        raise CelError(f"{type_name(left)} and {type_name(right)} cannot be compared with {sign}")
    match sign:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


def member(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(key, str) and key in value:
            return value[key]
        raise CelError(f"no such key: {key!r}")
    if isinstance(value, list):
        if not is_number(key) or key != int(key):
            raise CelError(f"a list has no item {key!r}")
        if 0 <= key < len(value):
            return value[int(key)]
        raise CelError(f"index {int(key)} is out of bounds: the list has {len(value)} items")
    raise CelError(f"{type_name(value)} has no member {key!r}")


def _int(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 100:
        raise CelError(f"int() cannot convert {type_name(value)}")
    return _converted("int", value, lambda: bounded(int(value)))


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 100:
        raise CelError(f"double() cannot convert {type_name(value)}")
    return float(_converted("double", value, lambda: float(value)))


def _converted(name: str, value: Any, convert: Callable[[], int | float]) -> int | float:
    try:
        return convert()
    except CelError:
        raise
    except (ValueError, OverflowError):
        raise CelError(f"{name}() cannot convert {str(value)[:100]!r}") from None


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_number(value):
        return str(value)
    raise CelError(f"string() cannot convert {type_name(value)}")


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false", "t", "f", "1", "0"):
        return value.lower() in ("true", "t", "1")
    raise CelError(f"bool() cannot convert {type_name(value)}")


def _length(value: Any) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise CelError(f"size() cannot measure {type_name(value)}")


def _is_quantity(value: Any) -> bool:
    try:
        parse_quantity(value)
    except QuantityError:
        return False
    return True


def _matches(value: Any, pattern: Any) -> bool:
    compiled = compile_pattern(_text(pattern)[:_LONGEST_PATTERN])
    if compiled is None:
        raise CelError(f"{pattern!r:.100} is not a regular expression")
    return compiled.search(_text(value)) is not None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise CelError(f"a string is needed, not {type_name(value)}")
    return value


def _join(value: Any, separator: str = "") -> str:
    parts = [_text(item) for item in value]
    if sum(map(len, parts)) + len(separator) * len(parts) > LONGEST_TEXT:
        raise TooExpensive(f"the expression creates a text of more than {LONGEST_TEXT} characters")
    return _text(separator).join(parts)


def _replace(value: Any, old: Any, new: Any, count: int = -1) -> str:
    if len(_text(value)) * (len(_text(new)) + 1) > LONGEST_TEXT:
        raise TooExpensive(f"the expression creates a text of more than {LONGEST_TEXT} characters")
    return _text(value).replace(_text(old), new, count)


def _find(value: Any, part: Any) -> int:
    if isinstance(value, list):
        return next((at for at, item in enumerate(value) if equal(item, part)), -1)
    return _text(value).find(_text(part))


FUNCTIONS: Final[Mapping[str, Function]] = {
    "bool": _to_bool, "double": _double, "dyn": lambda value: value, "int": _int, "isQuantity": _is_quantity,
    "size": _length, "string": _string, "uint": _int,
}  # fmt: skip
METHODS: Final[Mapping[str, Function]] = {
    "contains": lambda value, part: _text(part) in _text(value),
    "endsWith": lambda value, part: _text(value).endswith(_text(part)),
    "indexOf": _find,
    "isSorted": lambda value: all(compare("<=", a, b) for a, b in pairwise(value)),
    "join": _join,
    "lowerAscii": lambda value: _text(value).lower(),
    "matches": _matches,
    "max": lambda value: max(to_number(item, "max()") for item in value),
    "min": lambda value: min(to_number(item, "min()") for item in value),
    "replace": _replace,
    "size": _length,
    "split": lambda value, separator: _text(value).split(_text(separator)) if separator else list(_text(value)),
    "startsWith": lambda value, part: _text(value).startswith(_text(part)),
    "substring": lambda value, start, end=None: _text(value)[start:end],
    "sum": lambda value: bounded(sum(to_number(item, "sum()") for item in value)),
    "trim": lambda value: _text(value).strip(),
    "upperAscii": lambda value: _text(value).upper(),
}


def to_number(value: Any, sign: str) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise CelError(f"{sign} needs a number, not {type_name(value)}")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def type_name(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")
