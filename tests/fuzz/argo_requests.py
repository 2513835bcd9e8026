"""Valid requests to the Argo API: every route."""

from __future__ import annotations

from random import Random
from typing import Any

from muster.workflows.kinds import CRON_WORKFLOW, WORKFLOW, WORKFLOW_TEMPLATE
from tests.fuzz.kubernetes_requests import new_object
from tests.fuzz.mutation import FuzzRequest

QUERIES = (
    "listOptions.labelSelector",
    "listOptions.fieldSelector",
    "listOptions.limit",
    "listOptions.continue",
    "fields",
    "listOptions.resourceVersion",
    "nameFilter",
    "namePrefix",
    "namePattern",
    "createdAfter",
    "finishedBefore",
    "force",
    "uid",
    "name",
    "namespace",
    "podName",
    "grep",
    "selector",
    "logOptions.container",
    "logOptions.sinceSeconds",
    "logOptions.sinceTime",
    "logOptions.sinceTime.seconds",
    "logOptions.tailLines",
    "logOptions.limitBytes",
    "cmName",
    "type",
    "logOptions.follow",
)
_PARAMETERS = {
    "arguments": {"parameters": [{"name": "x", "value": "y"}, {"name": "z", "valueFrom": {"expression": "1"}}]}
}
_TEMPLATES: tuple[dict[str, Any], ...] = (
    {
        "name": "main",
        "steps": [[{"name": "a", "template": "b", "withItems": [1, "x"], "when": "{{item}} == 1", **_PARAMETERS}]],
    },
    {
        "name": "main",
        "dag": {
            "tasks": [{"name": "a", "template": "b"}, {"name": "c", "depends": "a.Succeeded || b", "template": "b"}]
        },
    },
    {
        "name": "main",
        "script": {"image": "python", "source": "print({{inputs.parameters.x}})"},
        "inputs": _PARAMETERS["arguments"],
    },
    {"name": "main", "suspend": {"duration": "3s"}},
    {
        "name": "main",
        "resource": {"action": "create", "manifest": "apiVersion: v1\nkind: ConfigMap\n", "successCondition": "a > 1"},
    },
    {"name": "main", "http": {"url": "http://127.0.0.1:1", "headers": [{"name": "a", "value": "b"}]}},
    {"name": "main", "containerSet": {"containers": [{"name": "main", "image": "busybox"}]}},
    {
        "name": "main",
        "data": {
            "source": {"artifactPaths": {"name": "a", "s3": {"key": "b"}}},
            "transformation": [{"expression": "x"}],
        },
    },
    {
        "name": "main",
        "container": {"image": "busybox", "command": ["true"]},
        "retryStrategy": {
            "limit": "2",
            "backoff": {"duration": "1", "factor": 2},
            "expression": "lastRetry.exitCode == '1'",
        },
        "outputs": {
            "parameters": [{"name": "o", "valueFrom": {"path": "/tmp/o"}}],
            "artifacts": [{"name": "a", "path": "/tmp/a"}],
        },
        "memoize": {"key": "a", "cache": {"configMap": {"name": "c"}}},
        "synchronization": {"mutexes": [{"name": "m"}], "semaphores": [{"configMapKeyRef": {"name": "a", "key": "b"}}]},
        "metrics": {"prometheus": [{"name": "m", "help": "h", "counter": {"value": "1"}}]},
        "podSpecPatch": '{"containers":[{"name":"main"}]}',
    },
)
_SPECS: dict[str, Any] = {
    "onExit": "main",
    "parallelism": 1,
    "activeDeadlineSeconds": 10,
    "ttlStrategy": {"secondsAfterCompletion": 1},
    "podGC": {"strategy": "OnPodSuccess"},
    "hooks": {"exit": {"template": "main"}},
    "podMetadata": {"labels": {"a": "b"}},
    "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
    "workflowTemplateRef": {"name": "main"},
    "templateDefaults": {"timeout": "3s"},
    "artifactGC": {"strategy": "Never"},
    "shutdown": "Stop",
    "suspend": True,
    "workflowMetadata": {"labelsFrom": {"a": {"expression": "1"}}},
}


