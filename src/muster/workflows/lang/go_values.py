"""Values as Go has them: types that Python does not distinguish, their names, and how they print.

`None`, bool, int, float, str, list and dict are nil, bool, int, float64, string, []any and map[string]any. The classes
here are the other types that expr-lang and sprig return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import format_float
from muster.workflows.lang.go_strings import from_bytes, to_bytes


class Int64(int):
    """An int64. Go does not accept it where a function takes an int."""


class Byte(int):
    """One byte of a string."""


class Strings(list[Any]):
    """A []string."""


class Ints(list[Any]):
    """A []int."""


class NilList(list[Any]):
    """A nil list: empty, but `null` in JSON."""


class NilStrings(Strings):
    """A nil []string."""


class Lists(list[Any]):
    """A [][]interface {}."""


class Pairs(list[Any]):
    """A [][2]interface {}."""


class StringMap(dict[str, Any]):
    """A map[string]string."""


class AnyMap(dict[Any, Any]):
    """A map[interface {}]interface {}."""


class Groups(dict[Any, Any]):
    """A map[interface {}][]interface {}, of `groupBy`."""


class Method(NamedTuple):
    """A method of a Go type: the types of its parameters and of its result, as Go writes them."""

    parameters: str
    result: str
    call: Callable[..., Any]
    """Takes the receiver first."""


class Opaque:
    """A Go struct or named type, such as a time or a version. An expression can only call its methods."""

    go_type: ClassVar[str]
    methods: ClassVar[Mapping[str, Method]] = {}

    def method(self, name: str) -> Function | None:
        found = self.methods.get(name)
        if found is None:
            return None
        return Function(name, found.parameters, lambda *arguments: found.call(self, *arguments), found.result)

    def to_text(self) -> str:
        """Returns the value as `%v` prints it."""
        return "{}"

    def as_json(self) -> str:
        return "{}"


class Function:
    """A function of the environment, with the Go types of its parameters: `string`, `int`, `any`, ...

    A last parameter of the form `...any` takes any number of arguments. If `takes_clock` is set, the first argument of
    `call` is the clock of the evaluation.
    """

    __slots__ = ("call", "name", "parameters", "result", "takes_clock", "variadic")

    def __init__(
        self,
        name: str,
        parameters: str,
        call: Callable[..., Any],
        result: str = "interface {}",
        *,
        takes_clock: bool = False,
    ) -> None:
        self.name = name
        self.parameters = tuple(p.strip().removeprefix("...") for p in parameters.split(",")) if parameters else ()
        self.variadic = "..." in parameters
        self.call = call
        self.result = result
        self.takes_clock = takes_clock

    def __call__(self, *arguments: Any, clock: Clock) -> Any:
        """Calls the function as Go's reflection does: types must match exactly, and nil becomes the zero value."""
        least = len(self.parameters) - self.variadic
        if len(arguments) < least:
            raise ExpressionError("reflect: Call with too few input arguments")
        if len(arguments) > least and not self.variadic:
            raise ExpressionError("reflect: Call with too many input arguments")
        types = self.parameters[:least] + self.parameters[-1:] * (len(arguments) - least)
        given = map(_convert_argument, arguments, types)
        return self.call(clock, *given) if self.takes_clock else self.call(*given)


_TYPES: dict[type, str] = {
    type(None): "<nil>",
    bool: "bool",
    int: "int",
    Int64: "int64",
    Byte: "uint8",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    NilList: "[]interface {}",
    Strings: "[]string",
    NilStrings: "[]string",
    Ints: "[]int",
    Lists: "[][]interface {}",
    Pairs: "[][2]interface {}",
    dict: "map[string]interface {}",
    StringMap: "map[string]string",
    AnyMap: "map[interface {}]interface {}",
    Groups: "map[interface {}][]interface {}",
}
_KINDS = {"int": "int", "int64": "int64", "uint8": "uint8", "float64": "float64", "<nil>": "invalid"}
_NAMED_KINDS = {"time.Time": "struct", "time.Duration": "int64", "time.Month": "int", "time.Weekday": "int"}
_ZEROS: dict[str, Any] = {"string": "", "int": 0, "int64": Int64(0), "float64": 0.0, "bool": False}


