"""sprig: base64, base32 and checksums."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import decode32, decode64, encode32, encode64
from muster.workflows.lang.go_strings import to_bytes
from muster.workflows.lang.sprig.sprig_functions import function_table


def _or_message(decode: Callable[[str], str]) -> Callable[[str], str]:
    """What is wrong with a text is the result; that is how sprig does it."""

    def call(text: str) -> str:
        try:
            return decode(text)
        except ExpressionError as error:
            return error.message

    return call


FUNCTIONS = function_table(
    ("b64enc", "string", encode64),
    ("b64dec", "string", _or_message(decode64)),
    ("b32enc", "string", encode32),
    ("b32dec", "string", _or_message(decode32)),
    ("sha1sum", "string", lambda text: hashlib.sha1(to_bytes(text), usedforsecurity=False).hexdigest()),
    ("sha256sum", "string", lambda text: hashlib.sha256(to_bytes(text)).hexdigest()),
    ("sha512sum", "string", lambda text: hashlib.sha512(to_bytes(text)).hexdigest()),
    ("adler32sum", "string", lambda text: str(zlib.adler32(to_bytes(text)))),
)
