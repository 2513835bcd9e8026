"""`muster submit`: starts a workflow from a file or from a template, and follows it if asked to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.failures import Failure, explain_document
from muster.cli.formats import as_text, parse_format
from muster.cli.options import on_cluster
from muster.cli.output import say
from muster.cli.session import Session
from muster.cli.workflow_follow import LogOption, WaitOption, WatchOption, follow, require_one_way
from muster.cli.workflow_lookup import workflow_kind
from muster.cli.workflow_show import show
from muster.kube.errors import ApiError
from muster.kube.objects import Object, meta, namespace_of, timestamp

if TYPE_CHECKING:
    from muster.kube.manifests import Document
    from muster.workflows.submission import SubmitOptions

Parameters = Annotated[
    list[str] | None,
    typer.Option("--parameter", "-p", help="NAME=VALUE, an argument of the workflow; may be repeated."),
]


@on_cluster
async def submit(
    session: Session,
    files: Annotated[list[str] | None, typer.Argument(metavar="[FILE...]", help="Files, or - for stdin.")] = None,
    from_: Annotated[
        str,
        typer.Option("--from", help="workflowtemplate/NAME, clusterworkflowtemplate/NAME or cronworkflow/NAME."),
    ] = "",
    parameter: Parameters = None,
    parameter_file: Annotated[
        str, typer.Option("--parameter-file", "-f", help="A YAML or JSON file with a value per argument.")
    ] = "",
    name: Annotated[str, typer.Option("--name", help="Instead of the name in the file.")] = "",
    generate_name: Annotated[
        str, typer.Option("--generate-name", help="The beginning of the name; the cluster adds the rest.")
    ] = "",
    entrypoint: Annotated[str, typer.Option("--entrypoint", help="The template to begin with.")] = "",
    labels: Annotated[str, typer.Option("--labels", "-l", help="Labels to add, as in team=x,run=7.")] = "",
    annotations: Annotated[str, typer.Option("--annotations", help="Annotations to add.")] = "",
    serviceaccount: Annotated[str, typer.Option("--serviceaccount", help="Run all Pods as this one.")] = "",
    priority: Annotated[int | None, typer.Option("--priority", help="Higher goes first.")] = None,
    watch: WatchOption = False,
    log: LogOption = False,
    wait: WaitOption = False,
    output: Annotated[str, typer.Option("--output", "-o", help="name, yaml or json.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, store nothing.")] = False,
) -> None:
    """Start workflows from files or from a template.

    With --watch, --log or --wait, the exit code is 0 if all of them succeeded, else 1.
    """
    from muster.workflows.submission import SubmitOptions

    if bool(files) == bool(from_):
        raise Failure("say what to submit: files, or --from KIND/NAME")
    require_one_way(watch=watch, log=log, wait=wait)
    if dry_run and (watch or log or wait):
        raise Failure("a dry run starts nothing that could be followed")
    format = parse_format(output)
    options = SubmitOptions(
        name=name,
        generate_name=generate_name,
        entrypoint=entrypoint,
        service_account=serviceaccount,
        parameters=[*(parameters_of(parameter_file) if parameter_file else ()), *(parameter or ())],
        labels=labels,
        annotations=annotations,
        priority=priority,
    )
    if from_:
        created = [await _create(session, await _from_resource(session, from_, options), dry_run)]
    else:
        documents = _documents(files or ())
        if name and len(documents) > 1:
            raise Failure("--name is for one workflow; these files have several")
        created = [await _create_document(session, document, options, dry_run) for document in documents]
    kind = workflow_kind()
    if output:
        pairs = [(kind, one) for one in created]
        say(as_text(format, pairs, single=len(created) == 1).removesuffix("\n"))
    for number, workflow in enumerate(created):
        if not (output or watch):
            if number:
                say()
            show(workflow)
    await follow(session, created, watch=watch, log=log, wait=wait, quiet=bool(output))


def parameters_of(path: str) -> list[str]:
    """NAME=VALUE for each entry of the file, JSON being YAML, too."""
    from muster.kube.manifests import ManifestError, mapping_in
    from muster.workflows.submission import parameters_in

    try:
        found = mapping_in(Path(path).read_text(), path)
    except OSError as error:
        raise Failure(f"--parameter-file: {path}: {error.strerror}") from None
    except ManifestError as error:
        raise Failure(f"--parameter-file: {error}") from None
    return parameters_in(found.object) if found is not None else []


def _documents(files: Sequence[str]) -> list[Document]:
    from muster.kube.manifests import load_files

    documents = load_files(list(files), named=False)
    for document in documents:
        kind = document.object.get("kind")
        if kind != "Workflow":
            raise Failure(
                f"{document.where('kind')} kind: {kind} is not a Workflow; `muster apply -f` stores it, and "
                "`muster submit --from KIND/NAME` then runs a template"
            )
    if not documents:
        raise Failure(f"no workflow in {', '.join(files)}")
    return documents


async def _from_resource(session: Session, resource: str, options: SubmitOptions) -> Object:
    from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW, WORKFLOW_TEMPLATE
    from muster.workflows.submission import SubmissionError, from_cron, from_template, source_kind, with_options

    word, slash, name = resource.partition("/")
    if not slash or not name:
        raise Failure(f'--from: "{resource}": write KIND/NAME, as in workflowtemplate/{resource or "train"}')
    try:
        wanted = source_kind(word)
        kind = next(k for k in (WORKFLOW_TEMPLATE, CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW) if k.kind == wanted)
        found = await session.cluster.get(kind, name, session.namespace if kind.namespaced else "")
        if kind is CRON_WORKFLOW:
            workflow = from_cron(found, timestamp(datetime.now(UTC)))
        else:
            workflow = from_template(name, cluster_scope=kind is CLUSTER_WORKFLOW_TEMPLATE)
        return with_options(workflow, options)
    except SubmissionError as error:
        raise Failure(f"error: {error}") from None


async def _create_document(session: Session, document: Document, options: SubmitOptions, dry_run: bool) -> Object:
    from muster.workflows.submission import SubmissionError, with_options

    try:
        return await _create(session, with_options(document.object, options), dry_run)
    except SubmissionError as error:
        raise Failure(f"error: {error}") from None
    except ApiError as error:
        raise Failure(explain_document(error, document)) from None


async def _create(session: Session, workflow: Object, dry_run: bool) -> Object:
    placed = {**meta(workflow), "namespace": namespace_of(workflow) or session.namespace}
    return await session.cluster.create({**workflow, "metadata": placed}, dry_run=dry_run)
