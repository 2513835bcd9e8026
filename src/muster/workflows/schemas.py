"""The schemas of the argoproj.io kinds, with the fields of v4.0 and v3.7."""

from __future__ import annotations

from typing import Any, Final

from muster.kube.kinds import Schema
from muster.kube.schema import (
    ANY,
    BOOLEAN,
    BYTES,
    EMPTY,
    INT32,
    INT64,
    INT_OR_STRING,
    NUMBER,
    OBJECT_META,
    SCALAR,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    integer,
    list_of,
    map_of,
    obj,
    of,
    string,
    upstream_schema,
)

# -- Artifacts: locations, archives, garbage collection, repositories --------------------------------------------------

METADATA: Final = obj({**of(STRING_MAP, "annotations labels")})

ARCHIVE: Final = obj({"none": EMPTY, "tar": obj({"compressionLevel": INT32}), "zip": EMPTY})
_GARBAGE_COLLECTION: Final = {"podMetadata": METADATA, "serviceAccountName": STRING, "strategy": STRING}
ARTIFACT_GC: Final = obj(_GARBAGE_COLLECTION)
WORKFLOW_ARTIFACT_GC: Final = obj({**_GARBAGE_COLLECTION, "forceFinalizerRemoval": BOOLEAN, "podSpecPatch": STRING})

_SECRET_KEY: Final = upstream_schema("core.v1.SecretKeySelector")
_ARTIFACTORY: Final = of(_SECRET_KEY, "passwordSecret usernameSecret")
_AZURE: Final = {
    **of(STRING, "container endpoint"),
    "accountKeySecret": _SECRET_KEY,
    "useSDKCreds": BOOLEAN,
}
_GCS: Final = {"bucket": STRING, "serviceAccountKeySecret": _SECRET_KEY}
_HDFS: Final = {
    **of(STRING, "dataTransferProtection hdfsUser krbRealm krbServicePrincipalName krbUsername"),
    **of(_SECRET_KEY, "krbCCacheSecret krbKeytabSecret"),
    "addresses": STRINGS,
    "force": BOOLEAN,
    "krbConfigConfigMap": upstream_schema("core.v1.ConfigMapKeySelector"),
}
_OSS: Final = {
    **of(STRING, "bucket endpoint securityToken"),
    **of(BOOLEAN, "createBucketIfNotPresent useSDKCreds"),
    **of(_SECRET_KEY, "accessKeySecret secretKeySecret"),
    "lifecycleRule": obj({**of(INT32, "markDeletionAfterDays markInfrequentAccessAfterDays")}),
}
_PLUGIN: Final = {**of(STRING, "configuration name")}
_S3: Final = {
    **of(STRING, "bucket endpoint region roleARN"),
    **of(BOOLEAN, "insecure useSDKCreds"),
    **of(_SECRET_KEY, "accessKeySecret caSecret secretKeySecret sessionTokenSecret"),
    "createBucketIfNotPresent": obj({"objectLocking": BOOLEAN}),
    "encryptionOptions": obj({
        **of(STRING, "kmsEncryptionContext kmsKeyId"),
        "enableEncryption": BOOLEAN,
        "serverSideCustomerKeySecret": _SECRET_KEY,
    }),
}  # fmt: skip

GIT: Final = obj({
    **of(STRING, "branch repo revision"),
    **of(BOOLEAN, "disableSubmodules insecureIgnoreHostKey insecureSkipTLS singleBranch"),
    **of(_SECRET_KEY, "passwordSecret sshPrivateKeySecret usernameSecret"),
    "depth": integer(0, format="int64"),
    "fetch": STRINGS,
})  # fmt: skip
HTTP_AUTH: Final = obj({
    "basicAuth": obj({**of(_SECRET_KEY, "passwordSecret usernameSecret")}),
    "clientCert": obj({**of(_SECRET_KEY, "clientCertSecret clientKeySecret")}),
    "oauth2": obj({
        **of(_SECRET_KEY, "clientIDSecret clientSecretSecret tokenURLSecret"),
        "endpointParams": list_of(obj({**of(STRING, "key value")})),
        "scopes": STRINGS,
    }),
})  # fmt: skip
HTTP_ARTIFACT: Final = obj({"auth": HTTP_AUTH, "headers": list_of(obj({**of(STRING, "name value")})), "url": STRING})

