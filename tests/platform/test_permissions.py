"""Who may do what, row by row. The letters: A admin, L leader of its team, T member of its team, O owner, P every
user if it is public, * every user, o the owner unless they have left its team. `!` excludes the user's own."""

from __future__ import annotations

from itertools import product

import pytest

from muster.platform.errors import ForbiddenProblem, NotFoundProblem
from muster.platform.permissions import FULL, RULES, RUN_TOKEN, SYSTEM, Actor, may, require
from muster.platform.records.common import Kind, Subject
from muster.platform.records.users import Scope

TABLE = """
workflow         view             *      read
workflow         create           *      write
workflow         edit             ALO    write
workflow         archive          ALO    write
workflow         delete           AO     write
version          view             *      read
version          reveal           ALTO   read
version          create           ALTO   write
version          copy             *      write
version          run              *      write
version          archive          ALO    write
run              view             *      read
run              inspect          ALTO   read
run              create           *      write
run              copy             ALTO   write
run              edit             AO     write
run              stop             ALO    write
run              retry            ALo    write
run              delete           AO     write
run              exec             Ao     write
job              view             ALTO   read
job              create           *      write
job              suspend          ALO    write
job              resume           ALo    write
job              delete           AO     write
dispatch job     view             ALTO   read
dispatch job     create           *      write
dispatch job     edit             ALO    write
dispatch job     cancel           ALO    write
dispatch job     restart          ALO    write
dispatch job     resolve          ALo    write
dispatch job     delete           AO     write
experiment       view             ALTO   read
experiment       create           *      write
experiment       archive          ALO    write
experiment       delete           AO     write
pipeline         view             ALTO   read
pipeline         create           *      write
pipeline         edit             ALTo   write
pipeline         delete           ALO    write
pipeline run     view             ALTO   read
pipeline run     create           *      write
pipeline run     stop             ALO    write
pipeline run     retry            ALo    write
pipeline run     archive          ALO    write
pipeline run     delete           AO     write
recurring run    view             ALTO   read
recurring run    create           *      write
recurring run    edit             ALO    write
recurring run    delete           AO     write
argo workflow    view             ALTO   read
argo workflow    stop             ALTO   write
argo workflow    suspend          ALTO   write
argo workflow    resume           ALTO   write
argo workflow    retry            ALTO   write
argo workflow    copy             ALTO   write
argo workflow    delete           ALTO   write
schedule         view             ALTO   read
schedule         create           *      write
schedule         edit             ALTO   write
schedule         run              ALTO   write
schedule         delete           ALTO   write
workspace        view             ALTO   read
workspace        create           *      write
workspace        open             ALTo   write
workspace        start            ALTo   write
workspace        stop             ALTO   write
workspace        edit             ALO    write
workspace        delete           ALO    write
pod              exec             ALTo   write
module           view             ALOP   read
module           use              OP     write
module           inspect          ALO    read
module           create           *      write
module           edit             AO     write
module           ask review       O      write
module           deprecate        ALO    write
module           delete           AO     write
review           view             ALO    read
review           decide           AL!    write
review           withdraw         O      write
category         view             *      read
category         create           A      write
category         edit             A      write
category         delete           A      write
virtual cluster  view             *      read
virtual cluster  use              ALTP   write
virtual cluster  create           A      write
virtual cluster  edit             A      write
virtual cluster  delete           A      write
storage root     view             *      read
storage root     use              ALTP   write
storage root     create           A      write
storage root     edit             A      write
storage root     delete           A      write
volume           view             ALTO   read
volume           create           *      write
volume           write            ALTo   write
volume           delete           ALO    write
webhook          view             ALTo   read
webhook          create           *      write
webhook          edit             ALo    write
webhook          delete           ALO    write
user             view             *      read
user             inspect          AO     read
user             create           A      write
user             edit             AO     write
user             set role         A!     write
user             disable          A!     write
user             enable           A      write
user             reset password   A      write
user             change password  O      write
team             view             *      read
team             create           A      write
team             edit             AL     write
team             set members      AL     write
team             leave            LT     write
team             delete           A      write
token            view             AO     read
token            create           O      write
token            revoke           AO     write
audit            view             AO     read
settings         view             A      read
settings         edit             A      write
node             view             *      read
node             inspect          A      read
queue            view             *      read
"""


def rows() -> list[tuple[str, str, str, str]]:
    return [
        (line[:17].strip(), line[17:34].strip(), line[34:41].strip(), line[41:].strip())
        for line in TABLE.strip().splitlines()
    ]


def test_every_rule_is_in_the_table() -> None:
    assert sorted((kind, action) for kind, action, _, _ in rows()) == sorted(RULES)


