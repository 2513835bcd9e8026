"""The spec of each kind."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import (
    BOOLEAN,
    INT32,
    INT64,
    OBJECT_META,
    STRING,
    STRING_MAP,
    STRINGS,
    integer,
    list_of,
    map_of,
    obj,
    of,
    string,
    upstream_schema,
)
from muster.workflows.schemas import pods
from muster.workflows.schemas.artifacts import ARTIFACT, LOCATION, METADATA, REPOSITORY_REF, WORKFLOW_ARTIFACT_GC
from muster.workflows.schemas.flow import ARGUMENTS, EXECUTOR, HOOKS, METRICS, RETRY_STRATEGY, SYNCHRONIZATION
from muster.workflows.schemas.templates import TEMPLATE

TEMPLATE_REF: Final = obj({"clusterScope": BOOLEAN, "name": STRING})
WORKFLOW_METADATA: Final = obj({
    **of(STRING_MAP, "annotations labels"),
    "labelsFrom": map_of(obj({"expression": STRING})),
})  # fmt: skip
WORKFLOW_SPEC: Final = obj(
    {
        **of(STRING, "dnsPolicy entrypoint onExit podPriorityClassName podSpecPatch schedulerName serviceAccountName"),
        **of(BOOLEAN, "archiveLogs automountServiceAccountToken hostNetwork suspend"),
        "activeDeadlineSeconds": INT64,
        "affinity": pods.AFFINITY,
        "arguments": ARGUMENTS,
        "artifactGC": WORKFLOW_ARTIFACT_GC,
        "artifactRepositoryRef": REPOSITORY_REF,
        "dnsConfig": pods.DNS_CONFIG,
        "executor": EXECUTOR,
        "hooks": HOOKS,
        "hostAliases": pods.HOST_ALIASES,
        "imagePullSecrets": pods.IMAGE_PULL_SECRETS,
        "metrics": METRICS,
        "nodeSelector": STRING_MAP,
        "parallelism": integer(1, format="int64"),
        "podDisruptionBudget": pods.POD_DISRUPTION_BUDGET,
        "podGC": obj(
            {**of(STRING, "deleteDelayDuration strategy"), "labelSelector": upstream_schema("meta.v1.LabelSelector")}
        ),
        "podMetadata": METADATA,
        "priority": INT32,
        "retryStrategy": RETRY_STRATEGY,
        "securityContext": pods.SECURITY_CONTEXT,
        "shutdown": string(["", "Stop", "Terminate"]),
        "synchronization": SYNCHRONIZATION,
        "templateDefaults": TEMPLATE,
        "templates": list_of(TEMPLATE),
        "tolerations": pods.TOLERATIONS,
        "ttlStrategy": obj({**of(INT32, "secondsAfterCompletion secondsAfterFailure secondsAfterSuccess")}),
        "volumeClaimGC": obj({"strategy": STRING}),
        "volumeClaimTemplates": pods.VOLUME_CLAIM_TEMPLATES,
        "volumes": pods.VOLUMES,
        "workflowMetadata": WORKFLOW_METADATA,
        "workflowTemplateRef": TEMPLATE_REF,
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
            {"arguments": ARGUMENTS, "metadata": OBJECT_META, "workflowTemplateRef": TEMPLATE_REF},
            ["workflowTemplateRef"],
        ),
    },
    ["event"],
)
TASK_SET_SPEC: Final = obj({"tasks": map_of(TEMPLATE)})
ARTIFACT_GC_SPEC: Final = obj(
    {"artifactsByNode": map_of(obj({"archiveLocation": LOCATION, "artifacts": map_of(ARTIFACT)}))}
)
