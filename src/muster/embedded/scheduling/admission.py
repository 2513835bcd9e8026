"""Admission: whether the minResources of a PodGroup without Pods would find room now, and where to hold it.

Nothing is known yet of the Pods to come, so the sum is poured over the nodes, emptiest first: large Pods will then
find room in one piece. Taints do not matter here, since the Pods may tolerate them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias

from muster.embedded.scheduling import reasons
from muster.embedded.scheduling.fit import AXES, Vector
from muster.embedded.scheduling.machine import Machine, NodeClass
from muster.kube.requests import Amounts

Kept: TypeAlias = dict[str, Amounts]
"""Capacity kept from others, by node."""


def find_room(machine: Machine, wanted: Amounts) -> Kept | None:
    """Where so much is free now, or None."""
    vector = _along(machine, wanted)
    if vector is None:
        return None
    order = _priority_axes(vector)
    shapes = [s for s in machine.shapes if usable(s.node_class)]
    shapes.sort(key=lambda s: tuple(-s.free[axis] for axis in order))
    rooms = ((node.name, shape.free) for shape in shapes for node in shape.nodes)
    kept, missing = _pour(rooms, vector)
    return None if any(missing) else _named(machine, kept)


def find_room_in_time(
    machine: Machine, wanted: Amounts, *, ignore_kept: bool = False, but: Hashable = None
) -> Kept | None:
    """Where so much will be free when what runs there has ended: what is free now first, then as little else as
    possible. None if the machine is too small. `ignore_kept` looks past what is kept for others, `but` for one."""
    vector = _along(machine, wanted)
    if vector is None:
        return None
    order = _priority_axes(vector)
    nodes = [n for n in machine.nodes.values() if usable(n.shape.node_class)]
    nodes.sort(key=lambda n: tuple(-n.free[axis] for axis in order))
    now, missing = _pour(((n.name, n.free) for n in nodes), vector)

    def later() -> Iterable[tuple[str, Vector]]:
        nothing = (0,) * len(vector)
        for node in nodes:
            blocks = [machine.vector(k) for owner, k in node.blocks.items() if not ignore_kept or owner == but]
            taken = map(sum, zip(now.get(node.name, nothing), *blocks, strict=True))
            yield node.name, tuple(a - t for a, t in zip(node.shape.node_class.allocatable, taken, strict=True))

    rest, missing = _pour(later(), missing)
    if any(missing):
        return None
    for name, more in rest.items():
        now[name] = tuple(map(sum, zip(more, now[name], strict=True))) if name in now else more
    return _named(machine, now)


def shortfall(machine: Machine, wanted: Amounts) -> str:
    """What is missing, for the group to be told."""
    free = machine.free_total()
    for name, amount in sorted(wanted.items()):
        if amount > free.get(name, 0):
            return reasons.resource_gap(name, amount, free.get(name, 0))
    return reasons.NO_NODES if not machine.nodes else "minResources not met by nodes that take Pods now"


def usable(node_class: NodeClass) -> bool:
    return not node_class.unschedulable and not any(t.key.startswith("node.kubernetes.io/") for t in node_class.taints)


def _along(machine: Machine, wanted: Amounts) -> Vector | None:
    if any(amount and name not in machine.axes for name, amount in wanted.items()):
        return None
    return machine.vector(wanted)


def _priority_axes(wanted: Vector) -> list[int]:
    """Extended resources are scarcest, then cpu and memory."""
    return [axis for axis in (*range(len(AXES), len(wanted)), 1, 2, 3, 0) if wanted[axis]]


def _pour(rooms: Iterable[tuple[str, Vector]], wanted: Vector) -> tuple[dict[str, Vector], Vector]:
    poured: dict[str, Vector] = {}
    missing = wanted
    for name, room in rooms:
        if not any(missing):
            break
        taken = tuple(max(0, min(m, r)) for m, r in zip(missing, room, strict=True))
        if any(taken):
            poured[name] = taken
            missing = tuple(m - t for m, t in zip(missing, taken, strict=True))
    return poured, missing


def _named(machine: Machine, kept: dict[str, Vector]) -> Kept:
    return {
        name: {axis: amount for axis, amount in zip(machine.axes, vector, strict=True) if amount}
        for name, vector in kept.items()
    }
