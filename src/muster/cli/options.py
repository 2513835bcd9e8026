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

P = ParamSpec("P")

Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="The namespace. Default: the namespace of the context.")
]
Kubeconfig = Annotated[
    str,
    typer.Option("--kubeconfig", help="A kubeconfig file; the command uses its cluster instead of the embedded one."),
]
ContextName = Annotated[str, typer.Option("--context", help="The context of the kubeconfig.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug logs.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Use all namespaces.")]
LabelSelector = Annotated[str, typer.Option("--selector", "-l", help="Select objects by label, as in app=x,tier!=y.")]
FieldSelector = Annotated[
    str, typer.Option("--field-selector", help="Select objects by field, as in status.phase=Running.")
]
Files = Annotated[
    list[str] | None, typer.Option("--filename", "-f", help="A file, a directory, or - for stdin; may be repeated.")
]
Gang = Annotated[
    bool,
    typer.Option("--gang", help="Treat every training job as a gang: no member starts before there is room for all."),
]
Timeout = Annotated[str, typer.Option("--timeout", help="How long to wait, as in 30s or 5m.")]


def on_cluster(function: Callable[Concatenate[Session, P], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turns `async def command(session, ...)` into a command with --namespace, --kubeconfig, --context and --debug."""

    @functools.wraps(function)
    def command(
        *args: Any, namespace: str = "", kubeconfig: str = "", context: str = "", debug: bool = False, **kwargs: Any
    ) -> None:
        configure_logging(debug)

        async def run_connected() -> None:
            async with connect(kubeconfig, context, namespace) as session:
                await function(session, *args, **kwargs)

        asyncio.run(run_connected())

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
    # Typer reads the options of a command from its signature.
    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    del command.__wrapped__
    return command


def configure_logging(debug: bool, *, service: bool = False) -> None:
    """Shows debug logs with --debug, warnings for a service, and otherwise nothing: commands print their own errors."""
    level = logging.DEBUG if debug else logging.WARNING if service else logging.CRITICAL
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(text: str, option: str = "the duration") -> float:
    """Returns the seconds of `30s`, `5m`, `1h30m` or a plain number. An error names the `option`."""
    wanted = text.strip()
    negative = wanted.startswith("-")
    digits = wanted.removeprefix("-")
    if re.fullmatch(r"\d+(\.\d+)?", digits):
        total = float(digits)
    elif digits and re.fullmatch(f"(?:{_PART.pattern})+", digits):
        total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(digits))
    else:
        raise CommandError(f'{option}: "{text}" is not a duration; use a value such as 30s, 5m or 1h30m')
    return -total if negative else total
