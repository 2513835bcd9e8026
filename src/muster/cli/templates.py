"""`muster templates`: lists, prints and installs the WorkflowTemplates that come with Muster."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from muster.cli.apply import apply_object, resolve_document
from muster.cli.errors import CommandError, CommandExit, format_document_error
from muster.cli.output import echo, format_table, warn
from muster.cli.session import Session, on_cluster, resource_name
from muster.kube.errors import ApiError
from muster.kube.objects import annotations_of, name_of
from muster.workflows.bundled import bundle_files, list_bundles, load_bundle

DESCRIPTION = "workflows.argoproj.io/description"

templates_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Install the WorkflowTemplates that come with Muster.",
)


def _check_bundle(bundle: str) -> str:
    bundles = list_bundles()
    if bundle in bundles:
        return bundle
    near = get_close_matches(bundle, bundles, n=1)
    hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(bundles)}"
    raise CommandError(f'error: there is no bundle of templates "{bundle}"; {hint}')


_Bundle = Annotated[
    str, typer.Argument(metavar="BUNDLE", callback=_check_bundle, help="A bundle that `muster templates list` shows.")
]


@templates_app.command("list")
def list_templates() -> None:
    """List the bundles and their templates."""
    rows = [
        (bundle, name_of(document.object), annotations_of(document.object).get(DESCRIPTION, ""))
        for bundle in list_bundles()
        for document in load_bundle(bundle)
    ]
    echo("\n".join(format_table(["BUNDLE", "TEMPLATE", "DESCRIPTION"], rows)))


@templates_app.command("show")
def show(bundle: _Bundle) -> None:
    """Print the manifests of a bundle, for example for `kubectl apply -f -`."""
    echo("---\n".join(path.read_text() for path in bundle_files(bundle)).rstrip())


@on_cluster
async def install(
    session: Session,
    bundle: _Bundle,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate the templates but store nothing.")] = False,
) -> None:
    """Create or update the templates of a bundle in a namespace."""
    await install_bundle(session, bundle, dry_run=dry_run)


async def install_bundle(session: Session, bundle: str, *, dry_run: bool = False) -> None:
    suffix = " (server dry run)" if dry_run else ""
    failed = False
    for document in load_bundle(bundle):
        try:
            kind, obj = await resolve_document(document, session)
        except CommandError:
            raise CommandError("error: the cluster has no WorkflowTemplates; install Argo Workflows first") from None
        try:
            change, _ = await apply_object(session.cluster, kind, obj, dry_run=dry_run)
        except ApiError as error:
            warn(format_document_error(error, document))
            failed = True
        else:
            echo(f"{resource_name(kind, name_of(obj))} {change}{suffix}")
    if failed:
        raise CommandExit(1)


templates_app.command("install")(install)
