from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.go_encoding import from_json, to_json
from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.semver('1.2.3-alpha.1+123').Major()", 1),
        ("sprig.semver('v1.2').String()", "1.2.0"),
        ("sprig.semver('1.2.3-alpha.1+123').Prerelease()", "alpha.1"),
        ("sprig.semver('1.2.3+x')", "1.2.3+x"),
        ("sprig.semver('1.2.3').Compare(sprig.semver('1.2.4'))", -1),
        ("sprig.semverCompare('1.2.3', '1.2.3')", True),
        ("sprig.semverCompare('^1.2.0', '1.9.9')", True),
        ("sprig.semverCompare('^1.2.0', '2.0.0')", False),
        ("sprig.semverCompare('^0.2.3', '0.3.0')", False),
        ("sprig.semverCompare('~1.2.0', '1.2.9')", True),
        ("sprig.semverCompare('~1.2.0', '1.3.0')", False),
        ("sprig.semverCompare('>1.2, <3.0.0 || >=4', '2.3.1')", True),
        ("sprig.semverCompare('>1.2 <3', '3.1')", False),
        ("sprig.semverCompare('1.2 - 1.4.5', '1.4.5')", True),
        ("sprig.semverCompare('*', '1.2.3')", True),
        ("sprig.semverCompare('1.x', '1.9.0')", True),
        ("sprig.semverCompare('!=1.2.x', '1.2.9')", False),
        ("sprig.semverCompare('>=1.2.3', '1.2.3-beta.1')", False),
        ("sprig.semverCompare('>=1.2.3-0', '1.2.3-beta.1')", True),
    ],
)
def test_versions(expression: str, value: Any) -> None:
    assert from_json(to_json(value_of(expression))) == value
