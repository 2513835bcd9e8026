"""Makes jobs for the dispatcher of what users submit: a container, a manifest, or a task of MLP Cooker.

A manifest is checked as on the jobs page, with the rights of the user, before the job is stored. What its Pods may do
is decided again when they are created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from sqlalchemy import Connection

from muster.dispatch.errors import DispatchError, InvalidJob
from muster.dispatch.model import Job, Resources, Retry
from muster.dispatch.store import new_id
from muster.kube.errors import ApiError
from muster.kube.manifests import ManifestError, load_manifests
from muster.kube.objects import Object, meta
from muster.platform.errors import InvalidProblem, UnavailableProblem
from muster.platform.jobs.submit import limits_for
from muster.platform.jobs.validation import (
    SOURCE,
    ManifestFinding,
    check_documents,
    cluster_findings,
    unreadable_finding,
    with_owner,
)
from muster.platform.messages import field_error
from muster.platform.permissions import Actor
from muster.platform.users.namespace_names import namespace_of
from muster.platform.users.teams import team_to_share_with
from muster.server.dispatch.adapters import with_expiry
from muster.server.dispatch.jobs import NAMESPACE_LABEL, check_new, own_key, store_job
from muster.server.dispatch.types import CONTAINER, container_spec
from muster.server.object_checks import rehearse_manifests
from muster.server.platform.services import Services

NO_RESOURCES: Final = Resources(cpu=0, memory="0")
"""Of a manifest: the cluster's own scheduler decides when its gang starts, and says why it waits."""
_LARGEST_ARGS: Final = 1_000_000
_DEEPEST_ARGS: Final = 100
"""Responses contain them, and JSON of more than 250 levels cannot be written."""


@dataclass(frozen=True, slots=True)
class NewJob:
    name: str
    type: str
    args: Mapping[str, Any]
    adapter: str
    team: str = ""
    """The id or name of one of the user's teams."""
    priority: int = 0
    resources: Resources = field(default_factory=Resources)
    retries: int = 0
    timeout: float | None = None
    key: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


async def submit_job(here: Services, who: Actor, new: NewJob) -> Job:
    """Stores a job. Raises Invalid with everything that is wrong with it."""
    if is_deeper(new.args, _DEEPEST_ARGS):
        raise InvalidProblem.field("args", "dispatch.deep", most=_DEEPEST_ARGS)
    if len(orjson.dumps(dict(new.args))) > _LARGEST_ARGS:
        raise InvalidProblem.field("args", "field.long", most=_LARGEST_ARGS)
    if has_nul([new.name, new.key, new.team, new.args]):
        raise InvalidProblem.field("args", "cooker.text", most=_LARGEST_ARGS)
    team, namespace = await here.database.read(lambda connection: _place(connection, who, new.team))
    args, is_here = dict(new.args), here.dispatch.is_this_cluster(new.adapter)
    if "manifest" in args:
        args["manifest"] = with_owner(with_expiry(args["manifest"]), namespace, who.id, team)
    now = datetime.now(UTC)
    job = Job(
        id=new_id(now),
        type=new.type,
        args=args,
        on=new.adapter,
        state="waiting",
        created=now,
        reason="waits for a dispatcher",
        name=new.name,
        key=own_key(who, new.key),
        project=team,
        creator=who.id,
        priority=new.priority,
        resources=new.resources,
        retry=Retry(times=new.retries),
        timeout=new.timeout,
        labels={**new.labels, NAMESPACE_LABEL: namespace} if is_here else new.labels,
    )
    if is_here and new.type == CONTAINER:
        await _rehearse(here, job)

    def write(connection: Connection) -> Job:
        check_new(connection, who)
        return store_job(connection, who, job)

    stored = await here.database.write(write)
    here.dispatch.wake()
    return stored


async def _rehearse(here: Services, job: Job) -> None:
    """Asks the cluster whether it would accept the Pod of a container. Raises Invalid, or Unavailable."""
    try:
        await here.namespaces.ensure(job.labels[NAMESPACE_LABEL])
        obj = here.dispatch.request(job, container_spec(job.args))
        if obj is not None:
            await here.cluster.create(obj, dry_run=True)
    except DispatchError as error:
        raise InvalidProblem.field("resources", "dispatch.invalid", detail=error.message) from None
    except ApiError as error:
        if error.code >= 500:
            raise UnavailableProblem(error.message) from None
        causes = [(cause.field, cause.message) for cause in error.causes if cause.field] or [("", error.message)]
        errors = [field_error(field, "dispatch.invalid", detail=message) for field, message in causes]
        raise InvalidProblem.fields(errors) from None


async def check_manifest(here: Services, who: Actor, text: str, team: str = "") -> Object:
    """Returns the one training job of a manifest, without its name. Raises Invalid with lines."""
    count = await here.checked(who, rehearse_manifests, text)
    if count > 1:
        raise InvalidProblem.field("manifest", "dispatch.one", count=count)
    _, namespace = await here.database.read(lambda connection: _place(connection, who, team))
    try:
        documents = await asyncio.to_thread(load_manifests, text, SOURCE, named=False)
    except ManifestError as error:
        raise InvalidProblem.fields([unreadable_finding(error).to_error()]) from None
    try:
        await here.namespaces.ensure(namespace)
    except ApiError as error:
        raise UnavailableProblem(error.message) from None
    found: list[ManifestFinding] = check_documents(
        documents, await limits_for(here.database, here.cluster, who, namespace)
    )
    for document in documents if not found else ():
        obj = with_owner(_named(document.object, f"check-{new_id(datetime.now(UTC))}"), namespace, who.id, "")
        try:
            await here.cluster.create(obj, dry_run=True)
        except ApiError as error:
            if error.code >= 500:
                raise UnavailableProblem(error.message) from None
            found += cluster_findings(document, error.causes, error.message)
    if found:
        raise InvalidProblem.fields([each.to_error() for each in found])
    (document,) = documents
    return _named(document.object, "")


def is_deeper(value: Any, most: int) -> bool:
    """Whether lists and mappings are nested in more than this many levels."""
    level: list[Any] = [value]
    for _ in range(most):
        groups = [each.values() if isinstance(each, Mapping) else each for each in level if _is_nested(each)]
        level = [each for group in groups for each in group]
    return any(map(_is_nested, level))


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)


def has_nul(value: Any) -> bool:
    """Whether a text somewhere in the value has a NUL character, which PostgreSQL cannot store."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(has_nul(each) for pair in value.items() for each in pair)
    return isinstance(value, list | tuple) and any(map(has_nul, value))


def read_resources(given: Mapping[str, Any]) -> Resources:
    """Raises Invalid."""
    try:
        return replace(Resources(), **given)
    except InvalidJob as error:
        raise InvalidProblem.field("resources", "dispatch.invalid", detail=error.message) from None


def _place(connection: Connection, who: Actor, team: str) -> tuple[str, str]:
    """Returns the id of the team, or '', and the namespace for its jobs or for those of the user."""
    team_id = team_to_share_with(connection, who, team) or ""
    return team_id, namespace_of(connection, user=who.id, team=team_id)


def _named(obj: Object, name: str) -> Object:
    """The dispatcher chooses the name, because every attempt has its own."""
    metadata = {key: value for key, value in meta(obj).items() if key not in ("name", "generateName", "namespace")}
    return {**obj, "metadata": {**metadata, **({"name": name} if name else {})}}
