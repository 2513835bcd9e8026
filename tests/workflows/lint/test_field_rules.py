from __future__ import annotations

import pytest

from muster.workflows.lint.field_rules import duration_problem, expression_problem, integer_problem, when_problem


@pytest.mark.parametrize(
    "text",
    [
        "",
        "true",
        "a == b",
        "{{steps.a.outputs.result}} == heads",
        "'{{a}}' == '' || {{b}} > 3",
        "{{condition}}",
        "{{a}} {{operator}} {{b}}",
        "{{a}} {{operator}} 3 && ({{c}})",
        "{{a}} in (1, 2)",
        "{{a}}-{{b}} =~ 'x.*'",
    ],
)
def test_a_when_that_can_be_read(text: str) -> None:
    assert when_problem(text) == ""


@pytest.mark.parametrize("text", ["{{a}} == (b", "{{a}} ==", "== {{a}} && && b", "{{a}} == 'b", "1 +", "3"])
def test_a_when_that_cannot(text: str) -> None:
    assert text in when_problem(text)


@pytest.mark.parametrize(
    ("text", "good"),
    [("a + 1", True), ("a +", False), ("sprig.trim(a) == 'b'", True), ("{{a}} +", True), ("filter(a, # > 1)", True)],
)
def test_expressions(text: str, good: bool) -> None:
    assert (expression_problem(text) == "") is good


@pytest.mark.parametrize(
    ("text", "with_seconds", "without"),
    [("10s", True, True), ("1h30m", True, True), ("10", True, False), ("1d", False, False), ("{{a}}", True, True),
     ("soon", False, False)],
)  # fmt: skip
def test_durations(text: str, with_seconds: bool, without: bool) -> None:
    assert (duration_problem(text) == "") is with_seconds
    assert (duration_problem(text, plain_seconds=False) == "") is without


@pytest.mark.parametrize(
    ("value", "good"), [(3, True), ("3", True), ("-3", True), ("{{a}}", True), ("many", False), ("", False)]
)
def test_integers(value: int | str, good: bool) -> None:
    assert (integer_problem(value) == "") is good
