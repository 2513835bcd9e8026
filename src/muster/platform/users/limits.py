"""How often one may try to log in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

PER_ACCOUNT = 10
PER_ADDRESS = 30
WINDOW_SECONDS = 300.0
_REMEMBERED = 10_000


class LoginLimits:
    """Counts failures per account and per address. Whoever has failed too often waits until the oldest failure that
    counts is forgotten; others are not held up. An account is never locked for good."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[float, ...]] = OrderedDict()

    def wait(self, account: str, address: str, now: float) -> float:
        """How many seconds until the next attempt is allowed; 0 if it is now."""
        return max(
            wait(self._failures.get(_account(account), ()), PER_ACCOUNT, now),
            wait(self._failures.get(_address(address), ()), PER_ADDRESS, now),
        )

    def failed(self, account: str, address: str, now: float) -> None:
        for key in (_account(account), _address(address)):
            self._failures[key] = (*recent(self._failures.pop(key, ()), now), now)[-PER_ADDRESS:]
        while len(self._failures) > _REMEMBERED:
            self._failures.popitem(last=False)

    def succeeded(self, account: str) -> None:
        self._failures.pop(_account(account), None)


def wait(failures: Iterable[float], allowed: int, now: float) -> float:
    """Seconds until fewer than `allowed` of the failures are recent."""
    counting = recent(failures, now)
    if len(counting) < allowed:
        return 0.0
    return counting[-allowed] + WINDOW_SECONDS - now


def recent(failures: Iterable[float], now: float) -> tuple[float, ...]:
    return tuple(moment for moment in failures if now - moment < WINDOW_SECONDS)


def _account(name: str) -> str:
    return f"account {name.lower()[:100]}"


def _address(address: str) -> str:
    return f"address {address}"
