"""`muster export` and `muster import`: workflows, modules and settings, from one platform to another."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import echo, warn
from muster.cli.platform import connect_platform

if TYPE_CHECKING:
    from muster.sdk.archive import SecretKey


def export_archive(
    file: Annotated[str, typer.Option("--output-file", "-o", help="The archive to write.")] = "muster-export.tar.gz",
    mine: Annotated[
        bool, typer.Option("--mine", help="Only your own workflows and modules, also as an admin.")
    ] = False,
    workflow: Annotated[
        list[str] | None, typer.Option("--workflow", help="Only this workflow, by name or id; may be repeated.")
    ] = None,
    secrets: Annotated[
        str,
        typer.Option("--secrets", help="Also write the values of secrets to this file, unencrypted, for you alone."),
    ] = "",
) -> None:
    """Export workflows, modules and settings of the platform to an archive.

    Workflows are exported with all their versions. Admins export everything: also teams, categories, virtual clusters
    and storage roots. Other users export their own workflows and modules. The archive has no values of secrets. Runs
    and accounts are not exported.
    """
    from muster.sdk.archive import export_platform, write_archive, write_secrets

    target = Path(file)
    with connect_platform() as muster:
        archive, values = export_platform(muster, only_own=mine, workflows=workflow or (), say=warn)
    draft = target.with_name(f"{target.name}.new")
    try:
        with draft.open("wb") as opened:
            write_archive(archive, opened)
        draft.replace(target)
        if secrets:
            write_secrets({key: value for key, value in values.items() if value}, Path(secrets))
    except OSError as error:
        raise CommandError(f"error: {error.filename or target}: {error.strerror}") from None
    echo(f"{target} written ({target.stat().st_size / 1000:.1f} kB)")
    _report_secrets(values, secrets)


def import_archive(
    file: Annotated[str, typer.Argument(metavar="ARCHIVE", help="What `muster export` has written.")],
    secrets: Annotated[
        str, typer.Option("--secrets", help="The file of secrets that `muster export --secrets` has written.")
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Change settings that exist and differ from the archive.")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for the builds of modules.")
    ] = 1800.0,
) -> None:
    """Import an archive of another platform.

    It can be repeated: what is there already is left alone. What is imported belongs to you. Only admins import
    settings. Modules are built again, at the same commits, and have to be reviewed again. Exits with 1 if something
    could not be imported.
    """
    from muster.sdk.archive import ArchiveError, Import, read_archive, read_secrets

    try:
        archive = read_archive(Path(file))
        values = read_secrets(Path(secrets)) if secrets else {}
    except ArchiveError as error:
        raise CommandError(f"error: {error}") from None
    counts: Counter[str] = Counter()
    with connect_platform() as muster:
        for step in Import(muster, archive, values, overwrite=overwrite, wait_seconds=wait).run():
            counts[step.result] += 1
            line = f"{step.what} {step.result}{f': {step.why}' if step.why else ''}"
            warn(line) if step.result == "skipped" else echo(line)
    echo(", ".join(f"{number} {result}" for result, number in counts.items()) or "the archive is empty")
    if counts["skipped"]:
        raise CommandExit(1)


def _report_secrets(values: dict[SecretKey, str], file: str) -> None:
    if not values:
        return
    hidden = [key for key, value in values.items() if not value]
    if file:
        warn(f"{len(values) - len(hidden)} values of secrets are in {file}: keep it private, then delete it")
    for key in sorted(hidden if file else values):
        warn(f"left out: the secret of {key}")
