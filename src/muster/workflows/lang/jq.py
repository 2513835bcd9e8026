"""`jqFilter`: filters of jq, run by libjq in a process of their own.

A filter comes from a user: it may loop forever, fill the memory, or try to read the environment or files of the
server. libjq cannot be interrupted, so each filter runs in a process without environment and files, which the operating
system stops at its limits.

Argo runs filters with gojq. To agree with it, keys are sorted, numbers are printed as Go prints them, and `(?P<name>`
means `(?<name>`. docs/workflows.md lists the differences that remain.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import from_json, to_json
from muster.workflows.lang.limits import MAX_STRING, MAX_TEXT

_MAX_MEMORY = 256 * 1024 * 1024
_MAX_CPU_SECONDS = 5
_MAX_SECONDS = 15
_WORKER = Path(__file__).with_name("jq_worker.py")
_COMPILE_ERROR = re.compile(r"jq: error: (.*?) at <top-level>, line (\d+), column (\d+)")


class JqError(ValueError):
    """A filter is invalid, fails, or costs too much; the message says why."""


def jq(text: str, value: Any) -> list[Any]:
    """Returns all results of a filter. Blocks until it ends, so do not call it on an event loop.

    Raises JqError if the filter is invalid, fails, or costs too much.
    """
    if len(text) > MAX_TEXT:
        raise JqError(f"a filter of {len(text)} characters is too long (at most {MAX_TEXT})")
    results: list[Any] = []
    for line in _run(text or ".", value):
        if "error" in line:
            raise JqError(_describe(str(line["error"])))
        results.append(line["value"])
    return results


def jq_text(text: str, value: Any) -> str:
    """Returns the results as the value of a parameter, as Argo writes it: a line each, strings without quotes."""
    found = (result if isinstance(result, str) else to_json(result, escape_html=False) for result in jq(text, value))
    return "\n".join(found).strip()


def _run(text: str, value: Any) -> list[dict[str, Any]]:
    """Returns the lines that the worker writes."""
    task = to_json({"filter": text.replace("(?P<", "(?<"), "input": to_json(value, escape_html=False)})
    library = find_spec("jq")
    if library is None or library.origin is None:
        raise JqError("the library jq is not installed: pip install jq")
    limits = map(str, (_MAX_MEMORY, _MAX_CPU_SECONDS, MAX_STRING))
    command = [sys.executable, "-I", "-S", str(_WORKER), str(Path(library.origin).parent), *limits]
    try:
        done = subprocess.run(
            command, input=task.encode(), capture_output=True, timeout=_MAX_SECONDS, env={}, check=False
        )
    except subprocess.TimeoutExpired:
        raise JqError(f"the filter takes more than {_MAX_SECONDS} seconds") from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise JqError(f"the filter takes more than {_MAX_CPU_SECONDS} seconds")
    if done.returncode:
        raise JqError(f"the filter needs more than {_MAX_MEMORY // 1024**2} MiB of memory, or nests too deeply")
    try:
        return [from_json(line) for line in done.stdout.decode("utf-8", "replace").split("\n") if line]
    except ExpressionError as error:
        raise JqError(error.message) from None


def _describe(message: str) -> str:
    """Returns libjq's message with the position in the filter, which starts on the second line of the program."""
    found = _COMPILE_ERROR.search(message)
    if found is None:
        return message.removeprefix("jq: error: ").split("\n")[0]
    what, line, column = found.groups()
    return f"{what} (line {int(line) - 1}, column {column})"
