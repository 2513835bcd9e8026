"""Whether a node may take a Pod, and how gladly.

What depends only on labels and taints is judged once per profile and class of nodes (`judge`); the rest, free capacity
and ports, changes with every placement (`lacking`, `ports_clash`, `gladness`).

Which node is best: first the one with the fewest PreferNoSchedule taints the Pod does not tolerate, then the one with
the most weight of preferred node affinity, then the fullest. "Fullest" packs, because a gang can only start where
room is left in one piece: a Pod that wants no GPUs goes where fewest of them lie idle, one that wants some goes where
it leaves fewest, and after that cpu and memory are packed the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from muster.embedded.scheduling import reasons
from muster.embedded.scheduling.profile import HostPort, Profile, Taint

Vector: TypeAlias = tuple[int, ...]
"""Amounts along the machine's axes."""

Gladness: TypeAlias = tuple[int, int, int, int, int]
"""Smaller is better."""

AXES = ("pods", "cpu", "memory", "ephemeral-storage")
"""The axes every machine has; extended resources follow."""

_PACKED = (1, 2)
_FIRST_EXTENDED = len(AXES)
_SCALE = 1_000_000
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class Verdict(NamedTuple):
    """`reason` is '' where the Pod may go."""

    reason: str
    avoided: int = 0
    liked: int = 0


def judge(profile: Profile, labels: Mapping[str, str], taints: Iterable[Taint], unschedulable: bool) -> Verdict:
    """In the order of Kubernetes' filters, of which the first to refuse names the reason."""
    if unschedulable and not profile.tolerates(_UNSCHEDULABLE):
        return Verdict(reasons.UNSCHEDULABLE)
    avoided = 0
    for taint in taints:
        if profile.tolerates(taint):
            continue
        if taint.effect in ("NoSchedule", "NoExecute"):
            return Verdict(reasons.untolerated(taint.key, taint.value))
        avoided += 1
    if not profile.selects(labels):
        return Verdict(reasons.AFFINITY)
    return Verdict("", avoided, sum(weight for weight, term in profile.preferred if term.matches(labels)))


def fits(demand: Vector, free: Vector) -> bool:
    """Nobody lacks what he asks none of, even where nodes are overcommitted."""
    return all(wanted <= left or not wanted for wanted, left in zip(demand, free, strict=True))


def lacking(demand: Vector, free: Vector, axes: Sequence[str]) -> list[str]:
    return [axis for axis, wanted, left in zip(axes, demand, free, strict=True) if wanted > left and wanted]


def ports_clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """The same port of the same protocol, on one address or on all of them."""
    for ours in wanted:
        for theirs in taken:
            if (
                ours.port == theirs.port
                and ours.protocol == theirs.protocol
                and (ours.address == theirs.address or not ours.address or not theirs.address)
            ):
                return True
    return False


def gladness(verdict: Verdict, demand: Vector, free: Vector, allocatable: Vector) -> Gladness:
    idle = left = rest = 0
    for axis in range(_FIRST_EXTENDED, len(demand)):
        if not allocatable[axis]:
            continue
        if demand[axis]:
            left += (free[axis] - demand[axis]) * _SCALE // allocatable[axis]
        elif free[axis] > 0:
            idle += free[axis] * _SCALE // allocatable[axis]
    for axis in _PACKED:
        if allocatable[axis]:
            rest += (free[axis] - demand[axis]) * _SCALE // allocatable[axis]
    return (verdict.avoided, -verdict.liked, idle, left, rest)
