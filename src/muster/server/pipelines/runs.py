"""What the routes about runs, their nodes and artifacts, and recurring runs do.

Kubeflow Pipelines has no way to read the outputs and logs of a task. Here `runs/ID/nodes` has them, also after the Pods
and the Workflow are gone.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection
from starlette.responses import Response

from muster.kube.objects import Object
from muster.pipelines import packages, recurring_runs, runs
from muster.pipelines.controller import compile_run
from muster.pipelines.pipelines import get_spec, get_specs
from muster.pipelines.records import RUN, ArtifactRecord, PipelineRun, RecurringRun
from muster.pipelines.recurring_runs import NewRecurringRun
from muster.pipelines.runs import NewRun, RunSource
from muster.platform.database.pipeline_tables import pipeline_artifacts, pipeline_runs
from muster.platform.errors import BadRequestProblem, InvalidProblem, NotFoundProblem, UnavailableProblem
from muster.platform.permissions import visible
from muster.platform.runs.logs import find_log_source, read_log_text
from muster.server.downloads import DOWNLOAD_HEADERS, content_disposition
from muster.server.pipelines.handlers import LIST_SPEC_BYTES, Call
from muster.server.pipelines.messages import (
    artifact_answer,
    list_answer,
    recurring_run_answer,
    run_answer,
    without_empty,
)
from muster.server.platform.streams import download
from muster.workflows.artifacts.locations import ArtifactError, ArtifactMissing, key_of, with_key

_LARGEST_READ: Final = 32 * 1024 * 1024
"""Bytes of an artifact in one JSON answer."""
_MOST_ARTIFACTS: Final = 10_000


async def list_runs(call: Call) -> dict[str, Any]:
    wanted = call.list_request()

    def read(connection: Connection) -> dict[str, Any]:
        where = {"experiment_id": call.query("experiment_id"), "namespace": call.query("namespace")}
        page = runs.list_runs(connection, call.user, wanted, **where)
        digests = [each.spec_hash for each in page.items if not each.pipeline_id]
        specs = get_specs(connection, digests, LIST_SPEC_BYTES)
        found = [run_answer(each, call.user, specs.get(each.spec_hash)) for each in page.items]
        return list_answer("runs", found, page.total, page.next)

    return await call.here.database.read(read)


async def create_run(call: Call) -> dict[str, Any]:
    new = await _new_run(call)
    source: RunSource = await call.here.database.write(lambda connection: runs.load_run(connection, call.user, new))
    source = await call.here.pipeline_runs.prepare(source)
    workflow = await call.here.checked(call.user, compile_run, source)
    run = await call.here.pipeline_runs.create(call.user, source, workflow)
    return run_answer(run, call.user, source.spec)


async def get_run(call: Call) -> dict[str, Any]:
    def read(connection: Connection) -> tuple[PipelineRun, dict[str, Any] | None]:
        run = runs.get_run(connection, call.user, call.path("run_id"))
        return run, None if run.pipeline_id else get_spec(connection, run.spec_hash)

    run, spec = await call.here.database.read(read)
    tasks = await call.here.pipeline_runs.tasks(run)
    shown = [{name: each[name] for name in each if name != "node"} for each in tasks]
    return run_answer(run, call.user, spec, shown)


async def terminate_run(call: Call) -> dict[str, Any]:
    await call.here.pipeline_runs.stop(call.user, call.path("run_id"))
    return {}


async def retry_run(call: Call) -> dict[str, Any]:
    await call.here.pipeline_runs.retry(call.user, call.path("run_id"))
    return {}


async def delete_run(call: Call) -> dict[str, Any]:
    await call.here.pipeline_runs.delete(call.user, call.path("run_id"))
    return {}


async def archive_run(call: Call) -> dict[str, Any]:
    await call.here.database.write(
        lambda connection: runs.archive_run(connection, call.user, call.path("run_id"), archived=True)
    )
    return {}


async def unarchive_run(call: Call) -> dict[str, Any]:
    await call.here.database.write(
        lambda connection: runs.archive_run(connection, call.user, call.path("run_id"), archived=False)
    )
    return {}


# Nodes: what Kubeflow Pipelines does not have


async def list_nodes(call: Call) -> dict[str, Any]:
    run = await _run(call)
    return without_empty({"nodes": [_node_answer(each) for each in await call.here.pipeline_runs.tasks(run)]})


async def get_node(call: Call) -> dict[str, Any]:
    return _node_answer(await _task(call, await _run(call)))


async def get_log(call: Call) -> Response:
    """The log of an attempt as text. `attempt` counts from 1 and is the last unless it is given; `round` is how often
    the run had been retried, if the log is of a Pod that a retry replaced."""
    run = await _run(call)
    task = await _task(call, run)
    pods: list[str] = task["node"]["attempts"]
    attempt = _number(call, "attempt", len(pods))
    if not 1 <= attempt <= len(pods):
        raise NotFoundProblem.of(
            "pipelines.no-content", detail="the task has no such attempt: it started no Pod for it"
        )
    round = _number(call, "round", run.retries)
    place = find_log_source(call.here.folder, run.id, round, run.namespace, pods[attempt - 1])

    async def is_over() -> bool:
        return True

    async def content() -> AsyncIterator[bytes]:
        async for chunk in read_log_text(call.here.cluster, place, follow=False, ended=is_over):
            yield chunk.text.encode()

    check = partial(_run, call)
    headers = {**DOWNLOAD_HEADERS, "Cache-Control": "no-store"}
    return download(call.request, content(), check, media_type="text/plain; charset=utf-8", headers=headers)


async def read_artifact(call: Call) -> dict[str, Any]:
    """The bytes of an output artifact as base64, as Kubeflow Pipelines returns them."""
    data = b""
    async for piece in await _artifact_content(call):
        data += piece
        if len(data) > _LARGEST_READ:
            raise BadRequestProblem.of(
                "pipelines.no-content", detail="the artifact is too large for one answer; download it without `:read`"
            )
    return {"data": base64.b64encode(data).decode()}


async def download_artifact(call: Call) -> Response:
    """The bytes of an output artifact as a file."""
    content = await _artifact_content(call)
    name = (call.query("path") or call.path("name")).rpartition("/")[2]
    headers = {**DOWNLOAD_HEADERS, "Content-Disposition": content_disposition(name), "Cache-Control": "no-store"}
    check = partial(_run, call)
    return download(call.request, content, check, media_type="application/octet-stream", headers=headers)


async def list_artifacts(call: Call) -> dict[str, Any]:
    """Artifacts and their lineage: what the tasks of a run made and used, or who made and used an artifact."""
    columns = {"run_id": pipeline_artifacts.c.run_id, "artifact_id": pipeline_artifacts.c.artifact_id,
               "uri": pipeline_artifacts.c.uri}  # fmt: skip
    conditions = [column == call.query(name) for name, column in columns.items() if call.query(name)]
    if not conditions:
        raise InvalidProblem.field("run_id", "field.missing")

    def read(connection: Connection) -> list[ArtifactRecord]:
        if call.query("run_id"):
            runs.get_run(connection, call.user, call.query("run_id"))
        seen = visible(call.user, RUN, owner=pipeline_runs.c.owner_id, team=pipeline_runs.c.team_id)
        of_run = (pipeline_runs.c.id == pipeline_artifacts.c.run_id) & ~pipeline_runs.c.deleted
        return runs.stored_artifacts(connection, *conditions, of_run, seen)

    found = await call.here.database.read(read)
    return without_empty({"artifacts": [artifact_answer(each) for each in found[:_MOST_ARTIFACTS]]})


# Recurring runs


async def list_recurring_runs(call: Call) -> dict[str, Any]:
    wanted = call.list_request()

    def read(connection: Connection) -> dict[str, Any]:
        where = {"experiment_id": call.query("experiment_id"), "namespace": call.query("namespace")}
        page = recurring_runs.list_recurring_runs(connection, call.user, wanted, **where)
        specs = get_specs(connection, [each.spec_hash for each in page.items if each.spec_hash], LIST_SPEC_BYTES)
        found = [recurring_run_answer(each, call.user, specs.get(each.spec_hash or "")) for each in page.items]
        return list_answer("recurringRuns", found, page.total, page.next)

    return await call.here.database.read(read)


async def create_recurring_run(call: Call) -> dict[str, Any]:
    given = call.body
    new = NewRecurringRun(
        await _new_run(call),
        given.get("trigger") or {},
        given.get("max_concurrency", 1),
        given.get("no_catchup", False),
        given.get("mode", "ENABLE") != "DISABLE",
    )
    made = await call.here.database.write(
        lambda connection: recurring_runs.create_recurring_run(connection, call.user, new)
    )
    call.here.recurring_runs.look_again()
    return recurring_run_answer(made, call.user, new.run.spec)


async def get_recurring_run(call: Call) -> dict[str, Any]:
    def read(connection: Connection) -> tuple[RecurringRun, dict[str, Any] | None]:
        found = recurring_runs.get_recurring_run(connection, call.user, call.path("recurring_run_id"))
        return found, get_spec(connection, found.spec_hash) if found.spec_hash else None

    found, spec = await call.here.database.read(read)
    return recurring_run_answer(found, call.user, spec)


async def enable_recurring_run(call: Call) -> dict[str, Any]:
    return await _enable(call, enabled=True)


async def disable_recurring_run(call: Call) -> dict[str, Any]:
    return await _enable(call, enabled=False)


async def _enable(call: Call, *, enabled: bool) -> dict[str, Any]:
    identifier = call.path("recurring_run_id")
    await call.here.database.write(
        lambda connection: recurring_runs.enable_recurring_run(connection, call.user, identifier, enabled=enabled)
    )
    call.here.recurring_runs.look_again()
    return {}


async def delete_recurring_run(call: Call) -> dict[str, Any]:
    await call.here.database.write(
        lambda connection: recurring_runs.delete_recurring_run(connection, call.user, call.path("recurring_run_id"))
    )
    return {}


async def _new_run(call: Call) -> NewRun:
    given = call.body
    reference, config = given.get("pipeline_version_reference") or {}, given.get("runtime_config") or {}
    spec = given.get("pipeline_spec") or None
    if spec is not None:
        spec = await call.here.checked(call.user, packages.check_spec, spec)
    return NewRun(
        given.get("display_name", ""),
        given.get("description", ""),
        given.get("experiment_id") or call.query("experiment_id"),
        spec,
        reference.get("pipeline_id", ""),
        reference.get("pipeline_version_id") or given.get("pipeline_version_id", ""),
        config.get("parameters", {}),
        config.get("pipeline_root", ""),
        given.get("service_account", ""),
    )


async def _run(call: Call) -> PipelineRun:
    return await call.here.database.read(lambda connection: runs.get_run(connection, call.user, call.path("run_id")))


async def _task(call: Call, run: PipelineRun) -> dict[str, Any]:
    """Finds a task by the id or the name of its node; a name that several have, by the last of them."""
    tasks, wanted = await call.here.pipeline_runs.tasks(run), call.path("node_id")
    for each in tasks:
        if each["task_id"] == wanted or each["node"]["name"] == wanted:
            return each
    named = [each for each in tasks if each["display_name"] == wanted]
    if not named:
        raise NotFoundProblem.named("node", wanted[:200])
    return named[-1]


def _node_answer(task: Mapping[str, Any]) -> dict[str, Any]:
    """Says where the bytes of an artifact are by its uri only."""
    node = dict(task["node"])
    for direction in ("inputs", "outputs"):
        artifacts = node[direction].get("artifacts")
        if artifacts:
            shown = {
                key: {"artifacts": [{n: v for n, v in each.items() if n != "location"} for each in listed["artifacts"]]}
                for key, listed in artifacts.items()
            }
            node[direction] = {**node[direction], "artifacts": shown}
    return {**task, "node": node}


async def _artifact_content(call: Call) -> AsyncIterator[bytes]:
    run = await _run(call)
    task = await _task(call, run)
    outputs: Mapping[str, Any] = task["node"]["outputs"].get("artifacts") or {}
    name, _, position = call.path("name").partition("[")
    listed = (outputs.get(name) or {}).get("artifacts") or []
    at = int(position[:-1]) if position[:-1].isdecimal() and len(position) < 8 else 0
    if at >= len(listed):
        raise NotFoundProblem.of("pipelines.artifact", name=call.path("name")[:200], choices=list(outputs) or ["none"])
    location = listed[at].get("location")
    if not location or call.here.artifacts is None:
        raise NotFoundProblem.of(
            "pipelines.no-content", detail=f"the content is at {listed[at].get('uri') or 'no uri'}, not on this server"
        )
    artifact = _inside({"name": name, **location}, call.query("path"))
    # Reading needs to know only where the Workflow is: it may be gone.
    workflow: Object = {"metadata": {"name": run.workflow, "namespace": run.namespace}, "spec": {}}
    pieces = call.here.artifacts.read(workflow, artifact)
    try:
        first = await anext(pieces, b"")
    except ArtifactMissing as error:
        raise NotFoundProblem.of("pipelines.no-content", detail=str(error)) from None
    except ArtifactError as error:
        raise UnavailableProblem.of("pipelines.no-content", detail=str(error)) from None

    async def content() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return content()


def _inside(artifact: dict[str, Any], path: str) -> dict[str, Any]:
    """The location of a file in a folder."""
    if not path:
        return artifact
    if path.startswith("/") or ".." in path.split("/") or not path.isprintable():
        raise InvalidProblem.field("path", "pipelines.type", wanted="a path below the artifact")
    return with_key(artifact, f"{key_of(artifact).rstrip('/')}/{path}")


def _number(call: Call, name: str, usual: int) -> int:
    text = call.query(name)
    if not text:
        return usual
    if not text.isdecimal() or len(text) > 6:
        raise InvalidProblem.field(name, "pipelines.type", wanted="a whole number")
    return int(text)
