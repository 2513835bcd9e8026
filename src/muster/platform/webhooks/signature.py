"""The signature of a message, as the Standard Webhooks specification has it (https://www.standardwebhooks.com): a
receiver checks it with any library for that, and can tell an old message from a new one. Pure functions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

SHORTEST_SECRET: Final = 16
"""Bytes."""
_PREFIX: Final = "whsec_"


def signing_key(secret: str) -> bytes:
    """A secret is any text, or `whsec_` and the key in base64."""
    if secret.startswith(_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def sign(secret: str, delivery: str, timestamp: int, body: str) -> str:
    """The value of the header `webhook-signature`."""
    message = f"{delivery}.{timestamp}.{body}".encode()
    return "v1," + base64.b64encode(hmac.digest(signing_key(secret), message, hashlib.sha256)).decode()


def signed_headers(secret: str, delivery: str, timestamp: int, body: str) -> dict[str, str]:
    """Without a secret, a message has an id and a time, but no signature."""
    headers = {"webhook-id": delivery, "webhook-timestamp": str(timestamp)}
    return {**headers, "webhook-signature": sign(secret, delivery, timestamp, body)} if secret else headers