# All users: an admin or not; leader, member or neither in its team; its owner or not. And whether the object is public.
PEOPLE = list(product([True, False], ["leader", "member", None], [True, False], [True, False]))


def an_actor(admin: bool, role: str | None, scopes: frozenset[Scope] = FULL) -> Actor:
    return Actor("me", "me", admin, {"crew": role} if role else {"others": "leader"}, scopes)  # type: ignore[dict-item]


@pytest.mark.parametrize(("kind", "action", "who", "scope"), rows())
def test_the_rule(kind: Kind, action: str, who: str, scope: Scope) -> None:
    for admin, role, owner, public in PEOPLE:
        letters = "*" + "A" * admin + {"leader": "LT", "member": "T", None: ""}[role] + "O" * owner + "P" * public
        letters += "o" * (owner and role is not None)
        expected = bool(set(letters) & set(who)) and not ("!" in who and owner)
        subject = Subject(kind, "it", owner="me" if owner else "you", team="crew", public=public)
        for held in (FULL, frozenset({scope, "admin"})):
            verdict = may(an_actor(admin, role, held), action, subject)
            assert bool(verdict) is expected, letters
            assert (verdict.error is None) is expected, "a refusal has a reason"
        without: frozenset[Scope] = frozenset({"read", "write", "admin"} - {scope})  # type: ignore[arg-type]
        assert not may(an_actor(admin, role, without), action, subject), "the token has no such scope"
        plain = may(an_actor(admin, role, frozenset({"read", "write"})), action, subject)
        assert bool(plain) is (expected and bool((set(letters) - {"A"}) & set(who))), (
            "an admin's token without the admin scope"
        )


@pytest.mark.parametrize(("kind", "action", "who", "scope"), rows())
def test_the_token_of_a_run_has_its_owners_read_rights_and_only_its_own_run(
    kind: Kind, action: str, who: str, scope: Scope
) -> None:
    actor = Actor("me", "me", True, {"crew": "leader"}, frozenset({"run"}), run="mine")
    mine, other = (Subject(kind, identifier, owner="me", team="crew") for identifier in ("mine", "another"))
    readable = (kind, action) in RUN_TOKEN
    assert bool(may(actor, action, mine)) is readable
    assert bool(may(actor, action, other)) is (readable and kind != "run")
    assert not readable or scope == "read", "it changes nothing"


def test_what_is_in_no_team_stays_its_owners() -> None:
    assert may(Actor("me", "me"), "retry", Subject("pipeline run", "it", "me"))
    assert not may(Actor("me", "me"), "retry", Subject("pipeline run", "it", "me", team="crew"))


def test_an_object_without_team_and_owner_belongs_to_no_user() -> None:
    stranger = Actor("", "nobody", False, {"": "leader"})
    assert not may(stranger, "inspect", Subject("run", "it"))


@pytest.mark.parametrize(
    ("action", "subject", "actor", "reason"),
    [
        ("edit", Subject("workflow", "it", "you"), an_actor(False, None),
         "only an admin or a leader of its team or its owner may edit this workflow"),
        ("decide", Subject("review", "it", "me"), an_actor(True, None),
         "you may not decide your own review; ask someone else to do it"),
        ("create", Subject("category"), an_actor(True, None, frozenset({"read", "admin"})),
         'this token lacks the scope "write", which "create" needs'),
        ("stop", Subject("run", "r", "me"), Actor("me", "me", scopes=frozenset({"run"}), run="r"),
         "the token of a run may not stop a run"),
        ("inspect", Subject("run", "x", "me"), Actor("me", "me", scopes=frozenset({"run"}), run="r"),
         "the token of a run cannot access other runs"),
    ],
)  # fmt: skip
def test_a_refusal_has_a_reason(action: str, subject: Subject, actor: Actor, reason: str) -> None:
    error = may(actor, action, subject).error
    assert error is not None
    assert error.message == reason


@pytest.mark.parametrize(
    ("actor", "action", "subject", "error"),
    [
        (an_actor(False, None), "edit", Subject("workflow", "it", "you"), ForbiddenProblem),
        (an_actor(False, None), "edit", Subject("module", "it", "you"), NotFoundProblem),
        (an_actor(False, None), "edit", Subject("module", "it", "you", public=True), ForbiddenProblem),
        (an_actor(False, None), "create", Subject("category"), ForbiddenProblem),
        (an_actor(False, None), "view", Subject("review", "it", "you"), NotFoundProblem),
    ],
)
def test_an_invisible_object_is_not_found(actor: Actor, action: str, subject: Subject, error: type[Exception]) -> None:
    with pytest.raises(error):
        require(actor, action, subject)


def test_the_platform_itself_may_change_anything() -> None:
    require(SYSTEM, "edit", Subject("workflow", "it", "you"))
    require(SYSTEM, "decide", Subject("review", "it", "you"))
