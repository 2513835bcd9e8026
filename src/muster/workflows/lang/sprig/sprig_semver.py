"""sprig: semantic versions."""

from __future__ import annotations

from muster.workflows.lang.sprig.semver import parse_constraints, parse_version, satisfies
from muster.workflows.lang.sprig.sprig_functions import function_table


def _compare(constraint: str, version: str) -> bool:
    return satisfies(parse_constraints(constraint), parse_version(version))


FUNCTIONS = function_table(
    ("semver", "string", parse_version),
    ("semverCompare", "string, string", _compare),
)