_LOCATION: Final = {
    "archiveLogs": BOOLEAN,
    "artifactory": obj({**_ARTIFACTORY, "url": STRING}),
    "azure": obj({**_AZURE, "blob": STRING}),
    "gcs": obj({**_GCS, "key": STRING}),
    "git": GIT,
    "hdfs": obj({**_HDFS, "path": STRING}),
    "http": HTTP_ARTIFACT,
    "oss": obj({**_OSS, "key": STRING}),
    "plugin": obj({**_PLUGIN, "connectionTimeoutSeconds": INT32, "key": STRING}),
    "raw": obj({"data": STRING}),
    "s3": obj({**_S3, "key": STRING}),
}
LOCATION: Final = obj(_LOCATION)
ARTIFACT: Final = obj({
    **_LOCATION,
    **of(STRING, "from fromExpression globalName name path subPath"),
    **of(BOOLEAN, "deleted optional recurseMode"),
    "archive": ARCHIVE,
    "artifactGC": ARTIFACT_GC,
    "mode": INT32,
})  # fmt: skip
ARTIFACTS: Final = list_of(ARTIFACT)

REPOSITORY_REF: Final = obj({**of(STRING, "configMap key")})
REPOSITORY: Final = obj({
    "archiveLogs": BOOLEAN,
    "artifactory": obj({**_ARTIFACTORY, **of(STRING, "keyFormat repoURL")}),
    "azure": obj({**_AZURE, "blobNameFormat": STRING}),
    "gcs": obj({**_GCS, "keyFormat": STRING}),
    "hdfs": obj({**_HDFS, "pathFormat": STRING}),
    "oss": obj({**_OSS, "keyFormat": STRING}),
    "plugin": obj({**_PLUGIN, "keyFormat": STRING}),
    "s3": obj({**_S3, **of(STRING, "keyFormat keyPrefix")}),
})  # fmt: skip

# -- Parameters, arguments and outputs, and what controls a step or task -----------------------------------------------

VALUE_FROM: Final = obj({
    **of(STRING, "event expression jqFilter jsonPath parameter path"),
    "configMapKeyRef": upstream_schema("core.v1.ConfigMapKeySelector"),
    "default": SCALAR,
    "supplied": EMPTY,
})  # fmt: skip
PARAMETERS: Final = list_of(
    obj(
        {
            **of(STRING, "globalName name"),
            **of(SCALAR, "default description value"),
            "enum": list_of(SCALAR),
            "valueFrom": VALUE_FROM,
        }
    )
)
ARGUMENTS: Final = obj({"artifacts": ARTIFACTS, "parameters": PARAMETERS})
INPUTS: Final = ARGUMENTS
OUTPUTS: Final = obj({"artifacts": ARTIFACTS, "exitCode": STRING, "parameters": PARAMETERS, "result": STRING})

TEMPLATE_REF: Final = obj({**of(STRING, "name template"), "clusterScope": BOOLEAN})
HOOKS: Final = map_of(obj({**of(STRING, "expression template"), "arguments": ARGUMENTS, "templateRef": TEMPLATE_REF}))
SEQUENCE: Final = obj({**of(INT_OR_STRING, "count end start"), "format": STRING})


def step_fields(inline: Schema) -> dict[str, Schema]:
    """What a step and a DAG task have in common."""
    return {
        **of(STRING, "name onExit template when withParam"),
        "arguments": ARGUMENTS,
        "continueOn": obj({**of(BOOLEAN, "error failed")}),
        "hooks": HOOKS,
        "inline": inline,
        "templateRef": TEMPLATE_REF,
        "withItems": list_of({**ANY, "nullable": True}),
        "withSequence": SEQUENCE,
    }


RETRY_STRATEGY: Final = obj({
    "affinity": obj({"nodeAntiAffinity": EMPTY}),
    "backoff": obj({**of(STRING, "cap duration maxDuration"), "factor": INT_OR_STRING}),
    "expression": STRING,
    "limit": INT_OR_STRING,
    "retryPolicy": STRING,
})  # fmt: skip

