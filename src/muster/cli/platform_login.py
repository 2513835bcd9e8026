"""`muster login`, `logout` and `openapi`, and the connection of every platform command.

The platform is the one of MUSTER_URL and MUSTER_TOKEN, else that of `muster login`, else the embedded one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo
from muster.cli.session import home
from muster.sdk import Muster, PlatformError

# Merged from logins: Which platform the commands are for, if not the one in the box: `muster login` and `muster
# logout`.
#
# The address and a token are in ~/.config/muster/login.json, which nobody else can read.


class Login(NamedTuple):
    url: str
    token: str


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the platform is, as in https://muster.example.")],
    token: Annotated[
        str, typer.Option("--token", help="An API token; - reads it from stdin. Asked for if left out.")
    ] = "",
) -> None:
    """Choose the platform that workflows, modules, runs, users ... are on, and who you are there."""
    from muster.sdk import Muster

    secret = _asked_for(token).strip()
    with platform_errors():
        me = Muster(url, secret).users.me()
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"url": url.rstrip("/"), "token": secret}, file)
    draft.rename(path)
    echo(f"you are {me.user.name} ({me.user.role}) at {url}")


def logout() -> None:
    """Forget that platform; the commands are for the one in the box again."""
    known = stored_login()
    _file().unlink(missing_ok=True)
    echo(
        f"forgot {known.url}; its token still works until it is revoked there"
        if known
        else "there was nothing to forget"
    )


def stored_login() -> Login | None:
    path = _file()
    try:
        said = json.loads(path.read_text())
        return Login(said["url"], said["token"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"error: {path} cannot be read; remove it, and log in again with `muster login`") from None


def _asked_for(token: str) -> str:
    if token == "-":  # noqa: S105 (it means stdin)
        token = sys.stdin.readline()
    elif not token and sys.stdin.isatty():
        token = str(typer.prompt("API token", hide_input=True))
    if not token.strip():
        raise CommandError("error: there is no token: put it behind --token, or write --token - and send it to stdin")
    return token


def _file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "muster" / "login.json"


# Merged from platform: How a command reaches the platform: the one of MUSTER_URL and MUSTER_TOKEN, else that of
# `muster login`, else the
# one in the box.


@contextmanager
def connect_platform() -> Iterator[Muster]:
    """What the server refuses ends the command with its words, one line for each field at fault."""
    with platform_errors():
        yield _find_platform()


@contextmanager
def platform_errors() -> Iterator[None]:
    try:
        yield
    except PlatformError as error:
        named = [f"{fault.field}: {fault.message}" for fault in error.errors if fault.field]
        raise CommandError("\n".join(["error: " + (error.detail if not named else "it was refused"), *named])) from None


def read_version_file(file: str) -> dict[str, Any] | str:
    """Of a version: a graph document, in JSON or YAML, or the text of an Argo Workflow."""
    from muster.kube.manifests import ManifestError, load_manifests, parse_values

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        values = parse_values(text, file)
        if len(values) == 1 and isinstance(values[0], dict) and "pipelineInfo" in values[0]:
            load_manifests(text, file)  # a pipeline of Kubeflow Pipelines: refused with what to do instead
    except OSError as error:
        raise CommandError(f"error: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"error: {file}: this is not UTF-8 text") from None
    except ManifestError as error:
        raise CommandError(str(error)) from None
    if len(values) != 1 or not isinstance(values[0], dict):
        raise CommandError(f"error: {file} has to hold one graph document, or one Argo Workflow")
    value: dict[str, Any] = values[0]
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind and version and kind != "Workflow":
        raise CommandError(
            f"error: {file} holds a {kind} ({version}), neither a graph document nor an Argo Workflow; "
            f"`muster run {file}` runs it, `muster apply -f {file}` stores it as it is"
        )
    return text if kind == "Workflow" else value


def _find_platform() -> Muster:
    url, token = os.environ.get("MUSTER_URL", ""), os.environ.get("MUSTER_TOKEN", "")
    if url:
        if not token:
            raise CommandError("error: MUSTER_URL is set; set MUSTER_TOKEN to an API token, too")
        return Muster(url, token)
    login = stored_login()
    if login is not None:
        return Muster(login.url, token or login.token)
    from muster.platform.users.local_secrets import local_token, platform_folder
    from muster.server.pidfile import running_server

    there = running_server(home())
    if there is None or not there.web:
        raise CommandError("no platform is running; start one with `muster up`, or choose another with `muster login`")
    token = token or local_token(platform_folder(home()))
    if not token:
        raise CommandError("error: you cannot read the token of this box; set MUSTER_TOKEN to an API token")
    return Muster(there.web, token)


# Merged from openapi: `muster openapi`: the platform's API in the form that generators of clients read.


def openapi() -> None:
    """Print the OpenAPI document of the platform's API."""
    from muster.server.platform.app import openapi_document

    echo(json.dumps(openapi_document(), indent=2, ensure_ascii=False, sort_keys=True))
