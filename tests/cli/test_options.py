from __future__ import annotations

import pytest

from muster.cli.errors import CommandError
from muster.cli.session import parse_duration


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("90", 90),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("2d", 172800),
        ("-1s", -1),
    ],
)
def test_parsing_of_durations(text: str, answer: float) -> None:
    assert parse_duration(text) == answer


@pytest.mark.parametrize("text", ["", "soon", "5 minutes", "1y", "s"])
def test_the_error_names_the_option_of_an_invalid_duration(text: str) -> None:
    with pytest.raises(CommandError, match=r"--timeout.*such as 30s"):
        parse_duration(text, "--timeout")
