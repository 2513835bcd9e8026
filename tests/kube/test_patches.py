from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.errors import ApiError, BadRequest, Invalid, TooLarge
from muster.kube.patches import MAX_OPERATIONS, diff_merge, json_equal, json_patch, merge_patch


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # the examples of RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(target: Any, patch: Any, result: Any) -> None:
    before = deepcopy((target, patch))
    assert merge_patch(target, patch) == result
    assert (target, patch) == before


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 2, "d": 4}}, {"b": {"d": 4}}),
        ({"a": 1, "b": 2}, {"b": 2}, {"a": None}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": 1}, {"a": {}}, {"a": {}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({}, {"a": None}, {}),
    ],
)
def test_the_smallest_merge_patch(old: Any, new: Any, patch: Any) -> None:
    assert diff_merge(old, new) == patch


scalars = st.one_of(st.booleans(), st.integers(-5, 5), st.text("ab/~", max_size=3))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text("ab/~", max_size=2), values, max_size=4)


@given(objects, objects)
def test_merging_the_difference_gives_the_new_object(old: Any, new: Any) -> None:
    assert json_equal(merge_patch(old, diff_merge(old, new)), new)


@given(values)
def test_nothing_changes_nothing(value: Any) -> None:
    assert diff_merge(value, value) == ({} if isinstance(value, dict) else value)
    assert json_equal(json_patch(value, []), value)


DOCUMENT = {"foo": "bar", "list": ["a", "b"], "deep": {"x": 1}, "a/b": 1, "m~n": 2, "": 0}


