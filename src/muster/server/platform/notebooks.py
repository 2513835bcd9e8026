"""Routes of notebooks, and of the images that they offer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from sqlalchemy import Connection

from muster.kube.builtin import PERSISTENT_VOLUME_CLAIM
from muster.kube.errors import AlreadyExists, ApiError, NotFound
from muster.kube.objects import Object, annotations_of, meta, name_of, namespace_of, parse_time, uid_of
from muster.kube.quantity import QuantityError, parse_quantity
from muster.platform.errors import InvalidProblem, NotFoundProblem
from muster.platform.messages import field_error
from muster.platform.permissions import Actor, may
from muster.platform.pod_policy import list_usable
from muster.platform.records.common import Page
from muster.platform.records.workspaces import Notebook, WorkspaceImage, WorkspaceState
from muster.platform.resources.resources import all_clusters, all_roots
from muster.platform.status_messages import explain
from muster.server.platform.notebook_form import (
    CLUSTER_ANNOTATION,
    MOST_MOUNTS,
    SKUS_ANNOTATION,
    Choices,
    MountForm,
    ResourceForm,
    build_notebook,
    choose_image,
    gpus_of,
    home_of,
    image_errors,
    image_name_of,
    mount_errors,
    mounts_in,
    requests_of,
    resource_errors,
    variable_errors,
    with_container,
    with_idle_minutes,
    with_mounts,
    with_resources,
)
from muster.server.platform.rest import Paging, RequestBody, Search
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.volume_access import find_deletable
from muster.server.platform.workspace_access import (
    FoundWorkspace,
    People,
    find_workspace,
    list_workspaces,
    name_errors,
    note,
    owner_labels,
    people_of,
    place_for,
    to_problem,
    workspace_page,
)
from muster.server.platform.workspace_routes import add_workspace_routes
from muster.workspaces.culler import idle_minutes
from muster.workspaces.environments import is_installed
from muster.workspaces.kinds import (
    CULL_AT_ANNOTATION,
    CULLED_AT_ANNOTATION,
    LAST_ACTIVITY_ANNOTATION,
    NOTEBOOK,
    main_container,
)
from muster.workspaces.plan import pod_name
from muster.workspaces.volumes import VolumeUse

_Name = Annotated[str, Field(max_length=253)]
_Amount = Annotated[str, Field(max_length=30)]
_Path = Annotated[str, Field(max_length=1000)]
_Minutes = Annotated[float, Field(ge=0, le=525_600)]


class MountBody(RequestBody):
    root: _Name = ""
    """The name of a storage root, or ..."""
    claim: _Name = ""
    """... of a volume in the namespace."""
    path: _Path = ""
    """Where the notebook sees it; by default where the storage root is, or /data/CLAIM."""
    read_only: bool = False


class NotebookBody(RequestBody):
    name: _Name
    team: _Name = ""
    """The id or name of one of your teams, to share it with."""
    image: Annotated[str, Field(max_length=255)] = ""
    """A name of the list (`GET /workspaces/images`), or any image; by default the first of the list."""
    cluster: _Name = ""
    """A virtual cluster: the notebook gets `skus` of it."""
    skus: Annotated[int, Field(ge=0, le=1000)] = 0
    cpu: _Amount = ""
    memory: _Amount = ""
    gpus: Annotated[int, Field(ge=0, le=1000)] = 0
    """Without a virtual cluster."""
    home: bool = True
    """Whether its home folder is in a volume, which stays when the notebook is stopped or deleted."""
    home_claim: _Name = ""
    """An existing volume for it; by default NAME-home, which is created if it does not exist."""
    home_size: _Amount = ""
    mounts: Annotated[list[MountBody], Field(default_factory=list, max_length=MOST_MOUNTS)]
    env: Annotated[dict[str, Annotated[str, Field(max_length=10_000)]], Field(default_factory=dict, max_length=100)]
    cull_idle_minutes: _Minutes | None = None
    """How long it may be idle; 0 for as long as it likes; by default what the settings say."""


class NotebookChange(RequestBody):
    """What is left out stays. A change of anything but `cull_idle_minutes` restarts a running notebook."""

    image: Annotated[str, Field(max_length=255)] = ""
    cluster: _Name = ""
    skus: Annotated[int, Field(ge=0, le=1000)] = 0
    cpu: _Amount = ""
    memory: _Amount = ""
    gpus: Annotated[int, Field(ge=0, le=1000)] = 0
    """If one of cluster, skus, cpu, memory and gpus is sent, all of them are set."""
    mounts: Annotated[list[MountBody], Field(default_factory=list, max_length=MOST_MOUNTS)]
    cull_idle_minutes: _Minutes | None = None


router = APIRouter(prefix="/notebooks", tags=["notebooks"])
images_router = APIRouter(prefix="/workspaces/images", tags=["notebooks"])


@images_router.get("", operation_id="list_workspace_images")
async def images(here: Here, who: Who) -> list[WorkspaceImage]:
    """Lists the images that a new notebook can have, the first of which is the default."""
    settings = here.settings
    sandboxed = settings.agent.runtime == "sandbox"
    return [
        WorkspaceImage(
            name=each.name,
            title=each.title,
            image=each.image,
            description=each.description,
            contents=list(each.contents),
            ready=not sandboxed or is_installed(settings.home, each),
        )
        for each in settings.workspaces.images
    ]


@router.get("", operation_id="list_notebooks")
async def list_notebooks(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    state: Annotated[list[WorkspaceState] | None, Query(description="One or more states.")] = None,
    namespace: str = "",
) -> Page[Notebook]:
    """Lists notebooks by created, name, state or namespace; the newest first."""
    found = await list_workspaces(here, who, NOTEBOOK, namespace)
    described = _describe(here, who, found, await people_of(here, found))
    return workspace_page(described, paging, q, state)


@router.post("", status_code=201, operation_id="create_notebook")
async def create_notebook(body: NotebookBody, here: Here, who: Who) -> Notebook:
    """Creates a notebook, and a volume for its home folder."""
    namespace, team = await place_for(here, who, body.team)
    choices = await find_choices(here, who, namespace)
    resources = ResourceForm(body.cluster, body.skus, body.cpu, body.memory, body.gpus)
    mounts = _mounts(body.mounts)
    wrong = [*name_errors(body.name), *image_errors(body.image, choices.images), *resource_errors(resources, choices)]
    wrong += [*mount_errors(mounts, choices, has_home=body.home), *variable_errors(body.env)]
    if body.home and body.home_claim and body.home_claim not in choices.claims:
        wrong.append(field_error("home_claim", "workspace.claim", name=body.home_claim, known=sorted(choices.claims)))
    size = body.home_size or here.settings.workspaces.home_size
    try:
        parse_quantity(size)
    except QuantityError as error:
        wrong.append(field_error("home_size", "workspace.amount", detail=str(error)))
    if wrong:
        raise InvalidProblem.fields(wrong)
    home = (body.home_claim or f"{body.name}-home") if body.home else ""
    labels = owner_labels(who, team)
    notebook = build_notebook(
        body.name, namespace, labels, image=body.image, resources=resources, mounts=mounts, home=home, env=body.env,
        cull_idle_minutes=body.cull_idle_minutes, choices=choices,
    )  # fmt: skip
    made_home: Object | None = None
    try:
        await here.cluster.create(notebook, dry_run=True)
        made_home = await _ensure_home(here, home, namespace, labels, size) if home and not body.home_claim else None
        created = await here.cluster.create(notebook)
    except ApiError as error:
        if made_home is not None:
            await _delete_claim(here, made_home)
        raise to_problem(error, NOTEBOOK.kind, body.name) from None
    await note(here, who, "create", created, image=main_container(created).get("image"))
    return await _whole(here, who, namespace, body.name)


@router.patch("/{namespace}/{name}", operation_id="edit_notebook")
async def edit_notebook(namespace: str, name: str, body: NotebookChange, here: Here, who: Who) -> Notebook:
    """Changes a notebook. If it runs, it is restarted, unless only `cull_idle_minutes` changes."""
    found = await find_workspace(here, who, NOTEBOOK, namespace, name, "edit")
    choices = await find_choices(here, who, namespace)
    given = body.model_fields_set
    resources = ResourceForm(body.cluster, body.skus, body.cpu, body.memory, body.gpus)
    mounts, notebook = _mounts(body.mounts), found.object
    wrong = []
    if "image" in given:
        wrong += image_errors(body.image, choices.images)
    if given & {"cluster", "skus", "cpu", "memory", "gpus"}:
        wrong += resource_errors(resources, choices)
    if "mounts" in given:
        wrong += mount_errors(mounts, choices, has_home=bool(home_of(notebook)))
    if wrong:
        raise InvalidProblem.fields(wrong)
    if "image" in given:
        notebook = with_container(notebook, image=choose_image(body.image, choices.images))
    if given & {"cluster", "skus", "cpu", "memory", "gpus"}:
        notebook = with_resources(notebook, resources, choices)
    if "mounts" in given:
        notebook = with_mounts(notebook, mounts, choices)
    if "cull_idle_minutes" in given:
        notebook = with_idle_minutes(notebook, body.cull_idle_minutes)
    try:
        await here.cluster.update(notebook)
    except ApiError as error:
        raise to_problem(error) from None
    await note(here, who, "edit", notebook, fields=sorted(given))
    return await _whole(here, who, namespace, name)


@router.delete("/{namespace}/{name}", status_code=204, operation_id="delete_notebook")
async def delete_notebook(
    namespace: str,
    name: str,
    here: Here,
    who: Who,
    home: Annotated[bool, Query(description="Delete the volume of its home folder, too, with all files.")] = False,
) -> None:
    """Deletes a notebook. Its volumes stay, with all files, unless `home` is set. Then it is refused if the volume of
    its home folder may not be deleted, or something else uses it."""
    found = await find_workspace(here, who, NOTEBOOK, namespace, name, "delete")
    claim = home_of(found.object)
    volume: Object | None = None
    if home and claim:
        with suppress(NotFoundProblem):
            volume = await find_deletable(here, who, namespace, claim, VolumeUse("notebook", namespace, name))
    try:
        await here.cluster.delete(NOTEBOOK, name, namespace, uid=uid_of(found.object))
        if volume is not None:
            await here.cluster.delete(PERSISTENT_VOLUME_CLAIM, claim, namespace, uid=uid_of(volume))
    except NotFound:
        pass
    except ApiError as error:
        raise to_problem(error) from None
    await note(here, who, "delete", found.object, home=claim if home else "")


async def _whole(here: Services, who: Actor, namespace: str, name: str) -> Notebook:
    found = await find_workspace(here, who, NOTEBOOK, namespace, name)
    (answer,) = _describe(here, who, [found], await people_of(here, [found]))
    return answer


add_workspace_routes(
    router, NOTEBOOK, "notebook", Notebook, _whole,
    stop_help="Stops a notebook. Files in its volumes stay; kernels, and files elsewhere, do not.",
)  # fmt: skip


def _describe(here: Services, who: Actor, found: Sequence[FoundWorkspace], people: People) -> list[Notebook]:
    return [_describe_one(here, who, each, people) for each in found]


def _describe_one(here: Services, who: Actor, found: FoundWorkspace, people: People) -> Notebook:
    notebook, settings = found.object, here.settings.workspaces
    notes = annotations_of(notebook)
    state, reason = found.state
    skus = notes.get(SKUS_ANNOTATION, "")
    return Notebook(
        uid=uid_of(notebook),
        namespace=namespace_of(notebook),
        name=name_of(notebook),
        **people.fields(found.subject),
        image=str(main_container(notebook).get("image") or ""),
        image_name=image_name_of(notebook, settings.images),
        cluster=notes.get(CLUSTER_ANNOTATION, ""),
        skus=int(skus) if skus.isdecimal() else 0,
        resources=requests_of(notebook),
        gpus=gpus_of(notebook),
        home=home_of(notebook),
        mounts=mounts_in(notebook),
        state=state,
        reason=reason,
        reason_parts=list(explain(reason)),
        progress=found.progress,
        created=parse_time(meta(notebook)["creationTimestamp"]),
        ready_since=found.ready_since,
        last_activity=_time(notes.get(LAST_ACTIVITY_ANNOTATION)),
        cull_idle_minutes=idle_minutes(notebook, settings),
        cull_at=_time(notes.get(CULL_AT_ANNOTATION)),
        culled_at=_time(notes.get(CULLED_AT_ANNOTATION)),
        pod=pod_name(notebook),
        may=found.may(who),
    )


def _time(text: str | None) -> datetime | None:
    """Users may write these annotations, too."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def _mounts(given: Sequence[MountBody]) -> list[MountForm]:
    return [MountForm(each.path, each.root, each.claim, each.read_only) for each in given]


