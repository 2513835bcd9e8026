"""What a Pod's object says about time: when it began, how long it may take to end, what has been told of it. Pure."""

from __future__ import annotations

from muster.kube.objects import Object, meta, parse_time, status_of


def start_time(pod: Object, now: float) -> float:
    """Now, if it has not begun."""
    text = status_of(pod).get("startTime")
    return parse_time(text).timestamp() if text else now


def remaining_grace(pod: Object, now: float) -> float:
    """What is left of the grace that was given when the deletion was asked for."""
    full = float(meta(pod).get("deletionGracePeriodSeconds") or 0)
    left = parse_time(meta(pod)["deletionTimestamp"]).timestamp() - now
    # Times are whole seconds, so that a grace of one may look as if it were over at once.
    return full if left > full - 2.0 else max(0.0, left)


def told_until(pod: Object) -> float:
    """The moment up to which the status tells: events before it have been recorded. 0 if it tells nothing."""
    status = status_of(pod)
    if not status.get("containerStatuses"):
        return 0.0
    moments = [c.get("lastTransitionTime") for c in status.get("conditions") or ()]
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            for detail in state.values():
                moments += [detail.get("startedAt"), detail.get("finishedAt")]
    return max((parse_time(text).timestamp() + 1.0 for text in moments if text), default=0.0)
