"""Teams and who is in them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from muster.platform.permissions import Actor, TeamRole, may
from muster.platform.users.teams import (
    Team,
    create_team,
    delete_team,
    edit_team,
    get_team,
    list_members,
    list_teams,
    remove_member,
    set_member,
)
from muster.server.platform.rest import Answer, Body, IfMatch, PageOf, Paging, Search, etag, page_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here

router = APIRouter(prefix="/teams", tags=["teams"])

_ACTIONS = ("edit", "set members", "leave", "delete")


class NewTeam(Body):
    name: Annotated[str, Field(max_length=63)]
    description: Annotated[str, Field(max_length=2000)] = ""


class TeamChange(Body):
    name: Annotated[str, Field(max_length=63)] = ""
    description: Annotated[str, Field(max_length=2000)] = ""


class MemberChange(Body):
    role: TeamRole = "member"


class TeamAnswer(Answer):
    id: str
    name: str
    description: str
    created: datetime
    revision: int
    members: int
    may: list[str]
    """What whoever asks may do with it."""


class TeamMember(Answer):
    user_id: str
    name: str
    display_name: str
    role: TeamRole
    since: datetime


@router.get("", operation_id="list_teams")
async def all_teams(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    member: Annotated[str, Query(description="The id of a user who is in them.")] = "",
) -> PageOf[TeamAnswer]:
    page = await here.database.read(lambda connection: list_teams(connection, paging, q=q, member=member))
    return page_of(page, lambda team: _answer(team, who))


@router.post("", status_code=201, operation_id="create_team")
async def new_team(body: NewTeam, here: Here, who: Who) -> TeamAnswer:
    team = await here.database.write(lambda connection: create_team(connection, who, body.name, body.description))
    return _answer(team, who)


@router.get("/{team_id}", operation_id="get_team")
async def one_team(team_id: str, here: Here, who: Who, response: Response) -> TeamAnswer:
    """By id or name."""
    team = await here.database.read(lambda connection: get_team(connection, team_id))
    response.headers["ETag"] = etag(team.id, team.revision)
    return _answer(team, who)


@router.patch("/{team_id}", operation_id="edit_team")
async def change_team(
    team_id: str, body: TeamChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> TeamAnswer:
    team = await here.database.write(lambda connection: edit_team(connection, who, team_id, body.changes(), seen))
    response.headers["ETag"] = etag(team.id, team.revision)
    return _answer(team, who)


@router.delete("/{team_id}", status_code=204, operation_id="delete_team")
async def drop_team(team_id: str, here: Here, who: Who) -> None:
    await here.database.write(lambda connection: delete_team(connection, who, team_id))


@router.get("/{team_id}/members", operation_id="list_members")
async def members_of_team(team_id: str, here: Here, who: Who, paging: Paging) -> PageOf[TeamMember]:
    page = await here.database.read(lambda connection: list_members(connection, get_team(connection, team_id), paging))
    return page_of(page, TeamMember.model_validate)


@router.put("/{team_id}/members/{user_id}", status_code=204, operation_id="set_member")
async def put_member(team_id: str, user_id: str, body: MemberChange, here: Here, who: Who) -> None:
    """Joins the user to the team, or changes what they are in it. Both by id or name."""
    await here.database.write(lambda connection: set_member(connection, who, team_id, user_id, body.role))


@router.delete("/{team_id}/members/{user_id}", status_code=204, operation_id="remove_member")
async def drop_member(team_id: str, user_id: str, here: Here, who: Who) -> None:
    await here.database.write(lambda connection: remove_member(connection, who, team_id, user_id))


def _answer(team: Team, who: Actor) -> TeamAnswer:
    own = {name: getattr(team, name) for name in TeamAnswer.model_fields if name != "may"}
    return TeamAnswer(**own, may=[action for action in _ACTIONS if may(who, action, team.subject)])
