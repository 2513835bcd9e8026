"""Secrets that are stored only as hashes: tokens and passwords."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from muster.platform.errors import TooManyRequestsProblem
from muster.platform.messages import FieldError, field_error

API_TOKEN = "mst_"  # noqa: S105 (how a token begins)
"""The prefix of API tokens, by which people and scanners recognize a leaked one."""


def new_secret(prefix: str = "") -> str:
    """256 random bits, in letters that need no quoting anywhere."""
    return prefix + secrets.token_hex(32)


def hash_secret(secret: str) -> str:
    """The hash that is stored. A slow hash is not needed for 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def csrf_token(session: str) -> str:
    """What a page must send along with every change it makes, derived from the session's secret."""
    return hmac.new(session.encode(), b"csrf", hashlib.sha256).hexdigest()


def secrets_equal(a: str, b: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(a.encode(), b.encode())


MIN_LENGTH, MAX_LENGTH = 10, 512

_hasher = PasswordHasher()
# Each hash takes 64 MB and a core: a flood of logins must not exhaust the host.
_pool = ThreadPoolExecutor(2, thread_name_prefix="passwords")
_waiting = 0
_MOST_WAITING, _MOST_WAITING_STRANGERS = 64, 16
"""How many hashes may wait for a thread. Guesses do not fill the whole queue: a user who is known gets a place."""
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$F2s1zNpXcMgp5Pq6PnTtqA$WzRv0mgbHcRkqu54FWdKVnAU3YTEqZz0YTvJ6FUnmlE"
"""A hash that no password matches: a login for an unknown account takes as long as any other."""


def check_password(where: str, password: str, *, name: str = "") -> FieldError | None:
    """Checks a new password; None if it is valid. `where` is the field of the request."""
    if len(password) < MIN_LENGTH:
        return field_error(where, "password.short", length=len(password), least=MIN_LENGTH)
    if len(password) > MAX_LENGTH:
        return field_error(where, "password.long", length=len(password), most=MAX_LENGTH)
    if len(set(password)) < 5:
        return field_error(where, "password.repeats")
    if name and password.lower() in {name.lower() * times for times in range(1, MAX_LENGTH)}:
        return field_error(where, "password.name")
    return None


async def hash_password(password: str) -> str:
    """Raises TooManyRequests if too many hashes are being computed."""
    return await _in_pool(lambda: _hasher.hash(password), _MOST_WAITING)


async def verify_password(password: str, stored: str | None, *, is_known: bool = True) -> bool:
    """Takes as long without a stored hash as with one. Raises TooManyRequests if too many passwords are being checked;
    for clients that are not known, that is sooner."""
    most = _MOST_WAITING if is_known else _MOST_WAITING_STRANGERS
    right = await _in_pool(lambda: _matches(stored or _NOBODY, password), most)
    return right and stored is not None


T = TypeVar("T")


async def _in_pool(function: Callable[[], T], most_waiting: int) -> T:
    global _waiting
    if _waiting >= most_waiting:
        raise TooManyRequestsProblem.of("login.busy").with_headers({"Retry-After": "5"})
    _waiting += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_pool, function)
    finally:
        _waiting -= 1


def needs_rehash(stored: str) -> bool:
    """Whether it was hashed with less effort than is usual now: hash it again while the password is known."""
    return _hasher.check_needs_rehash(stored)


def _matches(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False


# Two secrets in files, for the user who started the server: a one-time link for the
# browser, and a token for the
# command line. The database is not needed: the link is shown before the database is open.


LINK_FILE, TOKEN_FILE = "first-link", "local-token"


def platform_folder(home: Path) -> Path:
    """The platform's folder in the data directory."""
    return home / "platform"


def prepare_secrets(folder: Path) -> None:
    """Makes the files that are missing."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _ensure(folder / TOKEN_FILE, API_TOKEN)
    _ensure(folder / LINK_FILE, "")


def waiting_link(folder: Path) -> str:
    """The secret of the link if it is unused; else ''."""
    return _read(folder / LINK_FILE)


def local_token(folder: Path) -> str:
    """'' if there is none, or it cannot be read."""
    return _read(folder / TOKEN_FILE)


def forget_link(folder: Path) -> None:
    """An empty file means that it was used. Without a file, there would be a new one."""
    (folder / LINK_FILE).write_text("")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (FileNotFoundError, PermissionError):
        return ""


def _ensure(path: Path, prefix: str) -> None:
    if path.exists():
        return
    # Whole or not at all: a process that dies in between must not leave an empty file.
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(new_secret(prefix))
    draft.rename(path)
