"""How a member's Pod ended: with which code, when, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from muster.kube.objects import Object, meta, name_of, parse_time, status_of


class _End(NamedTuple):
    container: str
    terminated: Mapping[str, Any]

    @property
    def code(self) -> int:
        return int(self.terminated.get("exitCode") or 0)


def exit_code(pod: Object, trainer: str) -> int | None:
    """Of the container that made the Pod fail; None if none did, as after an eviction."""
    culprit = _culprit(pod, trainer)
    return culprit.code if culprit is not None else None


def ended_at(pod: Object) -> datetime | None:
    """When the last container ended. A Pod that never had one came to nothing right after it was made."""
    moments = [end.terminated["finishedAt"] for end in _ends(pod) if end.terminated.get("finishedAt")]
    made = meta(pod).get("creationTimestamp")
    return max(map(parse_time, moments or ([made] if made else [])), default=None)


def why_failed(pod: Object, trainer: str) -> str:
    """One line; '' if the Pod does not tell."""
    culprit = _culprit(pod, trainer)
    if culprit is None:
        reason = ": ".join(status_of(pod)[key] for key in ("reason", "message") if status_of(pod).get(key))
        return f"Pod {name_of(pod)}: {reason}" if reason else ""
    reason = f" ({culprit.terminated['reason']})" if culprit.terminated.get("reason") else ""
    said = f": {culprit.terminated['message'].strip()}" if culprit.terminated.get("message") else ""
    return f"Pod {name_of(pod)}, container {culprit.container}: exit code {culprit.code}{reason}{said}"


def _culprit(pod: Object, trainer: str) -> _End | None:
    """The container that trains if it failed, else the first other one that did: an init container, a companion."""
    bad = [end for end in _ends(pod) if end.code]
    return next((end for end in bad if end.container == trainer), bad[0] if bad else None)


def _ends(pod: Object) -> Iterator[_End]:
    status = status_of(pod)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        ended = (container.get("state") or {}).get("terminated") or (container.get("lastState") or {}).get("terminated")
        if ended:
            yield _End(container["name"], ended)
