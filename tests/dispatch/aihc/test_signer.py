"""bce-auth-v1: known signatures, and the same as Baidu's own SDK for any request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from baidubce.auth import bce_v1_signer
from baidubce.auth.bce_credentials import BceCredentials
from hypothesis import given
from hypothesis import strategies as st

from muster.dispatch.aihc.signer import authorize, canonical_query

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
HEADERS = {"Host": "127.0.0.1:8080", "Content-Type": "application/json", "x-bce-date": "2026-01-01T00:00:00Z"}
CREATE = {"action": "CreateJob", "resourcePoolId": "aihc-serverless", "queueID": "q-1"}
QUEUES = {"action": "DescribeQueues", "resourcePoolId": "aihc-serverless", "pageNumber": "1", "pageSize": "10"}

PREFIX = "bce-auth-v1/test-access-key/2026-01-01T00:00:00Z/1800"
VECTORS = [
    ("POST", CREATE, {"content-length": "32"}, (),
     f"{PREFIX}//a16ba7f36098bf2a4345d8bcfeff3a80cc1e3471156c44da20247a8ceb5d103e"),
    ("POST", {**CREATE, "queueID": "q 1/ü"}, {"content-length": "32"}, (),
     f"{PREFIX}//a1cfd77112407f64c794e25485a7d1d2d0030e681ae90aca87ba568be36b3093"),
    ("GET", QUEUES, {}, ("content-type", "host", "x-bce-date"),
     f"{PREFIX}/content-type;host;x-bce-date/1219a3e5cbd11bd3eaef04d33237d015426fc0e648469c6e431d1be2e01b97b6"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "query", "more", "signed", "expected"), VECTORS)
def test_known_signatures(
    method: str, query: dict[str, str], more: dict[str, str], signed: Sequence[str], expected: str
) -> None:
    found = authorize(
        "test-access-key",
        "test-secret-key",
        method=method,
        path="/",
        query=query,
        headers=HEADERS | more,
        now=NEW_YEAR,
        signed_headers=signed,
    )
    assert found == expected


def test_the_query_is_sent_as_it_is_signed() -> None:
    assert canonical_query({"queueID": "q 1/ü", "action": "A+~*"}) == "action=A%2B~%2A&queueID=q%201%2F%C3%BC"


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)
NAME = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12)


@given(
    key=st.text("abcdefXYZ0123456789", min_size=1, max_size=32),
    query=st.dictionaries(TEXT, TEXT, max_size=5),
    more=st.dictionaries(NAME.map("x-bce-".__add__), TEXT, max_size=3),
    signed=st.sampled_from([(), ("host",), ("content-type", "host", "x-bce-date")]),
    seconds=st.integers(1577836800, 2208988800),
)
def test_baidus_sdk_signs_every_request_alike(
    key: str, query: dict[str, str], more: dict[str, str], signed: tuple[str, ...], seconds: int
) -> None:
    now = datetime.fromtimestamp(seconds, UTC)
    # Given a list, the SDK signs all x-bce-* headers, too, and a server that goes by the list refuses that.
    headers = HEADERS | more if not signed else HEADERS
    if signed == ("host",):
        headers = {"Host": "127.0.0.1:8080"}
    ours = authorize("ak", key, method="POST", path="/", query=query, headers=headers, now=now, signed_headers=signed)
    theirs = bce_v1_signer.sign(
        BceCredentials("ak", key),
        b"POST",
        b"/",
        {name.encode(): value.encode() for name, value in headers.items()},
        {name.encode(): value.encode() for name, value in query.items()},
        timestamp=seconds,
        headers_to_sign=[name.encode() for name in signed],
    )
    assert ours == theirs.decode()
