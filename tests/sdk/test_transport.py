from __future__ import annotations

from muster.sdk.transport import FieldFault, parse_record


def test_unknown_fields_of_a_response_are_ignored() -> None:
    assert parse_record(FieldFault, {"field": "a", "message": "b", "new": 1}) == FieldFault("a", "b")
