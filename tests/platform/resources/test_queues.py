"""Queues and gangs, as the API shows them."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import PLUGIN_POD_GROUP, POD_GROUP, QUEUE
from muster.platform.resources.queues import describe_pod_group, describe_queue

SCHEDULED = {
    "type": "Scheduled",
    "status": "True",
    "reason": "tasksReady",
    "lastTransitionTime": "2026-01-01T00:00:01Z",
}
LATER = {**SCHEDULED, "lastTransitionTime": "2027-01-01T00:00:00Z"}
UNPLACED = {
    "type": "Unschedulable",
    "status": "True",
    "reason": "NotEnoughResources",
    "message": "2 of 4 fit",
    "lastTransitionTime": "2026-01-01T00:00:02Z",
}


def group(status: dict[str, Any], api_version: str = POD_GROUP.api_version) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "metadata": {"name": "mnist", "namespace": "default"},
        "spec": {"minMember": 4},
        "status": status,
    }


@pytest.mark.parametrize(
    ("status", "phase", "reason"),
    [
        ({}, "Pending", ""),
        ({"phase": "Inqueue", "conditions": [UNPLACED]}, "Inqueue", "NotEnoughResources"),
        ({"phase": "Unknown", "conditions": [SCHEDULED, UNPLACED]}, "Unknown", "NotEnoughResources"),
        ({"phase": "Inqueue", "conditions": [UNPLACED, LATER]}, "Inqueue", ""),
        ({"phase": "Running", "conditions": [UNPLACED]}, "Running", ""),
    ],
)
def test_a_waiting_gang_has_a_reason(status: dict[str, Any], phase: str, reason: str) -> None:
    found = describe_pod_group(group(status))
    assert (found.phase, found.reason, found.queue, found.members) == (phase, reason, "default", 4)
    assert found.message == ("2 of 4 fit" if reason else "")


def test_gangs_of_scheduler_plugins_have_no_queue() -> None:
    found = describe_pod_group(group({"phase": "Scheduling"}, PLUGIN_POD_GROUP.api_version))
    assert (found.flavour, found.queue) == ("scheduler-plugins", "")


def test_a_queue_has_its_allocation_and_its_limit() -> None:
    found = describe_queue(
        {
            "apiVersion": QUEUE.api_version,
            "metadata": {"name": "vc-1", "labels": {"muster.dev/virtual-cluster": "1"}},
            "spec": {"weight": 2, "capability": {"cpu": 4}, "reclaimable": False},
            "status": {"state": "Open", "allocated": {"cpu": "1500m"}, "running": 2},
        },
        "research",
    )
    assert (found.cluster_id, found.weight, found.reclaimable) == ("1", 2, False)
    assert (found.capability, found.allocated) == ({"cpu": "4"}, {"cpu": "1500m"})
    assert found.groups == {"pending": 0, "inqueue": 0, "running": 2, "unknown": 0, "completed": 0}
