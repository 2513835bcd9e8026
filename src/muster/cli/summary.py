"""The last words of a run: that all went well, or what failed and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster.cli.outcome import Outcome
from muster.kube.objects import Object, name_of, status_of, uid_of
from muster.kube.why import PODS_SHOWN, telling, why


class Trouble(NamedTuple):
    """A piece of work that failed or did not end, with its Pods, their events, and the end of their logs."""

    title: str
    outcome: Outcome | None
    """None: it had not ended when the time was up."""
    pods: Sequence[Object]
    events: Mapping[str, Sequence[Object]]
    """By the Pod's uid."""
    lines: Mapping[str, Mapping[str, Sequence[str]]]
    """By the Pod's uid and the container's name."""


def lines_of(trouble: Trouble) -> list[str]:
    lines = [f"{trouble.title} {_verdict(trouble.outcome)}"]
    shown = telling(trouble.pods)
    stories: dict[tuple[str, ...], list[str]] = {}
    for pod in shown[:PODS_SHOWN]:
        stories.setdefault(tuple(_story(pod, trouble)), []).append(f"pod/{name_of(pod)}")
    for story, pods in stories.items():
        margin = "  "
        if pods != [trouble.title]:
            lines.append(f"  {', '.join(pods)}:")
            margin = "    "
        lines += [f"{margin}{line}" for line in story]
    if len(shown) > PODS_SHOWN:
        lines.append(f"  ... and {len(shown) - PODS_SHOWN} more Pods, which `muster describe` tells about")
    return lines


def _story(pod: Object, trouble: Trouble) -> list[str]:
    told = [line for reason in _reasons(pod, trouble) for line in reason.splitlines()]
    for container, last in (trouble.lines.get(uid_of(pod)) or {}).items():
        told += [f'last lines of container "{container}":', *(f"  {line}" for line in last)]
    if not told and trouble.outcome is None and status_of(pod).get("phase") == "Running":
        return ["it is running"]
    return told


def _verdict(outcome: Outcome | None) -> str:
    if outcome is None:
        return "had not ended when the time was up"
    if outcome.reason == "Deleted":
        return "was deleted before it was done"
    said = ": ".join(text for text in (outcome.reason, outcome.message) if text and text != "Failed")
    return f"failed: {said}" if said else "failed"


def _reasons(pod: Object, trouble: Trouble) -> list[str]:
    reasons = why(pod, trouble.events.get(uid_of(pod)) or ())
    already = ": ".join(text for text in (trouble.outcome or ()) if isinstance(text, str) and text)
    return [reason for reason in reasons if reason != already]
