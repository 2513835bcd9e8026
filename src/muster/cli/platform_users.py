"""`muster users`, `teams` and `tokens`: accounts, teams, API tokens and the audit log."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo, format_table, warn
from muster.cli.platform_login import connect_platform

# Merged from users: `muster users ...`: accounts, and what was changed.


users_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Accounts, and who changed what."
)

_User = Annotated[str, typer.Argument(metavar="USER", help="Name or id.")]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]
SearchOption = Annotated[str, typer.Option("--search", "-q", help="Words that have to occur.")]
LimitOption = Annotated[int, typer.Option("--limit", help="How many at most.")]


@users_app.command("list")
def list_users(
    q: SearchOption = "",
    role: Annotated[str, typer.Option("--role", help="admin, leader or member.")] = "",
    disabled: Annotated[bool, typer.Option("--disabled", help="Only those that are disabled.")] = False,
    most: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List accounts."""
    with connect_platform() as muster:
        found = list(muster.users.list(q=q, role=role, disabled=disabled or None, most=most))
    rows = [
        (u.name, u.display_name, u.role, "disabled" if u.disabled else "", format_time(u.last_login)) for u in found
    ]
    print_records(found, ["NAME", "DISPLAY NAME", "ROLE", "STATE", "LAST LOGIN"], rows, as_json)


@users_app.command("whoami")
def who_am_i(as_json: JsonOption = False) -> None:
    """Show who the platform takes you for."""
    with connect_platform() as muster:
        me = muster.users.me()
    if as_json:
        print_json(asdict(me))
    else:
        echo(f"{me.user.name} ({me.user.role}), by {me.via}, may {', '.join(me.scopes)}")


@users_app.command("create")
def create_user(
    name: Annotated[str, typer.Argument(help="The name of the account.")],
    display_name: Annotated[str, typer.Option("--display-name", help="What people call them.")] = "",
    email: Annotated[str, typer.Option("--email", help="Where to reach them.")] = "",
    admin: Annotated[bool, typer.Option("--admin", help="They may do everything.")] = False,
) -> None:
    """Create an account, and print the link by which its person chooses a password."""
    with connect_platform() as muster:
        user, link = muster.users.create(
            name, display_name=display_name, email=email, role="admin" if admin else "member"
        )
    echo(f"{user.name} is created; to choose a password, open\n  {link}")


@users_app.command("edit")
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
        raise CommandError("error: say what to change: --display-name, --email or --role")
    with connect_platform() as muster:
        echo(f"{muster.users.edit(user, **changes).name} is changed")


@users_app.command("disable")
def disable_user(user: _User) -> None:
    """Shut an account out: its sessions end, its tokens stop working."""
    with connect_platform() as muster:
        echo(f"{muster.users.edit(user, disabled=True).name} is disabled")


@users_app.command("enable")
def enable_user(user: _User) -> None:
    """Let an account in again."""
    with connect_platform() as muster:
        echo(f"{muster.users.edit(user, disabled=False).name} is enabled")


@users_app.command("reset-password")
def reset_password(user: _User) -> None:
    """Print a link by which the person chooses a new password."""
    with connect_platform() as muster:
        echo(muster.users.reset_password(user))


@users_app.command("audit")
def list_audit(
    q: SearchOption = "",
    user: Annotated[str, typer.Option("--user", help="Only what this user did.")] = "",
    kind: Annotated[str, typer.Option("--kind", help="Only about such things: user, team, workflow, ...")] = "",
    most: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """Show who changed what, the newest first."""
    with connect_platform() as muster:
        found = list(muster.audit.list(q=q, actor=user, kind=kind, most=most))
    rows = [(format_time(e.at), e.actor_name, e.via, e.address, e.action, e.kind, e.subject_name) for e in found]
    print_records(found, ["TIME", "WHO", "BY", "FROM", "DID", "TO", "NAME"], rows, as_json)


def print_records(found: list[Any], headers: list[str], rows: list[tuple[Any, ...]], as_json: bool) -> None:
    """A list, for people or for programs."""
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        echo("\n".join(format_table(headers, rows)))


def print_json(value: Any) -> None:
    import json

    echo(json.dumps(value, indent=2, ensure_ascii=False, default=lambda one: one.isoformat()))


def format_time(at: datetime | None) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else ""


# Merged from teams: `muster teams ...`: who works together, and who leads.


teams_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Teams and who is in them."
)

