from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.engine.clock import RunClock
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.loops import RawJson, expand_loop, is_loop, parse_raw_items, raw_json_text
from muster.workflows.lang.errors import ExpressionError

CLOCK = RunClock().expressions

STEP = {"name": "fan", "template": "t", "arguments": {"parameters": [{"name": "m", "value": "{{item}}"}]}}


def values(step: dict[str, Any], scope: dict[str, Any] | None = None) -> dict[str, str]:
    return {
        item.name: item.step["arguments"]["parameters"][0]["value"] for item in expand_loop(step, scope or {}, CLOCK)
    }


@pytest.mark.parametrize(
    ("item", "name", "value"),
    [
        ("red", "fan(0:red)", "red"),
        ("a (b)", "fan(0:a b)", "a (b)"),
        (3, "fan(0:3)", "3"),
        (1.5, "fan(0:1.5)", "1.5"),
        (True, "fan(0:true)", "true"),
        ({"b": 1, "a": "x"}, "fan(0:a:x,b:1)", '{"a":"x","b":1}'),
        (["x", 2], "fan(0:[x 2])", '["x",2]'),
        (None, "fan(0:[])", "null"),
        ('say "hi"', 'fan(0:say \\"hi\\")', 'say "hi"'),
    ],
)
def test_items_of_every_kind(item: Any, name: str, value: str) -> None:
    assert values({**STEP, "withItems": [item]}) == {name: value}


def test_the_fields_of_a_map() -> None:
    step = {**STEP, "withItems": [{"os": "linux", "v": {"n": 1}}]}
    step["arguments"] = {"parameters": [{"name": "m", "value": "{{item.os}}-{{item.v}}"}]}
    assert list(values(step).values()) == ['linux-{"n":1}']


def test_a_json_list_of_any_length() -> None:
    assert values({**STEP, "withParam": '["a", 2, {"k": "v"}]'}) == {
        "fan(0:a)": "a",
        "fan(1:2)": "2",
        "fan(2:k:v)": '{"k":"v"}',
    }
    assert values({**STEP, "withParam": '[1.50, {"k": {"z": 1e3, "a": 2}}]'}) == {
        "fan(0:1.50)": "1.50",
        'fan(1:k:{"z":1e3,"a":2})': '{"k":{"z":1e3,"a":2}}',
    }
    assert values({**STEP, "withParam": "[]"}) == {}
    assert values({**STEP, "withParam": "null"}) == {}


@pytest.mark.parametrize("text", ["hello", '{"a": 1}', "3", "[1,"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(WorkflowError, match="withParam value could not be parsed as a JSON list"):
        expand_loop({**STEP, "withParam": text}, {}, CLOCK)


def test_what_is_no_list_does_not_matter_to_a_step_that_does_not_run() -> None:
    assert expand_loop({**STEP, "withParam": "hello", "when": "1 == 2"}, {}, CLOCK) == []


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ({"count": "3"}, ["0", "1", "2"]),
        ({"count": 2, "start": "5"}, ["5", "6"]),
        ({"start": 1, "end": 3}, ["1", "2", "3"]),
        ({"start": "3", "end": "1"}, ["3", "2", "1"]),
        ({"count": 0}, []),
        ({"end": 0}, ["0"]),
        ({"count": 2, "format": "host-%02d.example"}, ["host-00.example", "host-01.example"]),
        ({"start": 254, "end": 255, "format": "%x|%5d|%-4dx|%%"}, ["fe|  254|254 x|%", "ff|  255|255 x|%"]),
        ({"start": -1, "end": -1, "format": "%03d"}, ["-01"]),
    ],
)
def test_sequences(sequence: dict[str, Any], expected: list[str]) -> None:
    assert list(values({**STEP, "withSequence": sequence}).values()) == expected


@pytest.mark.parametrize(
    ("sequence", "problem"),
    [
        ({}, "neither end nor count"),
        ({"count": "many"}, "withSequence.count must be an integer, not 'many'"),
        ({"end": 99999999}, "more than 1000000 items"),
    ],
)
def test_sequences_that_cannot_be(sequence: dict[str, Any], problem: str) -> None:
    with pytest.raises(WorkflowError, match=problem):
        expand_loop({**STEP, "withSequence": sequence}, {}, CLOCK)


def test_other_variables_are_seen_next_to_the_item() -> None:
    step = {
        **STEP,
        "withItems": ["a"],
        "arguments": {"parameters": [{"name": "m", "value": "{{item}}{{workflow.name}}"}]},
    }
    assert list(values(step, {"workflow.name": "wf"}).values()) == ["awf"]


def test_a_variable_that_is_not_there_is_an_error_unless_the_step_does_not_run() -> None:
    step = {**STEP, "withItems": ["a"], "arguments": {"parameters": [{"name": "m", "value": "{{nope}}"}]}}
    with pytest.raises(ExpressionError, match="nope"):
        expand_loop(step, {}, CLOCK)
    assert values({**step, "when": "false"}) == {"fan(0:a)": "{{nope}}"}


def test_the_condition_may_ask_about_the_item() -> None:
    whens = [i.step["when"] for i in expand_loop({**STEP, "withItems": [1, 2], "when": "{{item}} > 1"}, {}, CLOCK)]
    assert whens == ["1 > 1", "2 > 1"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [({"withItems": []}, False), ({"withItems": [1]}, True), ({"withParam": "[]"}, True), ({"withSequence": {}}, True)],
)
def test_what_is_a_loop(step: dict[str, Any], expected: bool) -> None:
    assert is_loop(step) is expected


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
    found = parse_raw_items(text)
    assert found == items
    assert [raw_json_text(item) for item in found] == again


def test_a_number_is_no_text() -> None:
    number, text = parse_raw_items('[1, "1"]')
    assert (number, text) == ("1", "1")
    assert isinstance(number, RawJson) and not isinstance(text, RawJson)
