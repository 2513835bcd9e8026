"""A container: image, command, environment, mounts, probes, limits."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import (
    BOOLEAN,
    INT32,
    INT64,
    INT_OR_STRING,
    RESOURCES,
    STRING,
    STRINGS,
    list_of,
    obj,
    of,
    string,
)
from muster.kube.schemas_volumes import OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR

CONFIG_MAP_KEY_SELECTOR: Final = obj({**of(STRING, "key name"), "optional": BOOLEAN}, ["key"], atomic=True)
FILE_KEY_SELECTOR: Final = obj(
    {
        **of(STRING, "key path volumeName"),
        "optional": BOOLEAN,
    },
    ["volumeName", "path", "key"],
    atomic=True,
)
SECRET_KEY_SELECTOR: Final = obj({**of(STRING, "key name"), "optional": BOOLEAN}, ["key"], atomic=True)
ENV_VAR_SOURCE: Final = obj(
    {
        "configMapKeyRef": CONFIG_MAP_KEY_SELECTOR,
        "fieldRef": OBJECT_FIELD_SELECTOR,
        "fileKeyRef": FILE_KEY_SELECTOR,
        "resourceFieldRef": RESOURCE_FIELD_SELECTOR,
        "secretKeyRef": SECRET_KEY_SELECTOR,
    },
)
ENV_VAR: Final = obj({**of(STRING, "name value"), "valueFrom": ENV_VAR_SOURCE}, ["name"])
CONFIG_MAP_ENV_SOURCE: Final = obj({"name": STRING, "optional": BOOLEAN})
SECRET_ENV_SOURCE: Final = obj({"name": STRING, "optional": BOOLEAN})
ENV_FROM_SOURCE: Final = obj(
    {
        "configMapRef": CONFIG_MAP_ENV_SOURCE,
        "prefix": STRING,
        "secretRef": SECRET_ENV_SOURCE,
    },
)
EXEC_ACTION: Final = obj({"command": STRINGS})
HTTP_HEADER: Final = obj({**of(STRING, "name value")}, ["name", "value"])
HTTP_GET_ACTION: Final = obj(
    {
        **of(STRING, "host path"),
        "httpHeaders": list_of(HTTP_HEADER),
        "port": INT_OR_STRING,
        "scheme": string(["HTTP", "HTTPS"]),
    },
    ["port"],
)
SLEEP_ACTION: Final = obj({"seconds": INT64}, ["seconds"])
TCP_SOCKET_ACTION: Final = obj({"host": STRING, "port": INT_OR_STRING}, ["port"])
LIFECYCLE_HANDLER: Final = obj(
    {
        "exec": EXEC_ACTION,
        "httpGet": HTTP_GET_ACTION,
        "sleep": SLEEP_ACTION,
        "tcpSocket": TCP_SOCKET_ACTION,
    },
)
LIFECYCLE: Final = obj({**of(LIFECYCLE_HANDLER, "postStart preStop"), "stopSignal": STRING})
GRPC_ACTION: Final = obj({"port": INT32, "service": STRING}, ["port"])
PROBE: Final = obj(
    {
        **of(INT32, "failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds"),
        "exec": EXEC_ACTION,
        "grpc": GRPC_ACTION,
        "httpGet": HTTP_GET_ACTION,
        "tcpSocket": TCP_SOCKET_ACTION,
        "terminationGracePeriodSeconds": INT64,
    },
)
CONTAINER_PORT: Final = obj(
    {
        **of(INT32, "containerPort hostPort"),
        **of(STRING, "hostIP name"),
        "protocol": string(["TCP", "UDP", "SCTP"], default="TCP"),
    },
    ["containerPort"],
)
CONTAINER_RESIZE_POLICY: Final = obj(
    {
        "resourceName": STRING,
        "restartPolicy": string(["NotRequired", "RestartContainer"]),
    },
    ["resourceName", "restartPolicy"],
)
RESOURCE_CLAIM: Final = obj({**of(STRING, "name request")}, ["name"])
RESOURCE_REQUIREMENTS: Final = obj(
    {
        **of(RESOURCES, "limits requests"),
        "claims": list_of(RESOURCE_CLAIM, map_keys=["name"]),
    },
)
CONTAINER_RESTART_RULE_ON_EXIT_CODES: Final = obj(
    {
        "operator": string(["In", "NotIn"]),
        "values": list_of(INT32, is_set=True),
    },
    ["operator"],
)
CONTAINER_RESTART_RULE: Final = obj(
    {
        "action": string(["Restart", "RestartAllContainers"]),
        "exitCodes": CONTAINER_RESTART_RULE_ON_EXIT_CODES,
    },
    ["action"],
)
APP_ARMOR_PROFILE: Final = obj(
    {
        "localhostProfile": STRING,
        "type": string(["Unconfined", "RuntimeDefault", "Localhost"]),
    },
    ["type"],
)
CAPABILITIES: Final = obj({**of(STRINGS, "add drop")})
SELINUX_OPTIONS: Final = obj({**of(STRING, "level role type user")})
SECCOMP_PROFILE: Final = obj(
    {
        "localhostProfile": STRING,
        "type": string(["Unconfined", "RuntimeDefault", "Localhost"]),
    },
    ["type"],
)
WINDOWS_SECURITY_CONTEXT_OPTIONS: Final = obj(
    {
        **of(STRING, "gmsaCredentialSpec gmsaCredentialSpecName runAsUserName"),
        "hostProcess": BOOLEAN,
    },
)
SECURITY_CONTEXT: Final = obj(
    {
        **of(BOOLEAN, "allowPrivilegeEscalation privileged readOnlyRootFilesystem runAsNonRoot"),
        **of(INT64, "runAsGroup runAsUser"),
        "appArmorProfile": APP_ARMOR_PROFILE,
        "capabilities": CAPABILITIES,
        "procMount": string(["Default", "Unmasked"]),
        "seLinuxOptions": SELINUX_OPTIONS,
        "seccompProfile": SECCOMP_PROFILE,
        "windowsOptions": WINDOWS_SECURITY_CONTEXT_OPTIONS,
    },
)
VOLUME_DEVICE: Final = obj({**of(STRING, "devicePath name")}, ["name", "devicePath"])
VOLUME_MOUNT: Final = obj(
    {
        **of(STRING, "mountPath name subPath subPathExpr"),
        "mountPropagation": string(["None", "HostToContainer", "Bidirectional"]),
        "readOnly": BOOLEAN,
        "recursiveReadOnly": string(["Disabled", "IfPossible", "Enabled"]),
    },
    ["name", "mountPath"],
)
CONTAINER: Final = obj(
    {
        **of(STRING, "image name terminationMessagePath workingDir"),
        **of(PROBE, "livenessProbe readinessProbe startupProbe"),
        **of(BOOLEAN, "stdin stdinOnce tty"),
        **of(STRINGS, "args command"),
        "env": list_of(ENV_VAR, map_keys=["name"], patch_merge_key="name", duplicates=True),
        "envFrom": list_of(ENV_FROM_SOURCE),
        "imagePullPolicy": string(["Always", "IfNotPresent", "Never"]),
        "lifecycle": LIFECYCLE,
        "ports": list_of(
            CONTAINER_PORT, map_keys=["containerPort", "protocol"], patch_merge_key="containerPort", duplicates=True
        ),
        "resizePolicy": list_of(CONTAINER_RESIZE_POLICY),
        "resources": RESOURCE_REQUIREMENTS,
        "restartPolicy": string(["Always", "Never", "OnFailure"]),
        "restartPolicyRules": list_of(CONTAINER_RESTART_RULE),
        "securityContext": SECURITY_CONTEXT,
        "terminationMessagePolicy": string(["File", "FallbackToLogsOnError"]),
        "volumeDevices": list_of(VOLUME_DEVICE, map_keys=["devicePath"], patch_merge_key="devicePath"),
        "volumeMounts": list_of(VOLUME_MOUNT, map_keys=["mountPath"], patch_merge_key="mountPath"),
    },
    ["name"],
)
EPHEMERAL_CONTAINER: Final = obj(
    {
        **of(STRING, "image name restartPolicy targetContainerName terminationMessagePath workingDir"),
        **of(PROBE, "livenessProbe readinessProbe startupProbe"),
        **of(BOOLEAN, "stdin stdinOnce tty"),
        **of(STRINGS, "args command"),
        "env": list_of(ENV_VAR, map_keys=["name"], patch_merge_key="name", duplicates=True),
        "envFrom": list_of(ENV_FROM_SOURCE),
        "imagePullPolicy": string(["Always", "IfNotPresent", "Never"]),
        "lifecycle": LIFECYCLE,
        "ports": list_of(
            CONTAINER_PORT, map_keys=["containerPort", "protocol"], patch_merge_key="containerPort", duplicates=True
        ),
        "resizePolicy": list_of(CONTAINER_RESIZE_POLICY),
        "resources": RESOURCE_REQUIREMENTS,
        "restartPolicyRules": list_of(CONTAINER_RESTART_RULE),
        "securityContext": SECURITY_CONTEXT,
        "terminationMessagePolicy": string(["File", "FallbackToLogsOnError"]),
        "volumeDevices": list_of(VOLUME_DEVICE, map_keys=["devicePath"], patch_merge_key="devicePath"),
        "volumeMounts": list_of(VOLUME_MOUNT, map_keys=["mountPath"], patch_merge_key="mountPath"),
    },
    ["name"],
)