@pytest.mark.parametrize(
    ("target", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": "bar"}, [{"op": "add", "path": "/foo", "value": 1}], {"foo": 1}),
        ({"l": [1, 3]}, [{"op": "add", "path": "/l/1", "value": 2}], {"l": [1, 2, 3]}),
        ({"l": [1]}, [{"op": "add", "path": "/l/1", "value": 2}], {"l": [1, 2]}),
        ({"l": [1]}, [{"op": "add", "path": "/l/-", "value": [2]}], {"l": [1, [2]]}),
        ({"foo": 1}, [{"op": "add", "path": "", "value": [1]}], [1]),
        ({"a": None}, [{"op": "add", "path": "/b", "value": None}], {"a": None, "b": None}),
        ({"foo": 1, "bar": 2}, [{"op": "remove", "path": "/foo"}], {"bar": 2}),
        ({"l": [1, 2, 3]}, [{"op": "remove", "path": "/l/1"}], {"l": [1, 3]}),
        ({"foo": {"a": 1}}, [{"op": "replace", "path": "/foo/a", "value": 2}], {"foo": {"a": 2}}),
        ({"l": [1, 2]}, [{"op": "replace", "path": "/l/0", "value": 9}], {"l": [9, 2]}),
        ({"foo": 1}, [{"op": "replace", "path": "", "value": {}}], {}),
        ({"a": {"b": 1}, "c": {}}, [{"op": "move", "from": "/a/b", "path": "/c/d"}], {"a": {}, "c": {"d": 1}}),
        ({"l": [1, 2, 3]}, [{"op": "move", "from": "/l/0", "path": "/l/2"}], {"l": [2, 3, 1]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        (DOCUMENT, [{"op": "test", "path": "/a~1b", "value": 1}], DOCUMENT),
        (DOCUMENT, [{"op": "test", "path": "/m~0n", "value": 2}], DOCUMENT),
        (DOCUMENT, [{"op": "test", "path": "/", "value": 0}, {"op": "test", "path": "", "value": DOCUMENT}], DOCUMENT),
        ({"n": 1}, [{"op": "test", "path": "/n", "value": 1.0}], {"n": 1}),
        ({"~1": 5}, [{"op": "remove", "path": "/~01"}], {}),
        (
            {"a": {"b": 1}},
            [{"op": "copy", "from": "/a", "path": "/c"}, {"op": "replace", "path": "/c/b", "value": 2}],
            {"a": {"b": 1}, "c": {"b": 2}},
        ),
    ],
)  # fmt: skip
def test_json_patch(target: Any, operations: list[Any], result: Any) -> None:
    before = deepcopy((target, operations))
    assert json_patch(target, operations) == result
    assert (target, operations) == before


def test_a_value_is_not_shared_with_the_patch() -> None:
    value = {"x": 1}
    operations = [{"op": "add", "path": "/a", "value": value}, {"op": "add", "path": "/a/y", "value": 2}]
    assert json_patch({}, operations) == {"a": {"x": 1, "y": 2}}
    assert value == {"x": 1}


@pytest.mark.parametrize(
    ("operations", "error", "complaint"),
    [
        ({}, BadRequest, "a JSON patch is a list of operations, not an object"),
        ([5], BadRequest, "operation 0 of the JSON patch is a number, not an object"),
        ([{"path": "/foo"}], BadRequest, "one of add, remove, replace, move, copy, test"),
        ([{"op": "merge", "path": "/foo"}], BadRequest, "\"op\" is 'merge'"),
        ([{"op": "remove"}], BadRequest, 'operation 0 (remove) of the JSON patch has no "path"'),
        ([{"op": "remove", "path": "foo"}], BadRequest, 'does not start with "/"'),
        ([{"op": "add", "path": "/foo"}], BadRequest, 'has no "value"'),
        ([{"op": "move", "path": "/foo"}], BadRequest, 'has no "from"'),
        ([{"op": "remove", "path": ""}], Invalid, "the whole document cannot be removed"),
        ([{"op": "remove", "path": "/nope"}], Invalid, "there is no such field"),
        ([{"op": "replace", "path": "/nope", "value": 1}], Invalid, "there is no such field"),
        ([{"op": "add", "path": "/nope/x", "value": 1}], Invalid, 'cannot be applied at "/nope": there is no such'),
        ([{"op": "add", "path": "/foo/x", "value": 1}], Invalid, "its parent is a string"),
        ([{"op": "remove", "path": "/foo/x"}], Invalid, "its parent is a string"),
        ([{"op": "add", "path": "/list/3", "value": 1}], Invalid, "index 3 is beyond the end"),
        ([{"op": "remove", "path": "/list/2"}], Invalid, "index 2 is beyond the end"),
        ([{"op": "remove", "path": "/list/-"}], Invalid, 'where only "add" can go'),
        ([{"op": "remove", "path": "/list/01"}], Invalid, '"01" is not an index'),
        ([{"op": "remove", "path": "/list/-1"}], Invalid, '"-1" is not an index'),
        ([{"op": "remove", "path": "/list/" + "9" * 5000}], Invalid, "beyond the end"),
        ([{"op": "move", "from": "/deep", "path": "/deep/x/y"}], Invalid, "/deep cannot move into itself"),
        ([{"op": "copy", "from": "/nope", "path": "/x"}], Invalid, 'at "/nope"'),
        ([{"op": "test", "path": "/foo", "value": "baz"}], Invalid, 'expected "baz", found "bar"'),
        ([{"op": "test", "path": "/deep/x", "value": True}], Invalid, "expected true, found 1"),
        (
            [{"op": "test", "path": "/foo", "value": "bar"}, {"op": "test", "path": "/a~1b", "value": 2}],
            Invalid,
            'operation 1 (test) of the JSON patch cannot be applied at "/a~1b": the test failed',
        ),
        ([{"op": "test", "path": "", "value": 1}] * (MAX_OPERATIONS + 1), TooLarge, "10001"),
        ([{"op": "copy", "from": "/list", "path": "/list/-"}] * 60, TooLarge, "its copies exceed"),
        ([{"op": "copy", "from": "", "path": "/x"}] * 300, Invalid, "would nest too deeply"),
    ],
)
def test_a_patch_that_cannot_be_applied_says_why(operations: Any, error: type[ApiError], complaint: str) -> None:
    before = deepcopy(DOCUMENT)
    with pytest.raises(error) as caught:
        json_patch(DOCUMENT, operations)
    assert complaint in caught.value.message
    assert before == DOCUMENT


@given(objects, st.text("ab/~", max_size=2), values)
def test_what_is_added_is_found_and_can_be_removed(target: dict[str, Any], name: str, value: Any) -> None:
    path = "/" + name.replace("~", "~0").replace("/", "~1")
    added = json_patch(target, [{"op": "add", "path": path, "value": value}])
    assert json_equal(added, {**target, name: value})
    json_patch(added, [{"op": "test", "path": path, "value": value}])
    assert name not in json_patch(added, [{"op": "remove", "path": path}])


@given(st.lists(values, min_size=1, max_size=5), st.data())
def test_moving_there_and_back_changes_nothing(items: list[Any], data: st.DataObject) -> None:
    places = st.integers(0, len(items) - 1)
    a, b = data.draw(places), data.draw(places)
    there = {"op": "move", "from": f"/{a}", "path": f"/{b}"}
    back = {"op": "move", "from": f"/{b}", "path": f"/{a}"}
    assert json_equal(json_patch(items, [there, back]), items)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, False, False),
        ([1], [True], False),
        ({"a": [0]}, {"a": [0]}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ("1", 1, False),
    ],
)
def test_equality_is_that_of_json(a: Any, b: Any, same: bool) -> None:
    assert json_equal(a, b) is same
    assert json_equal(b, a) is same
