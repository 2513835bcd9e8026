"""Base64 and base32 as Go reads them: line breaks are skipped, anything else is an error that names the byte."""

from __future__ import annotations

import base64
import binascii

from muster.workflows.expressions.characters import from_bytes, to_bytes
from muster.workflows.expressions.errors import ExpressionError

_ALPHABET64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_ALPHABET32 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def encode64(text: str) -> str:
    return base64.b64encode(to_bytes(text)).decode()


def decode64(text: str) -> str:
    data = to_bytes(text)
    try:
        return from_bytes(base64.b64decode(data.replace(b"\n", b"").replace(b"\r", b""), validate=True))
    except binascii.Error:
        raise ExpressionError(f"illegal base64 data at input byte {_fault64(data)}") from None


def encode32(text: str) -> str:
    return base64.b32encode(to_bytes(text)).decode()


def decode32(text: str) -> str:
    data = to_bytes(text)
    try:
        return from_bytes(base64.b32decode(data.replace(b"\n", b"").replace(b"\r", b"")))
    except binascii.Error:
        raise ExpressionError(f"illegal base32 data at input byte {_fault32(data)}") from None


def _fault64(data: bytes) -> int:
    """Where the data stops being base64: a byte that is none, wrong padding, or a group that is not full."""
    filled, padding = 0, 0
    for at, byte in enumerate(data):
        if byte in b"\r\n":
            continue
        if padding and filled + padding == 4:
            return at
        if byte == ord("=") and filled >= 2:
            padding += 1
        elif padding:
            return at - 1
        elif byte in _ALPHABET64:
            filled = (filled + 1) % 4
        else:
            return at
    return len(data) if padding else len(data) - filled


def _fault32(data: bytes) -> int:
    for at, byte in enumerate(data):
        if byte not in _ALPHABET32 and byte not in b"\r\n=":
            return at
    padding = data.find(b"=")
    return padding if padding >= 0 else len(data) - len(data) % 8
