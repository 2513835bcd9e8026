"""`muster users ...`: accounts, and what was changed."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from muster.cli.failures import Failure
from muster.cli.output import say, table_lines
from muster.cli.platform import platform

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Accounts, and who changed what."
)

_User = Annotated[str, typer.Argument(metavar="USER", help="Name or id.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
Search = Annotated[str, typer.Option("--search", "-q", help="Words that have to occur.")]
Most = Annotated[int, typer.Option("--limit", help="How many at most.")]


@app.command("list")
def list_users(
    q: Search = "",
    role: Annotated[str, typer.Option("--role", help="admin, leader or member.")] = "",
    disabled: Annotated[bool, typer.Option("--disabled", help="Only those that are disabled.")] = False,
    most: Most = 100,
    as_json: Json = False,
) -> None:
    """List accounts."""
    with platform() as muster:
        found = list(muster.users.list(q=q, role=role, disabled=disabled or None, most=most))
    rows = [(u.name, u.display_name, u.role, "disabled" if u.disabled else "", moment(u.last_login)) for u in found]
    show(found, ["NAME", "DISPLAY NAME", "ROLE", "STATE", "LAST LOGIN"], rows, as_json)


@app.command("whoami")
def who_am_i(as_json: Json = False) -> None:
    """Show who the platform takes you for."""
    with platform() as muster:
        me = muster.users.me()
    if as_json:
        say_json(asdict(me))
    else:
        say(f"{me.user.name} ({me.user.role}), by {me.via}, may {', '.join(me.scopes)}")


@app.command("create")
def create_user(
    name: Annotated[str, typer.Argument(help="The name of the account.")],
    display_name: Annotated[str, typer.Option("--display-name", help="What people call them.")] = "",
    email: Annotated[str, typer.Option("--email", help="Where to reach them.")] = "",
    admin: Annotated[bool, typer.Option("--admin", help="They may do everything.")] = False,
) -> None:
    """Create an account, and print the link by which its person chooses a password."""
    with platform() as muster:
        user, link = muster.users.create(
            name, display_name=display_name, email=email, role="admin" if admin else "member"
        )
    say(f"{user.name} is created; to choose a password, open\n  {link}")


@app.command("edit")
def edit_user(
    user: _User,
    display_name: Annotated[str | None, typer.Option("--display-name", help="What people call them.")] = None,
    email: Annotated[str | None, typer.Option("--email", help="Where to reach them.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="admin or member.")] = None,
) -> None:
    """Change an account."""
    said = {"display_name": display_name, "email": email, "role": role}
    changes = {name: value for name, value in said.items() if value is not None}
    if not changes:
        raise Failure("error: say what to change: --display-name, --email or --role")
    with platform() as muster:
        say(f"{muster.users.edit(user, **changes).name} is changed")


@app.command("disable")
def disable_user(user: _User) -> None:
    """Shut an account out: its sessions end, its tokens stop working."""
    with platform() as muster:
        say(f"{muster.users.edit(user, disabled=True).name} is disabled")


@app.command("enable")
def enable_user(user: _User) -> None:
    """Let an account in again."""
    with platform() as muster:
        say(f"{muster.users.edit(user, disabled=False).name} is enabled")


@app.command("reset-password")
def reset_password(user: _User) -> None:
    """Print a link by which the person chooses a new password."""
    with platform() as muster:
        say(muster.users.reset_password(user))


@app.command("audit")
def list_audit(
    q: Search = "",
    user: Annotated[str, typer.Option("--user", help="Only what this user did.")] = "",
    kind: Annotated[str, typer.Option("--kind", help="Only about such things: user, team, workflow, ...")] = "",
    most: Most = 50,
    as_json: Json = False,
) -> None:
    """Show who changed what, the newest first."""
    with platform() as muster:
        found = list(muster.audit.list(q=q, actor=user, kind=kind, most=most))
    rows = [(moment(e.at), e.actor_name, e.via, e.address, e.action, e.kind, e.subject_name) for e in found]
    show(found, ["TIME", "WHO", "BY", "FROM", "DID", "TO", "NAME"], rows, as_json)


def show(found: list[Any], headers: list[str], rows: list[tuple[Any, ...]], as_json: bool) -> None:
    """A list, for people or for programs."""
    if as_json:
        say_json([asdict(one) for one in found])
    else:
        say("\n".join(table_lines(headers, rows)))


def say_json(value: Any) -> None:
    import json

    say(json.dumps(value, indent=2, ensure_ascii=False, default=lambda one: one.isoformat()))


def moment(at: datetime | None) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else ""
