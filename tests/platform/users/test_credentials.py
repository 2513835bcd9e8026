"""Whoever fails to log in too often waits, and nobody else does."""

from __future__ import annotations

import pytest

from muster.platform.users.credentials import (
    PER_ACCOUNT,
    PER_ADDRESS,
    WINDOW_SECONDS,
    LoginLimits,
    check_password,
    hash_password,
    needs_rehash,
    verify_password,
    wait,
)


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
def test_a_new_password_is_good_or_told_why_not(password: str, fault: str) -> None:
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
    assert await hash_password("correct horse battery") != stored, "every hash has a salt of its own"
    assert not needs_rehash(stored)


def test_a_hash_made_with_less_effort_is_outdated() -> None:
    assert needs_rehash("$argon2id$v=19$m=1024,t=1,p=1$c2FsdHNhbHRzYWx0$W6wbQ7TPnSVHJ3kPfCU0Q7x0p2JtAoCqtnnmAtQ6qdI")


@pytest.mark.parametrize(
    ("failures", "allowed", "now", "expected"),
    [
        ([], 3, 0, 0),
        ([0, 1], 3, 2, 0),
        ([0, 1, 2], 3, 2, WINDOW_SECONDS - 2),
        ([0, 1, 2], 3, WINDOW_SECONDS - 1, 1),
        ([0, 1, 2], 3, WINDOW_SECONDS, 0),
        ([0, 1, 2, 3], 3, 4, WINDOW_SECONDS - 3),
    ],
)
def test_so_long_one_waits(failures: list[float], allowed: int, now: float, expected: float) -> None:
    assert wait(failures, allowed, now) == expected


def test_an_account_is_protected_from_all_addresses_together() -> None:
    limits = LoginLimits()
    for number in range(PER_ACCOUNT):
        assert limits.wait("ann", f"10.0.0.{number}", 1) == 0
        limits.failed("Ann", f"10.0.0.{number}", 1)
    assert limits.wait("ann", "10.9.9.9", 2) == WINDOW_SECONDS - 1
    assert limits.wait("bob", "10.0.0.1", 2) == 0


def test_an_address_may_not_try_many_accounts() -> None:
    limits = LoginLimits()
    for number in range(PER_ADDRESS):
        limits.failed(f"user{number}", "10.0.0.1", 1)
    assert limits.wait("new", "10.0.0.1", 1) == WINDOW_SECONDS
    assert limits.wait("new", "10.0.0.2", 1) == 0


def test_getting_in_forgets_the_failures_of_the_account() -> None:
    limits = LoginLimits()
    for _ in range(PER_ACCOUNT):
        limits.failed("ann", "10.0.0.1", 1)
    limits.succeeded("ann")
    assert limits.wait("ann", "10.0.0.1", 1) == 0


def test_a_flood_of_names_does_not_fill_the_memory() -> None:
    limits = LoginLimits()
    for number in range(30_000):
        limits.failed(f"user{number}", "10.0.0.1", number / 1000)
    assert len(limits._failures) <= 10_000
    assert limits.wait("x", "10.0.0.1", 30) > 0, "the address that does it is remembered"
