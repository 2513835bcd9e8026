"""Valid requests to the Kubernetes API: every kind, every verb, every subresource."""

from __future__ import annotations

from random import Random
from typing import Any

from muster.kube.builtin import new_catalogue
from muster.kube.kinds import Kind
from muster.training.registry import training_kinds
from muster.workflows.kinds import workflow_kinds
from tests.fuzz.mutation import FuzzRequest, value_of_schema

QUERIES = (
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "dryRun",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "fieldManager",
    "fieldValidation",
    "force",
    "pretty",
    "propagationPolicy",
    "gracePeriodSeconds",
    "orphanDependents",
    "includeObject",
    "container",
    "follow",
    "previous",
    "tailLines",
    "limitBytes",
    "sinceSeconds",
    "sinceTime",
    "timestamps",
    "command",
    "stdin",
    "tty",
    "ports",
)
_NAMES = ("main", "a", "b", "fuzz", "default", "main.b")
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_UPGRADE = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
)
_CONTAINER = {"name": "main", "image": "busybox", "command": ["true"]}
_POD_SPEC: dict[str, Any] = {"containers": [_CONTAINER], "restartPolicy": "Never"}
_TEMPLATE = {"spec": _POD_SPEC}
_WORKFLOW_SPEC = {"entrypoint": "main", "templates": [{"name": "main", "container": _CONTAINER}]}
_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
_ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
_BODIES: dict[str, dict[str, Any]] = {
    "Pod": {"spec": _POD_SPEC},
    "PodTemplate": {"template": _TEMPLATE},
    "Service": {"spec": {"selector": {"a": "b"}, "ports": [{"name": "x", "port": 80, "targetPort": 80}]}},
    "ConfigMap": {"data": {"a": "b"}, "binaryData": {"c": "YQ=="}},
    "Secret": {"type": "Opaque", "data": {"a": "YQ=="}, "stringData": {"b": "c"}},
    "PersistentVolume": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/x"}}
    },
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "Event": {"involvedObject": {"kind": "Pod", "name": "main"}, "reason": "X", "message": "x", "type": "Normal"},
    "Role": {"rules": _RULES},
    "ClusterRole": {"rules": _RULES, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
    "RoleBinding": {"roleRef": _ROLE_REF, "subjects": [{"kind": "User", "name": "x"}]},
    "ClusterRoleBinding": {
        "roleRef": _ROLE_REF,
        "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "a"}],
    },
    "PriorityClass": {"value": 10},
    "StorageClass": {"provisioner": "x"},
    "Job": {"spec": {"template": _TEMPLATE, "completions": 1}},
    "Lease": {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 10}},
    "PodGroup": {"spec": {"minMember": 1}},
    "CustomResourceDefinition": {
        "spec": {
            "group": "fuzz.dev",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {
                                        "size": {"type": "integer", "minimum": 1, "default": 2},
                                        "name": {"type": "string", "pattern": "^a+$", "maxLength": 5},
                                        "of": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
                                        "any": {"x-kubernetes-preserve-unknown-fields": True},
                                    },
                                }
                            },
                        }
                    },
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size"}},
                    "additionalPrinterColumns": [{"name": "S", "type": "integer", "jsonPath": ".spec.size"}],
                }
            ],
        }
    },
    "Workflow": {"spec": _WORKFLOW_SPEC},
    "WorkflowTemplate": {"spec": _WORKFLOW_SPEC},
    "ClusterWorkflowTemplate": {"spec": _WORKFLOW_SPEC},
    "CronWorkflow": {"spec": {"schedules": ["* * * * *"], "workflowSpec": _WORKFLOW_SPEC}},
    "WorkflowEventBinding": {
        "spec": {"event": {"selector": "true"}, "submit": {"workflowTemplateRef": {"name": "main"}}}
    },
    "PyTorchJob": {"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": _TEMPLATE}}}},
    "TFJob": {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": _TEMPLATE}}}},
    "MPIJob": {"spec": {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": _TEMPLATE}}}},
}
_REVIEWS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("authorization.k8s.io", "selfsubjectaccessreviews", {"resourceAttributes": {"verb": "get", "resource": "pods"}}),
    ("authorization.k8s.io", "selfsubjectrulesreviews", {"namespace": "default"}),
    (
        "authorization.k8s.io",
        "subjectaccessreviews",
        {"user": "x", "groups": ["y"], "nonResourceAttributes": {"verb": "get", "path": "/x"}},
    ),
    ("authentication.k8s.io", "tokenreviews", {"token": "x", "audiences": ["a"]}),
    ("authentication.k8s.io", "selfsubjectreviews", {}),
)
_DESCRIPTIONS = (
    ("",),
    ("api",),
    ("apis",),
    ("api", "v1"),
    ("apis", "batch"),
    ("apis", "batch", "v1"),
    ("openapi", "v2"),
    ("openapi", "v3"),
    ("openapi", "v3", "api", "v1"),
    ("version",),
    ("healthz",),
    ("readyz",),
    ("apis", "metrics.k8s.io", "v1beta1", "pods"),
)


def _kinds() -> tuple[Kind, ...]:
    catalogue = new_catalogue()
    for kind in (*training_kinds(), *workflow_kinds()):
        catalogue.register(kind)
    thing = Kind("fuzz.dev", "v1", "Thing", "things", schema=catalogue.of("v1", "ConfigMap").schema)
    return (*catalogue, thing)


KINDS = _kinds()


def new_request(random: Random) -> FuzzRequest:
    match random.randrange(20):
        case 0:
            return FuzzRequest("GET", random.choice(_DESCRIPTIONS))
        case 1:
            group, plural, spec = random.choice(_REVIEWS)
            return FuzzRequest("POST", ("apis", group, "v1", plural), body={"spec": spec})
        case 2 | 3:
            return _subresource(random)
    kind = random.choice(KINDS)
    name = random.choice(_NAMES)
    collection = _collection(kind, random)
    match random.randrange(12):
        case 0:
            return FuzzRequest("GET", collection, _list_options(random))
        case 1:
            return FuzzRequest("GET", (*collection, name), _accept(random))
        case 2:
            return FuzzRequest("GET", collection, (("watch", "1"), ("timeoutSeconds", "1")))
        case 3:
            return FuzzRequest("DELETE", (*collection, name), body={"propagationPolicy": "Background"})
        case 4 if random.random() < 0.2:
            return FuzzRequest("DELETE", collection, (("labelSelector", "a=b"),))
        case 5:
            return FuzzRequest("PUT", (*collection, name), body=new_object(kind, name, random))
        case 6 | 7 | 8:
            return _patch(kind, (*collection, name), name, random)
        case 9:
            which = random.choice(("status", "scale"))
            body: dict[str, Any] = {"spec": {"replicas": 2}} if which == "scale" else new_object(kind, name, random)
            return FuzzRequest(random.choice(("PUT", "GET")), (*collection, name, which), body=body)
    return FuzzRequest("POST", collection, body=new_object(kind, name, random))


def new_object(kind: Kind, name: str, random: Random) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": f"things.{'fuzz.dev'}" if kind.plural.startswith("customres") else name}
    if random.random() < 0.4:
        metadata |= {"labels": {"a": "b"}, "annotations": {"x/y": "z"}}
    if random.random() < 0.1:
        metadata |= {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}],
            "finalizers": ["x/y"],
            "managedFields": [{"manager": "x", "operation": "Apply", "fieldsV1": {"f:data": {}}}],
        }
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **_BODIES.get(kind.kind, {})}
    if random.random() < 0.5:
        for field, value in value_of_schema(kind.schema, random).items():
            if field not in ("apiVersion", "kind", "metadata"):
                known = obj.get(field)
                obj[field] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return obj


