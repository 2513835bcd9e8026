from __future__ import annotations

import pytest
from sqlalchemy import Connection

from muster.platform.database.database import Database
from muster.platform.permissions import SYSTEM
from muster.platform.users.accounts import edit_user, insert_user
from muster.platform.users.namespace_names import choose_name, namespace_of, namespaces_of, use_shared_namespace
from muster.platform.users.teams import create_team, delete_team, edit_team


@pytest.mark.parametrize(
    ("name", "taken", "expected"),
    [
        ("ann", (), "user-ann"),
        ("ann-lee", (), "user-ann-lee"),
        ("ann.lee", (), "user-ann-lee-ed968e840d"),
        ("ann_lee", (), "user-ann-lee-ed968e840d"),
        ("ann", ("user-ann",), "user-ann-ed968e840d"),
        ("a" * 58, (), "user-" + "a" * 58),
        ("a" * 59, (), "user-" + "a" * 47 + "-ed968e840d"),
    ],
)
def test_a_name_stays_readable_and_is_a_valid_label(name: str, taken: tuple[str, ...], expected: str) -> None:
    assert choose_name("user", name, "aaaaa", taken) == expected
    assert len(expected) <= 63


async def test_accounts_and_teams_never_share_a_namespace(database: Database) -> None:
    """An account whose name looks like the namespace of another one gets a namespace of its own."""

    def create(connection: Connection) -> list[str]:
        dotted = insert_user(connection, SYSTEM, "ann.lee")
        taken = namespace_of(connection, user=dotted.id)
        copycat = insert_user(connection, SYSTEM, taken.removeprefix("user-"))
        plain = insert_user(connection, SYSTEM, "ann-lee")
        return [namespace_of(connection, user=user.id) for user in (dotted, copycat, plain)]

    found = await database.write(create)
    assert len(set(found)) == 3


async def test_a_renamed_team_keeps_its_namespace_and_a_deleted_one_does_not_give_it_away(database: Database) -> None:
    def change(connection: Connection) -> tuple[str, str, str]:
        team = create_team(connection, SYSTEM, "vision")
        edit_team(connection, SYSTEM, team.id, {"name": "seeing"})
        kept = namespace_of(connection, team=team.id)
        other = namespace_of(connection, team=create_team(connection, SYSTEM, "vision").id)
        delete_team(connection, SYSTEM, team.id)
        return kept, other, namespace_of(connection, team=create_team(connection, SYSTEM, "seeing").id)

    kept, other, third = await database.write(change)
    assert kept == "team-vision"
    assert other.startswith("team-vision-")
    assert third == "team-seeing"


async def test_default_is_for_an_admin_only(database: Database) -> None:
    """The person whose box it is keeps `default`, until they are no admin any more."""

    def change(connection: Connection) -> list[str]:
        ann = insert_user(connection, SYSTEM, "ann", admin=True)
        bob = insert_user(connection, SYSTEM, "bob", admin=True)
        use_shared_namespace(connection, ann.id)
        use_shared_namespace(connection, bob.id)
        before = [namespace_of(connection, user=user.id) for user in (ann, bob)]
        edit_user(connection, SYSTEM, ann.id, {"admin": False})
        return [*before, namespace_of(connection, user=ann.id), *namespaces_of(connection, bob.id, [])]

    assert await database.write(change) == ["default", "user-bob", "user-ann", "user-bob"]
