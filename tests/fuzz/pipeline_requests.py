"""Valid requests to the API of Kubeflow Pipelines, to be mutated: every route, with its body, and packages of pipelines
that are mutated inside."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson

from muster.server.platform.route_rules import PIPELINES_RULES
from tests.fuzz.mutation import FuzzRequest, Mutator
from tests.server.pipelines.test_runs import GREET

QUERIES = (
    "page_size",
    "page_token",
    "sort_by",
    "filter",
    "namespace",
    "experiment_id",
    "name",
    "display_name",
    "description",
    "pipelineid",
    "tags",
    "cascade",
    "attempt",
    "round",
    "path",
    "run_id",
    "artifact_id",
    "uri",
)
KNOWN = {
    "experiment_id": "demo-experiment",
    "pipeline_id": "demo-pipeline",
    "version_id": "demo-version",
    "run_id": "demo-run",
    "recurring_run_id": "demo-recurring",
    "node_id": "root",
    "name": "demo",
}
"""What exists in `pipeline_server`, by the names that paths have for it."""
_FILTER = {
    "predicates": [
        {"operation": 1, "key": "display_name", "stringValue": "demo"},
        {"operation": "GREATER_THAN", "key": "created_at", "timestamp_value": "2026-01-01T00:00:00Z"},
        {"operation": "IN", "key": "name", "string_values": {"values": ["a", "b"]}},
    ]
}
_RUN: dict[str, Any] = {
    "display_name": "r",
    "description": "d",
    "experiment_id": "demo-experiment",
    "runtime_config": {"parameters": {"who": "ann", "times": 2}, "pipeline_root": "minio://a/b"},
    "service_account": "x",
}
_REFERENCE = {"pipeline_id": "demo-pipeline", "pipeline_version_id": "demo-version"}
_TRIGGERS = (
    {"periodic_schedule": {"interval_second": "7200", "start_time": "2030-01-01T00:00:00Z"}},
    {"cron_schedule": {"cron": "0 30 9 * * 1-5", "end_time": "2030-01-01T00:00:00Z"}},
)
_BODIES: dict[str, tuple[dict[str, Any], ...]] = {
    "POST experiments": ({"display_name": "e", "description": "d", "namespace": ""},),
    "POST pipelines": ({"display_name": "p", "description": "d", "namespace": "", "tags": {"a": "b"}},),
    "POST pipelines/create": (
        {"pipeline": {"display_name": "p"}, "pipeline_version": {"display_name": "v", "pipeline_spec": GREET}},
    ),
    "PATCH pipelines/{pipeline_id}": ({"display_name": "p", "description": "d", "tags": {"a": "b"}},),
    "PATCH pipelines/{pipeline_id}/versions/{version_id}": ({"display_name": "v", "tags": {"a": "b"}},),
    "POST pipelines/{pipeline_id}/versions": (
        {"display_name": "v", "pipeline_spec": GREET, "code_source_url": "https://example.com"},
        {"display_name": "v", "pipeline_spec": {"pipeline_spec": GREET, "platform_spec": {"platforms": {}}}},
    ),
    "POST runs": ({**_RUN, "pipeline_spec": GREET}, {**_RUN, "pipeline_version_reference": _REFERENCE}),
    "POST recurringruns": tuple(
        {**_RUN, "pipeline_spec": GREET, "trigger": trigger, "mode": "DISABLE", "max_concurrency": "2"}
        for trigger in _TRIGGERS
    ),
}
_UPLOADS = ("POST pipelines/upload", "POST pipelines/upload_version")
_BOUNDARY = "fuzz"


def new_request(random: Random) -> FuzzRequest:
    key = random.choice(list(PIPELINES_RULES))
    method, _, path = key.partition(" ")
    for name, known in KNOWN.items():
        # What exists is not deleted: the requests after that would find nothing.
        path = path.replace(f"{{{name}}}", known if method != "DELETE" else "gone")
    where = ("apis", "v2beta1", *path.split("/"))
    if key in _UPLOADS:
        query = (("name", "u"), ("pipelineid", "demo-pipeline")) if key.endswith("version") else (("name", "u"),)
        headers = (("Content-Type", f"multipart/form-data; boundary={_BOUNDARY}"),)
        return FuzzRequest(method, where, query, headers, _upload(random))
    if method == "GET":
        lists = key.split("/")[-1].split(" ")[-1] in ("experiments", "pipelines", "versions", "runs", "recurringruns")
        text = orjson.dumps(_mutated(_FILTER, random)).decode() if lists else ""
        return FuzzRequest(method, where, (("filter", text), ("page_size", "5")) if lists else ())
    bodies = _BODIES.get(key)
    return FuzzRequest(method, where, body=random.choice(bodies) if bodies else None)


def _upload(random: Random) -> bytes:
    name = random.choice(("p.yaml", "p.json", "p.zip", "p.tar.gz", "../p"))
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="uploadfile"; filename="{name}"\r\n\r\n'
    return head.encode() + orjson.dumps(_mutated(GREET, random)) + f"\r\n--{_BOUNDARY}--\r\n".encode()


def _mutated(value: dict[str, Any], random: Random) -> Any:
    body = Mutator(random).mutate_body(FuzzRequest("POST", ("x",), body=value)).body
    try:
        orjson.dumps(body)
    except TypeError:  # numbers that only Python has
        return value
    return body
