"""Every function of expr-lang that takes no predicate."""

from __future__ import annotations

from muster.workflows.expressions import (
    builtins_collections,
    builtins_conversion,
    builtins_numbers,
    builtins_strings,
    builtins_time,
)
from muster.workflows.expressions.signatures import BuiltinFunction

FUNCTIONS: dict[str, BuiltinFunction] = {
    **builtins_strings.FUNCTIONS,
    **builtins_numbers.FUNCTIONS,
    **builtins_collections.FUNCTIONS,
    **builtins_conversion.FUNCTIONS,
    **builtins_time.FUNCTIONS,
}
