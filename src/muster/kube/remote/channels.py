"""The protocol of exec over WebSocket: every message begins with the number of its channel.

Both ends use it: our client to reach any API server, our API to serve any client.
"""

from __future__ import annotations

from typing import Any

import orjson

from muster.kube.errors import ApiError, from_status

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

V5 = "v5.channel.k8s.io"
"""Can close a single channel, such as stdin."""

V4 = "v4.channel.k8s.io"
"""Ends with a Status on the error channel."""


def frame(channel: int, data: bytes) -> bytes:
    return bytes((channel,)) + data


def resize_message(rows: int, columns: int) -> bytes:
    return frame(RESIZE, orjson.dumps({"Width": columns, "Height": rows}))


def size_in(data: bytes) -> tuple[int, int] | None:
    """(rows, columns) of a resize message; None where it makes no sense."""
    try:
        size = orjson.loads(data)
        return int(size["Height"]), int(size["Width"])
    except (ValueError, KeyError, TypeError):
        return None


def exit_status(code: int) -> dict[str, Any]:
    """The Status that tells how a command ended."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def exit_code(status: bytes) -> int:
    """The code in such a Status. Raises ApiError where the command could not be run at all."""
    try:
        told = orjson.loads(status)
    except orjson.JSONDecodeError:
        raise ApiError(f"exec failed: {status.decode(errors='replace').strip()}") from None
    if told.get("status") == "Success":
        return 0
    if told.get("reason") == "NonZeroExitCode":
        for cause in (told.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
                return int(cause["message"])
    raise from_status(told)
