"""The status of each kind."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import BOOLEAN, INT32, INT64, STRING, STRINGS, TIME, list_of, map_of, obj, of, upstream_schema
from muster.workflows.schemas.artifacts import REPOSITORY
from muster.workflows.schemas.flow import INPUTS, OUTPUTS, TEMPLATE_REF
from muster.workflows.schemas.pods import VOLUME
from muster.workflows.schemas.specs import WORKFLOW_SPEC
from muster.workflows.schemas.templates import TEMPLATE

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
SYNCHRONIZATION: Final = obj({
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
    "synchronization": SYNCHRONIZATION,
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
