"""Submits training jobs from a manifest: all of them or none. Suspends, resumes and deletes jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from muster.kube import errors as cluster_errors
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, ApiError
from muster.kube.manifests import Document, ManifestError, load_manifests
from muster.kube.objects import Object, meta, name_of, uid_of
from muster.platform.database.database import Database
from muster.platform.errors import ConflictProblem, InvalidProblem, NotFoundProblem, UnavailableProblem
from muster.platform.jobs.jobs import ENDED, can_be_suspended, describe_job, job_kind_named, job_kind_of
from muster.platform.jobs.validation import (
    SOURCE,
    Limits,
    ManifestFinding,
    check_documents,
    cluster_findings,
    unreadable_finding,
    warning_findings,
    with_owner,
)
from muster.platform.namespaces import Namespaces
from muster.platform.permissions import Actor, Relation, may, relations, require
from muster.platform.pod_policy import list_usable, pod_allowances
from muster.platform.records.common import Subject
from muster.platform.records.jobs import Job
from muster.platform.records.resources import StorageRoot
from muster.platform.resources.resources import all_clusters, all_roots
from muster.platform.users.audit import write_audit
from muster.platform.users.namespace_names import namespace_of
from muster.platform.users.teams import team_to_share_with


@dataclass(frozen=True, slots=True)
class CheckedManifest:
    documents: list[Document]
    told: list[ManifestFinding]
    namespace: str
    """Where its jobs are created, unless they name another one."""

    @property
    def wrong(self) -> list[ManifestFinding]:
        return [each for each in self.told if not each.is_warning]


async def check_manifest(
    database: Database, cluster: Cluster, namespaces: Namespaces, actor: Actor, text: str, team_id: str = ""
) -> CheckedManifest:
    """Returns everything that is wrong with it, and warnings. Creates nothing."""
    require(actor, "create", Subject("job", owner=actor.id))
    try:
        documents = await asyncio.to_thread(load_manifests, text, SOURCE)
    except ManifestError as error:
        return CheckedManifest([], [unreadable_finding(error)], "")
    namespace = await database.read(lambda connection: namespace_of(connection, user=actor.id, team=team_id))
    try:
        await namespaces.ensure(namespace)
    except ApiError as error:
        raise _problem(error) from None
    told = check_documents(documents, await limits_for(database, cluster, actor, namespace))
    for document in documents:
        if job_kind_of(document.object) is not None:
            told += await _validate_on_cluster(cluster, actor, document, namespace)
    return CheckedManifest(documents, sorted(told, key=lambda each: each.line), namespace)


async def submit(
    database: Database, cluster: Cluster, namespaces: Namespaces, actor: Actor, text: str, team: str = ""
) -> list[Object]:
    """Creates all jobs of a manifest, in the namespace of the team or else of the user. Raises Invalid with everything
    that is wrong; then nothing was created."""
    team_id = await database.read(lambda connection: team_to_share_with(connection, actor, team)) or ""
    looked = await check_manifest(database, cluster, namespaces, actor, text, team_id)
    if looked.wrong:
        raise InvalidProblem.fields([each.to_error() for each in looked.wrong])
    made: list[Object] = []
    for document in looked.documents:
        obj = with_owner(document.object, looked.namespace, actor.id, team_id)
        try:
            made.append(await cluster.create(obj))
        except ApiError as error:
            await _undo(cluster, made)
            raise _problem(error) from None
    try:
        await database.write(lambda connection: _note(connection, actor, "create", made))
    except BaseException:
        await _undo(cluster, made)  # no change without a record of it
        raise
    return made


async def limits_for(database: Database, cluster: Cluster, actor: Actor, namespace: str) -> Limits | None:
    """Returns the limits of a user; None for admins."""
    if relations(actor, Subject("job")) & Relation.ADMIN:
        return None

    def look(connection: Connection) -> tuple[list[StorageRoot], frozenset[str]]:
        roots = [root for root in all_roots(connection) if may(actor, "use", root.subject)]
        closed = [each.queue for each in all_clusters(connection) if not may(actor, "use", each.subject)]
        return roots, frozenset(closed)

    roots, queues = await database.read(look)
    return Limits(namespace, pod_allowances(roots, await list_usable(cluster, [namespace], actor)), queues)


async def find_job(cluster: Cluster, word: str, namespace: str, name: str) -> tuple[Job, Object]:
    """Finds a job. The caller must check permissions."""
    job_kind = job_kind_named(word)
    if job_kind is None:
        raise NotFoundProblem.named("kind of training job", word)
    try:
        obj = await cluster.get(job_kind.kind, name, namespace)
    except cluster_errors.NotFound:
        raise NotFoundProblem.named(job_kind.kind.kind, f"{namespace}/{name}") from None
    except cluster_errors.Unavailable as error:
        raise UnavailableProblem(error.message) from None
    return describe_job(job_kind, obj), obj


async def set_suspended(database: Database, cluster: Cluster, actor: Actor, job: Job, suspended: bool) -> Object:
    """Suspends or resumes a job. The caller must check permissions."""
    job_kind = job_kind_named(job.word)
    if job_kind is None or not can_be_suspended(job_kind):
        raise ConflictProblem.of("job.suspend", kind=job.kind, api_version=job.api_version)
    if job.state in ENDED:
        raise ConflictProblem.of("job.ended", state=job.state)
    patch = {"spec": {"runPolicy": {"suspend": suspended}}}
    try:
        after = await cluster.patch(job_kind.kind, job.name, job.namespace, patch)
    except ApiError as error:
        raise _problem(error) from None
    action = "suspend" if suspended else "resume"
    await database.write(lambda connection: _note(connection, actor, action, [after]))
    return after


async def delete(database: Database, cluster: Cluster, actor: Actor, job: Job) -> None:
    """Deletes a job with its Pods and everything that belongs to it. The caller must check permissions."""
    job_kind = job_kind_named(job.word)
    assert job_kind is not None
    try:
        before = await cluster.delete(job_kind.kind, job.name, job.namespace, uid=job.uid)
    except ApiError as error:
        raise _problem(error) from None
    await database.write(lambda connection: _note(connection, actor, "delete", [before]))


async def _validate_on_cluster(
    cluster: Cluster, actor: Actor, document: Document, namespace: str
) -> list[ManifestFinding]:
    """Returns what a dry run on the cluster reports."""
    obj = with_owner(document.object, namespace, actor.id, "")
    try:
        kind = cluster.catalogue.of_object(obj)
        await cluster.create(obj, dry_run=True)
    except AlreadyExists as error:
        return cluster_findings(document, [], error.message, "metadata.name")
    except cluster_errors.Unavailable as error:
        raise UnavailableProblem(error.message) from None
    except ApiError as error:
        return cluster_findings(document, error.causes, error.message)
    return warning_findings(document, kind.warnings(obj) if kind.warnings is not None else ())


def _note(connection: Connection, actor: Actor, action: str, objects: Iterable[Object]) -> None:
    for obj in objects:
        name = f"{str(obj['kind']).lower()}/{name_of(obj)}"
        write_audit(connection, actor, action, "job", uid_of(obj), name, {"namespace": meta(obj).get("namespace")})


async def _undo(cluster: Cluster, made: Iterable[Object]) -> None:
    for obj in made:
        try:
            await cluster.delete(
                cluster.catalogue.of_object(obj), name_of(obj), meta(obj)["namespace"], uid=uid_of(obj)
            )
        except ApiError:
            continue


def _problem(error: ApiError) -> ConflictProblem | NotFoundProblem | UnavailableProblem:
    if isinstance(error, cluster_errors.NotFound):
        return NotFoundProblem(error.message)
    return (
        UnavailableProblem(error.message)
        if isinstance(error, cluster_errors.Unavailable)
        else ConflictProblem(error.message)
    )
