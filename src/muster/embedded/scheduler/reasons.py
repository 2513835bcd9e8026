"""Reasons for waiting, in the words of Kubernetes and Volcano."""

from __future__ import annotations

from collections.abc import Mapping

NO_NODES = "no nodes available to schedule pods"
UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
POD_AFFINITY = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
GATED = "Scheduling is blocked due to non-empty scheduling gates"
READY = "pod group is ready"
TASKS_READY = "tasks in gang are ready to be scheduled"
NOT_ENOUGH_OF_TASK = "Not enough valid pods of each task for gang-scheduling"


def untolerated(key: str, value: str) -> str:
    return f"node(s) had untolerated taint {{{key}: {value}}}"


def insufficient(resource: str) -> str:
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}"


def kept_for(owner: str) -> str:
    return f"node(s) had capacity kept for waiting {owner}"


def unavailable(nodes: int, causes: Mapping[str, int]) -> str:
    """`0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.` Sorted as text, count first."""
    if not nodes:
        return NO_NODES
    return f"0/{nodes} nodes are available: {histogram(causes)}."


def claim_not_found(nodes: int, claim: str) -> str:
    return f'0/{nodes} nodes are available: persistentvolumeclaim "{claim}" not found.'


def histogram(counts: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{number} {what}" for what, number in counts.items() if number))


def group_not_ready(tasks: Mapping[str, int], min_available: int) -> str:
    """`pod group is not ready, 6 Pending, 6 minAvailable`, with members counted by status."""
    return f"pod group is not ready, {histogram({**tasks, 'minAvailable': min_available})}"


def gang_unschedulable(missing: int, members: int, detail: str) -> str:
    """The message of a PodGroup. A group without Pods has 0 members."""
    return f"{missing}/{members} tasks in gang unschedulable: {detail}"


def not_enough_tasks(valid: int, minimum: int) -> str:
    return f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {minimum}"


def group_not_found(group: str) -> str:
    return f"PodGroup {group} not found"


def queue_not_found(queue: str) -> str:
    return f'queue "{queue}" not found'


def queue_not_open(queue: str, state: str) -> str:
    return f'queue "{queue}" is {state}: it accepts no new work'


def over_capability(queue: str, resource: str, used: int, asked: int, cap: int) -> str:
    unit = "m" if resource == "cpu" else ""
    return (
        f'queue "{queue}" resource quota insufficient: {resource}: {asked}{unit} asked, {used}{unit} used, '
        f"capability {cap}{unit}"
    )


def resource_gap(resource: str, asked: int, free: int) -> str:
    unit = "m" if resource == "cpu" else ""
    return f"minResources not met: {resource}: {asked}{unit} asked, {free}{unit} free"


def unknown_scheduler(name: str) -> str:
    return (
        f'no scheduler named "{name}" runs in this cluster; remove spec.schedulerName, '
        "or set it to volcano or scheduler-plugins"
    )


def unknown_priority_class(name: str) -> str:
    return f'no PriorityClass with name "{name}" was found; priority 0 is used until it exists'


def ignored_preferences(fields: tuple[str, ...]) -> str:
    return f"preferences are ignored: {', '.join(fields)}"


def behind_head(owner: str, queue: str) -> str:
    return f'waits behind {owner}, the first in queue "{queue}" (dequeueStrategy: fifo)'
