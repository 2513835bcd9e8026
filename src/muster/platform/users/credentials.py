"""Secrets that the platform hands out once and knows only by their hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets

API_TOKEN = "mst_"  # noqa: S105 (how a token begins)
"""How an API token begins, so that people and scanners recognize one that leaked."""


def new_secret(prefix: str = "") -> str:
    """256 random bits, in letters that need no quoting anywhere."""
    return prefix + secrets.token_hex(32)


def hashed(secret: str) -> str:
    """What is stored. A slow hash is for what people make up; nobody guesses 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def csrf_token(session: str) -> str:
    """What a page must send along with every change it makes, derived from the session's secret."""
    return hmac.new(session.encode(), b"csrf", hashlib.sha256).hexdigest()


def same(a: str, b: str) -> bool:
    """Compares without telling by its duration how much was right."""
    return hmac.compare_digest(a.encode(), b.encode())
