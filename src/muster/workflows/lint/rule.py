"""The rules at the door of the cluster: what can be said of an object without looking at others."""

from __future__ import annotations

from muster.kube.errors import Cause
from muster.kube.objects import Object
from muster.kube.validation import own_rule
from muster.workflows.lint.workflows import problems

_WHILE_RUNNING = frozenset(("activeDeadlineSeconds", "parallelism", "priority", "shutdown", "suspend"))
"""What of a spec changes while it runs. None of it makes a good spec bad."""

_MOST = 100
"""How many problems an answer holds: who has more than these will ask again."""


def workflow_rule(obj: Object, old: Object | None) -> list[Cause]:
    """For every kind that has a workflow's spec. A spec that was taken once is not looked at again."""
    causes = own_rule(obj, old)
    if old is not None and _same(obj.get("spec"), old.get("spec")):
        return causes
    return [*causes, *problems(obj, submitted=True)[:_MOST]]


def _same(new: Object | None, old: Object | None) -> bool:
    if new is old:
        return True
    if new is None or old is None:
        return False
    return all(new.get(field) == old.get(field) for field in new.keys() | old.keys() if field not in _WHILE_RUNNING)
