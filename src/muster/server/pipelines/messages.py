"""The messages of the v2beta1 API: how requests are read and responses are written.

Fields are read in snake_case or camelCase, as protobuf allows, and written in snake_case. Unknown fields are refused;
fields that only responses have are read and ignored. Responses have no empty fields, and 64-bit numbers are texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import orjson

from muster.kube.objects import parse_time, timestamp
from muster.pipelines.records import (
    ArtifactRecord,
    Experiment,
    PipelineRecord,
    PipelineRun,
    PipelineVersion,
    RecurringRun,
)
from muster.platform.errors import InvalidProblem, Problem
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import RULES, Actor, may
from muster.platform.records.common import Subject

Fields: TypeAlias = Mapping[str, Any]
"""By name: "text", "time", "bool", "int64", "struct" (any object), "tags" (texts by name), "any" (ignored), a tuple of
allowed words, or the fields of an inner message."""

_REFERENCE: Final[Fields] = {"pipeline_id": "text", "pipeline_version_id": "text"}
_RUNTIME_CONFIG: Final[Fields] = {"parameters": "struct", "pipeline_root": "text"}
_SOURCE: Final[Fields] = {
    "display_name": "text",
    "description": "text",
    "experiment_id": "text",
    "pipeline_version_id": "text",
    "pipeline_spec": "struct",
    "pipeline_version_reference": _REFERENCE,
    "runtime_config": _RUNTIME_CONFIG,
    "service_account": "text",
    "created_at": "any",
    "error": "any",
    "plugins_input": "any",
}
EXPERIMENT: Final[Fields] = {
    "display_name": "text",
    "description": "text",
    "namespace": "text",
    **dict.fromkeys(("experiment_id", "created_at", "storage_state", "last_run_created_at", "may"), "any"),
}
PIPELINE: Final[Fields] = {
    "display_name": "text",
    "name": "text",
    "description": "text",
    "namespace": "text",
    "tags": "tags",
    **dict.fromkeys(("pipeline_id", "created_at", "error", "may"), "any"),
}
VERSION: Final[Fields] = {
    "display_name": "text",
    "name": "text",
    "description": "text",
    "code_source_url": "text",
    "tags": "tags",
    "pipeline_spec": "struct",
    "package_url": {"pipeline_url": "text"},
    **dict.fromkeys(("pipeline_id", "pipeline_version_id", "created_at", "error"), "any"),
}
PIPELINE_AND_VERSION: Final[Fields] = {"pipeline": PIPELINE, "pipeline_version": VERSION}
RUN: Final[Fields] = {
    **_SOURCE,
    **dict.fromkeys(
        (
            "run_id", "storage_state", "scheduled_at", "finished_at", "state", "run_details", "recurring_run_id",
            "state_history", "plugins_output", "namespace", "retries", "may",
        ),
        "any",
    ),
}  # fmt: skip
RECURRING_RUN: Final[Fields] = {
    **_SOURCE,
    "trigger": {
        "cron_schedule": {"cron": "text", "start_time": "time", "end_time": "time"},
        "periodic_schedule": {"interval_second": "int64", "start_time": "time", "end_time": "time"},
    },
    "mode": ("MODE_UNSPECIFIED", "ENABLE", "DISABLE"),
    "max_concurrency": "int64",
    "no_catchup": "bool",
    **dict.fromkeys(("recurring_run_id", "namespace", "updated_at", "status", "may"), "any"),
}


def read_message(fields: Fields, given: Any) -> dict[str, Any]:
    """Returns the fields that were set, in snake_case. Raises Invalid with the path of everything that is wrong."""
    errors: list[FieldError] = []
    found = _read(fields, given, "", errors)
    if errors:
        raise InvalidProblem.fields(errors[:20])
    return dict(found)


def _read(wanted: Any, value: Any, path: str, errors: list[FieldError]) -> Any:
    if isinstance(wanted, Mapping):
        return _read_object(wanted, value, path, errors)
    if isinstance(wanted, tuple):
        if value not in wanted:
            errors.append(field_error(path, "filter.value", value=str(value)[:100], choices=list(wanted)))
        return value
    fits, said, read = _read_scalar(wanted, value)
    if not fits:
        errors.append(field_error(path, "pipelines.type", wanted=said))
    return read


def _read_object(fields: Fields, value: Any, path: str, errors: list[FieldError]) -> dict[str, Any]:
    if not isinstance(value, dict):
        errors.append(field_error(path, "pipelines.type", wanted="an object"))
        return {}
    found = {}
    for name, inner in value.items():
        plain = name if name in fields else _snake_case(name)
        where = f"{path}.{name}" if path else name
        if plain not in fields:
            known = [each for each, kind in fields.items() if kind != "any"]
            errors.append(field_error(where[:200], "pipelines.unknown", fields=known))
        elif inner is not None and fields[plain] != "any":
            found[plain] = _read(fields[plain], inner, where, errors)
    return found


def _read_scalar(kind: str, value: Any) -> tuple[bool, str, Any]:
    """Returns whether the value fits, what would, and the value."""
    match kind:
        case "text":
            return isinstance(value, str) and "\0" not in value, "a text", value
        case "bool":
            return isinstance(value, bool), "true or false", value
        case "struct":
            return isinstance(value, dict), "an object", value
        case "tags":
            texts = isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
            return texts, "an object with texts", value
        case "int64":
            if (isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 20) or (
                isinstance(value, float) and value.is_integer() and abs(value) < 2**53
            ):
                value = int(value)
            fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
            return fits, "a whole number", value
        case _:
            try:
                return True, "", parse_moment(value)
            except ValueError:
                return False, "a time such as 2026-01-31T12:00:00Z", None


def parse_moment(value: Any) -> datetime:
    """Raises ValueError."""
    if not isinstance(value, str) or len(value) > 64:
        raise ValueError(value)
    found = datetime.fromisoformat(value)
    try:
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError(value) from None


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


# Responses

_GRPC_CODES: Final = {400: 3, 401: 16, 403: 7, 404: 5, 409: 6, 412: 9, 413: 3, 422: 3, 429: 8, 503: 14}


def error_answer(problem: Problem) -> tuple[int, dict[str, Any]]:
    """Returns the HTTP status and the body: `code` is gRPC's. Each detail has the code of a message and its values, so
    that the web UI can say it in the user's language."""
    status = 400 if problem.status in (412, 422) else problem.status
    errors = problem.errors or (FieldError("", problem.detail, problem.code, problem.arguments),)
    details = [_error_info(error) for error in errors]
    return status, {"code": _GRPC_CODES.get(problem.status, 13), "message": problem.detail, "details": details}


