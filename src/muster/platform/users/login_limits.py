"""How often a login may be tried: per account and address, per address, and per account from unknown places; and the
browsers and addresses from which a user has logged in before.

An attempt is counted before the password is checked, in one step that cannot be interrupted: guesses that arrive
together count as much as guesses that arrive one after the other. A success takes its own count back.

The owner of an account cannot be locked out: failures from elsewhere only delay places without an earlier login to
this account. A browser with a device cookie of the account, and an address with an earlier success, have counts of
their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, delete, insert, select, update

from muster.platform.database.tables import known_devices, now
from muster.platform.users.credentials import hash_secret, new_secret

WINDOW_SECONDS = 300.0
PER_DEVICE = 10
"""Attempts of a browser that has logged in to the account before."""
PER_PAIR = 10
"""Attempts on one account from one address."""
PER_ADDRESS = 30
"""Attempts on all accounts from one address, without those from known places."""
PER_ACCOUNT = 30
"""Attempts on one account from all unknown addresses together."""
PER_SECRET = 30
"""Unknown one-time links, and failed logins with OpenID, from one address."""
_REMEMBERED = 100_000

Network: TypeAlias = str


class LoginPlace(NamedTuple):
    """Where an attempt comes from."""

    network: Network
    device: str = ""
    """The id of the browser, if it has logged in to this account before."""
    is_known: bool = False
    """Whether there was a login to this account from this network before."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters in which an attempt was counted."""

    keys: tuple[str, ...]
    at: float


class LoginLimits:
    """Counts attempts. Its methods never wait, so that they are atomic on the event loop."""

    def __init__(self) -> None:
        self._attempts: OrderedDict[str, tuple[float, ...]] = OrderedDict()

    def begin(self, account: str, place: LoginPlace, now: float) -> Counted | float:
        """Counts an attempt to log in. Returns the seconds to wait if it is not allowed; then it is not counted."""
        return self._count(login_counters(account, place), now)

    def begin_secret(self, kind: str, network: Network, now: float) -> Counted | float:
        """Counts the use of a one-time link."""
        return self._count([{f"{kind} {network}": PER_SECRET}], now)

    def begin_openid(self, network: Network, device: str, now: float) -> Counted | float:
        """Counts the use of an OpenID code. `device` is the id of a browser that has logged in before, to any account:
        failures of others in its network do not hold it up."""
        ways = [{f"openid device {device}": PER_DEVICE}] if device else []
        return self._count([*ways, {f"openid {network}": PER_SECRET}], now)

    def begin_password_change(self, session: str, now: float) -> Counted | float:
        """Counts an attempt to name the old password. It is counted per session: a stolen session
        does not delay the others."""
        return self._count([{f"password {session}": PER_DEVICE}], now)

    def succeeded(self, counted: Counted) -> None:
        """Takes the count of this attempt back, and no other: a login to one's own account does not reset the count of
        guesses on other accounts."""
        for key in counted.keys:
            left = list(self._attempts.get(key, ()))
            if counted.at in left:
                left.remove(counted.at)
            if left:
                self._attempts[key] = tuple(left)
            else:
                self._attempts.pop(key, None)

    def _count(self, ways: Sequence[dict[str, int]], now: float) -> Counted | float:
        waits = [
            max(seconds_to_wait(self._attempts.get(key, ()), allowed, now) for key, allowed in way.items())
            for way in ways
        ]
        shortest = min(waits)
        if shortest > 0:
            return shortest
        way = ways[waits.index(shortest)]
        for key, allowed in way.items():
            self._attempts[key] = (*recent(self._attempts.pop(key, ()), now), now)[-allowed:]
        while len(self._attempts) > _REMEMBERED:
            self._attempts.popitem(last=False)
        return Counted(tuple(way), now)


def login_counters(account: str, place: LoginPlace) -> list[dict[str, int]]:
    """The ways in which an attempt may be allowed, each with its counters and their limits; one is enough."""
    name = account.lower()[:100]
    pair = {f"pair {place.network} {name}": PER_PAIR}
    ways = []
    if place.device:
        ways.append({f"device {place.device} {name}": PER_DEVICE})
    if place.is_known:
        ways.append(pair)
    else:
        ways.append({**pair, f"address {place.network}": PER_ADDRESS, f"account {name}": PER_ACCOUNT})
    return ways


