"""All ways to send a token."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from muster.server.cooker.tokens import find_token


def basic(text: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "query", "body"),
    [
        ({"authorization": "Bearer mst_1"}, {}, None),
        ({"authorization": "bearer  mst_1 "}, {}, None),
        ({"authorization": "mst_1"}, {}, None),
        (basic("token:mst_1"), {}, None),
        (basic("mst_1:"), {}, None),
        (basic("mst_1"), {}, None),
        ({"x-auth-token": "mst_1"}, {}, None),
        ({}, {"token": "mst_1"}, None),
        ({}, {}, {"token": "mst_1"}),
        ({"authorization": "Bearer mst_1", "x-auth-token": "other"}, {"token": "other"}, {"token": "other"}),
        ({"authorization": "Negotiate abc"}, {"token": "mst_1"}, []),
    ],
)
def test_a_token_is_found(headers: dict[str, str], query: dict[str, str], body: Any) -> None:
    assert find_token(headers, query, body) == "mst_1"


@pytest.mark.parametrize(
    ("headers", "body"),
    [({}, None), ({}, []), ({}, {"token": 7}), ({"authorization": "Basic %%%"}, {}), ({"authorization": "Bearer"}, {})],
)
def test_no_token_is_no_token(headers: dict[str, str], body: Any) -> None:
    assert find_token(headers, {}, body) in ("", "Bearer")
