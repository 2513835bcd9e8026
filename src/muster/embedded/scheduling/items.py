"""What stands in a queue's line: made from Pods and groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from muster.embedded.scheduling.groups import GroupFacts, Roll
from muster.embedded.scheduling.line import Item
from muster.embedded.scheduling.model import Pod, Priorities
from muster.kube.requests import Amounts, total_of

View = Callable[[Pod], Hashable]
"""What of a Pod matters to the neighbourhood rules of others."""


def pod_owner(pod: Pod) -> str:
    return f"Pod {pod.key}"


def single_item(pod: Pod, queue: str, priorities: Priorities, view: View) -> Item:
    return Item(
        owner=pod_owner(pod),
        kind="pod",
        queue=queue,
        priority=priorities.of(pod.priority, pod.priority_class),
        created=pod.created,
        seq=pod.seq,
        waiting_since=pod.created,
        likeness=(pod.profile, view(pod)),
        demand=pod.profile.requests,
        pods=(pod,),
        group=pod.group,
    )


def gang_item(
    owner: str,
    facts: GroupFacts,
    roll: Roll,
    used: Amounts,
    priorities: Priorities,
    view: View,
    *,
    seq: int,
    waiting_from: float,
    holds: bool,
) -> Item:
    """`used` is what members already use; the demand is what the missing ones ask for, or the rest of minResources
    where that is more. A gang that holds capacity is like no other: only it can use that."""
    alike: dict[Hashable, int] = {}
    for pod in roll.core:
        kind = (pod.profile, view(pod))
        alike[kind] = alike.get(kind, 0) + 1
    demand = total_of(p.profile.requests for p in roll.core)
    rest = {name: amount - used.get(name, 0) for name, amount in facts.min_resources.items()}
    beyond = {name: amount for name, amount in rest.items() if amount > demand.get(name, 0)}
    return Item(
        owner=owner,
        kind="gang",
        queue=facts.queue,
        priority=_priority(facts, roll, priorities),
        created=facts.created,
        seq=seq,
        waiting_since=max(facts.created, waiting_from, *(p.created for p in roll.core)),
        likeness=(frozenset(alike.items()), tuple(beyond.items()), owner if holds else ""),
        demand=demand | beyond,
        pods=roll.core,
        group=facts.key,
        beyond=beyond,
    )


def admission_item(owner: str, facts: GroupFacts, priorities: Priorities, *, seq: int, waiting_from: float) -> Item:
    demand = dict(facts.min_resources)
    if demand:
        demand["pods"] = max(demand.get("pods", 0), facts.min_member)
    return Item(
        owner=owner,
        kind="admission",
        queue=facts.queue,
        priority=priorities.of(None, facts.priority_class),
        created=facts.created,
        seq=seq,
        waiting_since=max(facts.created, waiting_from),
        likeness=("admission", tuple(demand.items())),
        demand=demand,
        group=facts.key,
    )


def _priority(facts: GroupFacts, roll: Roll, priorities: Priorities) -> int:
    if facts.priority_class:
        return priorities.of(None, facts.priority_class)
    return max(priorities.of(p.priority, p.priority_class) for p in roll.core)
