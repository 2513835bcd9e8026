"""Options and output that the platform commands share: lists of records, JSON and times."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from muster.cli.output import echo, format_table

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SearchOption = Annotated[str, typer.Option("--search", "-q", help="Show only records that contain these words.")]
LimitOption = Annotated[int, typer.Option("--limit", help="Show at most this many.")]


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
