"""Secrets and tokens are masked."""

from __future__ import annotations

import pytest

from muster.platform.runs.status import Masks, with_masks, with_token

TOKEN = "mst_" + "0a" * 32


def secret(*values: str) -> dict[str, object]:
    return with_token(with_masks({"data": {}}, values), TOKEN)


@pytest.mark.parametrize(
    ("values", "text", "shown"),
    [
        (["hunter2"], "the key is hunter2.", "the key is ***."),
        (["hunter2", "hunter2-more"], "hunter2-more hunter2", "*** ***"),
        (["a.*b"], "aXXb a.*b", "aXXb ***"),
        (["first line\nsecond line"], "second line", "***"),
        (["abc"], "abc", "abc"),
        ([], f"token={TOKEN}", "token=***"),
        ([], "mst_" + "1b" * 32, "***"),
        ([], "mst_short", "mst_short"),
    ],
)
def test_a_string(values: list[str], text: str, shown: str) -> None:
    assert Masks.of(secret(*values)).text(text) == shown


def test_all_strings_of_a_value() -> None:
    shown = Masks.of(secret("hunter2")).anything({"a": ["x hunter2", 1, None], "b": {"c": "hunter2"}})
    assert shown == {"a": ["x ***", 1, None], "b": {"c": "***"}}


def test_tokens_are_masked_even_without_a_secret() -> None:
    assert Masks.of(None).text(f"{TOKEN} hunter2") == "*** hunter2"
