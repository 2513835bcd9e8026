"""`muster tokens ...`: what scripts show instead of a password."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.output import say, warn
from muster.cli.platform import platform
from muster.cli.users import Json, Most, moment, show

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="API tokens, for scripts.")


@app.command("list")
def list_tokens(
    user: Annotated[str, typer.Option("--user", help="Those of this user.")] = "",
    all: Annotated[bool, typer.Option("--all", help="Those that were revoked or have expired, too.")] = False,
    most: Most = 100,
    as_json: Json = False,
) -> None:
    """List tokens: your own, or everybody's if you are an admin."""
    with platform() as muster:
        found = list(muster.tokens.list(user=user, all=all, most=most))
    rows = [
        (t.id, t.name, t.user_name, f"...{t.hint}", ",".join(t.scopes), moment(t.expires), moment(t.last_used))
        for t in found
    ]
    show(found, ["ID", "NAME", "USER", "SECRET", "SCOPES", "EXPIRES", "LAST USED"], rows, as_json)


@app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, write or admin; may be repeated. Default: read and write."),
    ] = None,
    days: Annotated[float, typer.Option("--days", help="How long it lasts; 0 for ever.")] = 90,
) -> None:
    """Create a token for yourself and print its secret, which is not shown again."""
    with platform() as muster:
        token, secret = muster.tokens.create(name, scopes=scope or ["read", "write"], days=days or None)
    warn(f"{token.name} is created ({token.id}); this is shown once:")
    say(secret)


@app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `muster tokens list` shows it.")],
) -> None:
    """End a token: it opens nothing from now on."""
    with platform() as muster:
        say(f"{muster.tokens.revoke(token).name} is revoked")
