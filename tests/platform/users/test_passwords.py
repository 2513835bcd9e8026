from __future__ import annotations

import pytest

from muster.platform.users.passwords import hash_password, outdated, password_fault, verify_password


@pytest.mark.parametrize(
    ("password", "fault"),
    [
        ("correct horse battery", ""),
        ("密码应该足够长才好用", ""),
        ("short", "it has 5 characters; take at least 10"),
        ("x" * 513, "it has 513 characters; take at most 512"),
        ("abababababab", "it repeats the same few characters; take more different ones"),
        ("ann-lee.3ANN-LEE.3", "it is made of the account's name; take something else"),
    ],
)
def test_a_new_password_is_good_or_told_why_not(password: str, fault: str) -> None:
    found = password_fault("new", password, name="ann-lee.3")
    assert (found.message if found else "") == fault


async def test_only_the_password_itself_matches_its_hash() -> None:
    stored = await hash_password("correct horse battery")
    assert stored.startswith("$argon2id$")
    assert "correct" not in stored
    assert await verify_password("correct horse battery", stored)
    assert not await verify_password("correct horse batterx", stored)
    assert not await verify_password("correct horse battery", None)
    assert not await verify_password("correct horse battery", "not a hash")
    assert await hash_password("correct horse battery") != stored, "every hash has a salt of its own"
    assert not outdated(stored)


def test_a_hash_made_with_less_effort_is_outdated() -> None:
    assert outdated("$argon2id$v=19$m=1024,t=1,p=1$c2FsdHNhbHRzYWx0$W6wbQ7TPnSVHJ3kPfCU0Q7x0p2JtAoCqtnnmAtQ6qdI")
