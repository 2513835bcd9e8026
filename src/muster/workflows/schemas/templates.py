"""The schema of a template of any type."""

from __future__ import annotations

from typing import Final

from muster.kube.kinds import Schema
from muster.kube.schema import (
    ANY,
    BOOLEAN,
    BYTES,
    INT64,
    INT_OR_STRING,
    STRING,
    STRING_MAP,
    STRINGS,
    integer,
    list_of,
    map_of,
    obj,
    of,
    upstream_schema,
)
from muster.workflows.schemas import pods
from muster.workflows.schemas.artifacts import ARTIFACT, LOCATION, METADATA
from muster.workflows.schemas.flow import (
    DEPENDENCIES,
    EXECUTOR,
    INPUTS,
    MEMOIZE,
    METRICS,
    OUTPUTS,
    RETRY_STRATEGY,
    SYNCHRONIZATION,
    step_fields,
)

DEEPEST_INLINE = 3
"""Inline templates may contain steps with inline templates without limit; a schema must be finite."""

CONTAINER_SET: Final = obj({
    "containers": list_of(pods.CONTAINER_NODE),
    "retryStrategy": obj({"duration": STRING, "retries": INT_OR_STRING}),
    "volumeMounts": list_of(pods.VOLUME_MOUNT),
})  # fmt: skip
DATA: Final = obj({
    "source": obj({"artifactPaths": ARTIFACT}),
    "transformation": list_of(obj({"expression": STRING})),
})  # fmt: skip
HTTP: Final = obj({
    **of(STRING, "body method successCondition url"),
    "bodyFrom": obj({"bytes": BYTES}),
    "headers": list_of(
        obj({
            **of(STRING, "name value"),
            "valueFrom": obj({"secretKeyRef": upstream_schema("core.v1.SecretKeySelector")}),
        })
    ),
    "insecureSkipVerify": BOOLEAN,
    "timeoutSeconds": INT64,
})  # fmt: skip
PLUGIN: Final = map_of(ANY, minProperties=1, maxProperties=1)
RESOURCE: Final = obj({
    **of(STRING, "action failureCondition manifest mergeStrategy successCondition"),
    "flags": STRINGS,
    "manifestFrom": obj({"artifact": ARTIFACT}),
    "setOwnerReference": BOOLEAN,
})  # fmt: skip
SUSPEND: Final = obj({"duration": STRING})

_COMMON: Final[dict[str, Schema]] = {
    **of(STRING, "name podSpecPatch priorityClassName schedulerName serviceAccountName timeout"),
    **of(BOOLEAN, "automountServiceAccountToken daemon failFast"),
    **of(STRING_MAP, "annotations nodeSelector"),
    **of(list_of(pods.USER_CONTAINER), "initContainers sidecars"),
    "activeDeadlineSeconds": INT_OR_STRING,
    "affinity": pods.AFFINITY,
    "archiveLocation": LOCATION,
    "container": pods.CONTAINER,
    "containerSet": CONTAINER_SET,
    "data": DATA,
    "executor": EXECUTOR,
    "hostAliases": pods.HOST_ALIASES,
    "http": HTTP,
    "inputs": INPUTS,
    "memoize": MEMOIZE,
    "metadata": METADATA,
    "metrics": METRICS,
    "outputs": OUTPUTS,
    "parallelism": integer(1, format="int64"),
    "plugin": PLUGIN,
    "resource": RESOURCE,
    "retryStrategy": RETRY_STRATEGY,
    "script": pods.SCRIPT,
    "securityContext": pods.SECURITY_CONTEXT,
    "suspend": SUSPEND,
    "synchronization": SYNCHRONIZATION,
    "tolerations": pods.TOLERATIONS,
    "volumes": pods.VOLUMES,
}


def _template(depth: int) -> Schema:
    inline = _template(depth - 1) if depth else {"type": "object", **ANY}
    step = obj(step_fields(inline))
    task = obj({**step_fields(inline), **DEPENDENCIES})
    dag = obj({"failFast": BOOLEAN, "target": STRING, "tasks": list_of(task)})
    return obj({**_COMMON, "dag": dag, "steps": list_of(list_of(step))})


TEMPLATE: Final = _template(DEEPEST_INLINE)
