"""`muster lint`: reports mistakes in workflows and templates, with file and line, before anything runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import echo, warn
from muster.cli.session import ContextName, Debug, Kubeconfig, Namespace, configure_logging, connect, home
from muster.kube.errors import Cause
from muster.kube.objects import Object, meta, name_of

if TYPE_CHECKING:
    from muster.kube.manifests import Document

_KINDS = ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow")


def lint(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, directories (searched recursively), or - for stdin.")
    ],
    offline: Annotated[bool, typer.Option("--offline", help="Do not use the running cluster.")] = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
    debug: Debug = False,
) -> None:
    """Check workflows and templates for mistakes.

    No cluster is needed. Referenced templates are looked up in the files, and in the cluster if one runs. The exit code
    is 0 if there are no mistakes, and 1 otherwise.
    """
    configure_logging(debug)
    documents, unreadable = read_documents(files)
    known = [] if offline else asyncio.run(_list_templates(kubeconfig, context, namespace))
    checked, found = check_documents(documents, known)
    mistakes = [*unreadable, *found]
    checked += len(unreadable)
    for line in (*find_nameless(documents), *find_ignored_fields(documents)):
        warn(f"Warning: {line}")
    for line in mistakes:
        echo(line)
    if mistakes:
        count = f"{len(mistakes)} mistake{'s' * (len(mistakes) > 1)}"
        echo(f"{count} in {checked} object{'s' * (checked > 1)}")
        raise CommandExit(1)
    if not checked:
        others = sorted({str(document.object.get("kind")) for document in documents})
        for document in documents:
            near = get_close_matches(str(document.object.get("kind")), _KINDS, n=1, cutoff=0.8)
            if near:
                kind = document.object.get("kind")
                raise CommandError(f'{document.where("kind")} kind: unknown kind "{kind}"; did you mean "{near[0]}"?')
        hint = f", but {', '.join(others)}; check and run them with `muster run FILE`" if others else ""
        raise CommandError(f"no workflows, templates or cron workflows found in {', '.join(files)}{hint}")
    echo(f"{checked} object{'s' * (checked > 1)}, no mistakes")


def read_documents(files: Iterable[str]) -> tuple[list[Document], list[str]]:
    """Returns the documents of the files, and an error for each file that cannot be read. What a directory has besides
    manifests, such as a file with parameters, is skipped with a warning."""
    from muster.cli.selection import read_manifests
    from muster.kube.manifests import ManifestError, find_manifest_files

    documents: list[Document] = []
    unreadable: list[str] = []
    given = list(files)
    for file in find_manifest_files(given):
        try:
            documents += read_manifests([file], named=False)
        except ManifestError as error:
            if file not in given and _is_other_data(file):
                warn(f"Warning: {file}: skipped, because it has neither apiVersion nor kind")
            else:
                unreadable.append(str(error))
    return documents, unreadable


def _is_other_data(file: str) -> bool:
    """Whether a file can be read, but is none of Kubernetes."""
    from muster.kube.manifests import ManifestError, parse_values

    try:
        found = parse_values(Path(file).read_text("utf-8-sig"), file)
    except (ManifestError, OSError, UnicodeDecodeError):
        return False
    return not any(isinstance(each, dict) and each.keys() & {"apiVersion", "kind"} for each in found)


def find_nameless(documents: Iterable[Document]) -> list[str]:
    """Returns a line about each document without a name."""
    return [
        f"{document.where('metadata')} metadata.name: is missing; submit the workflow with --name"
        for document in documents
        if not (meta(document.object).get("name") or meta(document.object).get("generateName"))
    ]


def check_documents(documents: list[Document], known: Iterable[Object] = ()) -> tuple[int, list[str]]:
    """Returns the number of checked objects, and a line about each mistake. `known` are templates that exist
    already."""
    from muster.kube.schema_validation import validate
    from muster.workflows.kinds import workflow_kinds
    from muster.workflows.lint import find_problems

    kinds = {(kind.api_version, kind.kind): kind for kind in workflow_kinds()}
    templates = {
        (name_of(one), one.get("kind") == "ClusterWorkflowTemplate"): one
        for one in (*known, *(document.object for document in documents))
        if str(one.get("kind")).endswith("WorkflowTemplate")
    }

    def lookup(name: str, cluster_scope: bool) -> Object | None:
        return templates.get((name, cluster_scope))

    mistakes: list[str] = []
    checked = 0
    for document in documents:
        kind = kinds.get((str(document.object.get("apiVersion")), str(document.object.get("kind"))))
        if kind is None:
            continue
        checked += 1
        causes = validate(document.object, kind.schema) or find_problems(document.object, lookup if templates else None)
        mistakes += [_format_mistake(document, cause) for cause in causes]
    return checked, mistakes


def find_ignored_fields(documents: Iterable[Document]) -> list[str]:
    """Returns a line about each field that is accepted but has no effect, or probably not the intended one."""
    from muster.workflows.kinds import API_VERSION
    from muster.workflows.lint import find_warnings

    ours = [document for document in documents if document.object.get("apiVersion") == API_VERSION]
    return [_format_mistake(document, cause) for document in ours for cause in find_warnings(document.object)]


async def _list_templates(kubeconfig: str, context: str, namespace: str) -> list[Object]:
    """Returns the templates of the cluster; none if no cluster runs."""
    from muster.server.pidfile import running_server
    from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, WORKFLOW_TEMPLATE

    if not (kubeconfig or context) and running_server(home()) is None:
        return []
    async with connect(kubeconfig, context, namespace) as session:
        own = await session.cluster.list(WORKFLOW_TEMPLATE, session.namespace)
        shared = await session.cluster.list(CLUSTER_WORKFLOW_TEMPLATE)
        return [*own.items, *shared.items]


def _format_mistake(document: Document, cause: Cause) -> str:
    return f"{document.where(cause.field)} {cause.field}: {cause.message}"
