"""sprig: random strings and numbers."""

from __future__ import annotations

import base64
import string
import uuid

from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.limits import check_length
from muster.workflows.lang.sprig.sprig_functions import Theme, theme

_PRINTABLE = "".join(map(chr, range(32, 127)))


def random_functions(chance: Clock) -> Theme:
    """The functions that throw dice."""
    dice = chance.random

    def characters(alphabet: str, count: int) -> str:
        return "".join(dice.choice(alphabet) for _ in range(max(check_length(count), 0)))

    def random_integer(low: int, high: int) -> int:
        if high <= low:
            raise ExpressionError("invalid argument to Intn")
        return dice.randrange(low, high)

    def shuffled(text: str) -> str:
        letters = list(text)
        dice.shuffle(letters)
        return "".join(letters)

    def random_bytes(count: int) -> str:
        if count < 0:
            raise ExpressionError("runtime error: makeslice: len out of range")
        return base64.b64encode(dice.randbytes(check_length(count))).decode()

    return theme(
        ("randAlphaNum", "int", lambda count: characters(string.ascii_letters + string.digits, count)),
        ("randAlpha", "int", lambda count: characters(string.ascii_letters, count)),
        ("randNumeric", "int", lambda count: characters(string.digits, count)),
        ("randAscii", "int", lambda count: characters(_PRINTABLE, count)),
        ("randBytes", "int", random_bytes),
        ("randInt", "int, int", random_integer),
        ("shuffle", "string", shuffled),
        ("uuidv4", "", lambda: str(uuid.UUID(bytes=dice.randbytes(16), version=4))),
    )
