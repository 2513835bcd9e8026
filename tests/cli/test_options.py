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
def test_a_duration_is_read(text: str, answer: float) -> None:
    assert parse_duration(text) == answer


@pytest.mark.parametrize("text", ["", "soon", "5 minutes", "1y", "s"])
def test_what_is_no_duration_names_the_option(text: str) -> None:
    with pytest.raises(CommandError, match=r"--timeout.*such as 30s"):
        parse_duration(text, "--timeout")
