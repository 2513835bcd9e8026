"""Node."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import (
    BOOLEAN,
    INT32,
    INT64,
    RESOURCES,
    STRING,
    STRINGS,
    TIME,
    list_of,
    obj,
    of,
    root,
    string,
)

CONFIG_MAP_NODE_CONFIG_SOURCE: Final = obj(
    {
        **of(STRING, "kubeletConfigKey name namespace resourceVersion uid"),
    },
    ["namespace", "name", "kubeletConfigKey"],
)
NODE_CONFIG_SOURCE: Final = obj({"configMap": CONFIG_MAP_NODE_CONFIG_SOURCE})
TAINT: Final = obj(
    {
        **of(STRING, "key value"),
        "effect": string(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
        "timeAdded": TIME,
    },
    ["key", "effect"],
)
NODE_SPEC: Final = obj(
    {
        **of(STRING, "externalID podCIDR providerID"),
        "configSource": NODE_CONFIG_SOURCE,
        "podCIDRs": list_of(STRING, patch_strategy="merge", is_set=True),
        "taints": list_of(TAINT),
        "unschedulable": BOOLEAN,
    },
)
NODE_ADDRESS: Final = obj({**of(STRING, "address type")})
NODE_CONDITION: Final = obj(
    {
        **of(STRING, "message reason status type"),
        **of(TIME, "lastHeartbeatTime lastTransitionTime"),
    },
)
NODE_CONFIG_STATUS: Final = obj({**of(NODE_CONFIG_SOURCE, "active assigned lastKnownGood"), "error": STRING})
DAEMON_ENDPOINT: Final = obj({"Port": INT32}, ["Port"])
NODE_DAEMON_ENDPOINTS: Final = obj({"kubeletEndpoint": DAEMON_ENDPOINT})
NODE_FEATURES: Final = obj({"supplementalGroupsPolicy": BOOLEAN})
CONTAINER_IMAGE: Final = obj({"names": STRINGS, "sizeBytes": INT64})
NODE_SWAP_STATUS: Final = obj({"capacity": INT64})
NODE_SYSTEM_INFO: Final = obj(
    {
        **of(STRING, "architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion kubeletVersion"),
        **of(STRING, "machineID operatingSystem osImage systemUUID"),
        "swap": NODE_SWAP_STATUS,
    },
)
NODE_RUNTIME_HANDLER_FEATURES: Final = obj({**of(BOOLEAN, "recursiveReadOnlyMounts userNamespaces")})
NODE_RUNTIME_HANDLER: Final = obj({"features": NODE_RUNTIME_HANDLER_FEATURES, "name": STRING})
ATTACHED_VOLUME: Final = obj({**of(STRING, "devicePath name")})
NODE_STATUS: Final = obj(
    {
        **of(RESOURCES, "allocatable capacity"),
        **of(STRINGS, "declaredFeatures volumesInUse"),
        "addresses": list_of(NODE_ADDRESS, map_keys=["type"], patch_merge_key="type"),
        "conditions": list_of(NODE_CONDITION, map_keys=["type"], patch_merge_key="type"),
        "config": NODE_CONFIG_STATUS,
        "daemonEndpoints": NODE_DAEMON_ENDPOINTS,
        "features": NODE_FEATURES,
        "images": list_of(CONTAINER_IMAGE),
        "nodeInfo": NODE_SYSTEM_INFO,
        "phase": STRING,
        "runtimeHandlers": list_of(NODE_RUNTIME_HANDLER),
        "volumesAttached": list_of(ATTACHED_VOLUME),
    },
)
NODE_SCHEMA: Final = root({"spec": NODE_SPEC, "status": NODE_STATUS})
