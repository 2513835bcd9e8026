from __future__ import annotations

import pytest

from muster.cli.errors import CommandError
from muster.cli.platform_workflows import parse_comparison


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["demo", "1", "2"], ("demo", "1", "2")),
        (["demo", "1"], ("demo", "1", "latest")),
        (["demo@1"], ("demo", "1", "latest")),
        (["demo@1", "2"], ("demo", "1", "2")),
        (["demo@1", "demo@v2"], ("demo", "1", "v2")),
    ],
)
def test_versions_to_compare_are_written_as_elsewhere(words: list[str], meant: tuple[str, str, str]) -> None:
    assert parse_comparison(words[0], words[1:]) == meant


@pytest.mark.parametrize("words", [["demo"], ["demo@1", "2", "3"], ["demo@1", "other@2"]])
def test_other_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(CommandError):
        parse_comparison(words[0], words[1:])
