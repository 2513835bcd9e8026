"""`muster apply` and `muster create`: from files to objects, saying for each what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Literal, TypeAlias

import typer

from muster.cli.failures import Ended, Failure, explain_document
from muster.cli.formats import as_text, parse_format
from muster.cli.manifests import read
from muster.cli.options import Files, on_cluster
from muster.cli.output import say, warn
from muster.cli.selection import scope
from muster.cli.session import Session
from muster.cli.targets import title
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, NotFound
from muster.kube.kinds import Kind
from muster.kube.manifests import Document, dump, load
from muster.kube.objects import Object, meta, name_of, namespace_of, version_of

Change: TypeAlias = Literal["created", "configured", "unchanged", "serverside-applied"]
DryRun = Annotated[str, typer.Option("--dry-run", help="none, or server: check everything, store nothing.")]
Output = Annotated[str, typer.Option("--output", "-o", help="Print the objects: yaml, json or name.")]
MANAGER = "muster"
_One: TypeAlias = Callable[[Document], Awaitable[tuple[Kind, Object, str]]]


@on_cluster
async def apply(
    session: Session,
    filename: Files = None,
    server_side: Annotated[
        bool, typer.Option("--server-side", help="Refuse to change fields that somebody else manages.")
    ] = False,
    force_conflicts: Annotated[bool, typer.Option("--force-conflicts", help="Change them nevertheless.")] = False,
    field_manager: Annotated[
        str, typer.Option("--field-manager", help="Who manages the fields from now on.")
    ] = MANAGER,
    dry_run: DryRun = "none",
    output: Output = "",
) -> None:
    """Create or change objects to be as files say."""
    documents = _documents(filename)
    _check_dry_run(dry_run)

    async def one(document: Document) -> tuple[Kind, Object, str]:
        kind, obj = await placed(document, session)
        if not name_of(obj):
            generated = "use `muster create` for metadata.generateName" if meta(obj).get("generateName") else ""
            raise Failure(
                f"{document.where('metadata')} metadata.name: apply needs a name{'; ' * bool(generated)}{generated}"
            )
        change, applied = await put(
            session.cluster,
            kind,
            obj,
            manager=field_manager,
            force=force_conflicts or not server_side,
            dry_run=dry_run == "server",
        )
        return kind, applied, "serverside-applied" if server_side else change

    await _each(documents, one, dry_run, output)


@on_cluster
async def create(
    session: Session,
    words: Annotated[list[str] | None, typer.Argument(metavar="[namespace NAME...]", show_default=False)] = None,
    filename: Files = None,
    dry_run: DryRun = "none",
    output: Output = "",
) -> None:
    """Create objects from files, or namespaces by their names."""
    documents = _named(words) if words else _documents(filename)
    _check_dry_run(dry_run)

    async def one(document: Document) -> tuple[Kind, Object, str]:
        kind, obj = await placed(document, session)
        return kind, await session.cluster.create(obj, dry_run=dry_run == "server"), "created"

    await _each(documents, one, dry_run, output)


async def put(
    cluster: Cluster, kind: Kind, obj: Object, *, manager: str = MANAGER, force: bool = True, dry_run: bool = False
) -> tuple[Change, Object]:
    """Makes the object be as it is written, whatever it was before."""
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


async def placed(document: Document, session: Session) -> tuple[Kind, Object]:
    """The document's kind, and its object in the namespace where it belongs."""
    obj = document.object
    try:
        kind = await session.kind_of(obj)
    except NotFound as error:
        raise Failure(f"{document.where('kind')} kind: {error.message}") from None
    own = namespace_of(obj)
    if not kind.namespaced and own:
        raise Failure(
            f"{document.where('metadata.namespace')} metadata.namespace: "
            f"a {kind.kind} belongs to no namespace; leave it out"
        )
    if own or not kind.namespaced:
        return kind, obj
    return kind, {**obj, "metadata": {**meta(obj), "namespace": scope(kind, session.namespace)}}


def _documents(filename: list[str] | None) -> list[Document]:
    if not filename:
        raise Failure("say which files: -f FILE, -f DIRECTORY or -f - for stdin")
    documents = read(filename)
    if not documents:
        raise Failure(f"no objects in {', '.join(filename)}")
    return documents


def _named(words: list[str]) -> list[Document]:
    word, *names = words
    if word.lower() not in ("namespace", "namespaces", "ns"):
        raise Failure(f'"{word}" cannot be created by name, only namespaces can; write it into a file: -f FILE')
    if not names:
        raise Failure("say what to call it: muster create namespace NAME")
    made = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names)
    return [one for obj in made for one in load(dump(obj), "namespace")]


def _check_dry_run(dry_run: str) -> None:
    if dry_run not in ("none", "server"):
        raise Failure(f'--dry-run: "{dry_run}" is not known; write server (the cluster checks everything) or none')


async def _each(documents: Iterable[Document], one: _One, dry_run: str, output: str) -> None:
    """One object that is refused does not keep the others from being stored."""
    format = parse_format(output)
    suffix = " (server dry run)" if dry_run == "server" else ""
    failed = False
    done: list[tuple[Kind, Object]] = []
    for document in documents:
        try:
            kind, obj, change = await one(document)
        except ApiError as error:
            warn(explain_document(error, document))
            failed = True
        except Failure as failure:
            warn(failure.message)
            failed = True
        else:
            done.append((kind, obj))
            if not output:
                say(f"{title(kind, name_of(obj))} {change}{suffix}")
    if output and done:
        say(as_text(format, done, single=len(done) == 1).removesuffix("\n"))
    if failed:
        raise Ended(1)
