"""Questions about a node's phase, in Argo's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.workflows.model import Node, Phase

COMPLETED: frozenset[str] = frozenset(("Succeeded", "Failed", "Error"))
FAILED: frozenset[str] = frozenset(("Failed", "Error"))
ENDED: frozenset[str] = COMPLETED | {"Skipped", "Omitted"}
ACTIVE: frozenset[str] = frozenset(("Pending", "Running"))

WORKFLOW_PHASE: Mapping[str, str] = {
    "Pending": "Pending",
    "Running": "Running",
    "Succeeded": "Succeeded",
    "Skipped": "Succeeded",
    "Omitted": "Succeeded",
    "Failed": "Failed",
    "Error": "Error",
}
"""What the phase of its first node makes of a workflow."""


def is_ended(node: Node) -> bool:
    """Nothing of it runs any more."""
    return node["phase"] in ENDED


def is_fulfilled(node: Node) -> bool:
    """Those who wait for it can go on: it has ended, or it is a daemon that is ready."""
    phase = node["phase"]
    return phase in ENDED or (bool(node.get("daemoned")) and phase != "Pending")


def is_completed(node: Node) -> bool:
    return node["phase"] in COMPLETED


def has_failed(node: Node) -> bool:
    return node["phase"] in FAILED


def continues_on(continue_on: Mapping[str, Any] | None, phase: Phase) -> bool:
    """Whether a step's or task's `continueOn` tolerates a phase."""
    if not continue_on:
        return False
    return bool((continue_on.get("error") and phase == "Error") or (continue_on.get("failed") and phase == "Failed"))
