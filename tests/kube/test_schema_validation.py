from __future__ import annotations

from typing import Any

import pytest

from muster.kube.errors import Cause
from muster.kube.kinds import Schema
from muster.kube.schema import (
    ANY,
    BOOLEAN,
    BYTES,
    INT32,
    INT_OR_STRING,
    NUMBER,
    QUANTITY,
    RESOURCES,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    list_of,
    map_of,
    obj,
    string,
)
from muster.kube.schema_validation import unknown_fields, validate

CONTAINER = obj({"name": STRING, "image": STRING, "args": STRINGS, "tty": BOOLEAN, "limits": RESOURCES}, ["name"])
SPEC = obj({
    "restartPolicy": string(["Always", "Never"]),
    "containers": list_of(CONTAINER, map_keys=["name"]),
    "nodeSelector": STRING_MAP,
    "options": map_of(obj({"depth": INT32})),
})  # fmt: skip
ROOT = obj({"spec": SPEC}, ["spec"])
EITHER = obj({"a": STRING, "b": STRING}, oneOf=[{"required": ["a"]}, {"required": ["b"]}])


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STRING, "x"),
        (BOOLEAN, False),
        (INT32, -(2**31)),
        (NUMBER, 1),
        (NUMBER, 0.5),
        (INT_OR_STRING, 1),
        (INT_OR_STRING, "25%"),
        (QUANTITY, "1.5Gi"),
        (QUANTITY, 2),
        (QUANTITY, 0.5),
        (TIME, "2025-01-31T09:30:00Z"),
        (TIME, "2025-01-31T09:30:00.123456+01:00"),
        (BYTES, "aGk="),
        (BYTES, "aGk\n=\n"),
        (ANY, {"what": ["ever"]}),
        ({}, 3),
        ({"type": "object"}, {"free": "form"}),
        (STRINGS, []),
        (ROOT, {"spec": {}}),
        (ROOT, {"spec": {"restartPolicy": None, "containers": [{"name": "a", "image": None}]}}),
        (ROOT, {"spec": {"options": {"a": {"depth": 1}}, "nodeSelector": {"a.b/c": "d"}}}),
        (obj({"x": STRING}, keep_unknown=True), {"x": "a", "y": 1}),
        (obj({"spec": ANY}) | {"x-kubernetes-embedded-resource": True}, {"apiVersion": "v1", "kind": "Pod"}),
        (list_of(STRING, is_set=True), ["a", "b"]),
        (list_of(CONTAINER, map_keys=["name"], duplicates=True), [{"name": "a"}, {"name": "a"}]),
    ],
)
def test_what_fits(schema: Schema, value: Any) -> None:
    assert validate(value, schema) == []