def seconds_to_wait(attempts: Iterable[float], allowed: int, now: float) -> float:
    """Seconds until fewer than `allowed` attempts are recent."""
    counting = recent(attempts, now)
    if len(counting) < allowed:
        return 0.0
    return counting[-allowed] + WINDOW_SECONDS - now


def recent(attempts: Iterable[float], now: float) -> tuple[float, ...]:
    return tuple(moment for moment in attempts if now - moment < WINDOW_SECONDS)


def network_of(address: str) -> Network:
    """What one client can choose freely counts as one: an IPv6 address by its /64, an IPv4 address as it is."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, 64), strict=False))
    return str(parsed)


def forwarded_client(peer: str, forwarded: str, trusted: Sequence[str]) -> str:
    """The address of the client, for a request that came from `peer` with `forwarded` as its X-Forwarded-For.

    The header is believed only as far as trusted proxies wrote it: from the right, up to the first address that is not
    one of them. A client can write anything to the left of that."""
    if not trusted or not is_trusted(peer, trusted):
        return peer
    client = peer
    for entry in reversed(forwarded.split(",")):
        address = _without_port(entry.strip())
        try:
            ip_address(address)
        except ValueError:
            return client
        client = address
        if not is_trusted(address, trusted):
            return client
    return client


def is_trusted(address: str, trusted: Sequence[str]) -> bool:
    try:
        parsed = ip_address(address)
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in ip_network(each, strict=False) for each in trusted)
    except ValueError:
        return False


def _without_port(entry: str) -> str:
    """10.0.0.1:443 is 10.0.0.1, and [2001:db8::1]:443 is 2001:db8::1."""
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry


DEVICE_LIFETIME = timedelta(days=180)
"""So long after the last login."""
_PER_USER = 50


def find_place(connection: Connection, user_id: str, secret: str, network: Network) -> LoginPlace:
    """Whether this account was logged in to from this browser and network before. `secret` is the device cookie."""
    known = known_devices.c
    fresh = (known.user_id == user_id) & (known.last_used > now() - DEVICE_LIFETIME)
    hashed = hash_secret(secret) if secret else ""
    device = secret and connection.execute(select(known.hash).where(fresh, known.hash == hashed).limit(1)).first()
    address = connection.execute(select(known.hash).where(fresh, known.network == network).limit(1)).first()
    return LoginPlace(network, hashed if device else "", address is not None)


def find_device(connection: Connection, secret: str) -> str:
    """Returns the id of a browser from which any account was logged in to before; or ''. `secret` is its cookie."""
    known, hashed = known_devices.c, hash_secret(secret)
    fresh = (known.hash == hashed) & (known.last_used > now() - DEVICE_LIFETIME)
    return hashed if secret and connection.execute(select(known.hash).where(fresh).limit(1)).first() else ""


def remember_device(connection: Connection, user_id: str, secret: str, network: Network) -> str:
    """Remembers a successful login. Returns the new secret for the cookie, which replaces the old one for all accounts
    of this browser: a cookie that was planted or copied is worth nothing after the next login."""
    fresh, at, known = new_secret(), now(), known_devices.c
    hashed = hash_secret(fresh)
    if secret:
        connection.execute(update(known_devices).where(known.hash == hash_secret(secret)).values(hash=hashed))
    same = (known.user_id == user_id) & (known.hash == hashed) & (known.network == network)
    connection.execute(delete(known_devices).where(same))
    connection.execute(insert(known_devices).values(user_id=user_id, hash=hashed, network=network, last_used=at))
    connection.execute(delete(known_devices).where(known.last_used < at - DEVICE_LIFETIME))
    kept = select(known.last_used).where(known.user_id == user_id).order_by(known.last_used.desc()).offset(_PER_USER)
    oldest = connection.execute(kept.limit(1)).scalar_one_or_none()
    if oldest is not None:
        connection.execute(delete(known_devices).where(known.user_id == user_id, known.last_used <= oldest))
    return fresh
