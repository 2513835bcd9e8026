"""Guesses are held up, and the owner of an account is not."""

from __future__ import annotations

import pytest

from muster.platform.users.login_limits import (
    PER_ACCOUNT,
    PER_ADDRESS,
    PER_PAIR,
    WINDOW_SECONDS,
    Counted,
    LoginLimits,
    LoginPlace,
    forwarded_client,
    network_of,
    seconds_to_wait,
)

HOME = LoginPlace("192.0.2.1", "browser", True)


def place(number: int) -> LoginPlace:
    return LoginPlace(f"10.0.{number // 250}.{number % 250}")


def allowed(limits: LoginLimits, account: str, where: LoginPlace, now: float = 1) -> bool:
    return isinstance(limits.begin(account, where, now), Counted)


@pytest.mark.parametrize(
    ("attempts", "most", "now", "expected"),
    [
        ([], 3, 0, 0),
        ([0, 1], 3, 2, 0),
        ([0, 1, 2], 3, 2, WINDOW_SECONDS - 2),
        ([0, 1, 2], 3, WINDOW_SECONDS - 1, 1),
        ([0, 1, 2], 3, WINDOW_SECONDS, 0),
        ([0, 1, 2, 3], 3, 4, WINDOW_SECONDS - 3),
    ],
)
def test_the_wait_ends_when_the_oldest_attempt_expires(
    attempts: list[float], most: int, now: float, expected: float
) -> None:
    assert seconds_to_wait(attempts, most, now) == expected


def test_an_attempt_counts_before_it_is_checked() -> None:
    limits = LoginLimits()
    assert [allowed(limits, "ann", place(1)) for _ in range(200)].count(True) == PER_PAIR


def test_unknown_addresses_together_are_limited_per_account_and_the_owner_is_not() -> None:
    limits = LoginLimits()
    assert [allowed(limits, "ann", place(number)) for number in range(200)].count(True) == PER_ACCOUNT
    assert not allowed(limits, "Ann", place(999)), "an account has one count, however it is written"
    assert allowed(limits, "ann", HOME)
    assert allowed(limits, "ann", LoginPlace("192.0.2.1", "", True)), "another browser at a known address"
    assert allowed(limits, "ann", LoginPlace("10.0.0.1", "browser")), "a known browser at the address of the guesser"
    assert allowed(limits, "bob", place(999))


def test_an_address_may_not_try_many_accounts() -> None:
    limits = LoginLimits()
    assert [allowed(limits, f"user{number}", place(1)) for number in range(100)].count(True) == PER_ADDRESS
    assert allowed(limits, "ann", LoginPlace(place(1).network, "", True)), "a user with an earlier login from there"
    assert allowed(limits, "ann", place(2))


def test_a_success_takes_back_its_own_count_only() -> None:
    limits = LoginLimits()
    for _ in range(PER_PAIR):
        limits.begin("ann", place(1), 1)
    for _ in range(5):
        own = limits.begin("guesser", place(1), 1)
        assert isinstance(own, Counted)
        limits.succeeded(own)
    assert not allowed(limits, "ann", place(1))
    assert limits._attempts.keys() == {"pair 10.0.0.1 ann", "address 10.0.0.1", "account ann"}


def test_a_flood_of_names_does_not_fill_the_memory() -> None:
    limits = LoginLimits()
    for number in range(120_000):
        limits.begin_secret("link", str(number), number / 100_000)
    assert len(limits._attempts) <= 100_000


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nonsense", "nonsense"),
        ("", ""),
    ],
)
def test_what_one_client_can_choose_counts_as_one(address: str, expected: str) -> None:
    assert network_of(address) == expected


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "expected"),
    [
        ("192.0.2.7", "203.0.113.9", (), "192.0.2.7"),
        ("192.0.2.7", "203.0.113.9", ("10.0.0.0/8",), "192.0.2.7"),
        ("10.0.0.1", "203.0.113.9", ("10.0.0.0/8",), "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.9", ("10.0.0.0/8",), "203.0.113.9"),
        ("10.0.0.1", "203.0.113.9, 10.0.0.2", ("10.0.0.0/8",), "203.0.113.9"),
        ("10.0.0.1", "203.0.113.9:4711", ("10.0.0.1",), "203.0.113.9"),
        ("10.0.0.1", "[2001:db8::1]:4711", ("10.0.0.1",), "2001:db8::1"),
        ("::ffff:10.0.0.1", "203.0.113.9", ("10.0.0.1",), "203.0.113.9"),
        ("10.0.0.1", "", ("10.0.0.1",), "10.0.0.1"),
        ("10.0.0.1", "203.0.113.9, <script>", ("10.0.0.1",), "10.0.0.1"),
    ],
)
def test_only_trusted_proxies_name_the_client(
    peer: str, forwarded: str, trusted: tuple[str, ...], expected: str
) -> None:
    assert forwarded_client(peer, forwarded, trusted) == expected
