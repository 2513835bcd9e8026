"""Signs requests to Ti-Gateway: TC3-HMAC-SHA256 of Tencent Cloud API 3.0, with constants.

The gateway takes the URI `/`, an empty query and the hash of an empty payload, whatever the request is, and its list of
signed headers ends with a semicolon. So a signature covers the host, the service and the time, but neither the action
nor the body; it is valid for 60 minutes. Reach the gateway over TLS or a network that you trust.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime

ALGORITHM = "TC3-HMAC-SHA256"
CONTENT_TYPE = "application/json"
SIGNED_HEADERS = "content-type;host;x-tc-timestamp;"
_EMPTY_PAYLOAD = hashlib.sha256(b"").hexdigest()


def authorize(secret_id: str, secret_key: str, *, service: str, host: str, now: datetime, method: str = "POST") -> str:
    """Returns the Authorization header. Send `X-TC-Timestamp` with the same time."""
    timestamp = format_timestamp(now)
    date = now.astimezone(UTC).strftime("%Y-%m-%d")
    scope = f"{date}/{service}/tc3_request"
    headers = f"content-type:{CONTENT_TYPE}\nhost:{host}\nx-tc-timestamp:{timestamp}\n"
    request = "\n".join([method, "/", "", headers, SIGNED_HEADERS, _EMPTY_PAYLOAD])
    text = "\n".join([ALGORITHM, timestamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"TC3{secret_key}".encode()
    for part in (date, service, "tc3_request"):
        key = _hmac(key, part)
    signature = _hmac(key, text).hex()
    return f"{ALGORITHM} Credential={secret_id}/{scope}, SignedHeaders={SIGNED_HEADERS}, Signature={signature}"


def format_timestamp(now: datetime) -> str:
    return str(int(now.timestamp()))


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