_MUTEX: Final = obj({**of(STRING, "name namespace"), "database": BOOLEAN})
_SEMAPHORE: Final = obj({
    "configMapKeyRef": upstream_schema("core.v1.ConfigMapKeySelector"),
    "database": obj({"key": STRING}),
    "namespace": STRING,
})  # fmt: skip
SYNCHRONIZATION: Final = obj({
    "mutex": _MUTEX,
    "mutexes": list_of(_MUTEX),
    "semaphore": _SEMAPHORE,
    "semaphores": list_of(_SEMAPHORE),
})  # fmt: skip
"""The singular spellings are those of v3.7."""

_CACHE: Final = obj({"configMap": obj({**of(STRING, "key name"), "optional": BOOLEAN})})
MEMOIZE: Final = obj({"cache": _CACHE, **of(STRING, "key maxAge")})

METRICS: Final = obj({
    "prometheus": list_of(
        obj({
            **of(STRING, "help name when"),
            "counter": obj({"value": STRING}),
            "gauge": obj({**of(STRING, "operation value"), "realtime": BOOLEAN}),
            "histogram": obj({"buckets": list_of(NUMBER), "value": STRING}),
            "labels": list_of(obj({**of(STRING, "key value")})),
        })
    )
})  # fmt: skip

EXECUTOR: Final = obj({"serviceAccountName": STRING})
DEPENDENCIES: Final = {"dependencies": STRINGS, "depends": STRING}

# -- What a workflow takes from Pods -----------------------------------------------------------------------------------
#
# Argo substitutes `{{...}}` before it creates a Pod, so a field with a few allowed values there may contain any text
# here.

_LATER = frozenset({"fileKeyRef", "podCertificate", "restartPolicyRules"})
"""Newer fields of Pods that Argo v4.0 does not know."""


def without_enums(schema: Schema) -> Schema:
    """Returns the schema without its enums; keys of list items are checked on the Pod."""
    freed: dict[str, Any] = {"x-muster-duplicates": True} if "x-kubernetes-list-map-keys" in schema else {}
    for key, value in schema.items():
        if key == "enum":
            continue
        if key == "properties":
            freed[key] = {name: without_enums(sub) for name, sub in value.items() if name not in _LATER}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            freed[key] = without_enums(value)
        else:
            freed[key] = value
    return freed


_CONTAINER: Final = without_enums(upstream_schema("core.v1.Container"))["properties"]
VOLUME_MOUNT: Final = without_enums(upstream_schema("core.v1.VolumeMount"))

CONTAINER: Final = obj(_CONTAINER)
SCRIPT: Final = obj({**_CONTAINER, "source": STRING})
CONTAINER_NODE: Final = obj({**_CONTAINER, "dependencies": STRINGS})
USER_CONTAINER: Final = obj({**_CONTAINER, "mirrorVolumeMounts": BOOLEAN})

VOLUME: Final = without_enums(upstream_schema("core.v1.Volume"))
VOLUMES: Final = list_of(VOLUME, map_keys=["name"], patch_merge_key="name", duplicates=True)
VOLUME_CLAIM_TEMPLATES: Final = list_of(without_enums(upstream_schema("core.v1.PersistentVolumeClaim")))

AFFINITY: Final = without_enums(upstream_schema("core.v1.Affinity"))
DNS_CONFIG: Final = upstream_schema("core.v1.PodDNSConfig")
HOST_ALIASES: Final = list_of(upstream_schema("core.v1.HostAlias"))
IMAGE_PULL_SECRETS: Final = list_of(upstream_schema("core.v1.LocalObjectReference"))
SECURITY_CONTEXT: Final = without_enums(upstream_schema("core.v1.PodSecurityContext"))
TOLERATIONS: Final = list_of(without_enums(upstream_schema("core.v1.Toleration")))
POD_DISRUPTION_BUDGET: Final = obj({
    "maxUnavailable": INT_OR_STRING,
    "minAvailable": INT_OR_STRING,
    "selector": upstream_schema("meta.v1.LabelSelector"),
    "unhealthyPodEvictionPolicy": STRING,
})  # fmt: skip

# -- Templates ---------------------------------------------------------------------------------------------------------

DEEPEST_INLINE = 3
"""Inline templates may contain steps with inline templates without limit; a schema must be finite."""

