"""Valid requests to the platform's API, to be mutated: those with bodies, and lists with their parameters."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson

from tests.fuzz.argo_requests import new_workflow
from tests.fuzz.mutation import FuzzRequest
from tests.platform.graphs.samples import seed_example

QUERIES = (
    "q",
    "limit",
    "cursor",
    "sort",
    "owner",
    "team",
    "archived",
    "workflow",
    "state",
    "to",
    "of",
    "follow",
    "lines",
    "since",
    "container",
    "node",
    "role",
    "kind",
    "category",
)
KNOWN = {
    "workflow": "demo",
    "version": "1",
    "team_id": "team",
    "user_id": "member",
    "namespace": "default",
    "kind": "pytorchjobs",
    "name": "demo",
    "category": "team",
    "cluster": "demo",
    "root": "demo",
    "module": "demo",
    "node": "step1",
}
"""What exists, by the names that paths have for it."""

_BODIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("POST", "runs", {"workflow": "demo", "version": "latest", "name": "a", "parameters": {"a": "b"}, "team": "team"}),
    ("POST", "workflows", {"name": "a", "description": "b", "team": "team", "version": {"document": seed_example()}}),
    ("PATCH", "workflows/demo", {"name": "demo", "description": "b", "team": None}),
    ("POST", "workflows/demo/versions", {"name": "a", "description": "b", "document": seed_example()}),
    ("POST", "workflows/demo/versions/1/copy", {"into": "demo", "version": {"name": "x"}}),
    ("POST", "graphs/check", {"document": seed_example()}),
    ("POST", "graphs/check", {"document": {"format": 1, "type": "yaml", "manifest": "{}"}}),
    (
        "POST",
        "modules",
        {
            "name": "m",
            "category": "c",
            "git_url": "https://127.0.0.1:1/x.git",
            "git_ref": "main",
            "build_dir": ".",
            "env": [{"name": "A", "value": "b"}],
            "inputs": [{"name": "x"}],
            "outputs": [{"name": "y", "path": "/tmp/y"}],
        },
    ),
    ("POST", "users", {"name": "u", "display_name": "U", "email": "u@x.y", "role": "member", "password": "x" * 20}),
    ("PATCH", "users/member", {"display_name": "U", "email": "u@x.y"}),
    ("POST", "teams", {"name": "t", "description": "d"}),
    ("PUT", "teams/team/members/member", {"role": "member"}),
    ("POST", "tokens", {"name": "t", "scopes": ["read"], "days": 3}),
    ("POST", "categories", {"name": "c", "description": "d"}),
    (
        "POST",
        "clusters",
        {"name": "v", "sku": {"cpu": "1"}, "node_selector": {"a": "b"}, "total": 3, "description": "d", "team": "team"},
    ),
    ("POST", "storage", {"name": "s", "path": "/data", "host_path": "/tmp", "claim": "", "read_only": True}),
    ("POST", "reviews/x/reject", {"reason": "r"}),
    (
        "POST",
        "dispatch/jobs",
        {
            "name": "d",
            "image": "busybox",
            "command": ["true"],
            "env": {"A": "b"},
            "mounts": [{"path": "/x", "source": "y", "kind": "claim", "name": "z", "read_only": True}],
            "resources": {"cpu": 1, "memory": "1Gi", "gpu": 0, "nodes": 1},
            "priority": 1,
            "timeout": 60,
            "key": "k",
        },
    ),
    ("PATCH", "dispatch/jobs/x", {"priority": 1}),
    ("POST", "dispatch/jobs/x/resolve", {"how": "adopt", "external_id": "x"}),
    ("POST", "session", {"name": "member", "password": "x"}),
    ("POST", "link", {"secret": "x"}),
)
_LISTS = (
    "runs",
    "runs/states",
    "workflows",
    "workflows/demo/versions",
    "workflows/demo/versions/1",
    "modules",
    "jobs",
    "users",
    "teams",
    "tokens",
    "audit",
    "clusters",
    "storage",
    "categories",
    "reviews",
    "graphs/schema",
    "session",
    "runs/x/nodes",
    "workflows/demo/versions/1/diff",
    "workflows/demo/versions/1/manifest",
    "jobs/default/pytorchjobs/x",
    "nodes",
    "dispatch/adapters",
    "dispatch/jobs",
    "dispatch/jobs/x",
    "dispatch/jobs/x/log",
)
_TASK = {
    "name": "t",
    "jobType": "PyTorchJob",
    "command": "true",
    "queue": "default",
    "priority": "normal",
    "jobSpec": {
        "replicas": 1,
        "image": "busybox",
        "resources": [{"name": "cpu", "quantity": 1}],
        "envs": [{"name": "A", "value": "b"}],
        "enableRDMA": False,
    },
    "datasources": [{"type": "emptydir", "mountPath": "/x", "options": {"readOnly": True}}],
    "labels": [{"key": "a", "value": "b"}],
    "maxRetries": 1,
    "timeout": 60,
}
_COOKER: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("POST", "jobs/create", {"taskParams": _TASK, "team": "", "key": "k"}),
    ("POST", "jobs/create", {"taskParams": orjson.dumps(_TASK).decode()}),
    ("POST", "jobs", {"pageSize": 10, "pageNumber": 1, "status": "Running", "keyword": "a", "queue": "q"}),
    ("POST", "login/account", {"ak": "member", "sk": "x", "type": "account"}),
    ("GET", "jobs", None),
    ("GET", "jobs/x", None),
    ("GET", "jobs/x/pods/y/logs", None),
    ("GET", "resources/queues", None),
    ("GET", "resources/pools/muster", None),
    ("GET", "apps/x", None),
)
"""MLP Cooker's API, below /api."""
_JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "j"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "busybox"}]}}}
        }
    },
}


def new_request(random: Random) -> FuzzRequest:
    v1 = ("api", "v1")
    match random.randrange(8):
        case 0:
            return FuzzRequest("GET", (*v1, *random.choice(_LISTS).split("/")), (("limit", "2"),))
        case 1:
            # Half of them are mutated as text, half as the object in it.
            where = random.choice((("graphs", "import"), ("jobs", "validate"), ("jobs",), ("dispatch", "jobs")))
            obj = new_workflow(random) if where[0] == "graphs" else _JOB
            name = {"name": "d"} if where[0] == "dispatch" else {}
            return FuzzRequest("POST", (*v1, *where), body={**name, "manifest": _mutated_text(obj, random)})
        case 2:
            method, path, sent = random.choice(_COOKER)
            return FuzzRequest(method, ("api", *path.split("/")), body=sent)
    method, path, body = random.choice(_BODIES)
    return FuzzRequest(method, (*v1, *path.split("/")), body=body)


def _mutated_text(obj: dict[str, Any], random: Random) -> str:
    from tests.fuzz.mutation import Mutator

    request = FuzzRequest("POST", ("x",), body=obj)
    if random.random() < 0.7:
        request = Mutator(random).mutate_body(request)
    try:
        return orjson.dumps(request.body).decode()
    except TypeError:
        return str(request.body)
