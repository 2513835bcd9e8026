"""Lists show exactly what a user may see."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import cast

import pytest
from sqlalchemy import Boolean, Column, Connection, MetaData, Table, insert, select

from muster.platform.database.database import Database
from muster.platform.database.tables import STRING
from muster.platform.permissions import FULL, RULES, Actor, may, visible
from muster.platform.records.common import Kind, Subject
from muster.platform.records.users import Scope, TeamRole

things = Table(
    "things",
    MetaData(),
    Column("id", STRING, primary_key=True),
    Column("owner", STRING),
    Column("team", STRING),
    Column("public", Boolean),
)
ROWS = [
    {"id": f"{owner}-{team}-{public}", "owner": owner, "team": team, "public": public}
    for owner, team, public in product(["me", "you"], ["led", "joined", "foreign", None], [True, False])
]
TEAMS: dict[str, TeamRole] = {"led": "leader", "joined": "member"}
ACTORS = [
    Actor("me", "me", admin, teams, scopes, run)
    for admin, teams, (scopes, run) in product(
        [True, False],
        [TEAMS, cast("dict[str, TeamRole]", {})],
        [
            (FULL, ""),
            (frozenset[Scope]({"read"}), ""),
            (frozenset[Scope]({"write"}), ""),
            (frozenset[Scope]({"run"}), "me-led-False"),
        ],
    )
]


async def test_the_filter_of_a_list_and_the_rule_agree_on_every_row(database: Database) -> None:
    def fill(connection: Connection) -> None:
        things.create(connection)
        connection.execute(insert(things), ROWS)

    def check(connection: Connection) -> None:
        for (kind, action), actor in product(RULES, ACTORS):
            condition = visible(
                actor,
                kind,
                owner=things.c.owner,
                team=things.c.team,
                public=things.c.public,
                key=things.c.id,
                action=action,
            )
            shown = set(connection.execute(select(things.c.id).where(condition)).scalars())
            allowed = {row["id"] for row in ROWS if may(actor, action, _subject(kind, row))}
            assert shown == allowed, (kind, action, actor)

    await database.write(fill)
    await database.read(check)


def test_a_list_of_runs_names_its_column() -> None:
    token = Actor("me", "me", scopes=frozenset({"run"}), run="r")
    with pytest.raises(ValueError, match="which column holds the id"):
        visible(token, "run", owner=things.c.owner)


def _subject(kind: Kind, row: Mapping[str, object]) -> Subject:
    return Subject(kind, str(row["id"]), str(row["owner"]), str(row["team"] or ""), bool(row["public"]))
