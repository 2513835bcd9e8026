"""The ways in which a client of MLP Cooker sends its token. Pure.

`Authorization: Bearer`, `X-Auth-Token`, `?token=`, `token` in the body, and Basic with the token as the password:
curl sends that for `http://token:SECRET@host`, which is how a WorkflowTemplate that has no header for a token gets one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any


def find_token(headers: Mapping[str, str], query: Mapping[str, str], body: Any) -> str:
    """Returns the first that is there, '' if there is none. Names of `headers` are in lower case, or do not care."""
    sent = body.get("token") if isinstance(body, Mapping) else None
    return (
        _from_authorization(headers.get("authorization", ""))
        or headers.get("x-auth-token", "").strip()
        or query.get("token", "").strip()
        or (sent.strip() if isinstance(sent, str) else "")
    )


def _from_authorization(header: str) -> str:
    scheme, _, rest = header.strip().partition(" ")
    match scheme.lower():
        case "bearer":
            return rest.strip()
        case "basic":
            return _from_basic(rest.strip())
    return header.strip() if not rest else ""  # upstream also takes the token alone


def _from_basic(encoded: str) -> str:
    """The password; the user name if there is no password, as in `http://SECRET@host`."""
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    name, _, password = text.partition(":")
    return password or name
