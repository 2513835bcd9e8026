"""`muster users`, `teams` and `tokens`: accounts, teams, API tokens and the audit log."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from muster.cli.output import echo, warn
from muster.cli.platform import (
    JsonOption,
    LimitOption,
    SearchOption,
    check_changes,
    command_group,
    connect_platform,
    format_time,
    given_options,
    print_json,
    print_records,
)

users_app = command_group("Manage accounts, and show the audit log.")

teams_app = command_group("Manage teams and their members.")
tokens_app = command_group("Manage API tokens for scripts.")

_User = Annotated[str, typer.Argument(metavar="USER", help="The name or id of the user.")]
_Team = Annotated[str, typer.Argument(metavar="TEAM", help="The name or id of the team.")]


@users_app.command("list")
def list_users(
    q: SearchOption = "",
    role: Annotated[str, typer.Option("--role", help="Show only users with this role: admin, leader or member.")] = "",
    disabled: Annotated[bool, typer.Option("--disabled", help="Show only disabled accounts.")] = False,
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
    """Show the account that these commands use."""
    with connect_platform() as muster:
        me = muster.users.me()
    if as_json:
        print_json(asdict(me))
    else:
        echo(f"{me.user.name} ({me.user.role}), authenticated by {me.via}, scopes: {', '.join(me.scopes)}")


@users_app.command("create")
def create_user(
    name: Annotated[str, typer.Argument(help="The name of the account.")],
    display_name: Annotated[str, typer.Option("--display-name", help="The name to display.")] = "",
    email: Annotated[str, typer.Option("--email", help="The email address.")] = "",
    admin: Annotated[bool, typer.Option("--admin", help="Make the user an admin.")] = False,
) -> None:
    """Create an account, and print the link with which its user sets a password."""
    with connect_platform() as muster:
        user, link = muster.users.create(
            name, display_name=display_name, email=email, role="admin" if admin else "member"
        )
    echo(f"{user.name} created; the user sets a password at\n  {link}")


@users_app.command("edit")
def edit_user(
    user: _User,
    display_name: Annotated[str | None, typer.Option("--display-name", help="The name to display.")] = None,
    email: Annotated[str | None, typer.Option("--email", help="The email address.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="The new role: admin or member.")] = None,
) -> None:
    """Edit an account."""
    changes = given_options(display_name=display_name, email=email, role=role)
    check_changes(changes, "--display-name, --email or --role")
    with connect_platform() as muster:
        echo(f"{muster.users.edit(user, **changes).name} updated")


@users_app.command("disable")
def disable_user(user: _User) -> None:
    """Disable an account: its sessions end and its tokens stop working."""
    with connect_platform() as muster:
        echo(f"{muster.users.edit(user, disabled=True).name} disabled")


@users_app.command("enable")
def enable_user(user: _User) -> None:
    """Enable an account again."""
    with connect_platform() as muster:
        echo(f"{muster.users.edit(user, disabled=False).name} enabled")


@users_app.command("reset-password")
def reset_password(user: _User) -> None:
    """Print a link with which the user sets a new password."""
    with connect_platform() as muster:
        echo(muster.users.reset_password(user))


@users_app.command("audit")
def list_audit(
    q: SearchOption = "",
    user: Annotated[str, typer.Option("--user", help="Show only changes by this user.")] = "",
    kind: Annotated[
        str, typer.Option("--kind", help="Show only changes to this kind of record: user, team, workflow, ...")
    ] = "",
    most: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """Show the audit log, newest first."""
    with connect_platform() as muster:
        found = list(muster.audit.list(q=q, actor=user, kind=kind, most=most))
    rows = [(format_time(e.at), e.actor_name, e.via, e.address, e.action, e.kind, e.subject_name) for e in found]
    print_records(found, ["TIME", "WHO", "BY", "FROM", "DID", "TO", "NAME"], rows, as_json)


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
    """List the members of a team."""
    with connect_platform() as muster:
        found = list(muster.teams.members(team))
    rows = [(m.name, m.display_name, m.role, format_time(m.since)) for m in found]
    print_records(found, ["NAME", "DISPLAY NAME", "ROLE", "SINCE"], rows, as_json)


@teams_app.command("create")
def create_team(
    name: Annotated[str, typer.Argument(help="The name of the new team.")],
    description: Annotated[str, typer.Option("--description", help="What the team does.")] = "",
) -> None:
    """Create a team."""
    with connect_platform() as muster:
        echo(f"{muster.teams.create(name, description).name} created")


@teams_app.command("delete")
def delete_team(team: _Team) -> None:
    """Delete a team; shared records stay with their owners."""
    with connect_platform() as muster:
        muster.teams.delete(team)
    echo(f"{team} deleted")


@teams_app.command("add")
def add_member(
    team: _Team,
    user: _User,
    leader: Annotated[bool, typer.Option("--leader", help="Make the user a leader of the team.")] = False,
) -> None:
    """Add a user to a team, or change the user's role in it."""
    with connect_platform() as muster:
        muster.teams.set_member(team, user, "leader" if leader else "member")
    echo(f"{user} is now {'a leader' if leader else 'a member'} of {team}")


@teams_app.command("remove")
def remove_member(team: _Team, user: _User) -> None:
    """Remove a user from a team."""
    with connect_platform() as muster:
        muster.teams.remove_member(team, user)
    echo(f"{user} removed from {team}")


@tokens_app.command("list")
def list_tokens(
    user: Annotated[str, typer.Option("--user", help="Show only tokens of this user.")] = "",
    all: Annotated[bool, typer.Option("--all", help="Include revoked and expired tokens.")] = False,
    most: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List your tokens, or all tokens if you are an admin."""
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
    name: Annotated[str, typer.Argument(help="A name that says what the token is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="A scope: read, write or admin; may be repeated. Default: read and write."),
    ] = None,
    days: Annotated[float, typer.Option("--days", help="Days until the token expires; 0 for never.")] = 90,
) -> None:
    """Create a token for yourself and print its secret, which is not shown again."""
    with connect_platform() as muster:
        token, secret = muster.tokens.create(name, scopes=scope or ["read", "write"], days=days or None)
    warn(f"{token.name} created ({token.id}); copy the secret now, it is not shown again:")
    echo(secret)


@tokens_app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="ID", help="The token's id; `muster tokens list` shows it.")],
) -> None:
    """Revoke a token; it stops working immediately."""
    with connect_platform() as muster:
        echo(f"{muster.tokens.revoke(token).name} revoked")
