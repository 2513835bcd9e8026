"""What is said of graphs, in the web UI's other language."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from muster.platform.graphs.messages import TEXTS

CHINESE: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[3] / "ui/src/words/graph-problems.zh.json").read_text(encoding="utf-8")
)


def arguments(text: str) -> set[str]:
    return set(re.findall(r"(?<!\{)\{(\w+)\}", text))


def test_everything_that_can_be_said_is_there_in_chinese() -> None:
    assert CHINESE.keys() == TEXTS.keys()


@pytest.mark.parametrize("code", TEXTS)
def test_it_says_the_same(code: str) -> None:
    message, fix = CHINESE[code]
    assert bool(fix) == bool(TEXTS[code].fix)
    assert arguments(message + fix) == arguments(TEXTS[code].message + TEXTS[code].fix)
