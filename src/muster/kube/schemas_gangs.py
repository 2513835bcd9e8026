"""PodGroups and Queues: Volcano's, and the PodGroup of the scheduler plugins."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import (
    BOOLEAN,
    RESOURCES,
    STRING,
    STRINGS,
    TIME,
    integer,
    list_of,
    map_of,
    obj,
    of,
    root,
    string,
)
from muster.kube.schemas_meta import LABEL_SELECTOR

_NAME = string(maxLength=253)
_DNS_NAME = string(maxLength=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_COUNT = integer(0)

_NETWORK_TOPOLOGY = obj({
    "mode": string(["hard", "soft"], default="hard"),
    "highestTierAllowed": integer(0, format="int64"),
    "highestTierName": _NAME,
})  # fmt: skip
_SUB_GROUP_POLICY = obj({
    "name": _NAME,
    "labelSelector": LABEL_SELECTOR,
    "matchLabelKeys": STRINGS,
    "minSubGroups": integer(0, default=0),
    "subGroupSize": integer(1, default=1),
    "networkTopology": _NETWORK_TOPOLOGY,
})  # fmt: skip
_POD_GROUP_CONDITION = obj({
    **of(STRING, "type status reason message transitionID"),
    "lastTransitionTime": TIME,
})  # fmt: skip

POD_GROUP_SCHEMA: Final = root({
    "spec": obj({
        "minMember": _COUNT,
        "minTaskMember": map_of(integer()),
        "minResources": RESOURCES,
        "queue": _DNS_NAME | {"default": "default"},
        "priorityClassName": _NAME,
        "networkTopology": _NETWORK_TOPOLOGY,
        "subGroupPolicy": list_of(_SUB_GROUP_POLICY),
    }),
    "status": obj({
        "phase": string(["Pending", "Running", "Unknown", "Inqueue", "Completed"]),
        **of(_COUNT, "running succeeded failed"),
        "conditions": list_of(_POD_GROUP_CONDITION),
    }),
})  # fmt: skip

_GROUP_AFFINITY = obj({
    **of(STRINGS, "requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution"),
})  # fmt: skip

QUEUE_SCHEMA: Final = root({
    "spec": obj({
        "weight": integer(1, 65535, default=1),
        "capability": RESOURCES,
        "deserved": RESOURCES,
        "guarantee": obj({"resource": RESOURCES}),
        "reclaimable": BOOLEAN,
        "priority": _COUNT,
        "parent": _DNS_NAME,
        "type": _NAME,
        "dequeueStrategy": string(["fifo", "traverse"], default="traverse"),
        "affinity": obj({**of(_GROUP_AFFINITY, "nodeGroupAffinity nodeGroupAntiAffinity")}),
        "extendClusters": list_of(obj({"name": STRING, "weight": integer(), "capacity": RESOURCES})),
    }),
    "status": obj({
        "state": string(["Open", "Closed", "Closing", "Unknown"]),
        **of(_COUNT, "pending running inqueue completed unknown"),
        "allocated": RESOURCES,
        "reservation": obj({"nodes": STRINGS, "resource": RESOURCES}),
    }),
})  # fmt: skip

PLUGIN_POD_GROUP_SCHEMA: Final = root({
    "spec": obj({
        "minMember": integer(1),
        "minResources": RESOURCES,
        "scheduleTimeoutSeconds": integer(),
    }),
    "status": obj({
        **of(STRING, "phase occupiedBy"),
        **of(integer(), "running succeeded failed"),
        "scheduleStartTime": TIME,
    }),
})  # fmt: skip
