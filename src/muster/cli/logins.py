"""Which platform the commands are for, if not the one in the box: `muster login` and `muster logout`.

The address and a token are in ~/.config/muster/login.json, which nobody else can read.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from muster.cli.failures import Failure
from muster.cli.output import say


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
    from muster.cli.platform import explained
    from muster.sdk import Muster

    secret = _asked_for(token).strip()
    with explained():
        me = Muster(url, secret).users.me()
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"url": url.rstrip("/"), "token": secret}, file)
    draft.rename(path)
    say(f"you are {me.user.name} ({me.user.role}) at {url}")


def logout() -> None:
    """Forget that platform; the commands are for the one in the box again."""
    known = stored_login()
    _file().unlink(missing_ok=True)
    say(
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
        raise Failure(f"error: {path} cannot be read; remove it, and log in again with `muster login`") from None


def _asked_for(token: str) -> str:
    if token == "-":  # noqa: S105 (it means stdin)
        token = sys.stdin.readline()
    elif not token and sys.stdin.isatty():
        token = str(typer.prompt("API token", hide_input=True))
    if not token.strip():
        raise Failure("error: there is no token: put it behind --token, or write --token - and send it to stdin")
    return token


def _file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "muster" / "login.json"