def _collection(kind: Kind, random: Random) -> tuple[str, ...]:
    base = ("apis", kind.group, kind.version) if kind.group else ("api", kind.version)
    if kind.namespaced and random.random() < 0.95:
        base = (*base, "namespaces", random.choice(("fuzz", "fuzz", "fuzz", "default", "a")))
    return (*base, kind.plural)


def _list_options(random: Random) -> tuple[tuple[str, str], ...]:
    return random.choice(
        (
            (),
            (("labelSelector", "a=b,c in (d),!e"),),
            (("fieldSelector", "metadata.name=a"),),
            (("limit", "2"),),
            (("resourceVersion", "1"), ("resourceVersionMatch", "NotOlderThan")),
            (("pretty", "true"),),
        )
    )


def _accept(random: Random) -> tuple[tuple[str, str], ...]:
    return random.choice(((), (("pretty", "1"),), (("includeObject", "Object"),)))


def _patch(kind: Kind, path: tuple[str, ...], name: str, random: Random) -> FuzzRequest:
    media = random.choice(_PATCHES)
    body: Any = new_object(kind, name, random)
    query: tuple[tuple[str, str], ...] = ()
    if media == _PATCHES[0]:
        where = random.choice(
            ("/metadata/labels", "/spec", "/metadata/annotations/a~1b", "/spec/containers/0", "/data/a")
        )
        body = [
            {"op": random.choice(("add", "replace", "test", "remove")), "path": where, "value": {"a": "b"}},
            {"op": random.choice(("move", "copy")), "from": where, "path": "/metadata/annotations"},
        ]
    elif media == _PATCHES[2] and random.random() < 0.5:
        body = {
            "spec": {
                "containers": [{"name": "main", "$patch": "delete"}],
                "$setElementOrder/containers": [{"name": "a"}],
            }
        }
    elif media == _PATCHES[3]:
        query = (("fieldManager", random.choice(("a", "b"))), ("force", random.choice(("true", "false"))))
    return FuzzRequest("PATCH", path, query, (("Content-Type", media),), body)


def _subresource(random: Random) -> FuzzRequest:
    pod = ("api", "v1", "namespaces", "fuzz", "pods", "main")
    match random.randrange(6):
        case 0:
            return FuzzRequest("GET", (*pod, "log"), (("tailLines", "2"),))
        case 1:
            query = (("command", "true"), ("stdout", "1"))
            return FuzzRequest(
                "GET", (*pod, "exec"), query, (*_UPGRADE, ("Sec-WebSocket-Protocol", "v4.channel.k8s.io"))
            )
        case 2:
            protocol = ("Sec-WebSocket-Protocol", "SPDY/3.1+portforward.k8s.io")
            return FuzzRequest("GET", (*pod, "portforward"), (("ports", "1"),), (*_UPGRADE, protocol))
        case 3:
            return FuzzRequest(
                "POST", (*pod, "binding"), body={"target": {"kind": "Node", "name": "a"}, "metadata": {}}
            )
        case 4:
            body = {
                "metadata": {"name": "main"},
                "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "x"}},
            }
            return FuzzRequest("POST", (*pod, "eviction"), body=body)
    account = ("api", "v1", "namespaces", "fuzz", "serviceaccounts", "default", "token")
    spec = {"audiences": ["a"], "expirationSeconds": 600, "boundObjectRef": {"kind": "Pod", "name": "main"}}
    return FuzzRequest("POST", account, body={"spec": spec})
