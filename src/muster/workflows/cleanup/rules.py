"""When a workflow, its Pods and its volumes may go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from muster.kube.errors import BadRequest
from muster.kube.objects import Object, annotations_of, labels_of, parse_time, spec_of, status_of
from muster.kube.selectors import LabelSelector, label_selector_from
from muster.workflows.cleanup.claims import claims_of
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gotime import SECOND, parse_duration
from muster.workflows.model import Node

NODE_ID = "workflows.argoproj.io/node-id"
ENDED = frozenset(("Succeeded", "Failed", "Error"))
DELAY = timedelta(seconds=5)
"""Before a Pod is deleted, unless deleteDelayDuration says otherwise: whoever watches it shall see how it ended."""
_FULFILLED = frozenset(("Succeeded", "Failed", "Error", "Skipped", "Omitted"))


def resolved_spec(workflow: Object) -> Object:
    """What is run: of a workflow that runs a template, the template's spec with its own before it."""
    stored: Object = status_of(workflow).get("storedWorkflowTemplateSpec") or {}
    return {**stored, **spec_of(workflow)} if stored else spec_of(workflow)


def expires_at(workflow: Object) -> datetime | None:
    """When ttlStrategy wants it gone; None if it stays, or has not ended."""
    phase, finished = status_of(workflow).get("phase"), status_of(workflow).get("finishedAt")
    if phase not in ENDED or not finished:
        return None
    ttl = resolved_spec(workflow).get("ttlStrategy") or {}
    seconds = ttl.get("secondsAfterSuccess" if phase == "Succeeded" else "secondsAfterFailure")
    if seconds is None:
        seconds = ttl.get("secondsAfterCompletion")
    return None if seconds is None else parse_time(finished) + timedelta(seconds=int(seconds))


class PodPolicy(NamedTuple):
    strategy: str
    selector: LabelSelector
    delay: timedelta

    @property
    def looks_at_pods(self) -> bool:
        """Whether Pods may go before their workflow has ended."""
        return self.strategy in ("OnPodCompletion", "OnPodSuccess")


def pod_policy(workflow: Object) -> PodPolicy | None:
    """None: Pods are kept, which is the default. So are they where podGC cannot be understood."""
    wanted = resolved_spec(workflow).get("podGC") or {}
    strategy = str(wanted.get("strategy") or "")
    if not strategy:
        return None
    try:
        selector = label_selector_from(wanted.get("labelSelector") or {})
        return PodPolicy(strategy, selector, _delay(wanted.get("deleteDelayDuration")))
    except (BadRequest, ExpressionError):
        return None


class Dated(NamedTuple):
    pod: Object
    at: datetime


def pods_to_delete(workflow: Object, nodes: Mapping[str, Node], pods: Iterable[Object]) -> list[Dated]:
    """Which Pods are to go, and when. Never one whose node has not ended: its outputs may still be in it."""
    policy = pod_policy(workflow)
    if policy is None:
        return []
    phase, finished = status_of(workflow).get("phase"), status_of(workflow).get("finishedAt")
    if not policy.looks_at_pods and not (
        phase == "Succeeded" or (phase in ENDED and policy.strategy == "OnWorkflowCompletion")
    ):
        return []
    found = []
    for pod in pods:
        node = nodes.get(annotations_of(pod).get(NODE_ID, ""))
        if node is None or node.get("phase") not in _FULFILLED or node.get("daemoned"):
            continue
        if policy.strategy == "OnPodSuccess" and status_of(pod).get("phase") != "Succeeded":
            continue
        if not policy.selector.matches(labels_of(pod)):
            continue
        since = node.get("finishedAt") if policy.looks_at_pods else finished
        if since:
            found.append(Dated(pod, parse_time(since) + policy.delay))
    return found


def claims_to_delete(workflow: Object) -> list[Object]:
    """The claims made for it, once it has no use for them. After a failure they stay by default: a retry needs them."""
    phase = status_of(workflow).get("phase")
    strategy = (resolved_spec(workflow).get("volumeClaimGC") or {}).get("strategy") or "OnWorkflowSuccess"
    if phase == "Succeeded" or (phase in ENDED and strategy == "OnWorkflowCompletion"):
        return claims_of(workflow, resolved_spec(workflow))
    return []


def _delay(text: Any) -> timedelta:
    if not text:
        return DELAY
    seconds = int(text) if str(text).isdigit() else parse_duration(str(text)) / SECOND
    return timedelta(seconds=seconds)
