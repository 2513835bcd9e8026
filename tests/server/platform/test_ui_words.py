"""What is said of graphs and modules, in the web UI's other language."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from muster.platform.graphs.findings import TEXTS
from muster.platform.jobs.validation import TEXTS as OF_JOBS
from muster.platform.messages import TEXTS as OF_THE_PLATFORM
from muster.platform.modules.validation import TEXTS as OF_MODULES
from muster.platform.pod_policy import TEXTS as OF_PODS

WORDS = Path(__file__).parents[3] / "ui/src/i18n"
CHINESE: dict[str, list[str]] = json.loads((WORDS / "graph-problems.zh.json").read_text(encoding="utf-8"))
CHINESE_OF_MODULES: dict[str, list[str]] = json.loads((WORDS / "module-problems.zh.json").read_text(encoding="utf-8"))
CHINESE_OF_JOBS: dict[str, list[str]] = json.loads((WORDS / "job-problems.zh.json").read_text(encoding="utf-8"))
CHINESE_OF_THE_PLATFORM: dict[str, list[str]] = json.loads(
    (WORDS / "platform-problems.zh.json").read_text(encoding="utf-8")
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


def test_everything_that_is_said_of_modules_is_there_in_chinese() -> None:
    assert CHINESE_OF_MODULES.keys() == OF_MODULES.keys()


@pytest.mark.parametrize("code", OF_MODULES)
def test_it_says_no_more_of_modules_than_is_known(code: str) -> None:
    message, fix = CHINESE_OF_MODULES[code]
    assert arguments(message + fix) <= arguments(OF_MODULES[code])


def test_everything_that_is_said_of_jobs_is_there_in_chinese() -> None:
    assert CHINESE_OF_JOBS.keys() >= OF_JOBS.keys() | OF_PODS.keys()


@pytest.mark.parametrize(("code", "text"), [*OF_JOBS.items(), *OF_PODS.items()])
def test_it_says_the_same_of_jobs(code: str, text: str) -> None:
    message, fix = CHINESE_OF_JOBS[code]
    assert arguments(message + fix) == arguments(text)


def test_everything_that_is_said_of_people_and_what_they_have_is_there_in_chinese() -> None:
    assert CHINESE_OF_THE_PLATFORM.keys() == OF_THE_PLATFORM.keys()


@pytest.mark.parametrize("code", OF_THE_PLATFORM)
def test_it_says_no_more_of_them_than_is_known(code: str) -> None:
    message, fix = CHINESE_OF_THE_PLATFORM[code]
    assert arguments(message + fix) <= arguments(OF_THE_PLATFORM[code])
