"""Every state and every transition."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from muster.platform.errors import ConflictProblem
from muster.platform.modules.modules import (
    PUBLIC,
    STATES,
    STEPS,
    USABLE_BY_ITS_OWNER,
    State,
    Step,
    next_state,
    steps_from,
)

TABLE = """
building      built        private
building      fail         build failed
building      stop         build failed
build failed  retry        building
private       ask review   in review
in review     withdraw     private
in review     approve      published
in review     reject       rejected
rejected      ask review   in review
published     deprecate    deprecated
deprecated    restore      published
"""
ROWS = [tuple(part.strip() for part in line.split("  ") if part) for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize(("state", "step"), list(product(STATES, get_args(Step))))
def test_transitions_are_exactly_those_of_the_table(state: State, step: Step) -> None:
    expected = [target for start, taken, target in ROWS if (start, taken) == (state, step)]
    if expected:
        assert [next_state(state, step, "hash 1")] == expected
        return
    with pytest.raises(ConflictProblem, match=f'hash 1 is "{state}"; only a version that is'):
        next_state(state, step, "hash 1")


def test_the_table_is_complete() -> None:
    assert set(get_args(State)) == set(STATES) == {start for start, _ in STEPS}
    assert len(ROWS) == len(STEPS)
    assert steps_from("in review") == ["withdraw", "approve", "reject"]


def test_only_built_versions_can_be_used_and_published_ones_are_visible_to_all() -> None:
    assert {"building", "build failed"}.isdisjoint(PUBLIC | USABLE_BY_ITS_OWNER)
    assert set(PUBLIC) == {"published", "deprecated"}
