"""Passwords: which are accepted, and how they are checked."""

from __future__ import annotations

import pytest

from muster.platform.users.credentials import check_password, hash_password, needs_rehash, verify_password


@pytest.mark.parametrize(
    ("password", "fault"),
    [
        ("correct horse battery", ""),
        ("密码应该足够长才好用", ""),
        ("short", "the password has 5 characters; use at least 10"),
        ("x" * 513, "the password has 513 characters; use at most 512"),
        ("abababababab", "the password repeats the same few characters; use more different ones"),
        ("ann-lee.3ANN-LEE.3", "the password is made of the account name; use another one"),
    ],
)
def test_a_new_password_is_accepted_or_refused_with_a_reason(password: str, fault: str) -> None:
    found = check_password("new", password, name="ann-lee.3")
    assert (found.message if found else "") == fault


async def test_only_the_password_itself_matches_its_hash() -> None:
    stored = await hash_password("correct horse battery")
    assert stored.startswith("$argon2id$")
    assert "correct" not in stored
    assert await verify_password("correct horse battery", stored)
    assert not await verify_password("correct horse batterx", stored)
    assert not await verify_password("correct horse battery", None)
    assert not await verify_password("correct horse battery", "not a hash")
    assert await hash_password("correct horse battery") != stored, "every hash has its own salt"
    assert not needs_rehash(stored)


def test_a_hash_with_weaker_parameters_is_outdated() -> None:
    assert needs_rehash("$argon2id$v=19$m=1024,t=1,p=1$c2FsdHNhbHRzYWx0$W6wbQ7TPnSVHJ3kPfCU0Q7x0p2JtAoCqtnnmAtQ6qdI")
