"""`muster teams ...`: who works together, and who leads."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.output import say
from muster.cli.platform import platform
from muster.cli.users import Json, Most, Search, moment, show

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Teams and who is in them.")

_Team = Annotated[str, typer.Argument(metavar="TEAM", help="Name or id.")]
_User = Annotated[str, typer.Argument(metavar="USER", help="Name or id.")]


@app.command("list")
def list_teams(q: Search = "", most: Most = 100, as_json: Json = False) -> None:
    """List teams."""
    with platform() as muster:
        found = list(muster.teams.list(q=q, most=most))
    show(found, ["NAME", "MEMBERS", "DESCRIPTION"], [(t.name, t.members, t.description) for t in found], as_json)


@app.command("members")
def list_members(team: _Team, as_json: Json = False) -> None:
    """List who is in a team."""
    with platform() as muster:
        found = list(muster.teams.members(team))
    rows = [(m.name, m.display_name, m.role, moment(m.since)) for m in found]
    show(found, ["NAME", "DISPLAY NAME", "ROLE", "SINCE"], rows, as_json)


@app.command("create")
def create_team(
    name: Annotated[str, typer.Argument(help="The name of the new team.")],
    description: Annotated[str, typer.Option("--description", help="What it does.")] = "",
) -> None:
    """Create a team."""
    with platform() as muster:
        say(f"{muster.teams.create(name, description).name} is created")


@app.command("delete")
def delete_team(team: _Team) -> None:
    """Delete a team; what was shared with it stays with its owners."""
    with platform() as muster:
        muster.teams.delete(team)
    say(f"{team} is deleted")


@app.command("add")
def add_member(
    team: _Team,
    user: _User,
    leader: Annotated[bool, typer.Option("--leader", help="They lead it.")] = False,
) -> None:
    """Put somebody into a team, or change what they are in it."""
    with platform() as muster:
        muster.teams.set_member(team, user, "leader" if leader else "member")
    say(f"{user} is {'a leader' if leader else 'a member'} of {team}")


@app.command("remove")
def remove_member(team: _Team, user: _User) -> None:
    """Take somebody out of a team."""
    with platform() as muster:
        muster.teams.remove_member(team, user)
    say(f"{user} is no longer in {team}")
