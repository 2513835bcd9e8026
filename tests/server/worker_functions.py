"""What the tests of workers let them do."""

from __future__ import annotations

import os
import time
from pathlib import Path

from muster.platform.errors import InvalidProblem


def add(left: int, right: int) -> int:
    return left + right


def refuse(field: str) -> None:
    raise InvalidProblem.field(field, "field.missing")


def recurse(depth: int) -> int:
    return recurse(depth + 1) + 1


def environment() -> dict[str, str]:
    return dict(os.environ)


def print_and_return(value: int) -> int:
    print("this must not become a result")
    return value


def forever() -> None:
    while True:
        pass


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def allocate(megabytes: int) -> int:
    return len(bytearray(megabytes << 20))


def die() -> None:
    os._exit(3)


def wait_for(path: str) -> bool:
    while not Path(path).exists():
        time.sleep(0.01)
    return True


def pid() -> int:
    return os.getpid()
