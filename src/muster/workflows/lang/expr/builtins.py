"""Every function of expr-lang that takes no predicate."""

from __future__ import annotations

from muster.workflows.lang.expr import (
    builtins_collections,
    builtins_conversion,
    builtins_numbers,
    builtins_strings,
    builtins_time,
)
from muster.workflows.lang.expr.types import BuiltinFunction

FUNCTIONS: dict[str, BuiltinFunction] = {
    **builtins_strings.FUNCTIONS,
    **builtins_numbers.FUNCTIONS,
    **builtins_collections.FUNCTIONS,
    **builtins_conversion.FUNCTIONS,
    **builtins_time.FUNCTIONS,
}
