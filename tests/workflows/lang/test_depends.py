from __future__ import annotations

import pytest

from muster.workflows.lang.depends import RESULTS, evaluate, from_dependencies, parse, tasks
from muster.workflows.lang.errors import ExpressionError

RESULTS_SEEN = {
    "A": {"Succeeded"},
    "B": {"Failed"},
    "C": {"Skipped"},
    "my-task": {"Daemoned"},
    "items": {"Failed", "AnySucceeded"},
    "gone": {"Omitted"},
    "broken": {"Errored"},
}


@pytest.mark.parametrize(
    ("depends", "holds"),
    [
        ("A", True),
        ("B", False),
        ("C", True),
        ("my-task", True),
        ("gone", False),
        ("broken", False),
        ("A.Succeeded", True),
        ("A.Failed", False),
        ("B.Failed", True),
        ("C.Skipped", True),
        ("C.Succeeded", False),
        ("my-task.Daemoned", True),
        ("gone.Omitted", True),
        ("broken.Errored", True),
        ("items.AnySucceeded", True),
        ("items.AllFailed", False),
        ("A && B", False),
        ("A || B", True),
        ("!B", True),
        ("!(A && C)", False),
        ("!!A", True),
        ("A.Succeeded && (B || C.Failed)", False),
        ("A.Succeeded && (B.Failed || C.Failed)", True),
        ("B && A || C", True),
        ("B || A && gone", False),
        ("  A&&C\n", True),
        ("(A.Succeeded || A.Skipped || A.Daemoned) && !B.Succeeded", True),
    ],
)
def test_whether_a_task_may_start(depends: str, holds: bool) -> None:
    assert evaluate(parse(depends), RESULTS_SEEN) is holds


@pytest.mark.parametrize("result", RESULTS)
def test_every_result_can_be_asked_for(result: str) -> None:
    assert evaluate(parse(f"A.{result}"), {"A": {result}})
    assert not evaluate(parse(f"A.{result}"), {"A": set()})


def test_what_a_task_tolerates_counts_only_when_it_is_named_alone() -> None:
    tolerated = {"B": ("Failed",), "broken": ("Errored",)}
    assert evaluate(parse("B && broken"), RESULTS_SEEN, tolerated)
    assert not evaluate(parse("B.Succeeded"), RESULTS_SEEN, tolerated)


def test_dependencies_are_tasks_named_alone() -> None:
    assert evaluate(from_dependencies(["A", "C", "my-task"]), RESULTS_SEEN)
    assert not evaluate(from_dependencies(["A", "B"]), RESULTS_SEEN)
    assert evaluate(from_dependencies([]), RESULTS_SEEN)


def test_tasks_of_a_condition() -> None:
    named = tasks(parse("b-1.AnySucceeded && (A || b-1.Failed) && !C.AllFailed && A.Omitted"))
    assert named == {"b-1": True, "A": False, "C": True}
    assert list(named) == ["b-1", "A", "C"]


@pytest.mark.parametrize(
    ("depends", "message", "column"),
    [
        ("", "unexpected the end, expected a task", 1),
        ("A &&", "unexpected the end, expected a task", 5),
        ("&& A", "unexpected '&&', expected a task", 1),
        ("A B", "unexpected 'B', expected '&&', '||' or the end", 3),
        ("(A", "unexpected the end, expected ')'", 3),
        ("A)", "unexpected ')', expected '&&', '||' or the end", 2),
        ("A & B", "unexpected '&', expected a task, '&&', '||', '!' or a parenthesis", 3),
        ("A and B", "unexpected 'and', expected '&&', '||' or the end", 3),
        ("A == true", "unexpected '=', expected a task, '&&', '||', '!' or a parenthesis", 3),
        ("A.Completed", f"task result 'Completed' for task 'A' is invalid, expected one of {', '.join(RESULTS)}", 3),
        ("A.", f"task result '' for task 'A' is invalid, expected one of {', '.join(RESULTS)}", 3),
        ("A || 1st", "the name of a task in 'depends' cannot begin with a digit: '1st'", 6),
    ],
)
def test_syntax_errors(depends: str, message: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(depends)
    assert caught.value.message == message
    assert caught.value.position == (1, column)


def test_an_unknown_task() -> None:
    with pytest.raises(ExpressionError, match="unknown name D"):
        evaluate(parse("D"), RESULTS_SEEN)


def test_a_thousand_tasks_need_no_deep_stack() -> None:
    names = [f"t{number}" for number in range(1000)]
    condition = parse(" && ".join(names))
    assert evaluate(condition, {name: {"Succeeded"} for name in names})
    assert len(tasks(condition)) == 1000