def go_type(value: Any) -> str:
    """Returns the type of a value as Go writes it (`%T`)."""
    name = _TYPES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, Function):
        arguments = [*value.parameters]
        if value.variadic:
            arguments[-1] = "..." + arguments[-1]
        return f"func({', '.join(a.replace('any', 'interface {}') for a in arguments)}) {value.result}"
    if isinstance(value, Opaque):
        return value.go_type
    if isinstance(value, Mapping):
        return "map[string]interface {}"
    return "func(...)" if callable(value) else type(value).__name__


def go_kind(value: Any) -> str:
    """Returns the kind of a value as Go's reflection names it: slice, map, string, int, ..."""
    name = go_type(value)
    if name in _KINDS:
        return _KINDS[name]
    if name.startswith("[]"):
        return "slice"
    if name.startswith("map["):
        return "map"
    if name.startswith("func("):
        return "func"
    return _NAMED_KINDS.get(name) or ("ptr" if name.startswith("*") else name)


def is_number(value: Any) -> bool:
    return type(value) in (int, float, Int64, Byte)


def is_integer(value: Any) -> bool:
    return type(value) in (int, Int64, Byte)


def is_nil(value: Any) -> bool:
    """Returns whether the value is nil to Go, as uninitialized lists are, too."""
    return value is None or type(value) in (NilList, NilStrings)


def format_value(value: Any) -> str:
    """Formats the value as Go prints it (`%v`): `[1 a <nil>]`, `map[a:1]`, `1e+06`."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() if type(value) in (int, Int64, Byte):
            return str(int(value))
        case float():
            return format_float(value)
        case list():
            return f"[{' '.join(map(format_value, value))}]"
        case Mapping():
            keys = sorted(value, key=_sort_key)
            return f"map[{' '.join(f'{format_value(key)}:{format_value(value[key])}' for key in keys)}]"
        case Opaque():
            return value.to_text()
        case _:
            return go_type(value)


def slice_bytes(text: str, start: int, stop: int) -> str:
    """Returns bytes `start` to `stop` of a string."""
    return text[start:stop] if text.isascii() else from_bytes(to_bytes(text)[start:stop])


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(to_bytes(text))


def deep_equal(a: Any, b: Any) -> bool:
    """Go's reflect.DeepEqual: types must be the same at every level, so an int never equals a float."""
    if go_type(a) != go_type(b) or is_nil(a) != is_nil(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(deep_equal, a, b))
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(deep_equal(v, b[k]) for k, v in a.items())
    if isinstance(a, Function) or callable(a):
        return False
    return bool(a == b)


def equality_key(value: Any, *, of_numbers: bool = False) -> Any:
    """Returns something hashable that is the same for equal values.

    Equal means deep_equal or, with `of_numbers`, equal in expr-lang, where 1 and 1.0 are the same number.
    """
    if of_numbers and is_number(value):
        return float(value) if type(value) is float else int(value)
    if isinstance(value, list):
        kind = "list" if of_numbers else go_type(value)
        return kind, *(equality_key(element, of_numbers=of_numbers) for element in value)
    if isinstance(value, Mapping):
        return go_type(value), frozenset((key, equality_key(inner)) for key, inner in value.items())
    return go_type(value), value


def _sort_key(key: Any) -> tuple[int, Any]:
    if isinstance(key, str):
        return 1, key
    return (0, key) if isinstance(key, int | float) else (2, str(key))


def _convert_argument(value: Any, wanted: str) -> Any:
    if wanted in ("any", "interface {}"):
        return value
    if value is None:
        return _ZEROS.get(wanted)
    if go_type(value) != wanted:
        raise ExpressionError(f"reflect: Call using {go_type(value)} as type {wanted}")
    return value
