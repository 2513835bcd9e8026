"""What the routes about experiments, pipelines and versions do. Each returns the JSON of its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import orjson
from sqlalchemy import Connection
from starlette.requests import Request

from muster.pipelines import experiments, packages, pipelines
from muster.pipelines.list_query import DEFAULT_SIZE, LARGEST_SIZE, ListRequest
from muster.pipelines.pipelines import NewNames, get_spec, get_specs
from muster.pipelines.records import PipelineRecord, PipelineVersion
from muster.platform.errors import BadRequestProblem, InvalidProblem, UnauthenticatedProblem
from muster.platform.permissions import Actor
from muster.server.pipelines.messages import experiment_answer, list_answer, pipeline_answer, version_answer
from muster.server.platform.services import Services

LIST_SPEC_BYTES: Final = 8 * 1024 * 1024
"""What the specs of a list may have together. The rest of the list has none; `GET` of one of them has it."""


@dataclass(slots=True)
class Call:
    """A request of a user."""

    here: Services
    who: Actor | None
    """None on a public route."""
    request: Request
    body: dict[str, Any] = field(default_factory=dict)
    raw: bytes = b""

    @property
    def user(self) -> Actor:
        if self.who is None:
            raise UnauthenticatedProblem.of("login.needed")
        return self.who

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def query(self, name: str) -> str:
        return self.request.query_params.get(name, "")

    def list_request(self) -> ListRequest:
        text = self.query("page_size")
        size = int(text) if text.isdecimal() and len(text) < 10 else -1 if text else 0
        if not size >= 0:
            raise InvalidProblem.field("page_size", "pipelines.page-size", size=text[:20], most=LARGEST_SIZE)
        return ListRequest(
            min(size or DEFAULT_SIZE, LARGEST_SIZE),
            self.query("page_token"),
            self.query("sort_by"),
            self.query("filter"),
        )


async def health(call: Call) -> dict[str, Any]:
    return {"multi_user": False, "pipeline_store": "database"}


# Experiments


async def list_experiments(call: Call) -> dict[str, Any]:
    await ensure_default(call, call.query("namespace"))
    wanted = call.list_request()
    page = await call.here.database.read(
        lambda connection: experiments.list_experiments(connection, call.user, wanted, call.query("namespace"))
    )
    return list_answer(
        "experiments", [experiment_answer(each, call.user) for each in page.items], page.total, page.next
    )


async def create_experiment(call: Call) -> dict[str, Any]:
    given = call.body
    await ensure_default(call, given.get("namespace", ""))
    made = await call.here.database.write(
        lambda connection: experiments.create_experiment(
            connection,
            call.user,
            given.get("display_name", ""),
            given.get("description", ""),
            given.get("namespace", ""),
        )
    )
    return experiment_answer(made, call.user)


async def get_experiment(call: Call) -> dict[str, Any]:
    found = await call.here.database.read(
        lambda connection: experiments.get_experiment(connection, call.user, call.path("experiment_id"))
    )
    return experiment_answer(found, call.user)


async def archive_experiment(call: Call) -> dict[str, Any]:
    await call.here.database.write(
        lambda connection: experiments.archive_experiment(connection, call.user, call.path("experiment_id"))
    )
    return {}


async def unarchive_experiment(call: Call) -> dict[str, Any]:
    await call.here.database.write(
        lambda connection: experiments.unarchive_experiment(connection, call.user, call.path("experiment_id"))
    )
    return {}


async def delete_experiment(call: Call) -> dict[str, Any]:
    await call.here.database.write(
        lambda connection: experiments.delete_experiment(connection, call.user, call.path("experiment_id"))
    )
    return {}


async def ensure_default(call: Call, namespace: str) -> None:
    """Creates the experiment "Default" when it is first looked up."""
    if namespace == experiments.ALL_NAMESPACES or "write" not in call.user.scopes:
        return

    def find(connection: Connection) -> bool:
        place = experiments.find_place(connection, call.user, namespace)
        return experiments.has_default(connection, place)

    def create(connection: Connection) -> None:
        experiments.ensure_default(connection, call.user, experiments.find_place(connection, call.user, namespace))

    if not await call.here.database.read(find):
        await call.here.database.write(create)


# Pipelines


async def list_pipelines(call: Call) -> dict[str, Any]:
    wanted = call.list_request()
    page = await call.here.database.read(
        lambda connection: pipelines.list_pipelines(connection, call.user, wanted, call.query("namespace"))
    )
    return list_answer("pipelines", [pipeline_answer(each, call.user) for each in page.items], page.total, page.next)


async def create_pipeline(call: Call) -> dict[str, Any]:
    made = await call.here.database.write(
        lambda connection: pipelines.create_pipeline(
            connection, call.user, _names(call.body), call.body.get("namespace", "")
        )
    )
    return pipeline_answer(made, call.user)


async def create_pipeline_and_version(call: Call) -> dict[str, Any]:
    given, about = call.body.get("pipeline") or {}, call.body.get("pipeline_version") or {}
    spec = await _spec_of(call, about)
    named = _names(about) if about.get("name") or about.get("display_name") else _names(given)
    made = await _create_both(call, _names(given), named, spec, given.get("namespace", ""))
    return pipeline_answer(made, call.user)


async def upload_pipeline(call: Call) -> dict[str, Any]:
    file_name, spec = await _read_uploaded(call)
    new = _uploaded_names(call, file_name)
    made = await _create_both(
        call, new, NewNames(new.name, new.display_name, new.description), spec, call.query("namespace")
    )
    return pipeline_answer(made, call.user)


async def upload_version(call: Call) -> dict[str, Any]:
    pipeline_id = call.query("pipelineid")
    if not pipeline_id:
        raise InvalidProblem.field("pipelineid", "field.missing")
    await call.here.database.read(lambda connection: pipelines.get_pipeline(connection, call.user, pipeline_id, "edit"))
    file_name, spec = await _read_uploaded(call)
    new = _uploaded_names(call, file_name)
    made = await call.here.database.write(
        lambda connection: pipelines.create_version(connection, call.user, pipeline_id, new, spec)
    )
    return version_answer(made, spec)


async def get_pipeline(call: Call) -> dict[str, Any]:
    found = await call.here.database.read(
        lambda connection: pipelines.get_pipeline(connection, call.user, call.path("pipeline_id"))
    )
    return pipeline_answer(found, call.user)


async def get_pipeline_by_name(call: Call) -> dict[str, Any]:
    found = await call.here.database.read(
        lambda connection: pipelines.get_pipeline_by_name(
            connection, call.user, call.path("name"), call.query("namespace")
        )
    )
    return pipeline_answer(found, call.user)


async def edit_pipeline(call: Call) -> dict[str, Any]:
    found = await call.here.database.write(
        lambda connection: pipelines.edit_pipeline(connection, call.user, call.path("pipeline_id"), call.body)
    )
    return pipeline_answer(found, call.user)


async def delete_pipeline(call: Call) -> dict[str, Any]:
    cascade = call.query("cascade").lower() in ("true", "1")
    await call.here.database.write(
        lambda connection: pipelines.delete_pipeline(connection, call.user, call.path("pipeline_id"), cascade=cascade)
    )
    return {}


# Versions


async def list_versions(call: Call) -> dict[str, Any]:
    wanted = call.list_request()

    def read(connection: Connection) -> dict[str, Any]:
        page = pipelines.list_versions(connection, call.user, call.path("pipeline_id"), wanted)
        specs = get_specs(connection, [each.spec_hash for each in page.items], LIST_SPEC_BYTES)
        found = [version_answer(each, specs.get(each.spec_hash)) for each in page.items]
        return list_answer("pipeline_versions", found, page.total, page.next)

    return await call.here.database.read(read)


async def create_version(call: Call) -> dict[str, Any]:
    spec = await _spec_of(call, call.body)
    made = await call.here.database.write(
        lambda connection: pipelines.create_version(
            connection, call.user, call.path("pipeline_id"), _names(call.body), spec
        )
    )
    return version_answer(made, spec)


async def get_version(call: Call) -> dict[str, Any]:
    def read(connection: Connection) -> dict[str, Any]:
        found = pipelines.get_version(connection, call.user, call.path("pipeline_id"), call.path("version_id"))
        return version_answer(found, get_spec(connection, found.spec_hash))

    return await call.here.database.read(read)


async def edit_version(call: Call) -> dict[str, Any]:
    def write(connection: Connection) -> tuple[PipelineVersion, dict[str, Any]]:
        where = (call.path("pipeline_id"), call.path("version_id"))
        found = pipelines.edit_version(connection, call.user, *where, call.body)
        return found, get_spec(connection, found.spec_hash)

    return version_answer(*await call.here.database.write(write))


async def delete_version(call: Call) -> dict[str, Any]:
    await call.here.database.write(
        lambda connection: pipelines.delete_version(
            connection, call.user, call.path("pipeline_id"), call.path("version_id")
        )
    )
    return {}


async def _create_both(
    call: Call, new: NewNames, version: NewNames, spec: dict[str, Any], namespace: str
) -> PipelineRecord:
    def write(connection: Connection) -> PipelineRecord:
        pipeline = pipelines.create_pipeline(connection, call.user, new, namespace)
        pipelines.create_version(connection, call.user, pipeline.id, version, spec)
        return pipeline

    return await call.here.database.write(write)


async def _spec_of(call: Call, about: dict[str, Any]) -> dict[str, Any]:
    if about.get("package_url"):
        raise BadRequestProblem.of("pipelines.url")
    if "pipeline_spec" not in about:
        raise InvalidProblem.field("pipeline_spec", "field.missing")
    return await call.here.checked(call.user, packages.check_spec, about["pipeline_spec"])


async def _read_uploaded(call: Call) -> tuple[str, dict[str, Any]]:
    content_type = call.request.headers.get("content-type", "")
    return await call.here.checked(call.user, packages.read_uploaded, content_type, call.raw)


def _names(given: dict[str, Any]) -> NewNames:
    return NewNames(
        given.get("name", ""),
        given.get("display_name", ""),
        given.get("description", ""),
        given.get("tags", {}),
        given.get("code_source_url", ""),
    )


def _uploaded_names(call: Call, file_name: str) -> NewNames:
    """Without a name it is that of the file."""
    name, shown = call.query("name"), call.query("display_name")
    if not (name or shown):
        name = PurePosixPath(file_name).name or "pipeline"
    return NewNames(name, shown, call.query("description"), _tags(call.query("tags")))


def _tags(text: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise InvalidProblem.field("tags", "pipelines.type", wanted="a JSON object with texts")
    return found
