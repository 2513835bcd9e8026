"""`muster apply`, `create` and `delete`: creates, updates and deletes objects from files or by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from muster.cli.errors import CommandError, CommandExit, format_api_error, format_document_error
from muster.cli.formats import format_objects, parse_format
from muster.cli.output import echo, warn
from muster.cli.selection import Selection, namespace_for, read_manifests, select_objects, watch_object
from muster.cli.session import (
    LATEST,
    AllNamespaces,
    FieldSelector,
    Files,
    LabelSelector,
    Session,
    Timeout,
    on_cluster,
    parse_duration,
    resource_name,
    type_name,
)
from muster.cli.workflow_objects import find_single_workflow, resolve_workflow_name
from muster.kube.cluster import Cluster, Propagation
from muster.kube.errors import ApiError, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, name_of, namespace_of, uid_of, version_of

if TYPE_CHECKING:
    from muster.kube.manifests import Document

ApplyChange: TypeAlias = Literal["created", "configured", "unchanged", "serverside-applied"]
DryRunOption = Annotated[str, typer.Option("--dry-run", help="none, or server: validate everything but store nothing.")]
OutputOption = Annotated[str, typer.Option("--output", "-o", help="Print the objects as yaml, json or name.")]
MANAGER = "muster"
_StoreOne: TypeAlias = "Callable[[Document], Awaitable[tuple[Kind, Object, str]]]"


@on_cluster
async def apply(
    session: Session,
    filename: Files = None,
    server_side: Annotated[
        bool,
        typer.Option("--server-side", help="Use server-side apply: keep the fields of other managers."),
    ] = False,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Change fields of other managers, too.")
    ] = False,
    field_manager: Annotated[
        str, typer.Option("--field-manager", help="The name of the manager that owns the fields.")
    ] = MANAGER,
    dry_run: DryRunOption = "none",
    output: OutputOption = "",
) -> None:
    """Create or update objects from files."""
    documents = _read_documents(filename)
    _check_dry_run(dry_run)

    async def one(document: Document) -> tuple[Kind, Object, str]:
        kind, obj = await resolve_document(document, session)
        if not name_of(obj):
            generated = "use `muster create` for metadata.generateName" if meta(obj).get("generateName") else ""
            raise CommandError(
                f"{document.where('metadata')} metadata.name: apply needs a name{'; ' * bool(generated)}{generated}"
            )
        change, applied = await apply_object(
            session.cluster,
            kind,
            obj,
            manager=field_manager,
            force=force_conflicts or not server_side,
            dry_run=dry_run == "server",
        )
        return kind, applied, "serverside-applied" if server_side else change

    await _store_each(documents, one, dry_run, output)


@on_cluster
async def create(
    session: Session,
    words: Annotated[list[str] | None, typer.Argument(metavar="[namespace NAME...]", show_default=False)] = None,
    filename: Files = None,
    dry_run: DryRunOption = "none",
    output: OutputOption = "",
) -> None:
    """Create objects from files, or a namespace by name."""
    documents = _namespaces_to_create(words) if words else _read_documents(filename)
    _check_dry_run(dry_run)

    async def one(document: Document) -> tuple[Kind, Object, str]:
        kind, obj = await resolve_document(document, session)
        return kind, await session.cluster.create(obj, dry_run=dry_run == "server"), "created"

    await _store_each(documents, one, dry_run, output)


async def apply_object(
    cluster: Cluster, kind: Kind, obj: Object, *, manager: str = MANAGER, force: bool = True, dry_run: bool = False
) -> tuple[ApplyChange, Object]:
    """Creates or updates the object, and returns it with what changed."""
    name, namespace = name_of(obj), namespace_of(obj)
    try:
        before = await cluster.get(kind, name, namespace)
    except NotFound:
        before = None
    after = await cluster.patch(
        kind, name, namespace, obj, type="apply", field_manager=manager, force=force, dry_run=dry_run
    )
    if before is None:
        return "created", after
    if dry_run:
        same = {**before, "metadata": {}} == {**after, "metadata": {}}
    else:
        same = version_of(before) == version_of(after)
    return "unchanged" if same else "configured", after


async def resolve_document(document: Document, session: Session) -> tuple[Kind, Object]:
    """Returns the kind of the document, and its object with the namespace filled in."""
    obj = document.object
    try:
        kind = await session.kind_of(obj)
    except NotFound as error:
        raise CommandError(f"{document.where('kind')} kind: {error.message}") from None
    own = namespace_of(obj)
    if not kind.namespaced and own:
        raise CommandError(
            f"{document.where('metadata.namespace')} metadata.namespace: "
            f"a {kind.kind} is not namespaced; remove this field"
        )
    if own or not kind.namespaced:
        return kind, obj
    return kind, {**obj, "metadata": {**meta(obj), "namespace": namespace_for(kind, session.namespace)}}


def _read_documents(filename: list[str] | None) -> list[Document]:
    if not filename:
        raise CommandError("specify the files: -f FILE, -f DIRECTORY, or -f - for stdin")
    documents = read_manifests(filename)
    if not documents:
        raise CommandError(f"no objects found in {', '.join(filename)}")
    return documents


def _namespaces_to_create(words: list[str]) -> list[Document]:
    word, *names = words
    if word.lower() not in ("namespace", "namespaces", "ns"):
        raise CommandError(
            f'only namespaces can be created by name, not "{word}"; write the object to a file and use -f FILE'
        )
    if not names:
        raise CommandError("the name is missing; use `muster create namespace NAME`")
    made = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names)
    from muster.kube.manifests import dump, load_manifests  # YAML is slow to import

    return [one for obj in made for one in load_manifests(dump(obj), "namespace")]


def _check_dry_run(dry_run: str) -> None:
    if dry_run not in ("none", "server"):
        raise CommandError(f'--dry-run: "{dry_run}" is not a known value; use server or none')


async def _store_each(documents: Iterable[Document], one: _StoreOne, dry_run: str, output: str) -> None:
    """Stores the documents one by one. An error in one does not stop the others."""
    format = parse_format(output)
    suffix = " (server dry run)" if dry_run == "server" else ""
    failed = False
    done: list[tuple[Kind, Object]] = []
    for document in documents:
        try:
            kind, obj, change = await one(document)
        except ApiError as error:
            warn(format_document_error(error, document))
            failed = True
        except CommandError as failure:
            warn(failure.message)
            failed = True
        else:
            done.append((kind, obj))
            if not output:
                echo(f"{resource_name(kind, name_of(obj))} {change}{suffix}")
    if output and done:
        echo(format_objects(format, done, single=len(done) == 1).removesuffix("\n"))
    if failed:
        raise CommandExit(1)


_CASCADES: dict[str, Propagation] = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


@on_cluster
async def delete(
    session: Session,
    words: Annotated[list[str] | None, typer.Argument(metavar="(TYPE NAME... | TYPE/NAME... | @latest)")] = None,
    filename: Files = None,
    selector: LabelSelector = "",
    field_selector: FieldSelector = "",
    all_: Annotated[bool, typer.Option("--all", help="Delete all objects of the type in the namespace.")] = False,
    all_namespaces: AllNamespaces = False,
    grace_period: Annotated[
        int, typer.Option("--grace-period", help="Seconds a Pod has to exit by itself; -1 uses the Pod's own value.")
    ] = -1,
    now: Annotated[bool, typer.Option("--now", help="Same as --grace-period=1.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete immediately, without waiting for the Pod's processes to exit.")
    ] = False,
    cascade: Annotated[
        str, typer.Option("--cascade", help="How to delete dependents: background, foreground or orphan.")
    ] = "background",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the objects are deleted.")] = True,
    timeout: Timeout = "0s",
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Do not fail if an object does not exist.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="name prints only the names.")] = "",
) -> None:
    """Delete objects."""
    if cascade not in _CASCADES:
        raise CommandError(f'--cascade: "{cascade}" is not a known value; use one of {", ".join(_CASCADES)}')
    if output not in ("", "name"):
        raise CommandError(f'-o: "{output}" is not a known format; `muster delete` supports only -o name')
    grace = _grace_seconds(grace_period, now=now, force=force)
    found = await select_objects(
        session,
        await _resolve_latest(session, words or ()),
        files=filename or (),
        labels=selector,
        fields=field_selector,
        all_namespaces=all_namespaces,
    )
    if not found.by_name and not (all_ or selector or field_selector):
        raise CommandError("specify the objects by name, with a selector (-l), or with --all")
    if force and grace == 0:
        warn("Warning: --force does not wait for processes to exit; they may continue to run for a while.")
    deleted, failed = await _delete_all(
        session.cluster,
        found,
        _CASCADES[cascade],
        grace,
        ignore_not_found,
        verb="force deleted" if force else "deleted",
        names_only=output == "name",
    )
    if not found.objects and not found.errors:
        echo("No resources found")
    if wait and deleted and not force:
        await wait_until_deleted(session.cluster, deleted, parse_duration(timeout, "--timeout") or None)
    if failed:
        raise CommandExit(1)


async def _resolve_latest(session: Session, words: Sequence[str]) -> list[str]:
    """Replaces `@latest`, or a single workflow name without a type, by `workflow/NAME`."""
    if len(words) == 1 and not ("/" in words[0] and LATEST not in words[0]):
        workflow = await find_single_workflow(session, words)
        return [f"workflow/{name_of(workflow)}"] if workflow is not None else list(words)
    return [f"workflow/{await resolve_workflow_name(session, word)}" if word == LATEST else word for word in words]


async def wait_until_deleted(
    cluster: Cluster, objects: list[tuple[Kind, Object]], timeout: float | None = None
) -> None:
    """Returns when none of these objects exists. A new object with the same name does not count."""
    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
            for kind, obj in objects:
                group.create_task(_wait_for_deletion(cluster, kind, obj))
    except TimeoutError:
        raise CommandError(f"timed out after {timeout:.0f}s: some objects are not deleted yet") from None


async def _delete_all(
    cluster: Cluster,
    found: Selection,
    propagation: Propagation,
    grace: int | None,
    ignore_not_found: bool,
    *,
    verb: str,
    names_only: bool,
) -> tuple[list[tuple[Kind, Object]], bool]:
    deleted = []
    failed = False
    for kind, obj in found.objects:
        try:
            await cluster.delete(
                kind, name_of(obj), namespace_of(obj), propagation=propagation, grace_seconds=grace, uid=uid_of(obj)
            )
        except NotFound:
            continue
        except ApiError as error:
            warn(format_api_error(error))
            failed = True
            continue
        deleted.append((kind, obj))
        echo(resource_name(kind, name_of(obj)) if names_only else f'{type_name(kind)} "{name_of(obj)}" {verb}')
    for missing in found.errors:
        if isinstance(missing, NotFound) and ignore_not_found:
            continue
        warn(format_api_error(missing))
        failed = True
    return deleted, failed


async def _wait_for_deletion(cluster: Cluster, kind: Kind, obj: Object) -> None:
    async with watch_object(cluster, kind, name_of(obj), namespace_of(obj)) as states:
        async for now in states:
            if now is None or uid_of(now) != uid_of(obj):
                return


def _grace_seconds(grace_period: int, *, now: bool, force: bool) -> int | None:
    if now and grace_period >= 0:
        raise CommandError("--now is the same as --grace-period=1; remove one of them")
    if force and grace_period > 0:
        raise CommandError("--force deletes immediately; remove --grace-period or set it to 0")
    if now:
        return 1
    if force:
        return 0
    # Without --force, 0 means 1, as in kubectl: Pods always get a moment to exit.
    return None if grace_period < 0 else max(grace_period, 1)
