from __future__ import annotations

import pytest

from muster.kube.errors import BadRequest
from muster.kube.file_names import LONGEST, fit_component, path_component


@pytest.mark.parametrize("name", ["a", "web-0", "a.b", "...", "..a", " ", "é", "x" * LONGEST])
def test_a_plain_name_is_returned_as_it_is(name: str) -> None:
    assert path_component(name) == name
    assert fit_component(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/", "../x", "a\0b", "x" * (LONGEST + 1), "é" * LONGEST, "\ud800"]
)
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="not a valid name"):
        path_component(name)


def test_a_long_name_can_be_shortened_and_stays_different_from_others() -> None:
    first, second = fit_component("é" * 300 + "1"), fit_component("é" * 300 + "2")
    assert first != second
    assert len(first.encode()) <= LONGEST


def test_a_refusal_does_not_repeat_a_long_name() -> None:
    with pytest.raises(BadRequest) as refused:
        path_component("x" * 100_000)
    assert len(refused.value.message) < 200
