"""Time and chance for expressions: the time is the World's, and the dice fall the same way each time a node's texts are
looked at, so a restart changes nothing.

One for all runs: the functions that expressions call are built for a Chance, and that is dear. The engine runs in one
thread, and sets it right before it looks at a text.
"""

from __future__ import annotations

import random
from datetime import datetime

from muster.workflows.expressions.chance import Chance

_EPOCH_UNITS = 1_000_000_000


class _Moment:
    nanoseconds = 0


class _Dice(random.Random):
    """Fall the same way for the same name. Hardly any text throws them, so they are shaken only then."""

    name: str | None = None

    def random(self) -> float:
        self._shake()
        return super().random()

    def getrandbits(self, bits: int, /) -> int:
        self._shake()
        return super().getrandbits(bits)

    def _shake(self) -> None:
        name, self.name = self.name, None
        if name is not None:
            self.seed(name)


_dice = _Dice(0)
CHANCE = Chance(lambda: _Moment.nanoseconds, _dice)


def set_time(now: datetime) -> None:
    _Moment.nanoseconds = int(now.timestamp() * _EPOCH_UNITS)


def throw_for(name: str) -> None:
    """From here on, chance is that of this node."""
    _dice.name = name
