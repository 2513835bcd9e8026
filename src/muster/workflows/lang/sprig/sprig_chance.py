"""sprig: random strings and numbers."""

from __future__ import annotations

import base64
import string
import uuid
from collections.abc import Callable

from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.limits import check_length
from muster.workflows.lang.sprig.sprig_functions import function_table

_PRINTABLE = "".join(map(chr, range(32, 127)))


def _random_characters(alphabet: str) -> Callable[[Clock, int], str]:
    def call(clock: Clock, count: int) -> str:
        return "".join(clock.random.choice(alphabet) for _ in range(max(check_length(count), 0)))

    return call


def _random_integer(clock: Clock, low: int, high: int) -> int:
    if high <= low:
        raise ExpressionError("invalid argument to Intn")
    return clock.random.randrange(low, high)


def _shuffle(clock: Clock, text: str) -> str:
    letters = list(text)
    clock.random.shuffle(letters)
    return "".join(letters)


def _random_bytes(clock: Clock, count: int) -> str:
    if count < 0:
        raise ExpressionError("runtime error: makeslice: len out of range")
    return base64.b64encode(clock.random.randbytes(check_length(count))).decode()


FUNCTIONS = function_table(
    ("randAlphaNum", "int", _random_characters(string.ascii_letters + string.digits)),
    ("randAlpha", "int", _random_characters(string.ascii_letters)),
    ("randNumeric", "int", _random_characters(string.digits)),
    ("randAscii", "int", _random_characters(_PRINTABLE)),
    ("randBytes", "int", _random_bytes),
    ("randInt", "int, int", _random_integer),
    ("shuffle", "string", _shuffle),
    ("uuidv4", "", lambda clock: str(uuid.UUID(bytes=clock.random.randbytes(16), version=4))),
    takes_clock=True,
)
