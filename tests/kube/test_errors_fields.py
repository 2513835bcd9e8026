from __future__ import annotations

from typing import Any

import pytest

from muster.kube.errors import (
    Cause,
    Step,
    closest_word,
    duplicate,
    forbidden,
    format_path,
    format_value,
    invalid,
    join_path,
    not_found,
    not_supported,
    required,
    split_path,
    type_mismatch,
    value_at,
)


@pytest.mark.parametrize(
    ("cause", "message", "reason"),
    [
        (required("f"), "Required value", "FieldValueRequired"),
        (required("f", "why"), "Required value: why", "FieldValueRequired"),
        (invalid("f", "x", "must be y"), 'Invalid value: "x": must be y', "FieldValueInvalid"),
        (forbidden("f", "no"), "Forbidden: no", "FieldValueForbidden"),
        (duplicate("f", {"a": 1}), 'Duplicate value: {"a":1}', "FieldValueDuplicate"),
        (
            not_supported("f", "always", ["Always", "Never"]),
            'Unsupported value: "always": supported values: "Always", "Never" (did you mean "Always"?)',
            "FieldValueNotSupported",
        ),
        (not_supported("f", 7, [1, 2]), "Unsupported value: 7: supported values: 1, 2", "FieldValueNotSupported"),
        (not_found("f", "dta", ["data"], "volumes"), 'Not found: "dta"; did you mean "data"?', "FieldValueNotFound"),
        (not_found("f", "x", ["b", "a"], "volumes"), 'Not found: "x"; the volumes are "a", "b"', "FieldValueNotFound"),
        (not_found("f", "x", [], "volumes"), 'Not found: "x"; there are no volumes', "FieldValueNotFound"),
    ],
)
def test_causes_read_as_kubernetes_writes_them(cause: Cause, message: str, reason: str) -> None:
    assert cause == Cause("f", message, reason)


@pytest.mark.parametrize(
    ("value", "wanted", "message"),
    [
        ("sh", "array", 'expected a list, got a string "sh"; write it as "- sh"'),
        (3, "array", 'expected a list, got the number 3; write it as "- 3"'),
        ({"name": "x"}, "array", 'expected a list, got an object with name; put "- " before its first field'),
        ({}, "array", "expected a list, got an empty object"),
        (1, "string", 'expected a string, got the number 1; put it in quotes: "1"'),
        (
            True,
            "string",
            'expected a string, got the boolean true; put it in quotes: "true", or "y", "yes" or "on" if that'
            " is what you wrote (without quotes, YAML reads true)",
        ),
        (["x"], "string", 'expected a string, got a list ["x"]; leave out the "- " before it'),
        ("3", "integer", 'expected an integer, got a string "3"; write it without quotes: 3'),
        ("three", "integer", 'expected an integer, got a string "three"'),
        (0.5, "integer", "expected an integer, got the number 0.5"),
        ("0.5", "number", 'expected a number, got a string "0.5"; write it without quotes: 0.5'),
        ("yes", "boolean", 'expected a boolean (true or false), got a string "yes"; write it without quotes: true'),
        ("x", "object", 'expected an object, got a string "x"'),
        ([{"a": 1}], "object", 'expected an object, got a list [{"a":1}]; leave out the "- " before it'),
        ([1, 2], "object", "expected an object, got a list of 2 items"),
        ([], "a quantity", "expected a quantity, got a list of 0 items"),
        (None, "string", "expected a string, got nothing"),
    ],
)
def test_a_wrong_type_comes_with_what_to_write(value: Any, wanted: str, message: str) -> None:
    assert type_mismatch(value, wanted) == Cause("", message, "FieldValueTypeInvalid")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("imag", "image"),
        ("image_pull_policy", "imagePullPolicy"),
        ("IMAGE", "image"),
        ("zzz", None),
        ("image", "image"),
    ],
)
def test_the_nearest_word(word: str, meant: str | None) -> None:
    assert closest_word(word, ["image", "imagePullPolicy", "command"]) == meant


def test_long_values_are_shortened() -> None:
    assert format_value("x" * 500) == '"' + "x" * 116 + "..."
    assert format_value({1, 2}) == "{1, 2}"


PATHS: list[tuple[str, list[Step]]] = [
    ("spec", ["spec"]),
    ("spec.containers[0].image", ["spec", "containers", 0, "image"]),
    ("metadata.labels[app.kubernetes.io/name]", ["metadata", "labels", "app.kubernetes.io/name"]),
    ("", []),
]


@pytest.mark.parametrize(("path", "steps"), PATHS)
def test_a_path_is_split_and_spelt(path: str, steps: list[Step]) -> None:
    assert split_path(path) == steps
    assert format_path(steps) == path


@pytest.mark.parametrize(
    ("path", "field", "joined"),
    [("", "spec", "spec"), ("spec", "", "spec"), ("spec", "x", "spec.x"), ("spec.items", "[2]", "spec.items[2]")],
)
def test_an_index_needs_no_dot(path: str, field: str, joined: str) -> None:
    assert join_path(path, field) == joined


@pytest.mark.parametrize(
    ("path", "value"),
    [("spec.list[1].x", 5), ("spec.list[9].x", None), ("spec.list.x", None), ("spec.map[a.b/c]", "y"), ("", ...)],
)
def test_a_value_is_found_by_its_path(path: str, value: object) -> None:
    tree = {"spec": {"list": [{}, {"x": 5}], "map": {"a.b/c": "y"}}}
    assert value_at(tree, path) == (tree if value is ... else value)
