"""How a command fails: one message for the user, with the file, line and field where there are any."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.kube.errors import ApiError
    from muster.kube.manifests import Document

NO_CLUSTER = "no cluster is running; start one with `muster up`, or run a file directly with `muster run FILE`"


class CommandError(Exception):
    """Ends the command. The message is printed to stderr as it is, without a traceback."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class CommandExit(Exception):
    """Ends the command with this exit code. All messages have been printed already."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


def format_api_error(error: ApiError) -> str:
    """Returns an error of the API in kubectl's words."""
    if error.reason == "ServiceUnavailable":
        return f"error: {error.message}"
    return f"Error from server ({error.reason}): {error.message}"


def format_document_error(error: ApiError, document: Document) -> str:
    """Returns an error about an object from a file: one line per invalid field, as in `train.yaml:14 spec.x: ...`."""
    named = [cause for cause in error.causes if cause.field]
    missing = re.fullmatch(r'namespaces "([^"]+)" not found', error.message)
    if missing:
        where, name = document.where("metadata.namespace"), missing[1]
        return (
            f'{where} metadata.namespace: namespace "{name}" does not exist; '
            f"create it with `muster create namespace {name}`"
        )
    if not named:
        return f"{document.where('')} {error.message}"
    return "\n".join(f"{document.where(cause.field)} {cause.field}: {cause.message}" for cause in named)


def describe_error(error: Exception) -> str:
    """Returns a message for any other error. Errors of neither the API nor the system are reported as bugs."""
    from muster.kube.errors import ApiError
    from muster.kube.manifests import ManifestError

    if isinstance(error, ExceptionGroup):
        return "\n".join(describe_error(e) for e in error.exceptions if isinstance(e, Exception))
    if isinstance(error, ManifestError):
        return str(error)
    if isinstance(error, ApiError):
        return format_api_error(error)
    if isinstance(error, ConnectionRefusedError):
        return NO_CLUSTER
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"error: {_lowercase_message(error)}; free some disk space{_format_data_directory()}"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"error: {error.filename}: {_lowercase_message(error)}{_format_home_hint(error)}"
    if isinstance(error, OSError):
        return f"error: {error}"
    return f"error: {type(error).__name__}: {error}\nThis is a bug in muster; --debug shows the traceback."


def _format_home_hint(error: OSError) -> str:
    from muster.cli.session import home

    if not Path(str(error.filename)).is_relative_to(home()):
        return ""
    return _format_data_directory()


def _format_data_directory() -> str:
    from muster.cli.session import home

    return f"; the data directory is {home()}; set MUSTER_HOME to use another one"


def _lowercase_message(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
