"""Options that several commands share, and the decorator that connects a command to its cluster."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from muster.cli.errors import CommandError
from muster.cli.session import Session, connect

# Merged from options: Options that several commands share, and the decorator that gives a command its cluster.


P = ParamSpec("P")

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace; default: that of the context.")]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="A kubeconfig file, to talk to another cluster than the one in the box.")
]
ContextName = Annotated[str, typer.Option("--context", help="The context of the kubeconfig to use.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and what goes on inside.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")]
LabelSelector = Annotated[
    str, typer.Option("--selector", "-l", help="Only objects with these labels, as in app=x,tier!=y.")
]
FieldSelector = Annotated[str, typer.Option("--field-selector", help="Only objects with these fields.")]
Files = Annotated[
    list[str] | None, typer.Option("--filename", "-f", help="A file, a directory, or - for stdin; may be repeated.")
]
Gang = Annotated[
    bool, typer.Option("--gang", help="Every job is a gang: no member starts before there is room for all of them.")
]
Timeout = Annotated[str, typer.Option("--timeout", help="How long to wait, as in 30s or 5m.")]


def on_cluster(function: Callable[Concatenate[Session, P], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes `async def command(session, ...)` a command with --namespace, --kubeconfig, --context and --debug."""

    @functools.wraps(function)
    def command(
        *args: Any, namespace: str = "", kubeconfig: str = "", context: str = "", debug: bool = False, **kwargs: Any
    ) -> None:
        configure_logging(debug)

        async def connected() -> None:
            async with connect(kubeconfig, context, namespace) as session:
                await function(session, *args, **kwargs)

        asyncio.run(connected())

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in (
            ("namespace", Namespace, ""),
            ("kubeconfig", Kubeconfig, ""),
            ("context", ContextName, ""),
            ("debug", Debug, False),
        )
    ]
    # The parser reads a command's options from its signature.
    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    del command.__wrapped__
    return command


def configure_logging(debug: bool, *, service: bool = False) -> None:
    """A command says what it has to say itself; a service is read about in its log."""
    level = logging.DEBUG if debug else logging.WARNING if service else logging.CRITICAL
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


# Merged from durations: Spans of time as people type them on a command line: `30s`, `5m`, `1h30m`, or bare seconds.


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(text: str, option: str = "the duration") -> float:
    """`option` is named in the error."""
    wanted = text.strip()
    negative = wanted.startswith("-")
    digits = wanted.removeprefix("-")
    if re.fullmatch(r"\d+(\.\d+)?", digits):
        total = float(digits)
    elif digits and re.fullmatch(f"(?:{_PART.pattern})+", digits):
        total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(digits))
    else:
        raise CommandError(f'{option}: "{text}" is not a duration; write it like 30s, 5m or 1h30m')
    return -total if negative else total