CONTAINER_SET: Final = obj({
    "containers": list_of(CONTAINER_NODE),
    "retryStrategy": obj({"duration": STRING, "retries": INT_OR_STRING}),
    "volumeMounts": list_of(VOLUME_MOUNT),
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
    **of(list_of(USER_CONTAINER), "initContainers sidecars"),
    "activeDeadlineSeconds": INT_OR_STRING,
    "affinity": AFFINITY,
    "archiveLocation": LOCATION,
    "container": CONTAINER,
    "containerSet": CONTAINER_SET,
    "data": DATA,
    "executor": EXECUTOR,
    "hostAliases": HOST_ALIASES,
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
    "script": SCRIPT,
    "securityContext": SECURITY_CONTEXT,
    "suspend": SUSPEND,
    "synchronization": SYNCHRONIZATION,
    "tolerations": TOLERATIONS,
    "volumes": VOLUMES,
}


def _template(depth: int) -> Schema:
    inline = _template(depth - 1) if depth else {"type": "object", **ANY}
    step = obj(step_fields(inline))
    task = obj({**step_fields(inline), **DEPENDENCIES})
    dag = obj({"failFast": BOOLEAN, "target": STRING, "tasks": list_of(task)})
    return obj({**_COMMON, "dag": dag, "steps": list_of(list_of(step))})


TEMPLATE: Final = _template(DEEPEST_INLINE)

# -- The spec of each kind ---------------------------------------------------------------------------------------------

WORKFLOW_TEMPLATE_REF: Final = obj({"clusterScope": BOOLEAN, "name": STRING})
WORKFLOW_METADATA: Final = obj({
    **of(STRING_MAP, "annotations labels"),
    "labelsFrom": map_of(obj({"expression": STRING})),
})  # fmt: skip
WORKFLOW_SPEC: Final = obj(
    {
        **of(STRING, "dnsPolicy entrypoint onExit podPriorityClassName podSpecPatch schedulerName serviceAccountName"),
        **of(BOOLEAN, "archiveLogs automountServiceAccountToken hostNetwork suspend"),
        "activeDeadlineSeconds": INT64,
        "affinity": AFFINITY,
        "arguments": ARGUMENTS,
        "artifactGC": WORKFLOW_ARTIFACT_GC,
        "artifactRepositoryRef": REPOSITORY_REF,
        "dnsConfig": DNS_CONFIG,
        "executor": EXECUTOR,
        "hooks": HOOKS,
        "hostAliases": HOST_ALIASES,
        "imagePullSecrets": IMAGE_PULL_SECRETS,
        "metrics": METRICS,
        "nodeSelector": STRING_MAP,
        "parallelism": integer(1, format="int64"),
        "podDisruptionBudget": POD_DISRUPTION_BUDGET,
        "podGC": obj(
            {**of(STRING, "deleteDelayDuration strategy"), "labelSelector": upstream_schema("meta.v1.LabelSelector")}
        ),
        "podMetadata": METADATA,
        "priority": INT32,
        "retryStrategy": RETRY_STRATEGY,
        "securityContext": SECURITY_CONTEXT,
        "shutdown": string(["", "Stop", "Terminate"]),
        "synchronization": SYNCHRONIZATION,
        "templateDefaults": TEMPLATE,
        "templates": list_of(TEMPLATE),
        "tolerations": TOLERATIONS,
        "ttlStrategy": obj({**of(INT32, "secondsAfterCompletion secondsAfterFailure secondsAfterSuccess")}),
        "volumeClaimGC": obj({"strategy": STRING}),
        "volumeClaimTemplates": VOLUME_CLAIM_TEMPLATES,
        "volumes": VOLUMES,
        "workflowMetadata": WORKFLOW_METADATA,
        "workflowTemplateRef": WORKFLOW_TEMPLATE_REF,
    },
    atomic=True,
)
CRON_SPEC: Final = obj(
    {
        **of(STRING, "schedule timezone when"),
        **of(INT32, "failedJobsHistoryLimit successfulJobsHistoryLimit"),
        "concurrencyPolicy": string(["", "Allow", "Forbid", "Replace"]),
        "schedules": STRINGS,
        "startingDeadlineSeconds": integer(0, format="int64"),
        "stopStrategy": obj({"expression": STRING}),
        "suspend": BOOLEAN,
        "workflowMetadata": OBJECT_META,
        "workflowSpec": WORKFLOW_SPEC,
    },
    ["workflowSpec"],
    atomic=True,
)
"""`schedule` is the spelling of v3.7."""

EVENT_BINDING_SPEC: Final = obj(
    {
        "event": obj({"selector": STRING}, ["selector"]),
        "submit": obj(
            {"arguments": ARGUMENTS, "metadata": OBJECT_META, "workflowTemplateRef": WORKFLOW_TEMPLATE_REF},
            ["workflowTemplateRef"],
        ),
    },
    ["event"],
)
TASK_SET_SPEC: Final = obj({"tasks": map_of(TEMPLATE)})
ARTIFACT_GC_SPEC: Final = obj(
    {"artifactsByNode": map_of(obj({"archiveLocation": LOCATION, "artifacts": map_of(ARTIFACT)}))}
)

# -- The status of each kind -------------------------------------------------------------------------------------------

CONDITIONS: Final = list_of(obj({**of(STRING, "message status type")}))
DURATIONS: Final = map_of(INT64)
NODE: Final = obj({
    **of(STRING, "boundaryID displayName hostNodeName id message name phase podIP progress restartingPodUID"),
    **of(STRING, "templateName templateScope type"),
    **of(STRINGS, "children outboundNodes"),
    **of(BOOLEAN, "daemoned taskResultSynced"),
    **of(TIME, "finishedAt startedAt"),
    "estimatedDuration": INT64,
    "failedPodRestarts": INT32,
    "inputs": INPUTS,
    "memoizationStatus": obj({**of(STRING, "cacheName key"), "hit": BOOLEAN}),
    "nodeFlag": obj({**of(BOOLEAN, "hooked retried")}),
    "outputs": OUTPUTS,
    "resourcesDuration": DURATIONS,
    "synchronizationStatus": obj({"waiting": STRING}),
    "templateRef": TEMPLATE_REF,
})  # fmt: skip

_MUTEXES: Final = list_of(obj({**of(STRING, "holder mutex")}))
_SEMAPHORES: Final = list_of(obj({"holders": STRINGS, "semaphore": STRING}))
SYNCHRONIZATION_STATUS: Final = obj({
    "mutex": obj({**of(_MUTEXES, "holding waiting")}),
    "semaphore": obj({**of(_SEMAPHORES, "holding waiting")}),
})  # fmt: skip

WORKFLOW_STATUS: Final = obj({
    **of(STRING, "compressedNodes message offloadNodeStatusVersion phase progress"),
    **of(TIME, "finishedAt startedAt"),
    "artifactGCStatus": obj({"notSpecified": BOOLEAN, **of(map_of(BOOLEAN), "podsRecouped strategiesProcessed")}),
    "artifactRepositoryRef": obj({
        **of(STRING, "configMap key namespace"),
        "artifactRepository": REPOSITORY,
        "default": BOOLEAN,
    }),
    "conditions": CONDITIONS,
    "estimatedDuration": INT64,
    "nodes": map_of(NODE),
    "outputs": OUTPUTS,
    "persistentVolumeClaims": list_of(VOLUME),
    "resourcesDuration": DURATIONS,
    "storedTemplates": map_of(TEMPLATE),
    "storedWorkflowTemplateSpec": WORKFLOW_SPEC,
    "synchronization": SYNCHRONIZATION_STATUS,
    "taskResultsCompletionStatus": map_of(BOOLEAN),
}, atomic=True)  # fmt: skip
CRON_STATUS: Final = obj({
    **of(INT64, "failed succeeded"),
    "active": list_of(upstream_schema("core.v1.ObjectReference")),
    "conditions": CONDITIONS,
    "lastScheduledTime": TIME,
    "phase": STRING,
}, atomic=True)  # fmt: skip

NODE_RESULT: Final = {**of(STRING, "message phase progress"), "outputs": OUTPUTS}
TASK_SET_STATUS: Final = obj({"nodes": map_of(obj(NODE_RESULT))})
ARTIFACT_GC_STATUS: Final = obj({
    "artifactResultsByNode": map_of(
        obj({"artifactResults": map_of(obj({**of(STRING, "error name"), "success": BOOLEAN}))})
    )
})  # fmt: skip