@pytest.mark.parametrize(
    ("value", "causes"),
    [
        ({}, [("spec", "Required value", "FieldValueRequired")]),
        ({"spec": None}, [("spec", "Required value", "FieldValueRequired")]),
        ({"spec": "x"}, [("spec", 'expected an object, got a string "x"', "FieldValueTypeInvalid")]),
        (
            {"spec": {"restartPolicy": "always"}},
            [
                (
                    "spec.restartPolicy",
                    'Unsupported value: "always": supported values: "Always", "Never" (did you mean "Always"?)',
                    "FieldValueNotSupported",
                )
            ],
        ),
        (
            {"spec": {"containers": [{"image": 1}, None]}},
            [
                (
                    "spec.containers[0].image",
                    'expected a string, got the number 1; put it in quotes: "1"',
                    "FieldValueTypeInvalid",
                ),
                ("spec.containers[0].name", "Required value", "FieldValueRequired"),
                ("spec.containers[1]", "Required value: the list has an empty item", "FieldValueRequired"),
            ],
        ),
        (
            {"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}},
            [("spec.containers[2].name", 'Duplicate value: "a"', "FieldValueDuplicate")],
        ),
        (
            {"spec": {"nodeSelector": {"a.b/c": True}}},
            [
                (
                    "spec.nodeSelector[a.b/c]",
                    'expected a string, got the boolean true; put it in quotes: "true", or "y", "yes" or "on" if that'
                    " is what you wrote (without quotes, YAML reads true)",
                    "FieldValueTypeInvalid",
                )
            ],
        ),
        (
            {"spec": {"containers": [{"name": "a", "limits": {"memory": "2gb"}}]}},
            [
                (
                    "spec.containers[0].limits[memory]",
                    'Invalid value: "2gb": "2gb" is not a quantity: unknown suffix "gb", expected one of '
                    'n u m k M G T P E Ki Mi Gi Ti Pi Ei; did you mean "2G"?',
                    "FieldValueInvalid",
                )
            ],
        ),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(value: Any, causes: list[tuple[str, str, str]]) -> None:
    assert validate(value, ROOT) == [Cause(*cause) for cause in causes]


@pytest.mark.parametrize(
    ("value", "field", "message"),
    [
        (
            {"spec": {"restartpolicy": 1}},
            "spec.restartpolicy",
            'unknown field "restartpolicy"; did you mean "restartPolicy"?',
        ),
        (
            {"spec": {"containers": [{"name": "a", "restartPolicy": "Never"}]}},
            "spec.containers[0].restartPolicy",
            'unknown field "restartPolicy"; did you mean "spec.restartPolicy"? Then it is indented too far',
        ),
        (
            {"spec": {"tty": True}},
            "spec.tty",
            'unknown field "tty"; did you mean it to be inside "containers"?',
        ),
        ({"spec": {"quux": 1}}, "spec.quux", 'unknown field "quux"'),
        (
            {"spec": {"options": {"x": {"Depth": 1}}}},
            "spec.options[x].Depth",
            'unknown field "Depth"; did you mean "depth"?',
        ),
    ],
)
def test_an_unknown_field_comes_with_a_guess(value: Any, field: str, message: str) -> None:
    assert validate(value, ROOT) == [Cause(field, message, "FieldValueInvalid")]
    assert unknown_fields(value, ROOT) == [field]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (INT32, 2**31, "Invalid value: 2147483648: must be between -2147483648 and 2147483647"),
        (INT32, True, "expected an integer, got the boolean true"),
        (INT_OR_STRING, 1.5, "expected an integer or a string, got the number 1.5"),
        (QUANTITY, [], 'expected a quantity (such as "500m" or "2Gi"), got a list of 0 items'),
        (
            TIME,
            "yesterday",
            'Invalid value: "yesterday": must be a time as in RFC 3339, such as "2025-01-31T09:30:00Z"',
        ),
        (
            TIME,
            "2025-01-31T09:30:00",
            'Invalid value: "2025-01-31T09:30:00": must be a time as in RFC 3339, such as "2025-01-31T09:30:00Z"',
        ),
        (
            BYTES,
            "plain!",
            'Invalid value: "plain!": must be base64; '
            "plain text goes into stringData of a Secret or data of a ConfigMap",
        ),
        (list_of(STRING, is_set=True), ["a", "a"], 'Duplicate value: "a"'),
        (
            list_of(obj({"port": INT32, "protocol": string(default="TCP")}), map_keys=["port", "protocol"]),
            [{"port": 1}, {"port": 1, "protocol": "TCP"}],
            'Duplicate value: {"port":1,"protocol":"TCP"}',
        ),
    ],
)
def test_values_of_the_wrong_form(schema: Schema, value: Any, message: str) -> None:
    assert [cause.message for cause in validate(value, schema)] == [message]


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        (EITHER, {"a": ""}, True),
        (EITHER, {"a": "", "b": ""}, False),
        ({"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 0}]}, 5, False),
        ({"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 0}]}, 11, True),
        ({"type": "integer", "allOf": [{"minimum": 10}, {"maximum": 20}]}, 21, False),
        ({"type": "integer", "allOf": [{"minimum": 10}, {"maximum": 20}]}, 20, True),
        ({"type": "string", "not": {"enum": ["x"]}}, "x", False),
        ({"type": "string", "not": {"enum": ["x"]}}, "y", True),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "a", True),
    ],
)  # fmt: skip
def test_combinations(schema: Schema, value: Any, fits: bool) -> None:
    assert (validate(value, schema) == []) is fits


def test_paths_begin_where_the_caller_says() -> None:
    assert [cause.field for cause in validate({"name": 1}, CONTAINER, "spec.template")] == ["spec.template.name"]
    assert unknown_fields({"name": "", "x": 1}, CONTAINER, "spec") == ["spec.x"]


def test_schemas_may_come_and_go() -> None:
    """A compiled schema is remembered by identity, which must not be confused with that of a later one."""
    for size in range(2000):
        assert validate("x" * size, {"type": "string", "maxLength": size}) == []


@pytest.mark.parametrize(
    ("limits", "value", "complaint"),
    [
        ({"minimum": 1}, 1, ""),
        ({"minimum": 1}, 0, "must be greater than or equal to 1"),
        ({"minimum": 1, "exclusiveMinimum": True}, 1, "must be greater than 1"),
        ({"maximum": 3}, 3, ""),
        ({"maximum": 3}, 4, "must be less than or equal to 3"),
        ({"maximum": 3, "exclusiveMaximum": True}, 3, "must be less than 3"),
        ({"minimum": 1}, "not a number", ""),
        ({"multipleOf": 5}, 10, ""),
        ({"multipleOf": 5}, 11, "must be a multiple of 5"),
        ({"minLength": 2}, "x", "must have at least 2 characters"),
        ({"maxLength": 2}, "xyz", "must have at most 2 characters"),
        ({"minItems": 1}, [], "must have at least 1 items"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 items"),
        ({"minProperties": 1}, {}, "must have at least 1 entries"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "must have at most 1 entries"),
        ({"pattern": "^[a-z]+$"}, "abc", ""),
        ({"pattern": "^[a-z]+$"}, "a1", "must match ^[a-z]+$"),
        ({"pattern": r"^\pL+$"}, "été", ""),
        ({"pattern": r"^\pL+$"}, "a1", r"must match ^\pL+$"),
        ({"pattern": r"^(a+)+$"}, "a" * 5000 + "b", "must match ^(a+)+$"),
        ({"pattern": r"(?<=a)b"}, "what RE2 cannot compile is not checked", ""),
        ({"uniqueItems": True}, [1, 1], "must not have an item twice"),
        ({"uniqueItems": False}, [1, 1], ""),
    ],
)
def test_limits(limits: Schema, value: Any, complaint: str) -> None:
    messages = [cause.message for cause in validate(value, limits)]
    assert messages == ([] if not complaint else messages[:1])
    assert all(message.endswith(f": {complaint}") for message in messages)
    assert bool(messages) is bool(complaint)
