"""`muster login`, `logout` and `openapi`, and what all platform commands share: the connection, command groups,
options, lists of records, JSON and times.

The platform is the one in MUSTER_URL and MUSTER_TOKEN; if they are not set, the one of `muster login`; otherwise the
one that `muster up` runs on this machine. `muster login` stores the address and a token in ~/.config/muster/login.json,
which only its owner can read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo, format_table, warn

if TYPE_CHECKING:
    from muster.sdk import Muster


class Login(NamedTuple):
    url: str
    token: str


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="The platform's address, as in https://muster.example.")],
    token: Annotated[
        str, typer.Option("--token", help="An API token; - reads it from stdin. Without it, you are prompted.")
    ] = "",
) -> None:
    """Log in to a platform.

    The platform commands (workflows, runs, modules, users ...) then use it instead of the embedded one.
    """
    from muster.sdk import Muster

    secret = _read_token(token).strip()
    with platform_errors():
        me = Muster(url, secret).users.me()
    path = _login_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"url": url.rstrip("/"), "token": secret}, file)
    draft.rename(path)
    echo(f"logged in to {url} as {me.user.name} ({me.user.role})")


def logout() -> None:
    """Log out of the platform.

    The platform commands then use the embedded one again.
    """
    known = stored_login()
    _login_file().unlink(missing_ok=True)
    echo(
        f"logged out of {known.url}; the token stays valid until you revoke it there"
        if known
        else "you are not logged in"
    )


def openapi() -> None:
    """Print the OpenAPI document of the platform's API."""
    from muster.server.platform.app import openapi_document

    echo(json.dumps(openapi_document(), indent=2, ensure_ascii=False, sort_keys=True))


@contextmanager
def connect_platform() -> Iterator[Muster]:
    """Yields a client of the platform. A request that the platform refuses ends the command with a `CommandError`."""
    with platform_errors():
        yield _find_platform()


@contextmanager
def platform_errors() -> Iterator[None]:
    """Turns a `PlatformError` into a `CommandError` with one line for each invalid field."""
    from muster.sdk import PlatformError

    try:
        yield
    except PlatformError as error:
        fields = [f"{fault.field}: {fault.message}" for fault in error.errors if fault.field]
        detail = error.detail if not fields else "the platform refused the request"
        raise CommandError("\n".join([f"error: {detail}", *fields])) from None


def stored_login() -> Login | None:
    path = _login_file()
    try:
        content = json.loads(path.read_text())
        return Login(content["url"], content["token"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"error: {path} is damaged; delete it and log in again with `muster login`") from None


def read_version_file(file: str) -> dict[str, Any] | str:
    """Returns the content of a workflow version: a graph document, or the text of an Argo Workflow."""
    from muster.kube.manifests import ManifestError, load_manifests, parse_values

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        values = parse_values(text, file)
        if len(values) == 1 and isinstance(values[0], dict) and "pipelineInfo" in values[0]:
            load_manifests(text, file)  # raises: a Kubeflow pipeline, with what to do instead
    except OSError as error:
        raise CommandError(f"error: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"error: {file}: the file is not UTF-8 text") from None
    except ManifestError as error:
        raise CommandError(str(error)) from None
    if len(values) != 1 or not isinstance(values[0], dict):
        raise CommandError(f"error: {file} must contain exactly one graph document or one Argo Workflow")
    value: dict[str, Any] = values[0]
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind and version and kind != "Workflow":
        raise CommandError(
            f"error: {file} contains a {kind} ({version}), neither a graph document nor an Argo Workflow; "
            f"run it with `muster run {file}`, or create it with `muster apply -f {file}`"
        )
    return text if kind == "Workflow" else value


def _find_platform() -> Muster:
    from muster.sdk import Muster

    url, token = os.environ.get("MUSTER_URL", ""), os.environ.get("MUSTER_TOKEN", "")
    if url:
        if not token:
            raise CommandError("error: MUSTER_URL is set, but MUSTER_TOKEN is not; set it to an API token")
        return Muster(url, token)
    login = stored_login()
    if login is not None:
        return Muster(login.url, token or login.token)
    from muster.cli.session import home
    from muster.platform.users.credentials import local_token, platform_folder
    from muster.server.pidfile import running_server

    server = running_server(home())
    if server is None or not server.web:
        raise CommandError("no platform is running; start one with `muster up`, or log in to one with `muster login`")
    token = token or local_token(platform_folder(home()))
    if not token:
        raise CommandError(
            "error: only the user who started this platform can use it without a token; set MUSTER_TOKEN"
        )
    return Muster(server.web, token)


def _read_token(token: str) -> str:
    if token == "-":  # noqa: S105 (it means stdin)
        token = sys.stdin.readline()
    elif not token and sys.stdin.isatty():
        token = str(typer.prompt("API token", hide_input=True))
    if not token.strip():
        raise CommandError("error: no token; pass --token TOKEN, or --token - to read it from stdin")
    return token


def _login_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "muster" / "login.json"


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
        print_rows(headers, rows)


def print_rows(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table. Without rows, it says so, and stdout stays empty for scripts."""
    if rows:
        echo("\n".join(format_table(headers, rows)))
    else:
        warn("Nothing found")


def print_json(value: Any) -> None:
    echo(json.dumps(value, indent=2, ensure_ascii=False, default=lambda one: one.isoformat()))


def format_time(at: datetime | None) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else ""


def split_version(word: str) -> tuple[str, str]:
    """Splits NAME[@VERSION]. Without a version, it is `latest`."""
    name, _, version = word.partition("@")
    return name, version or "latest"
