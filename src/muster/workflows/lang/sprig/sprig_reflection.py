"""sprig: types and kinds of values, by Go's names."""

from __future__ import annotations

from muster.workflows.lang.go_values import deep_equal, go_kind, go_type
from muster.workflows.lang.sprig.sprig_functions import function_table

FUNCTIONS = function_table(
    ("typeOf", "any", go_type),
    ("typeIs", "string, any", lambda name, value: go_type(value) == name),
    ("typeIsLike", "string, any", lambda name, value: go_type(value) in (name, "*" + name)),
    ("kindOf", "any", go_kind),
    ("kindIs", "string, any", lambda name, value: go_kind(value) == name),
    ("deepEqual", "any, any", deep_equal),
)
