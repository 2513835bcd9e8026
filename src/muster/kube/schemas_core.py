"""Namespace, Service, ConfigMap, Secret, ServiceAccount, Event."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import (
    BOOLEAN,
    BYTES,
    INT32,
    INT_OR_STRING,
    MICRO_TIME,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    list_of,
    map_of,
    obj,
    of,
    root,
    string,
)
from muster.kube.schemas_meta import CONDITION, LOCAL_OBJECT_REFERENCE, OBJECT_REFERENCE

NAMESPACE_SPEC: Final = obj({"finalizers": STRINGS})
NAMESPACE_CONDITION: Final = obj({**of(STRING, "message reason status type"), "lastTransitionTime": TIME})
NAMESPACE_STATUS: Final = obj(
    {
        "conditions": list_of(NAMESPACE_CONDITION, map_keys=["type"], patch_merge_key="type"),
        "phase": string(["Active", "Terminating"]),
    },
)
NAMESPACE_SCHEMA: Final = root({"spec": NAMESPACE_SPEC, "status": NAMESPACE_STATUS})
SERVICE_PORT: Final = obj(
    {
        **of(STRING, "appProtocol name"),
        **of(INT32, "nodePort port"),
        "protocol": string(["TCP", "UDP", "SCTP"], default="TCP"),
        "targetPort": INT_OR_STRING,
    },
    ["port"],
)
CLIENT_IP_CONFIG: Final = obj({"timeoutSeconds": INT32})
SESSION_AFFINITY_CONFIG: Final = obj({"clientIP": CLIENT_IP_CONFIG})
SERVICE_SPEC: Final = obj(
    {
        **of(STRING, "clusterIP externalName loadBalancerClass loadBalancerIP trafficDistribution"),
        **of(STRINGS, "clusterIPs externalIPs loadBalancerSourceRanges"),
        **of(BOOLEAN, "allocateLoadBalancerNodePorts publishNotReadyAddresses"),
        **of(string(["Cluster", "Local"]), "externalTrafficPolicy internalTrafficPolicy"),
        "healthCheckNodePort": INT32,
        "ipFamilies": list_of(string(["IPv4", "IPv6"])),
        "ipFamilyPolicy": string(["SingleStack", "PreferDualStack", "RequireDualStack"]),
        "ports": list_of(SERVICE_PORT, map_keys=["port", "protocol"], patch_merge_key="port", duplicates=True),
        "selector": map_of(STRING, atomic=True),
        "sessionAffinity": string(["ClientIP", "None"]),
        "sessionAffinityConfig": SESSION_AFFINITY_CONFIG,
        "type": string(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
    },
)
PORT_STATUS: Final = obj({**of(STRING, "error protocol"), "port": INT32})
LOAD_BALANCER_INGRESS: Final = obj({**of(STRING, "hostname ip ipMode"), "ports": list_of(PORT_STATUS)})
LOAD_BALANCER_STATUS: Final = obj({"ingress": list_of(LOAD_BALANCER_INGRESS)})
SERVICE_STATUS: Final = obj(
    {
        "conditions": list_of(CONDITION, map_keys=["type"], patch_merge_key="type"),
        "loadBalancer": LOAD_BALANCER_STATUS,
    },
)
SERVICE_SCHEMA: Final = root({"spec": SERVICE_SPEC, "status": SERVICE_STATUS})
CONFIG_MAP_SCHEMA: Final = root({"binaryData": map_of(BYTES), "data": STRING_MAP, "immutable": BOOLEAN})
SECRET_SCHEMA: Final = root({"data": map_of(BYTES), "immutable": BOOLEAN, "stringData": STRING_MAP, "type": STRING})
SERVICE_ACCOUNT_SCHEMA: Final = root(
    {
        "automountServiceAccountToken": BOOLEAN,
        "imagePullSecrets": list_of(LOCAL_OBJECT_REFERENCE),
        "secrets": list_of(OBJECT_REFERENCE, map_keys=["name"], patch_merge_key="name", duplicates=True),
    },
)
EVENT_SERIES: Final = obj({"count": INT32, "lastObservedTime": MICRO_TIME})
EVENT_SOURCE: Final = obj({**of(STRING, "component host")})
EVENT_SCHEMA: Final = root(
    {
        **of(STRING, "action message reason reportingComponent reportingInstance type"),
        **of(TIME, "firstTimestamp lastTimestamp"),
        **of(OBJECT_REFERENCE, "involvedObject related"),
        "count": INT32,
        "eventTime": MICRO_TIME,
        "series": EVENT_SERIES,
        "source": EVENT_SOURCE,
    },
)
