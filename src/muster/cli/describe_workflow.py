"""A workflow in detail: how far it is, the tree of its nodes and, if it waits or failed, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from muster.cli.happenings import grid
from muster.cli.sections import NONE, Fields, pairs
from muster.cli.workflow_show import tree_lines
from muster.cli.workflow_status import headline, is_over, succeeded, waits_for_somebody, why_failed
from muster.kube.objects import Object, labels_of, name_of, uid_of
from muster.kube.why import PODS_SHOWN, telling, why

_EVENTS_SHOWN = 12


def describe_workflow(
    workflow: Object,
    pods: Sequence[Object],
    events: Sequence[Object],
    last_lines: Mapping[str, Mapping[str, Sequence[str]]],
    now: datetime,
) -> Fields:
    """`workflow` is whole, with its nodes. The ends of logs, by the Pod's uid, are those of the Pods that `telling`
    names."""
    fields: Fields = list(headline(workflow, now))
    fields.insert(2, ("Labels", pairs(labels_of(workflow)) or NONE))
    told = [] if succeeded(workflow) else telling(pods)[:PODS_SHOWN]
    found = [waits_for_somebody(workflow), why_failed(workflow) if is_over(workflow) else ""]
    found += [f"pod/{name_of(pod)}: {cause}" for pod in told for cause in why(pod)]
    if any(found):
        fields.append(("Why", [text for text in found if text]))
    for pod in told:
        for container, lines in (last_lines.get(uid_of(pod)) or {}).items():
            said: Fields = [("Log", "\n".join(lines))]
            fields.append((f'Last lines of pod/{name_of(pod)}, container "{container}"', said))
    fields.append(("Nodes", "\n".join(tree_lines(workflow, now)) or NONE))
    hidden = len(events) - _EVENTS_SHOWN
    label = f"Events (the last {_EVENTS_SHOWN} of {len(events)})" if hidden > 0 else "Events"
    fields.append((label, grid(events[-_EVENTS_SHOWN:], now) if events else NONE))
    return fields
