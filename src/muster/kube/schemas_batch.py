"""Job."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import BOOLEAN, INT32, INT64, STRING, TIME, list_of, obj, of, root, string
from muster.kube.schemas_meta import LABEL_SELECTOR
from muster.kube.schemas_pod import POD_TEMPLATE_SCHEMA

POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT: Final = obj(
    {
        "containerName": STRING,
        "operator": string(["In", "NotIn"]),
        "values": list_of(INT32, is_set=True),
    },
    ["operator", "values"],
)
POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN: Final = obj({**of(STRING, "status type")}, ["type"])
POD_FAILURE_POLICY_RULE: Final = obj(
    {
        "action": string(["FailJob", "FailIndex", "Ignore", "Count"]),
        "onExitCodes": POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT,
        "onPodConditions": list_of(POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN),
    },
    ["action"],
)
POD_FAILURE_POLICY: Final = obj({"rules": list_of(POD_FAILURE_POLICY_RULE)}, ["rules"])
SUCCESS_POLICY_RULE: Final = obj({"succeededCount": INT32, "succeededIndexes": STRING})
SUCCESS_POLICY: Final = obj({"rules": list_of(SUCCESS_POLICY_RULE)}, ["rules"])
JOB_SPEC: Final = obj(
    {
        **of(INT32, "backoffLimit backoffLimitPerIndex completions maxFailedIndexes parallelism"),
        **of(INT32, "ttlSecondsAfterFinished"),
        **of(BOOLEAN, "manualSelector suspend"),
        "activeDeadlineSeconds": INT64,
        "completionMode": string(["NonIndexed", "Indexed"]),
        "managedBy": STRING,
        "podFailurePolicy": POD_FAILURE_POLICY,
        "podReplacementPolicy": string(["TerminatingOrFailed", "Failed"]),
        "selector": LABEL_SELECTOR,
        "successPolicy": SUCCESS_POLICY,
        "template": POD_TEMPLATE_SCHEMA,
    },
    ["template"],
)
JOB_CONDITION: Final = obj(
    {
        **of(STRING, "message reason status type"),
        **of(TIME, "lastProbeTime lastTransitionTime"),
    },
)
UNCOUNTED_TERMINATED_PODS: Final = obj({**of(list_of(STRING, is_set=True), "failed succeeded")})
JOB_STATUS: Final = obj(
    {
        **of(INT32, "active failed ready succeeded terminating"),
        **of(STRING, "completedIndexes failedIndexes"),
        **of(TIME, "completionTime startTime"),
        "conditions": list_of(JOB_CONDITION, patch_merge_key="type"),
        "uncountedTerminatedPods": UNCOUNTED_TERMINATED_PODS,
    },
)
JOB_SCHEMA: Final = root({"spec": JOB_SPEC, "status": JOB_STATUS})
