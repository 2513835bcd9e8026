"""The clock and the random numbers that an evaluation uses. A test or a replay passes its own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """The time and the random numbers of an evaluation."""

    now: Callable[[], int]
    """Returns nanoseconds since the Unix epoch."""
    random: random.Random


SYSTEM_CLOCK = Clock(time.time_ns, random.SystemRandom())
"""The real time and real randomness."""
