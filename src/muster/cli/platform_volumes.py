"""`muster volumes`: volumes, and the files in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo
from muster.cli.platform import (
    JsonOption,
    LimitOption,
    SearchOption,
    command_group,
    connect_platform,
    format_time,
    print_json,
    print_records,
)

if TYPE_CHECKING:
    from muster.sdk import Muster

volumes_app = command_group("Manage volumes, and copy files to and from them.")

_Volume = Annotated[str, typer.Argument(metavar="VOLUME", help="The volume: NAME, or NAMESPACE/NAME.")]
_Place = Annotated[str, typer.Argument(metavar="VOLUME[:PATH]", help="A volume, or a path in it.")]
_UNITS = ("KiB", "MiB", "GiB", "TiB")


class Place(NamedTuple):
    """A path in a volume."""

    volume: str
    path: str


def parse_place(text: str) -> Place | None:
    """Returns the place that `VOLUME:PATH` names; None for a path of this machine, as in `./a:b`."""
    volume, colon, path = text.partition(":")
    if not colon or not volume or volume.startswith((".", "/", "~")) or volume.count("/") > 1:
        return None
    return Place(volume, path.strip("/"))


@volumes_app.command("list")
def list_volumes(q: SearchOption = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List volumes and what uses them."""
    with connect_platform() as muster:
        found = list(muster.volumes.list(q=q, most=most))
    rows = [
        (
            volume.name,
            volume.namespace,
            volume.state,
            volume.size,
            ",".join(_SHORT_MODES.get(mode, mode) for mode in volume.access_modes),
            volume.team_name or volume.owner_name or "",
            ", ".join(f"{use.kind} {use.name}" for use in volume.used_by),
        )
        for volume in found
    ]
    print_records(found, ["NAME", "NAMESPACE", "STATE", "SIZE", "ACCESS", "OWNER", "USED BY"], rows, as_json)


@volumes_app.command("create")
def create_volume(
    name: Annotated[str, typer.Argument(help="The name of the volume.")],
    size: Annotated[str, typer.Option("--size", help="Its size, as in 10Gi.")] = "10Gi",
    access: Annotated[
        str, typer.Option("--access", help="ReadWriteMany, ReadWriteOnce, ReadOnlyMany or ReadWriteOncePod.")
    ] = "ReadWriteMany",
    team: Annotated[str, typer.Option("--team", help="The team to share it with.")] = "",
) -> None:
    """Create a volume."""
    from muster.workspaces.volumes import ACCESS_MODES

    mode = next((mode for mode in ACCESS_MODES if access.lower() in (mode.lower(), _SHORT_MODES[mode].lower())), None)
    if mode is None:
        raise CommandError(f'error: "{access}" is not an access mode; use one of {", ".join(ACCESS_MODES)}')
    with connect_platform() as muster:
        made = muster.volumes.create(name, size, access_mode=mode, team=team)
    echo(f"{made.namespace}/{made.name} created")


@volumes_app.command("delete")
def delete_volume(volume: _Volume) -> None:
    """Delete a volume with its files; refused while something uses it."""
    with connect_platform() as muster:
        found = _resolve(muster, volume)
        muster.volumes.delete(found)
    echo(f"{found} deleted")


@volumes_app.command("ls")
def list_files(place: _Place, as_json: JsonOption = False) -> None:
    """List a folder of a volume."""
    volume, path = parse_place(place) or Place(place, "")
    with connect_platform() as muster:
        found = list(muster.volumes.files(_resolve(muster, volume), path))
    rows = [
        (
            format_size(entry.size) if entry.kind == "file" else "",
            format_time(entry.modified),
            entry.name + ("/" if entry.kind == "folder" else " (link)" if entry.kind == "link" else ""),
        )
        for entry in found
    ]
    print_records(found, ["SIZE", "MODIFIED", "NAME"], rows, as_json)


