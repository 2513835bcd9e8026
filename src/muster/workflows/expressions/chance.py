"""What an expression does not decide itself: the time and the dice. A test, or a replay, brings its own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple


class Chance(NamedTuple):
    now: Callable[[], int]
    """Nanoseconds of the Unix epoch."""
    random: random.Random


REAL = Chance(time.time_ns, random.SystemRandom())
