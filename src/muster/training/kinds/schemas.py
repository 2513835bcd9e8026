"""The schemas that the training kinds share, and the `Kind` of a kubeflow.org/v1 job built from them."""

from __future__ import annotations

from collections.abc import Mapping

from muster.kube.kinds import Column, Kind, Scale, Schema
from muster.kube.schema import (
    BOOLEAN,
    INT32,
    RESOURCES,
    STRING,
    TIME,
    integer,
    list_of,
    map_of,
    obj,
    of,
    root,
    string,
    upstream_schema,
)

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

TEMPLATE: Schema = obj(
    {**upstream_schema("core.v1.PodTemplateSpec")["properties"], "apiVersion": STRING, "kind": STRING}
)
"""A Pod template. Some manifests contain a whole Pod, with apiVersion and kind."""

REPLICA_SPEC: Schema = obj({
    "replicas": integer(0),
    "restartPolicy": string(["Always", "OnFailure", "Never", "ExitCode", ""]),
    "template": TEMPLATE,
})  # fmt: skip

NPROC_PER_NODE: Schema = STRING

METRICS: Schema = list_of(upstream_schema("autoscaling.v2.MetricSpec"))
"""The metrics of an autoscaler, as in autoscaling/v2."""

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
        obj({
            **of(INT32, "active succeeded failed"),
            "selector": STRING,
            "labelSelector": upstream_schema("meta.v1.LabelSelector"),
        })
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
