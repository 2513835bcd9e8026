from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.b64enc('hello')", "aGVsbG8="),
        ("sprig.b64dec('aGVsbG8=')", "hello"),
        ("sprig.b64dec('aGVs\\nbG8=')", "hello"),
        ("sprig.b64dec('nope!')", "illegal base64 data at input byte 4"),
        ("sprig.b64dec('YQ')", "illegal base64 data at input byte 0"),
        ("sprig.b64dec('YQ=')", "illegal base64 data at input byte 3"),
        ("sprig.b64dec('YQ==x')", "illegal base64 data at input byte 4"),
        ("sprig.b32enc('hello')", "NBSWY3DP"),
        ("sprig.b32dec('NBSWY3DP')", "hello"),
        ("sprig.b32dec('1')", "illegal base32 data at input byte 0"),
        ("sprig.sha1sum('hello')", "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"),
        ("sprig.sha256sum('hello')", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
        ("sprig.sha512sum('')[:16]", "cf83e1357eefb8bd"),
        ("sprig.adler32sum('hello')", "103547413"),
    ],
)
def test_encodings_and_checksums(expression: str, value: Any) -> None:
    assert value_of(expression) == value
