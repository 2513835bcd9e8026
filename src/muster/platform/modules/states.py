"""What a version of a module goes through, as one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from muster.platform.errors import Conflict

State: TypeAlias = Literal["building", "build failed", "private", "in review", "rejected", "published", "deprecated"]
Step: TypeAlias = Literal[
    "built", "fail", "stop", "retry", "ask review", "withdraw", "approve", "reject", "deprecate", "restore"
]

STATES: Final[tuple[State, ...]] = (
    "building", "build failed", "private", "in review", "rejected", "published", "deprecated",
)  # fmt: skip

STEPS: Final[Mapping[tuple[State, Step], State]] = {
    ("building", "built"): "private",
    ("building", "fail"): "build failed",
    ("building", "stop"): "build failed",
    ("build failed", "retry"): "building",
    ("private", "ask review"): "in review",
    ("in review", "withdraw"): "private",
    ("in review", "approve"): "published",
    ("in review", "reject"): "rejected",
    ("rejected", "ask review"): "in review",
    ("published", "deprecate"): "deprecated",
    ("deprecated", "restore"): "published",
}

PUBLIC: Final[frozenset[State]] = frozenset({"published", "deprecated"})
"""Everybody sees it."""
USABLE_BY_ITS_OWNER: Final[frozenset[State]] = frozenset({"private", "in review", "rejected", "published"})

_WORDS: Final[Mapping[Step, str]] = {
    "built": "finished",
    "fail": "given up",
    "stop": "stopped",
    "retry": "built again",
    "ask review": "reviewed",
    "withdraw": "withdrawn from review",
    "approve": "approved",
    "reject": "rejected",
    "deprecate": "deprecated",
    "restore": "published again",
}


def after(state: State, step: Step, name: str) -> State:
    """Raises Conflict where the step does not lead anywhere, and says from where it would. `name` is of the version."""
    following = STEPS.get((state, step))
    if following is not None:
        return following
    fitting = " or ".join(f'"{start}"' for start, possible in STEPS if possible == step)
    raise Conflict(f'{name} is "{state}"; only one that is {fitting} can be {_WORDS[step]}')


def steps_from(state: State) -> list[Step]:
    return [step for start, step in STEPS if start == state]
