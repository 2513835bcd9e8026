from __future__ import annotations

from muster.workflows.lang.errors import ExpressionError, MissingVariable


def test_the_position_is_shown_below_the_text() -> None:
    error = ExpressionError("wrong", "first\n\tsecond line\nthird", 8)
    assert error.position == (2, 3)
    assert str(error) == "wrong (2:3)\n |  second line\n | ..^"


def test_without_a_position_there_is_only_the_message() -> None:
    assert str(ExpressionError("wrong")) == "wrong"
    assert str(ExpressionError("wrong", hint="Do this.")) == "wrong\nDo this."
    assert str(ExpressionError("wrong", "", 0)) == "wrong"


def test_a_hint_comes_last() -> None:
    assert str(ExpressionError("wrong", "ab", 1, "Do this.")) == "wrong (1:2)\n | ab\n | .^\nDo this."


def test_a_long_text_is_shown_around_the_position() -> None:
    lines = str(ExpressionError("wrong", "a" * 500 + "!" + "b" * 5000, 500)).split("\n")
    assert lines[0] == "wrong (1:501)"
    assert len(lines[1]) < 450
    assert lines[1][lines[2].index("^")] == "!"


def test_a_long_message_is_cut() -> None:
    assert len(ExpressionError("x" * 1_000_000).message) < 5000


def test_invalid_bytes_are_replaced_in_messages() -> None:
    assert ExpressionError("a\udcffb").message == "a\ufffdb"


def test_an_error_without_a_position_gets_one() -> None:
    assert ExpressionError("wrong").with_position("text", 2).at == 2
    assert ExpressionError("wrong", "text", 1).with_position("other", 2).at == 1
    assert isinstance(MissingVariable("x"), ExpressionError)