async def find_choices(here: Services, who: Actor, namespace: str) -> Choices:
    """What this user may use in a namespace."""

    def look(connection: Connection) -> tuple[Any, Any]:
        return all_clusters(connection), all_roots(connection)

    clusters, roots = await here.database.read(look)
    usable = await list_usable(here.cluster, [namespace], who)
    return Choices(
        here.settings.workspaces.images,
        {each.name: _marked(who, each) for each in clusters},
        {each.name: _marked(who, each) for each in roots},
        usable.claims,
        here.queue_system,
    )


def _marked(who: Actor, record: Any) -> Any:
    return replace(record, usable=bool(may(who, "use", record.subject)))


async def _ensure_home(here: Services, claim: str, namespace: str, labels: dict[str, str], size: str) -> Object | None:
    """Creates the claim; None if there is one, such as that of an earlier notebook of this name."""
    obj = {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUME_CLAIM.kind,
        "metadata": {"name": claim, "namespace": namespace, "labels": labels},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }
    try:
        return await here.cluster.create(obj)
    except AlreadyExists:
        return None


async def _delete_claim(here: Services, claim: Object) -> None:
    try:
        await here.cluster.delete(PERSISTENT_VOLUME_CLAIM, name_of(claim), namespace_of(claim), uid=uid_of(claim))
    except ApiError:
        return
