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
    """Ends the command: the message goes to stderr as it is, without a traceback."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class CommandExit(Exception):
    """Ends the command with an exit code of its own; whatever there was to say has been said."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


def format_api_error(error: ApiError) -> str:
    """What the API refused, as kubectl words it."""
    if error.reason == "ServiceUnavailable":
        return f"error: {error.message}"
    return f"Error from server ({error.reason}): {error.message}"


def format_document_error(error: ApiError, document: Document) -> str:
    """The same where the object came from a file: one line per field at fault, `train.yaml:14 spec.x: ...`."""
    named = [cause for cause in error.causes if cause.field]
    missing = re.fullmatch(r'namespaces "([^"]+)" not found', error.message)
    if missing:
        where, name = document.where("metadata.namespace"), missing[1]
        return f'{where} metadata.namespace: there is no namespace "{name}"; `muster create namespace {name}` makes one'
    if not named:
        return f"{document.where('')} {error.message}"
    return "\n".join(f"{document.where(cause.field)} {cause.field}: {cause.message}" for cause in named)


def describe_error(error: Exception) -> str:
    """Any other error, for a person. What is neither the API's answer nor the system's is our bug, and says so."""
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
        return f"error: {_lowered(error)}; free some{_data_directory()}"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"error: {error.filename}: {_lowered(error)}{_if_at_home(error)}"
    if isinstance(error, OSError):
        return f"error: {error}"
    return f"error: {type(error).__name__}: {error}\nThis is a bug in muster; `--debug` shows where."


def _if_at_home(error: OSError) -> str:
    from muster.cli.session import home

    if not Path(str(error.filename)).is_relative_to(home()):
        return ""
    return _data_directory()


def _data_directory() -> str:
    from muster.cli.session import home

    return f"; the data directory is {home()}, and MUSTER_HOME says where else it is"


def _lowered(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
