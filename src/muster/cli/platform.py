"""How a command reaches the platform: the one of MUSTER_URL and MUSTER_TOKEN, else that of `muster login`, else the
one in the box."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muster.cli.failures import Failure
from muster.cli.logins import stored_login
from muster.cli.session import home
from muster.sdk import Muster, PlatformError


@contextmanager
def platform() -> Iterator[Muster]:
    """What the server refuses ends the command with its words, one line for each field at fault."""
    with explained():
        yield _found()


@contextmanager
def explained() -> Iterator[None]:
    try:
        yield
    except PlatformError as error:
        named = [f"{fault.field}: {fault.message}" for fault in error.errors if fault.field]
        raise Failure("\n".join(["error: " + (error.detail if not named else "it was refused"), *named])) from None


def content_of(file: str) -> dict[str, Any] | str:
    """Of a version: a graph document, in JSON or YAML, or the text of an Argo Workflow."""
    from muster.kube.manifests import ManifestError, load, values_in

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        values = values_in(text, file)
        if len(values) == 1 and isinstance(values[0], dict) and "pipelineInfo" in values[0]:
            load(text, file)  # a pipeline of Kubeflow Pipelines: refused with what to do instead
    except OSError as error:
        raise Failure(f"error: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"error: {file}: this is not UTF-8 text") from None
    except ManifestError as error:
        raise Failure(str(error)) from None
    if len(values) != 1 or not isinstance(values[0], dict):
        raise Failure(f"error: {file} has to hold one graph document, or one Argo Workflow")
    value: dict[str, Any] = values[0]
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind and version and kind != "Workflow":
        raise Failure(
            f"error: {file} holds a {kind} ({version}), neither a graph document nor an Argo Workflow; "
            f"`muster run {file}` runs it, `muster apply -f {file}` stores it as it is"
        )
    return text if kind == "Workflow" else value


def _found() -> Muster:
    url, token = os.environ.get("MUSTER_URL", ""), os.environ.get("MUSTER_TOKEN", "")
    if url:
        if not token:
            raise Failure("error: MUSTER_URL is set; set MUSTER_TOKEN to an API token, too")
        return Muster(url, token)
    login = stored_login()
    if login is not None:
        return Muster(login.url, token or login.token)
    from muster.platform.users.local_secrets import local_token, platform_folder
    from muster.server.presence import running

    there = running(home())
    if there is None or not there.web:
        raise Failure("no platform is running; start one with `muster up`, or choose another with `muster login`")
    token = token or local_token(platform_folder(home()))
    if not token:
        raise Failure("error: you cannot read the token of this box; set MUSTER_TOKEN to an API token")
    return Muster(there.web, token)
