"""Browsers and addresses from which a user has logged in before. Failed logins from elsewhere do not hold them up."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, delete, insert, select, update

from muster.platform.database.tables import known_devices, now
from muster.platform.users.credentials import hash_secret, new_secret
from muster.platform.users.login_limits import LoginPlace, Network

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
