"""TC3-HMAC-SHA256 with Ti-Gateway's constants: known signatures, and Tencent's algorithm written down once more."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.dispatch.timaker.signer import authorize

AT = datetime.fromtimestamp(1767225600, UTC)

VECTORS = {
    "timaker": "2984a005b1b3c3cfa58e196202a56d7b1911cead5a4571dea537e9d98edf9f86",
    "ti-resource-server": "3ea7ec8a318641892df7417924709531eed40b7ed44cedcde4c8c7ba4611391c",
}


@pytest.mark.parametrize(("service", "signature"), VECTORS.items())
def test_known_signatures(service: str, signature: str) -> None:
    found = authorize("test-secret-id", "test-secret-key", service=service, host="127.0.0.1", now=AT)
    assert found == (
        f"TC3-HMAC-SHA256 Credential=test-secret-id/2026-01-01/{service}/tc3_request, "
        f"SignedHeaders=content-type;host;x-tc-timestamp;, Signature={signature}"
    )


def tencents_signature(
    secret_key: str, service: str, timestamp: int, *, uri: str, query: str, payload: bytes, headers: dict[str, str],
    signed_headers: str,
) -> str:  # fmt: skip
    """Signature method v3 as Tencent Cloud documents it, step by step, with every part a parameter."""
    date = datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d")
    canonical_headers = "".join(f"{name.lower()}:{headers[name].strip()}\n" for name in sorted(headers, key=str.lower))
    hashed_payload = hashlib.sha256(payload).hexdigest().lower()
    canonical_request = f"POST\n{uri}\n{query}\n{canonical_headers}\n{signed_headers}\n{hashed_payload}"
    scope = f"{date}/{service}/tc3_request"
    hashed_request = hashlib.sha256(canonical_request.encode("utf-8")).hexdigest().lower()
    string_to_sign = f"TC3-HMAC-SHA256\n{timestamp}\n{scope}\n{hashed_request}"
    secret_date = hmac.digest(("TC3" + secret_key).encode("utf-8"), date.encode(), "sha256")
    secret_service = hmac.digest(secret_date, service.encode(), "sha256")
    secret_signing = hmac.digest(secret_service, b"tc3_request", "sha256")
    return hmac.new(secret_signing, string_to_sign.encode("utf-8"), hashlib.sha256).hexdigest()


@given(
    key=st.text("abcdefXYZ0123456789", min_size=1, max_size=40),
    service=st.sampled_from(["timaker", "ti-resource-server"]),
    host=st.sampled_from(["127.0.0.1", "gateway.example.com", "127.0.0.1:31425"]),
    timestamp=st.integers(1577836800, 2208988800),
)
def test_tencents_algorithm_gives_the_same(key: str, service: str, host: str, timestamp: int) -> None:
    expected = tencents_signature(
        key, service, timestamp, uri="/", query="", payload=b"", signed_headers="content-type;host;x-tc-timestamp;",
        headers={"X-TC-Timestamp": str(timestamp), "Host": host, "Content-Type": "application/json"},
    )  # fmt: skip
    found = authorize("id", key, service=service, host=host, now=datetime.fromtimestamp(timestamp, UTC))
    assert found.endswith(f"Signature={expected}")