def new_request(random: Random) -> FuzzRequest:
    v1 = ("api", "v1")
    body: dict[str, Any]
    query: tuple[tuple[str, str], ...]
    match random.randrange(14):
        case 0 | 1 | 2:
            act = random.choice(((), (), ("lint",)))
            return FuzzRequest("POST", (*v1, "workflows", "fuzz", *act), body={"workflow": new_workflow(random)})
        case 3:
            body = {
                "resourceKind": random.choice(("WorkflowTemplate", "cronwf", "ClusterWorkflowTemplate")),
                "resourceName": "main",
                "submitOptions": {
                    "parameters": ["x=y"],
                    "labels": "a=b",
                    "annotations": "c=d",
                    "priority": 1,
                    "entryPoint": "main",
                    "name": "a",
                    "generateName": "b-",
                    "serviceAccount": "c",
                    "ownerReference": {"name": "x", "uid": "1"},
                },
            }
            return FuzzRequest("POST", (*v1, "workflows", "fuzz", "submit"), body=body)
        case 4:
            query = random.choice(
                ((), (("fields", "items.metadata.name,items.status"),), (("nameFilter", "Contains"),))
            )
            where = random.choice(("workflows", "workflow-templates", "cron-workflows", "workflow-event-bindings"))
            return FuzzRequest("GET", (*v1, where, "fuzz"), query)
        case 5:
            action = random.choice(("retry", "resubmit", "suspend", "resume", "stop", "terminate", "set"))
            body = {
                "nodeFieldSelector": "displayName=main",
                "restartSuccessful": True,
                "parameters": ["x=y"],
                "memoized": True,
                "message": "m",
                "phase": "Failed",
                "outputParameters": '{"a":"b"}',
            }
            return FuzzRequest("PUT", (*v1, "workflows", "fuzz", "main", action), body=body)
        case 6:
            query = (("logOptions.container", "main"), ("grep", "a+"), ("logOptions.tailLines", "1"))
            return FuzzRequest("GET", (*v1, "workflows", "fuzz", "main", "log"), query)
        case 7:
            stream = random.choice((("workflow-events",), ("stream", "events"), ("stream", "sensors")))
            return FuzzRequest("GET", (*v1, *stream, "fuzz"), (("listOptions.fieldSelector", "metadata.name=main"),))
        case 8 | 9:
            return _template(random)
        case 10:
            where = random.choice(
                ("archived-workflows", "archived-workflows-label-keys", "archived-workflows-label-values")
            )
            query = (("listOptions.labelSelector", "a"), ("listOptions.limit", "2"))
            return FuzzRequest("GET", (*v1, where), query)
        case 11:
            payload = {"a": [1, {"b": "c"}]}
            return FuzzRequest("POST", (*v1, "events", "fuzz", "x"), headers=(("X-Event", "y"),), body=payload)
        case 12:
            body = {"cmName": "main", "key": "k", "limit": 2, "type": "CONFIGMAP"}
            path, method = random.choice(((("fuzz",), "POST"), (("fuzz", "k"), "PUT"), (("fuzz", "k"), "GET")))
            return FuzzRequest(method, (*v1, "sync", *path), (("cmName", "main"),), body=body)
    return random.choice(
        (
            FuzzRequest("GET", (*v1, "info")),
            FuzzRequest("GET", (*v1, "version")),
            FuzzRequest("GET", (*v1, "userinfo")),
            FuzzRequest("POST", (*v1, "tracking", "event"), body={"name": "x"}),
            FuzzRequest("GET", ("metrics",)),
            FuzzRequest("GET", ("artifacts", "fuzz", "main", "main", "a")),
            FuzzRequest("GET", ("artifacts-by-uid", "1", "main", "a")),
            FuzzRequest("GET", ("artifact-files", "fuzz", "workflows", "main", "main", "outputs", "a", "b")),
            FuzzRequest("DELETE", (*v1, "workflows", "fuzz", "a")),
            FuzzRequest("GET", (*v1, "workflows", "fuzz", "main")),
        )
    )


def new_workflow(random: Random) -> dict[str, Any]:
    made = new_object(WORKFLOW, random.choice(("a", "b", "main")), random)
    templates = [random.choice(_TEMPLATES), {"name": "b", "container": {"image": "busybox"}}]
    fields = random.sample(sorted(_SPECS), random.randrange(4))
    return {**made, "spec": {**made["spec"], "templates": templates, **{field: _SPECS[field] for field in fields}}}


def _template(random: Random) -> FuzzRequest:
    where, field, kind = random.choice(
        (
            (("workflow-templates", "fuzz"), "template", WORKFLOW_TEMPLATE),
            (("cluster-workflow-templates",), "template", None),
            (("cron-workflows", "fuzz"), "cronWorkflow", CRON_WORKFLOW),
        )
    )
    obj = new_workflow(random)
    if kind is not CRON_WORKFLOW:
        obj = {**obj, "kind": "WorkflowTemplate" if kind else "ClusterWorkflowTemplate"}
    else:
        spec = {
            "schedules": ["* * * * *"],
            "timezone": "UTC",
            "workflowSpec": obj["spec"],
            "stopStrategy": {"expression": "a"},
        }
        obj = {**obj, "kind": "CronWorkflow", "spec": spec}
    path = ("api", "v1", *where)
    match random.randrange(4):
        case 0:
            return FuzzRequest("POST", (*path, "lint"), body={field: obj})
        case 1:
            return FuzzRequest("PUT", (*path, "main"), body={field: {**obj, "metadata": {"name": "main"}}})
        case 2 if kind is CRON_WORKFLOW:
            return FuzzRequest("PUT", (*path, "main", random.choice(("suspend", "resume"))), body={})
    return FuzzRequest("POST", path, body={field: obj})