@volumes_app.command("du")
def show_usage(place: _Place, as_json: JsonOption = False) -> None:
    """Show how much is stored in a volume, or below a path in it."""
    volume, path = parse_place(place) or Place(place, "")
    with connect_platform() as muster:
        used = muster.volumes.usage(_resolve(muster, volume), path)
    if as_json:
        print_json(asdict(used))
        return
    least = "" if used.complete else "at least "
    echo(f"{least}{format_size(used.bytes)} in {used.files} files and {used.folders} folders")


@volumes_app.command("rm")
def remove_file(place: Annotated[str, typer.Argument(metavar="VOLUME:PATH", help="A file or folder.")]) -> None:
    """Delete a file of a volume, or a folder with everything in it."""
    found = parse_place(place)
    if found is None or not found.path:
        raise CommandError(f'error: "{place}" is not a file of a volume; use VOLUME:PATH')
    with connect_platform() as muster:
        muster.volumes.delete_file(_resolve(muster, found.volume), found.path)
    echo(f"{place} deleted")


@volumes_app.command("cp")
def copy_files(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="VOLUME:PATH, or a path of this machine.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="VOLUME:PATH, or a path of this machine.")],
) -> None:
    """Copy a file or folder to or from a volume.

    A folder is copied with everything in it. Existing files are replaced.
    """
    there, here = parse_place(source), parse_place(target)
    if (there is None) == (here is None):
        raise CommandError(
            "error: one of SOURCE and TARGET has to be in a volume, as in data:models/a.bin, and the other one not"
        )
    with connect_platform() as muster:
        if there is not None:
            _download(muster, Place(_resolve(muster, there.volume), there.path), Path(target))
        elif here is not None:
            _upload(muster, Path(source), Place(_resolve(muster, here.volume), here.path), target.endswith(("/", ":")))


def _download(muster: Muster, place: Place, target: Path) -> None:
    if muster.volumes.is_folder(*place):
        name = place.path.rpartition("/")[2] or place.volume.partition("/")[2]
        folder = target / name if target.is_dir() else target
        count, left_out = muster.volumes.download_folder(place.volume, place.path, folder)
        echo(f"{count} files copied to {folder}")
        for name in left_out:
            echo(f"not copied, because it is a link or a special file: {name}")
        return
    file = target / place.path.rpartition("/")[2] if target.is_dir() else target
    size = muster.volumes.download(place.volume, place.path, file)
    echo(f"{format_size(size)} copied to {file}")


def _upload(muster: Muster, source: Path, place: Place, into: bool) -> None:
    if not source.exists():
        raise CommandError(f'error: there is no file or folder "{source}"')
    if into or not place.path or muster.volumes.is_folder(*place):
        place = Place(place.volume, f"{place.path}/{source.resolve().name}".lstrip("/"))
    if source.is_file():
        with source.open("rb") as content:
            entry = muster.volumes.upload(place.volume, place.path, content)
        echo(f"{format_size(entry.size)} copied to {place.volume}:{place.path}")
        return
    count = 0
    for path, name in _walk(source):
        remote = f"{place.path}/{name}".rstrip("/")
        if path.is_dir():
            if not muster.volumes.is_folder(place.volume, remote):
                muster.volumes.make_folder(place.volume, remote)
        else:
            with path.open("rb") as content:
                muster.volumes.upload(place.volume, remote, content)
            count += 1
    echo(f"{count} files copied to {place.volume}:{place.path}")


def _walk(source: Path) -> Iterator[tuple[Path, str]]:
    """Yields folders and regular files, a folder before its content, with names relative to `source`. Links to folders
    are not followed."""
    for folder, names, files in os.walk(source):
        names.sort()
        relative = os.path.relpath(folder, source)
        prefix = "" if relative == "." else f"{relative}/"
        yield Path(folder), prefix.rstrip("/")
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_file():
                yield path, f"{prefix}{name}"


def format_size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in _UNITS:
        value /= 1024
        if value < 1024 or unit == _UNITS[-1]:
            break
    return f"{value:.1f} {unit}"


def _resolve(muster: Muster, volume: str) -> str:
    found = muster.volumes.find(volume)
    return f"{found.namespace}/{found.name}"


_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadWriteMany": "RWX", "ReadOnlyMany": "ROX", "ReadWriteOncePod": "RWOP"}
