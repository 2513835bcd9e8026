"""What the platform commands share: command groups, options, lists of records, JSON and times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo, format_table

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SearchOption = Annotated[str, typer.Option("--search", "-q", help="Show only records that contain these words.")]
LimitOption = Annotated[int, typer.Option("--limit", help="Show at most this many.")]


def command_group(summary: str) -> typer.Typer:
    """A group of commands, such as `muster modules`."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True, help=summary)


def given_options(**options: Any) -> dict[str, Any]:
    """Returns the options that were given on the command line."""
    return {name: value for name, value in options.items() if value is not None}


def check_changes(changes: Mapping[str, Any], choices: str) -> None:
    """Raises an error that names the options if an edit changes nothing."""
    if not changes:
        raise CommandError(f"error: nothing to change; use {choices}")


def parse_pairs(option: str, given: Iterable[str] | None) -> list[tuple[str, str]]:
    """Splits the values of a repeated option, each written as NAME=VALUE."""
    pairs = []
    for each in given or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise CommandError(f'error: {option} must be NAME=VALUE, not "{each}"')
        pairs.append((name, value))
    return pairs


def print_records(records: list[Any], headers: list[str], rows: list[tuple[Any, ...]], as_json: bool) -> None:
    """Prints a list as a table of the rows, or the records as JSON."""
    if as_json:
        print_json([asdict(record) for record in records])
    else:
        echo("\n".join(format_table(headers, rows)))


def print_json(value: Any) -> None:
    echo(json.dumps(value, indent=2, ensure_ascii=False, default=lambda one: one.isoformat()))


def format_time(at: datetime | None) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else ""


def split_version(word: str) -> tuple[str, str]:
    """Splits NAME[@VERSION]. Without a version, it is `latest`."""
    name, _, version = word.partition("@")
    return name, version or "latest"
