"""Pod and PodTemplate, and the spec that every kind that makes Pods embeds."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import (
    BOOLEAN,
    INT32,
    INT64,
    OBJECT_META,
    RESOURCES,
    STRING,
    STRINGS,
    TIME,
    list_of,
    map_of,
    obj,
    of,
    root,
    string,
)
from muster.kube.schemas_container import (
    APP_ARMOR_PROFILE,
    CONTAINER,
    EPHEMERAL_CONTAINER,
    RESOURCE_REQUIREMENTS,
    SECCOMP_PROFILE,
    SELINUX_OPTIONS,
    WINDOWS_SECURITY_CONTEXT_OPTIONS,
)
from muster.kube.schemas_meta import LABEL_SELECTOR, LOCAL_OBJECT_REFERENCE, NODE_SELECTOR, NODE_SELECTOR_TERM
from muster.kube.schemas_volumes import VOLUME

PREFERRED_SCHEDULING_TERM: Final = obj({"preference": NODE_SELECTOR_TERM, "weight": INT32}, ["weight", "preference"])
NODE_AFFINITY: Final = obj(
    {
        "preferredDuringSchedulingIgnoredDuringExecution": list_of(PREFERRED_SCHEDULING_TERM),
        "requiredDuringSchedulingIgnoredDuringExecution": NODE_SELECTOR,
    },
)
POD_AFFINITY_TERM: Final = obj(
    {
        **of(STRINGS, "matchLabelKeys mismatchLabelKeys namespaces"),
        **of(LABEL_SELECTOR, "labelSelector namespaceSelector"),
        "topologyKey": STRING,
    },
    ["topologyKey"],
)
WEIGHTED_POD_AFFINITY_TERM: Final = obj(
    {
        "podAffinityTerm": POD_AFFINITY_TERM,
        "weight": INT32,
    },
    ["weight", "podAffinityTerm"],
)
POD_AFFINITY: Final = obj(
    {
        "preferredDuringSchedulingIgnoredDuringExecution": list_of(WEIGHTED_POD_AFFINITY_TERM),
        "requiredDuringSchedulingIgnoredDuringExecution": list_of(POD_AFFINITY_TERM),
    },
)
POD_ANTI_AFFINITY: Final = obj(
    {
        "preferredDuringSchedulingIgnoredDuringExecution": list_of(WEIGHTED_POD_AFFINITY_TERM),
        "requiredDuringSchedulingIgnoredDuringExecution": list_of(POD_AFFINITY_TERM),
    },
)
AFFINITY: Final = obj(
    {
        "nodeAffinity": NODE_AFFINITY,
        "podAffinity": POD_AFFINITY,
        "podAntiAffinity": POD_ANTI_AFFINITY,
    },
)
POD_DNS_CONFIG_OPTION: Final = obj({**of(STRING, "name value")})
POD_DNS_CONFIG: Final = obj({**of(STRINGS, "nameservers searches"), "options": list_of(POD_DNS_CONFIG_OPTION)})
HOST_ALIAS: Final = obj({"hostnames": STRINGS, "ip": STRING}, ["ip"])
POD_OS: Final = obj({"name": string(["linux", "windows"])}, ["name"])
POD_READINESS_GATE: Final = obj({"conditionType": STRING}, ["conditionType"])
POD_RESOURCE_CLAIM: Final = obj({**of(STRING, "name resourceClaimName resourceClaimTemplateName")}, ["name"])
POD_SCHEDULING_GATE: Final = obj({"name": STRING}, ["name"])
SYSCTL: Final = obj({**of(STRING, "name value")}, ["name", "value"])
POD_SECURITY_CONTEXT: Final = obj(
    {
        **of(INT64, "fsGroup runAsGroup runAsUser"),
        "appArmorProfile": APP_ARMOR_PROFILE,
        "fsGroupChangePolicy": string(["Always", "OnRootMismatch"]),
        "runAsNonRoot": BOOLEAN,
        "seLinuxChangePolicy": string(["Recursive", "MountOption"]),
        "seLinuxOptions": SELINUX_OPTIONS,
        "seccompProfile": SECCOMP_PROFILE,
        "supplementalGroups": list_of(INT64),
        "supplementalGroupsPolicy": string(["Merge", "Strict"]),
        "sysctls": list_of(SYSCTL),
        "windowsOptions": WINDOWS_SECURITY_CONTEXT_OPTIONS,
    },
)
TOLERATION: Final = obj(
    {
        **of(STRING, "key value"),
        "effect": string(["NoSchedule", "PreferNoSchedule", "NoExecute", ""]),
        "operator": string(["Exists", "Equal", "Lt", "Gt", ""]),
        "tolerationSeconds": INT64,
    },
)
TOPOLOGY_SPREAD_CONSTRAINT: Final = obj(
    {
        **of(INT32, "maxSkew minDomains"),
        **of(string(["Honor", "Ignore"]), "nodeAffinityPolicy nodeTaintsPolicy"),
        "labelSelector": LABEL_SELECTOR,
        "matchLabelKeys": STRINGS,
        "topologyKey": STRING,
        "whenUnsatisfiable": string(["DoNotSchedule", "ScheduleAnyway"]),
    },
    ["maxSkew", "topologyKey", "whenUnsatisfiable"],
)
WORKLOAD_REFERENCE: Final = obj({**of(STRING, "name podGroup podGroupReplicaKey")}, ["name", "podGroup"])
POD_SPEC_SCHEMA: Final = obj(
    {
        **of(STRING, "hostname hostnameOverride nodeName priorityClassName runtimeClassName schedulerName"),
        **of(STRING, "serviceAccount serviceAccountName subdomain"),
        **of(BOOLEAN, "automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers"),
        **of(BOOLEAN, "setHostnameAsFQDN shareProcessNamespace"),
        **of(INT64, "activeDeadlineSeconds terminationGracePeriodSeconds"),
        **of(list_of(CONTAINER, map_keys=["name"], patch_merge_key="name"), "containers initContainers"),
        "affinity": AFFINITY,
        "dnsConfig": POD_DNS_CONFIG,
        "dnsPolicy": string(["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
        "ephemeralContainers": list_of(EPHEMERAL_CONTAINER, map_keys=["name"], patch_merge_key="name"),
        "hostAliases": list_of(HOST_ALIAS, map_keys=["ip"], patch_merge_key="ip", duplicates=True),
        "imagePullSecrets": list_of(LOCAL_OBJECT_REFERENCE, map_keys=["name"], patch_merge_key="name", duplicates=True),
        "nodeSelector": map_of(STRING, atomic=True),
        "os": POD_OS,
        "overhead": RESOURCES,
        "preemptionPolicy": string(["PreemptLowerPriority", "Never"]),
        "priority": INT32,
        "readinessGates": list_of(POD_READINESS_GATE),
        "resourceClaims": list_of(
            POD_RESOURCE_CLAIM, map_keys=["name"], patch_merge_key="name", patch_strategy="merge,retainKeys"
        ),
        "resources": RESOURCE_REQUIREMENTS,
        "restartPolicy": string(["Always", "OnFailure", "Never"]),
        "schedulingGates": list_of(POD_SCHEDULING_GATE, map_keys=["name"], patch_merge_key="name"),
        "securityContext": POD_SECURITY_CONTEXT,
        "tolerations": list_of(TOLERATION),
        "topologySpreadConstraints": list_of(
            TOPOLOGY_SPREAD_CONSTRAINT, map_keys=["topologyKey", "whenUnsatisfiable"], patch_merge_key="topologyKey"
        ),
        "volumes": list_of(VOLUME, map_keys=["name"], patch_merge_key="name", patch_strategy="merge,retainKeys"),
        "workloadRef": WORKLOAD_REFERENCE,
    },
    ["containers"],
)
POD_TEMPLATE_SCHEMA: Final = obj({"metadata": OBJECT_META, "spec": POD_SPEC_SCHEMA})
POD_TEMPLATE_KIND_SCHEMA: Final = root({"template": POD_TEMPLATE_SCHEMA})
POD_CONDITION: Final = obj(
    {
        **of(STRING, "message reason status type"),
        **of(TIME, "lastProbeTime lastTransitionTime"),
        "observedGeneration": INT64,
    },
)
RESOURCE_HEALTH: Final = obj({**of(STRING, "health resourceID")}, ["resourceID"])
RESOURCE_STATUS: Final = obj({"name": STRING, "resources": list_of(RESOURCE_HEALTH, map_keys=["resourceID"])})
CONTAINER_STATE_RUNNING: Final = obj({"startedAt": TIME})
CONTAINER_STATE_TERMINATED: Final = obj(
    {
        **of(STRING, "containerID message reason"),
        **of(INT32, "exitCode signal"),
        **of(TIME, "finishedAt startedAt"),
    },
)
CONTAINER_STATE_WAITING: Final = obj({**of(STRING, "message reason")})
CONTAINER_STATE: Final = obj(
    {
        "running": CONTAINER_STATE_RUNNING,
        "terminated": CONTAINER_STATE_TERMINATED,
        "waiting": CONTAINER_STATE_WAITING,
    },
)
LINUX_CONTAINER_USER: Final = obj({**of(INT64, "gid uid"), "supplementalGroups": list_of(INT64)})
CONTAINER_USER: Final = obj({"linux": LINUX_CONTAINER_USER})
VOLUME_MOUNT_STATUS: Final = obj({**of(STRING, "mountPath name recursiveReadOnly"), "readOnly": BOOLEAN})
CONTAINER_STATUS: Final = obj(
    {
        **of(STRING, "containerID image imageID name stopSignal"),
        **of(CONTAINER_STATE, "lastState state"),
        **of(BOOLEAN, "ready started"),
        "allocatedResources": RESOURCES,
        "allocatedResourcesStatus": list_of(RESOURCE_STATUS, map_keys=["name"], patch_merge_key="name"),
        "resources": RESOURCE_REQUIREMENTS,
        "restartCount": INT32,
        "user": CONTAINER_USER,
        "volumeMounts": list_of(VOLUME_MOUNT_STATUS, map_keys=["mountPath"], patch_merge_key="mountPath"),
    },
)
CONTAINER_EXTENDED_RESOURCE_REQUEST: Final = obj(
    {
        **of(STRING, "containerName requestName resourceName"),
    },
    ["containerName", "resourceName", "requestName"],
)
POD_EXTENDED_RESOURCE_CLAIM_STATUS: Final = obj(
    {
        "requestMappings": list_of(CONTAINER_EXTENDED_RESOURCE_REQUEST),
        "resourceClaimName": STRING,
    },
)
HOST_IP: Final = obj({"ip": STRING})
POD_IP: Final = obj({"ip": STRING})
POD_RESOURCE_CLAIM_STATUS: Final = obj({**of(STRING, "name resourceClaimName")})
POD_STATUS: Final = obj(
    {
        **of(STRING, "hostIP message nominatedNodeName podIP qosClass reason resize"),
        **of(list_of(CONTAINER_STATUS), "containerStatuses ephemeralContainerStatuses initContainerStatuses"),
        "allocatedResources": RESOURCES,
        "conditions": list_of(POD_CONDITION, map_keys=["type"], patch_merge_key="type"),
        "extendedResourceClaimStatus": POD_EXTENDED_RESOURCE_CLAIM_STATUS,
        "hostIPs": list_of(HOST_IP, patch_merge_key="ip"),
        "observedGeneration": INT64,
        "phase": string(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        "podIPs": list_of(POD_IP, map_keys=["ip"], patch_merge_key="ip", duplicates=True),
        "resourceClaimStatuses": list_of(
            POD_RESOURCE_CLAIM_STATUS, map_keys=["name"], patch_merge_key="name", patch_strategy="merge,retainKeys"
        ),
        "resources": RESOURCE_REQUIREMENTS,
        "startTime": TIME,
    },
)
POD_SCHEMA: Final = root({"spec": POD_SPEC_SCHEMA, "status": POD_STATUS})
