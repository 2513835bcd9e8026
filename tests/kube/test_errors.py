from __future__ import annotations

from typing import Any

import pytest

from muster.kube import errors
from muster.kube.errors import ApiError, Cause, Conflict, Gone, Invalid, NotFound, TooManyRequests, from_status

KINDS = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, ApiError) and found is not ApiError
]


def test_a_status_says_what_is_wrong_and_where() -> None:
    error = Invalid('Pod "p" is invalid', causes=[Cause("spec.x", "Required value", "FieldValueRequired")])
    assert error.to_status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Pod "p" is invalid',
        "reason": "Invalid",
        "code": 422,
        "details": {"causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.x"}]},
    }
    assert "details" not in NotFound("nothing").to_status()
    assert str(error) == 'Pod "p" is invalid'


@pytest.mark.parametrize(("seconds", "told"), [(0.01, 1), (2.4, 2), (30, 30)])
def test_a_client_is_told_when_to_come_back(seconds: float, told: int) -> None:
    assert TooManyRequests("busy", retry_after=seconds).to_status()["details"] == {"retryAfterSeconds": told}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_the_wire(kind: type[ApiError]) -> None:
    sent = kind("what happened", causes=[Cause("a.b", "c", "d")], retry_after=3)
    received = from_status(sent.to_status())
    assert type(received) is kind
    assert (received.message, received.causes, received.retry_after) == (sent.message, sent.causes, 3)
    assert received.to_status() == sent.to_status()


def test_no_two_errors_share_a_reason() -> None:
    assert len({kind.reason for kind in KINDS}) == len(KINDS)
    assert all(400 <= kind.code < 600 for kind in KINDS)


@pytest.mark.parametrize(
    ("status", "code", "kind", "message"),
    [
        ({"reason": "Gone", "code": 410, "message": "old"}, 410, Gone, "old"),
        ({"reason": "Expired", "code": 410, "message": "old"}, 410, Gone, "old"),
        ({"code": 404, "message": "no"}, 500, NotFound, "no"),
        ({}, 404, NotFound, "the API answered 404"),
        ({}, 409, Conflict, "the API answered 409"),
        ({"reason": "SomethingNew", "code": 422}, 500, Invalid, "the API answered 422"),
        ({"reason": "SomethingNew", "code": 599, "details": None}, 500, ApiError, "the API answered 599"),
    ],
)
def test_what_others_send_is_understood_as_far_as_it_goes(
    status: dict[str, Any], code: int, kind: type[ApiError], message: str
) -> None:
    error = from_status(status, code)
    assert (type(error), error.message) == (kind, message)