_Team = Annotated[str, typer.Argument(metavar="TEAM", help="Name or id.")]
_Member = Annotated[str, typer.Argument(metavar="USER", help="Name or id.")]


@teams_app.command("list")
def list_teams(q: SearchOption = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List teams."""
    with connect_platform() as muster:
        found = list(muster.teams.list(q=q, most=most))
    print_records(
        found, ["NAME", "MEMBERS", "DESCRIPTION"], [(t.name, t.members, t.description) for t in found], as_json
    )


@teams_app.command("members")
def list_members(team: _Team, as_json: JsonOption = False) -> None:
    """List who is in a team."""
    with connect_platform() as muster:
        found = list(muster.teams.members(team))
    rows = [(m.name, m.display_name, m.role, format_time(m.since)) for m in found]
    print_records(found, ["NAME", "DISPLAY NAME", "ROLE", "SINCE"], rows, as_json)


@teams_app.command("create")
def create_team(
    name: Annotated[str, typer.Argument(help="The name of the new team.")],
    description: Annotated[str, typer.Option("--description", help="What it does.")] = "",
) -> None:
    """Create a team."""
    with connect_platform() as muster:
        echo(f"{muster.teams.create(name, description).name} is created")


@teams_app.command("delete")
def delete_team(team: _Team) -> None:
    """Delete a team; what was shared with it stays with its owners."""
    with connect_platform() as muster:
        muster.teams.delete(team)
    echo(f"{team} is deleted")


@teams_app.command("add")
def add_member(
    team: _Team,
    user: _Member,
    leader: Annotated[bool, typer.Option("--leader", help="They lead it.")] = False,
) -> None:
    """Put somebody into a team, or change what they are in it."""
    with connect_platform() as muster:
        muster.teams.set_member(team, user, "leader" if leader else "member")
    echo(f"{user} is {'a leader' if leader else 'a member'} of {team}")


@teams_app.command("remove")
def remove_member(team: _Team, user: _Member) -> None:
    """Take somebody out of a team."""
    with connect_platform() as muster:
        muster.teams.remove_member(team, user)
    echo(f"{user} is no longer in {team}")


# Merged from tokens: `muster tokens ...`: what scripts show instead of a password.


tokens_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="API tokens, for scripts."
)


@tokens_app.command("list")
def list_tokens(
    user: Annotated[str, typer.Option("--user", help="Those of this user.")] = "",
    all: Annotated[bool, typer.Option("--all", help="Those that were revoked or have expired, too.")] = False,
    most: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List tokens: your own, or everybody's if you are an admin."""
    with connect_platform() as muster:
        found = list(muster.tokens.list(user=user, all=all, most=most))
    rows = [
        (
            t.id,
            t.name,
            t.user_name,
            f"...{t.hint}",
            ",".join(t.scopes),
            format_time(t.expires),
            format_time(t.last_used),
        )
        for t in found
    ]
    print_records(found, ["ID", "NAME", "USER", "SECRET", "SCOPES", "EXPIRES", "LAST USED"], rows, as_json)


@tokens_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, write or admin; may be repeated. Default: read and write."),
    ] = None,
    days: Annotated[float, typer.Option("--days", help="How long it lasts; 0 for ever.")] = 90,
) -> None:
    """Create a token for yourself and print its secret, which is not shown again."""
    with connect_platform() as muster:
        token, secret = muster.tokens.create(name, scopes=scope or ["read", "write"], days=days or None)
    warn(f"{token.name} is created ({token.id}); this is shown once:")
    echo(secret)


@tokens_app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `muster tokens list` shows it.")],
) -> None:
    """End a token: it opens nothing from now on."""
    with connect_platform() as muster:
        echo(f"{muster.tokens.revoke(token).name} is revoked")
