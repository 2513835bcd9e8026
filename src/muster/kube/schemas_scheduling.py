"""PriorityClass, Lease."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import BOOLEAN, INT32, MICRO_TIME, STRING, obj, of, root, string

PRIORITY_CLASS_SCHEMA: Final = root(
    {
        "description": STRING,
        "globalDefault": BOOLEAN,
        "preemptionPolicy": string(["PreemptLowerPriority", "Never"]),
        "value": INT32,
    },
    ["value"],
)
LEASE_SPEC: Final = obj(
    {
        **of(STRING, "holderIdentity preferredHolder strategy"),
        **of(MICRO_TIME, "acquireTime renewTime"),
        **of(INT32, "leaseDurationSeconds leaseTransitions"),
    },
)
LEASE_SCHEMA: Final = root({"spec": LEASE_SPEC})
