"""Commands for Argo workflows: `muster submit`, `list`, `stop`, `terminate`, `suspend`, `resume`, `retry`,
`resubmit`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from muster.cli.errors import CommandError, CommandExit, format_api_error, format_document_error
from muster.cli.formats import format_objects, parse_format
from muster.cli.output import TableWriter, colorize, echo, supports_color, warn
from muster.cli.session import AllNamespaces, LabelSelector, Session, on_cluster, parse_duration
from muster.cli.workflow_follow import LogOption, WaitOption, WatchOption, check_follow_options, follow_workflow
from muster.cli.workflow_objects import (
    STYLES,
    find_workflow,
    format_age,
    format_workflow_time,
    is_finished,
    list_workflow_summaries,
    phase_of,
    status_word,
    workflow_kind,
)
from muster.cli.workflow_tree import print_workflow
from muster.kube.errors import ApiError, closest_word
from muster.kube.objects import (
    Object,
    creation_order,
    meta,
    name_of,
    namespace_of,
    parse_time,
    spec_of,
    status_of,
    timestamp,
)

if TYPE_CHECKING:
    from muster.kube.manifests import Document
    from muster.workflows.submit import SubmitOptions


ParametersOption = Annotated[
    list[str] | None,
    typer.Option("--parameter", "-p", help="An argument of the workflow, as NAME=VALUE; may be repeated."),
]


@on_cluster
async def submit(
    session: Session,
    files: Annotated[list[str] | None, typer.Argument(metavar="[FILE...]", help="Files, or - for stdin.")] = None,
    from_: Annotated[
        str,
        typer.Option(
            "--from", help="Submit from workflowtemplate/NAME, clusterworkflowtemplate/NAME or cronworkflow/NAME."
        ),
    ] = "",
    parameter: ParametersOption = None,
    parameter_file: Annotated[
        str, typer.Option("--parameter-file", "-f", help="A YAML or JSON file with the values of arguments.")
    ] = "",
    name: Annotated[str, typer.Option("--name", help="Use this name instead of the one in the file.")] = "",
    generate_name: Annotated[
        str, typer.Option("--generate-name", help="A prefix; the cluster completes the name.")
    ] = "",
    entrypoint: Annotated[str, typer.Option("--entrypoint", help="The template to start with.")] = "",
    labels: Annotated[str, typer.Option("--labels", "-l", help="Labels to add, as in team=x,run=7.")] = "",
    annotations: Annotated[str, typer.Option("--annotations", help="Annotations to add.")] = "",
    serviceaccount: Annotated[
        str, typer.Option("--serviceaccount", help="Run all Pods with this service account.")
    ] = "",
    priority: Annotated[
        int | None, typer.Option("--priority", help="The priority; workflows with a higher one start first.")
    ] = None,
    watch: WatchOption = False,
    log: LogOption = False,
    wait: WaitOption = False,
    output: Annotated[str, typer.Option("--output", "-o", help="Output format: name, yaml or json.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate everything but store nothing.")] = False,
) -> None:
    """Submit workflows from files or from a template.

    With --watch, --log or --wait, the exit code is 0 if all workflows succeed, and 1 otherwise.
    """
    from muster.workflows.submit import SubmitOptions

    if bool(files) == bool(from_):
        raise CommandError("specify files, or a template with --from KIND/NAME")
    check_follow_options(watch=watch, log=log, wait=wait)
    if dry_run and (watch or log or wait):
        raise CommandError("--dry-run cannot be combined with --watch, --log or --wait")
    format = parse_format(output)
    options = SubmitOptions(
        name=name,
        generate_name=generate_name,
        entrypoint=entrypoint,
        service_account=serviceaccount,
        parameters=[*(read_parameter_file(parameter_file) if parameter_file else ()), *(parameter or ())],
        labels=labels,
        annotations=annotations,
        priority=priority,
    )
    if from_:
        created = [await _create(session, await _create_from_resource(session, from_, options), dry_run)]
    else:
        documents = _read_documents(files or ())
        if name and len(documents) > 1:
            raise CommandError("--name works only for a single workflow; these files contain several")
        created = [await _create_document(session, document, options, dry_run) for document in documents]
    kind = workflow_kind()
    if output:
        pairs = [(kind, one) for one in created]
        echo(format_objects(format, pairs, single=len(created) == 1).removesuffix("\n"))
    for number, workflow in enumerate(created):
        if not (output or watch):
            if number:
                echo()
            print_workflow(workflow)
    await follow_workflow(session, created, watch=watch, log=log, wait=wait, quiet=bool(output))


def read_parameter_file(path: str) -> list[str]:
    """Returns NAME=VALUE for each entry of a YAML or JSON file."""
    from muster.kube.manifests import ManifestError, parse_mapping
    from muster.workflows.submit import parameters_from_file

    try:
        found = parse_mapping(Path(path).read_text(), path)
    except OSError as error:
        raise CommandError(f"--parameter-file: {path}: {error.strerror}") from None
    except ManifestError as error:
        raise CommandError(f"--parameter-file: {error}") from None
    return parameters_from_file(found.object) if found is not None else []


def _read_documents(files: Sequence[str]) -> list[Document]:
    from muster.kube.manifests import load_manifest_files

    documents = load_manifest_files(list(files), named=False)
    for document in documents:
        kind = document.object.get("kind")
        if get_close_matches(str(kind), ["Workflow"], cutoff=0.8) and kind != "Workflow":
            raise CommandError(f'{document.where("kind")} kind: unknown kind "{kind}"; did you mean "Workflow"?')
        if kind != "Workflow":
            raise CommandError(
                f"{document.where('kind')} kind: {kind} is not a Workflow; create it with `muster apply -f`, "
                "and run a template with `muster submit --from KIND/NAME`"
            )
    if not documents:
        raise CommandError(f"no workflow found in {', '.join(files)}")
    return documents


async def _create_from_resource(session: Session, resource: str, options: SubmitOptions) -> Object:
    from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW, WORKFLOW_TEMPLATE
    from muster.workflows.submit import (
        SubmissionError,
        apply_options,
        source_kind,
        workflow_from_cron,
        workflow_from_template,
    )

    word, slash, name = resource.partition("/")
    if not slash or not name:
        raise CommandError(
            f'--from: "{resource}" is not valid; use KIND/NAME, as in workflowtemplate/{resource or "train"}'
        )
    try:
        wanted = source_kind(word)
        kind = next(k for k in (WORKFLOW_TEMPLATE, CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW) if k.kind == wanted)
        found = await session.cluster.get(kind, name, session.namespace if kind.namespaced else "")
        if kind is CRON_WORKFLOW:
            workflow = workflow_from_cron(found, timestamp(datetime.now(UTC)))
        else:
            workflow = workflow_from_template(name, cluster_scope=kind is CLUSTER_WORKFLOW_TEMPLATE)
        return apply_options(workflow, options)
    except SubmissionError as error:
        raise CommandError(f"error: {error}") from None


async def _create_document(session: Session, document: Document, options: SubmitOptions, dry_run: bool) -> Object:
    from muster.workflows.submit import SubmissionError, apply_options

    for warning in find_unknown_parameters(document.object, options.parameters):
        warn(f"Warning: {document.source}: {warning}")
    try:
        return await _create(session, apply_options(document.object, options), dry_run)
    except SubmissionError as error:
        raise CommandError(f"error: {error}") from None
    except ApiError as error:
        raise CommandError(format_document_error(error, document)) from None


def find_unknown_parameters(workflow: Object, given: Iterable[str]) -> list[str]:
    """Returns a warning for each NAME=VALUE whose name the workflow does not have. Argo adds such a parameter, and
    nothing uses it. A workflow that refers to a template has the parameters of that, too, so nothing is said of it."""
    spec = spec_of(workflow)
    if spec.get("workflowTemplateRef") or workflow.get("kind") != "Workflow":
        return []
    known = [str(parameter.get("name")) for parameter in (spec.get("arguments") or {}).get("parameters") or ()]
    warnings = []
    for name in (pair.partition("=")[0] for pair in given):
        if name not in known:
            near = closest_word(name, known)
            hint = f'; did you mean "{near}"?' if near else ""
            warnings.append(f'has no parameter "{name}" in spec.arguments{hint}')
    return warnings


async def _create(session: Session, workflow: Object, dry_run: bool) -> Object:
    placed = {**meta(workflow), "namespace": namespace_of(workflow) or session.namespace}
    return await session.cluster.create({**workflow, "metadata": placed}, dry_run=dry_run)


Names = Annotated[list[str] | None, typer.Argument(metavar="(WORKFLOW... | @latest)")]
Nodes = Annotated[
    str,
    typer.Option("--node-field-selector", help="Select nodes, as in displayName=approve or phase=Failed."),
]


@on_cluster
async def stop(
    session: Session,
    names: Names = None,
    selector: LabelSelector = "",
    node_field_selector: Nodes = "",
    message: Annotated[str, typer.Option("--message", help="The message of the nodes that are stopped.")] = "",
) -> None:
    """Stop workflows; their exit handlers still run."""
    from muster.workflows.operations.control import stop as stopped

    await _change(session, names, selector, "stopped", lambda w: stopped(w, node_field_selector, message))


@on_cluster
async def terminate(session: Session, names: Names = None, selector: LabelSelector = "") -> None:
    """Stop workflows immediately, without their exit handlers."""
    from muster.workflows.operations.control import terminate as terminated

    await _change(session, names, selector, "terminated", terminated)


@on_cluster
async def suspend(session: Session, names: Names = None, selector: LabelSelector = "") -> None:
    """Suspend workflows: no new steps start."""
    from muster.workflows.operations.control import suspend as suspended

    await _change(session, names, selector, "suspended", suspended)


@on_cluster
async def resume(
    session: Session, names: Names = None, selector: LabelSelector = "", node_field_selector: Nodes = ""
) -> None:
    """Resume suspended workflows and steps."""
    from muster.workflows.operations.control import resume as resumed

    await _change(session, names, selector, "resumed", lambda w: resumed(w, node_field_selector))


@on_cluster
async def retry(
    session: Session,
    names: Names = None,
    selector: LabelSelector = "",
    parameter: ParametersOption = None,
    restart_successful: Annotated[
        bool,
        typer.Option("--restart-successful", help="Restart the nodes of --node-field-selector even if they succeeded."),
    ] = False,
    node_field_selector: Nodes = "",
    watch: WatchOption = False,
    log: LogOption = False,
    wait: WaitOption = False,
) -> None:
    """Retry failed workflows; steps that succeeded do not run again."""
    from muster.workflows.operations import apply

    async def one(workflow: Object) -> Object:
        return await apply.retry(
            session.cluster,
            workflow,
            restart_successful=restart_successful,
            node_field_selector=node_field_selector,
            parameters=parameter or (),
        )

    check_follow_options(watch=watch, log=log, wait=wait)
    done = await _change_each(session, names, selector, "retried", one)
    await follow_workflow(session, done, watch=watch, log=log, wait=wait)


@on_cluster
async def resubmit(
    session: Session,
    names: Names = None,
    selector: LabelSelector = "",
    parameter: ParametersOption = None,
    memoized: Annotated[
        bool, typer.Option("--memoized", help="Reuse the results of steps that succeeded, and run only the others.")
    ] = False,
    watch: WatchOption = False,
    log: LogOption = False,
    wait: WaitOption = False,
) -> None:
    """Submit copies of workflows."""
    from muster.workflows.operations.resubmit import resubmit as resubmitted

    async def one(workflow: Object) -> Object:
        new = resubmitted(workflow, memoized=memoized, parameters=parameter or ())
        return await session.cluster.create(new)

    check_follow_options(watch=watch, log=log, wait=wait)
    done = await _change_each(session, names, selector, "resubmitted", one)
    if not watch:
        for workflow in done:
            print_workflow(workflow)
    await follow_workflow(session, done, watch=watch, log=log, wait=wait)


async def _change(
    session: Session, names: Sequence[str] | None, labels: str, verb: str, operation: Callable[[Object], Object]
) -> None:
    from muster.workflows.operations.apply import write

    async def one(workflow: Object) -> Object:
        return await write(session.cluster, workflow, operation(workflow))

    await _change_each(session, names, labels, verb, one)


async def _change_each(
    session: Session,
    names: Sequence[str] | None,
    labels: str,
    verb: str,
    one: Callable[[Object], Awaitable[Object]],
) -> list[Object]:
    """Changes the workflows one by one. An error in one does not stop the others."""
    if bool(names) == bool(labels):
        raise CommandError("specify the workflows by name, with @latest, or with a selector (-l)")
    words = list(names or ()) or [
        name_of(found) for found in await list_workflow_summaries(session, session.namespace, labels)
    ]
    if not words:
        raise CommandError(f"error: no workflow in namespace {session.namespace} matches {labels}")
    done = []
    failed = False
    for word in dict.fromkeys(words):
        try:
            workflow = await find_workflow(session, word)
            done.append(await one(workflow))
            echo(f"workflow {name_of(workflow)} {verb}")
        except ApiError as error:
            warn(format_api_error(error))
            failed = True
        except CommandError as failure:
            warn(failure.message)
            failed = True
    if failed:
        raise CommandExit(1)
    return done


_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Error")


class WorkflowFilter(NamedTuple):
    running: bool = False
    completed: bool = False
    phases: tuple[str, ...] = ()
    prefix: str = ""
    since: datetime | None = None
    """Only workflows created after this time."""
    older: datetime | None = None
    """Only workflows that ended before this time."""


@on_cluster
async def list_workflows(
    session: Session,
    running: Annotated[bool, typer.Option("--running", help="Show only workflows that have not finished.")] = False,
    completed: Annotated[bool, typer.Option("--completed", help="Show only finished workflows.")] = False,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Show only workflows in these phases, as in Failed,Error.")
    ] = None,
    since: Annotated[
        str, typer.Option("--since", help="Show only workflows created within this time, as in 10m.")
    ] = "",
    older: Annotated[
        str, typer.Option("--older", help="Show only workflows that finished longer ago than this, as in 2h.")
    ] = "",
    prefix: Annotated[str, typer.Option("--prefix", help="Show only workflows whose names start with this.")] = "",
    selector: LabelSelector = "",
    all_namespaces: AllNamespaces = False,
    output: Annotated[str, typer.Option("--output", "-o", help="Output format: wide, name, yaml or json.")] = "",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print headers.")] = False,
) -> None:
    """List workflows, running ones first."""
    now = datetime.now(UTC)
    wanted = WorkflowFilter(
        running=running,
        completed=completed,
        phases=_parse_phases(status or ()),
        prefix=prefix,
        since=now - timedelta(seconds=parse_duration(since, "--since")) if since else None,
        older=now - timedelta(seconds=parse_duration(older, "--older")) if older else None,
    )
    if running and completed:
        raise CommandError("--running and --completed cannot be combined")
    format = parse_format(output)
    namespace = "" if all_namespaces else session.namespace
    found = sort_workflows(
        one for one in await list_workflow_summaries(session, namespace, selector) if matches_filter(one, wanted)
    )
    if not format.is_table:
        kind = workflow_kind()
        if format.kind != "name":
            found = [await session.cluster.get(kind, name_of(one), namespace_of(one)) for one in found]
        echo(format_objects(format, [(kind, one) for one in found], single=False).removesuffix("\n"))
        return
    if not found:
        warn("No workflows found" + (f" in namespace {namespace}" if namespace else ""))
        return
    wide = format.kind == "wide"
    writer = TableWriter(_headers(wide, all_namespaces), show_headers=not no_headers)
    lines = writer.lines(workflow_row(one, now, wide=wide, with_namespace=all_namespaces) for one in found)
    coloured = supports_color()
    head = 0 if no_headers else 1
    echo(
        "\n".join(
            [
                *lines[:head],
                *(_colorize_row(line, one, coloured) for line, one in zip(lines[head:], found, strict=True)),
            ]
        )
    )


def matches_filter(workflow: Object, wanted: WorkflowFilter) -> bool:
    if wanted.running and is_finished(workflow):
        return False
    if wanted.completed and not is_finished(workflow):
        return False
    if wanted.phases and phase_of(workflow) not in wanted.phases:
        return False
    if not name_of(workflow).startswith(wanted.prefix):
        return False
    created, finished = meta(workflow).get("creationTimestamp"), status_of(workflow).get("finishedAt")
    if wanted.since is not None and not (created and parse_time(created) > wanted.since):
        return False
    return wanted.older is None or bool(finished and parse_time(finished) < wanted.older)


def sort_workflows(workflows: Iterable[Object]) -> list[Object]:
    """Sorts running workflows first (newest first), then finished ones (latest end first)."""
    found = sorted(workflows, key=creation_order, reverse=True)
    found.sort(key=lambda one: str(status_of(one).get("finishedAt") or ""), reverse=True)
    return sorted(found, key=lambda one: bool(status_of(one).get("finishedAt")))


def workflow_row(workflow: Object, now: datetime, *, wide: bool = False, with_namespace: bool = False) -> list[str]:
    status, spec = status_of(workflow), spec_of(workflow)
    cells = [
        name_of(workflow),
        status_word(workflow),
        format_age(workflow, now),
        format_workflow_time(status, now),
        str(spec.get("priority") or 0),
        " ".join(str(status.get("message") or "").split()),
    ]
    if with_namespace:
        cells.insert(0, namespace_of(workflow))
    if wide:
        given = (spec.get("arguments") or {}).get("parameters") or ()
        shown = ",".join(f"{p.get('name')}={_clip(str(p['value']))}" for p in given if p.get("value") is not None)
        cells[-1:] = [str(status.get("progress") or ""), shown, cells[-1]]
    return cells


def _headers(wide: bool, with_namespace: bool) -> list[str]:
    more = ["PROGRESS", "PARAMETERS"] if wide else []
    return [
        *(["NAMESPACE"] if with_namespace else []),
        "NAME",
        "STATUS",
        "AGE",
        "DURATION",
        "PRIORITY",
        *more,
        "MESSAGE",
    ]


def _colorize_row(line: str, workflow: Object, on: bool) -> str:
    word = status_word(workflow)
    return line.replace(word, colorize(word, STYLES.get(phase_of(workflow), ""), on=on), 1) if on else line


def _parse_phases(given: Iterable[str]) -> tuple[str, ...]:
    phases = tuple(part.strip().capitalize() for text in given for part in text.split(",") if part.strip())
    for phase in phases:
        if phase not in _PHASES:
            raise CommandError(f'--status: "{phase}" is not a phase; use one of {", ".join(_PHASES)}')
    return phases


def _clip(text: str) -> str:
    return text if len(text) <= 50 else f"{text[:32]}...{text[-15:]}"
