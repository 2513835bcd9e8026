"""How much a user may keep in the platform, and how often they may ask. The limits are budgets (kube/budgets.py)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from sqlalchemy import ColumnElement, Connection, func, select

from muster.kube.budgets import Budgets, setting_name
from muster.platform.errors import ConflictProblem

BUDGETS: Final = "muster_budgets"
"""The option of a connection that has the budgets."""
_BURST_SECONDS = 10
_REMEMBERED = 10_000


def budgets_of(connection: Connection) -> Budgets:
    found: Budgets = connection.get_execution_options().get(BUDGETS) or Budgets()
    return found


def check_count(connection: Connection, budget: str, which: ColumnElement[bool], what: str) -> None:
    """Raises Conflict if there are already as many rows as the budget allows."""
    count = connection.execute(select(func.count()).where(which)).scalar_one()
    check_budget(connection, budget, count, what)


def check_budget(connection: Connection, budget: str, count: int, what: str) -> None:
    most: int = getattr(budgets_of(connection), budget)
    if count >= most:
        raise ConflictProblem.of("budget.count", what=what, most=most, setting=setting_name(budget))


class RequestRates:
    """Limits the requests of each user: so many per second on average, and ten times as many at once."""

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, user: str, now: float) -> float:
        """Counts a request. Returns the seconds to wait if it is one too many; 0 if it is not."""
        most = float(self.per_second * _BURST_SECONDS)
        left, at = self._left.pop(user, (most, now))
        left = min(most, left + (now - at) * self.per_second)
        allowed = left >= 1
        self._left[user] = (left - 1 if allowed else left, now)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self.per_second
