from __future__ import annotations

from typing import Any

import pytest

from muster.platform.users.audit import mask_details


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"name": "x"}, {"name": "x"}),
        ({"password": "hunter2"}, {"password": "***"}),
        (
            {"clientSecret": "s", "API_KEY": "k", "token": "t"},
            {"clientSecret": "***", "API_KEY": "***", "token": "***"},
        ),
        ({"env": [{"name": "A", "password": "x"}]}, {"env": [{"name": "A", "password": "***"}]}),
        ({"secrets": {"a": "visible name, hidden value"}}, {"secrets": {"a": "visible name, hidden value"}}),
        ({"tokens": 3}, {"tokens": 3}),
    ],
)
def test_values_of_secret_fields_are_not_recorded(details: Any, expected: Any) -> None:
    assert mask_details(details) == expected
