from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.engine.written import Written, items_as_written, json_of


@pytest.mark.parametrize(
    ("text", "items", "again"),
    [
        ("[]", [], []),
        (" [ ] ", [], []),
        ('["a", true,false , null]', ["a", True, False, None], ['"a"', "true", "false", "null"]),
        ("[1, 1.50,\n1E5, -0]", ["1", "1.50", "1E5", "-0"], ["1", "1.50", "1E5", "-0"]),
        ('["a\\"b, ]", "\\u00e9"]', ['a"b, ]', "é"], ['"a\\"b, ]"', '"é"']),
        ("[[2.0 , [ 3 ]], []]", [["2.0", "[3]"], []], ["[2.0,[3]]", "[]"]),
        (
            '[{"b" : {"z": 1, "a": "x y"}, "a":1.0, "c": "t"}, {}]',
            [{"b": '{"z":1,"a":"x y"}', "a": "1.0", "c": "t"}, {}],
            ['{"a":1.0,"b":{"z":1,"a":"x y"},"c":"t"}', "{}"],
        ),
        ('[{"a": {"b": "<&>"}}]', [{"a": '{"b":"<&>"}'}], ['{"a":{"b":"\\u003c\\u0026\\u003e"}}']),
    ],
)
def test_items_keep_their_words(text: str, items: list[Any], again: list[str]) -> None:
    found = items_as_written(text)
    assert found == items
    assert [json_of(item) for item in found] == again


def test_a_number_is_no_text() -> None:
    number, text = items_as_written('[1, "1"]')
    assert (number, text) == ("1", "1")
    assert isinstance(number, Written) and not isinstance(text, Written)
