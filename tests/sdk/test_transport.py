from __future__ import annotations

from muster.sdk.transport import FieldFault, parse_record


def test_an_answer_may_hold_more_than_the_client_knows() -> None:
    assert parse_record(FieldFault, {"field": "a", "message": "b", "new": 1}) == FieldFault("a", "b")
