"""The schemas that the training kinds share, and the `Kind` of a kubeflow.org/v1 job built from them."""

from __future__ import annotations

from collections.abc import Mapping

from muster.kube.kinds import Column, Kind, Scale, Schema
from muster.kube.schema import (
    BOOLEAN,
    INT32,
    QUANTITY,
    RESOURCES,
    STRING,
    TIME,
    integer,
    list_of,
    map_of,
    obj,
    root,
    string,
)
from muster.kube.schemas_meta import LABEL_SELECTOR
from muster.kube.schemas_pod import POD_TEMPLATE_SCHEMA

SCHEDULING_POLICY: Schema = obj({
    "minAvailable": INT32,
    "queue": STRING,
    "minResources": RESOURCES,
    "priorityClass": STRING,
    "scheduleTimeoutSeconds": INT32,
})  # fmt: skip

RUN_POLICY: Schema = obj({
    "cleanPodPolicy": string(["None", "Running", "All", ""]),
    "ttlSecondsAfterFinished": integer(0),
    "activeDeadlineSeconds": integer(0, format="int64"),
    "backoffLimit": integer(0),
    "schedulingPolicy": SCHEDULING_POLICY,
    "suspend": BOOLEAN,
    "managedBy": STRING,
})  # fmt: skip

TEMPLATE: Schema = obj({**POD_TEMPLATE_SCHEMA["properties"], "apiVersion": STRING, "kind": STRING})
"""A Pod's. Some write it as a whole one, and then it says what it is."""

REPLICA_SPEC: Schema = obj({
    "replicas": integer(0),
    "restartPolicy": string(["Always", "OnFailure", "Never", "ExitCode", ""]),
    "template": TEMPLATE,
})  # fmt: skip

NPROC_PER_NODE: Schema = STRING

_TARGET: Schema = obj(
    {"type": STRING, "averageUtilization": INT32, "averageValue": QUANTITY, "value": QUANTITY}, ["type"]
)
_METRIC: Schema = obj({"name": STRING, "selector": LABEL_SELECTOR}, ["name"])
_DESCRIBED: Schema = obj({"apiVersion": STRING, "kind": STRING, "name": STRING}, ["kind", "name"])

METRICS: Schema = list_of(
    obj(
        {
            "type": STRING,
            "resource": obj({"name": STRING, "target": _TARGET}, ["name", "target"]),
            "containerResource": obj(
                {"container": STRING, "name": STRING, "target": _TARGET}, ["container", "name", "target"]
            ),
            "pods": obj({"metric": _METRIC, "target": _TARGET}, ["metric", "target"]),
            "object": obj(
                {"describedObject": _DESCRIBED, "metric": _METRIC, "target": _TARGET},
                ["describedObject", "metric", "target"],
            ),
            "external": obj({"metric": _METRIC, "target": _TARGET}, ["metric", "target"]),
        },
        ["type"],
    )
)
"""What an autoscaler goes by, as in autoscaling/v2."""

ELASTIC_POLICY: Schema = obj({
    "minReplicas": integer(1),
    "maxReplicas": integer(1),
    "rdzvBackend": string(["c10d", "etcd", "etcd-v2"]),
    "rdzvHost": STRING,
    "rdzvPort": INT32,
    "rdzvId": STRING,
    "rdzvConf": list_of(obj({"key": STRING, "value": STRING})),
    "standalone": BOOLEAN,
    "nProcPerNode": INT32,
    "maxRestarts": INT32,
    "metrics": METRICS,
})  # fmt: skip

JOB_STATUS: Schema = obj({
    "conditions": list_of(
        obj({
            "type": STRING,
            "status": STRING,
            "reason": STRING,
            "message": STRING,
            "lastUpdateTime": TIME,
            "lastTransitionTime": TIME,
        })
    ),
    "replicaStatuses": map_of(
        obj({"active": INT32, "succeeded": INT32, "failed": INT32, "selector": STRING, "labelSelector": LABEL_SELECTOR})
    ),
    "startTime": TIME,
    "completionTime": TIME,
    "lastReconcileTime": TIME,
})  # fmt: skip

COLUMNS = (
    Column("State", ".status.conditions[-1:].type"),
    Column("Age", ".metadata.creationTimestamp", type="date"),
)


def kubeflow_kind(
    kind: str,
    plural: str,
    *,
    replica_specs: str,
    extra: Mapping[str, Schema] | None = None,
    scale: Scale | None = None,
    version: str = "v1",
    columns: tuple[Column, ...] = COLUMNS,
) -> Kind:
    spec = obj({"runPolicy": RUN_POLICY, replica_specs: map_of(REPLICA_SPEC), **(extra or {})}, [replica_specs])
    return Kind(
        group="kubeflow.org",
        version=version,
        kind=kind,
        plural=plural,
        schema=root({"spec": spec, "status": JOB_STATUS}),
        columns=columns,
        scale=scale,
    )
