"""Passwords: hashed with argon2, a few at a time, off the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from muster.platform.errors import FieldError
from muster.platform.sentences import fault

MIN_LENGTH, MAX_LENGTH = 10, 512

_hasher = PasswordHasher()
# Each takes 64 MB and a core for a while: a flood of logins must not take the machine along.
_pool = ThreadPoolExecutor(2, thread_name_prefix="passwords")
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$F2s1zNpXcMgp5Pq6PnTtqA$WzRv0mgbHcRkqu54FWdKVnAU3YTEqZz0YTvJ6FUnmlE"
"""The hash of nothing anybody knows: whoever asks about an account that is not there waits just as long."""


def password_fault(where: str, password: str, *, name: str = "") -> FieldError | None:
    """What is wrong with it as a new password; None if nothing is. `where` is the field that it is in."""
    if len(password) < MIN_LENGTH:
        return fault(where, "password.short", length=len(password), least=MIN_LENGTH)
    if len(password) > MAX_LENGTH:
        return fault(where, "password.long", length=len(password), most=MAX_LENGTH)
    if len(set(password)) < 5:
        return fault(where, "password.repeats")
    if name and password.lower() in {name.lower() * times for times in range(1, MAX_LENGTH)}:
        return fault(where, "password.name")
    return None


async def hash_password(password: str) -> str:
    return await asyncio.get_running_loop().run_in_executor(_pool, _hasher.hash, password)


async def verify_password(password: str, stored: str | None) -> bool:
    """Takes as long without a stored hash as with one."""
    right = await asyncio.get_running_loop().run_in_executor(_pool, _matches, stored or _NOBODY, password)
    return right and stored is not None


def outdated(stored: str) -> bool:
    """Whether it was hashed with less effort than is usual now: hash it again while the password is known."""
    return _hasher.check_needs_rehash(stored)


def _matches(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