def _error_info(error: FieldError) -> dict[str, Any]:
    """A google.rpc.ErrorInfo, whose metadata are texts."""
    metadata = {"field": error.field, "message": error.message}
    if error.arguments:
        metadata["arguments"] = orjson.dumps(error.arguments, default=str).decode()
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": error.code,
        "domain": "muster",
        "metadata": {name: text for name, text in metadata.items() if text},
    }


def allowed_actions(actor: Actor, subject: Subject) -> list[str]:
    """What the user may do with something, by the names in routes.md. Clients of Kubeflow Pipelines leave it out."""
    actions = [action for kind, action in RULES if kind == subject.kind and action not in ("view", "create")]
    return [action for action in actions if may(actor, action, subject)]


def without_empty(message: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out empty fields. A struct that a user sent is passed on as it is."""
    return {name: value for name, value in message.items() if value not in (None, "", [], {}, False)}


def list_answer(name: str, items: list[dict[str, Any]], total: int, token: str | None) -> dict[str, Any]:
    return without_empty({name: items, "total_size": total, "next_page_token": token or ""})


def experiment_answer(experiment: Experiment, actor: Actor) -> dict[str, Any]:
    return without_empty(
        {
            "experiment_id": experiment.id,
            "display_name": experiment.name,
            "description": experiment.description,
            "created_at": moment(experiment.created),
            "namespace": experiment.namespace,
            "storage_state": storage_state(experiment.archived),
            "last_run_created_at": moment(experiment.last_run),
            "may": allowed_actions(actor, experiment.subject),
        }
    )


def pipeline_answer(pipeline: PipelineRecord, actor: Actor) -> dict[str, Any]:
    return without_empty(
        {
            "pipeline_id": pipeline.id,
            "display_name": pipeline.display_name,
            "name": pipeline.name,
            "description": pipeline.description,
            "created_at": moment(pipeline.created),
            "namespace": pipeline.namespace,
            "tags": dict(pipeline.tags),
            "may": allowed_actions(actor, pipeline.subject),
        }
    )


def version_answer(version: PipelineVersion, spec: Mapping[str, Any] | None) -> dict[str, Any]:
    return without_empty(
        {
            "pipeline_id": version.pipeline_id,
            "pipeline_version_id": version.id,
            "display_name": version.display_name,
            "name": version.name,
            "description": version.description,
            "created_at": moment(version.created),
            "code_source_url": version.code_source_url,
            "pipeline_spec": spec,
            "tags": dict(version.tags),
        }
    )


def run_answer(
    run: PipelineRun, actor: Actor, spec: Mapping[str, Any] | None, tasks: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    history = [without_empty({**entry, "error": error_status(str(entry.get("error") or ""))}) for entry in run.history]
    return without_empty(
        {
            "experiment_id": run.experiment_id,
            "run_id": run.id,
            "display_name": run.name,
            "storage_state": storage_state(run.archived),
            "description": run.description,
            **_source_answer(run, spec),
            "created_at": moment(run.created),
            "scheduled_at": moment(run.scheduled),
            "finished_at": moment(run.finished),
            "state": run.state,
            "error": error_status(run.error),
            "run_details": without_empty({"task_details": tasks or []}),
            "recurring_run_id": run.recurring_run_id,
            "state_history": history,
            "namespace": run.namespace,
            "retries": run.retries,
            "may": allowed_actions(actor, run.subject),
        }
    )


def recurring_run_answer(recurring: RecurringRun, actor: Actor, spec: Mapping[str, Any] | None) -> dict[str, Any]:
    return without_empty(
        {
            "recurring_run_id": recurring.id,
            "display_name": recurring.name,
            "description": recurring.description,
            **_source_answer(recurring, spec),
            "max_concurrency": str(recurring.max_concurrency),
            "trigger": dict(recurring.trigger),
            "mode": "ENABLE" if recurring.enabled else "DISABLE",
            "created_at": moment(recurring.created),
            "updated_at": moment(recurring.updated),
            "status": "ENABLED" if recurring.enabled else "DISABLED",
            "error": error_status(recurring.error),
            "no_catchup": recurring.no_catchup,
            "namespace": recurring.namespace,
            "experiment_id": recurring.experiment_id,
            "may": allowed_actions(actor, recurring.subject),
        }
    )


def artifact_answer(artifact: ArtifactRecord) -> dict[str, Any]:
    return without_empty(
        {
            "artifact_id": artifact.artifact_id,
            "run_id": artifact.run_id,
            "task_id": artifact.task_id,
            "direction": artifact.direction,
            "key": artifact.key,
            "name": artifact.name,
            "type": artifact.type,
            "uri": artifact.uri,
            "metadata": dict(artifact.metadata),
            "created_at": moment(artifact.created),
        }
    )


def _source_answer(of: PipelineRun | RecurringRun, spec: Mapping[str, Any] | None) -> dict[str, Any]:
    """A run says which version it is of, or has the spec itself."""
    config = without_empty({"parameters": dict(of.parameters), "pipeline_root": of.pipeline_root})
    found: dict[str, Any] = {"runtime_config": config, "service_account": of.service_account}
    if of.pipeline_id:
        reference = {"pipeline_id": of.pipeline_id, "pipeline_version_id": of.version_id}
        found["pipeline_version_reference"] = without_empty(reference)
    else:
        found["pipeline_spec"] = spec
    return found


def error_status(message: str) -> dict[str, Any]:
    """A google.rpc.Status; empty if nothing is wrong."""
    return {"code": 13, "message": message} if message else {}


def storage_state(archived: bool) -> str:
    return "ARCHIVED" if archived else "AVAILABLE"


def moment(when: datetime | str | None) -> str:
    if not when:
        return ""
    return timestamp(parse_time(when) if isinstance(when, str) else when)
