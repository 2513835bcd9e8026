"""The dialect of Argo's `jsonpath`: one value where a path can find only one, a list otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.jsonpath import query

STORE = json.dumps(
    {
        "store": {
            "book": [
                {"category": "reference", "title": "Sayings", "price": 8.95},
                {"category": "fiction", "title": "Sword", "price": 12.99},
                {"category": "fiction", "title": "Moby", "isbn": "0-553", "price": 8.99},
            ],
            "bicycle": {"color": "red", "price": 19.95},
        },
        "limit": 10,
        "a b": 1,
        "empty": [],
        "nil": None,
        "text": "str",
        "nums": [1, 2, 3, 4, 5],
        "mixed": [1, "1", True, None, {"a": 1}],
        "d.o.t": 5,
        "employees": [
            {"name": "Baris", "age": 43, "friends": ["Mo", "Jai"]},
            {"name": "Mo", "age": 42},
            {"name": "Jai", "age": 44},
        ],
    }
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.limit", 10),
        ("$.store.bicycle.color", "red"),
        ("$.store.book[0].title", "Sayings"),
        ("$.store.book[-1].title", "Moby"),
        ("$['a b']", 1),
        ('$["a b"]', 1),
        ("$['d.o.t']", 5),
        ("$.store.book[*].title", ["Sayings", "Sword", "Moby"]),
        ("$..title", ["Sayings", "Sword", "Moby"]),
        ("$.store..price", [19.95, 8.95, 12.99, 8.99]),
        ("$..book[0].title", ["Sayings"]),
        ("$.store.bicycle[*]", ["red", 19.95]),
        ("$.nil", None),
        ("$.empty", []),
        ("$.nums.length", 5),
        ("$.text.length", 3),
        ("$.nums[1:3]", [2, 3]),
        ("$.nums[-2:]", [4, 5]),
        ("$.nums[:-3]", [1, 2]),
        ("$.nums[::2]", [1, 3, 5]),
        ("$.nums[::-1]", [5, 4, 3, 2, 1]),
        ("$.nums[0,2,9]", [1, 3]),
        ("$['text','limit','none']", ["str", 10]),
        ("$.nums[(@.length-1)]", 5),
        ("$.nums[(@.length-2):]", [4, 5]),
        ("$.store.book[?(@.isbn)].title", ["Moby"]),
        ("$.store.book[?(@.price<10)].title", ["Sayings", "Moby"]),
        ("$.store.book[?(@.price > $.limit)].title", ["Sword"]),
        ("$.store.book[?(@.category=='fiction')].price", [12.99, 8.99]),
        ("$.store.book[?(@.title =~ '^S')].title", ["Sayings", "Sword"]),
        ('$.employees[?(@.name=="Baris")].age', [43]),
        ("$.employees[?(@.age>42 && @.age<44)].age", [43]),
        ("$.employees[?(@.age==42 || @.name=='Jai')].name", ["Mo", "Jai"]),
        ("$.employees[?(@.age >= 43 && (@.name=='Mo' || @.name=='Jai'))].name", ["Jai"]),
        ("$.employees[0:1]", [{"age": 43, "friends": ["Mo", "Jai"], "name": "Baris"}]),
        ("$.employees[*].friends[0]", ["Mo"]),
        ("$.employees[?(@.friends)][0].name", "Baris"),
        ("$.employees[?(!@.friends)].name", []),
        ("$.employees[?(@.name in ['Mo'])].name", []),
        ("$.employees[?(@.age in [42, 44])].name", ["Mo", "Jai"]),
        ("$.employees[?(@.age not in [42])].name", ["Baris", "Jai"]),
        ("$.nums[?(@ > 3)]", [4, 5]),
        ("$.nums[?(@%2==0)]", [2, 4]),
        ("$.nums[?(@*2-1 > 6)]", [4, 5]),
        ("$.nums[?(@**2 > 10)]", [4, 5]),
        ("$.mixed[?(@==1)]", [1]),
        ("$.mixed[?(@.a==1)]", [{"a": 1}]),
        ("$.mixed[?(@)]", [1, "1", True, {"a": 1}]),
        ("$.nums[?(@.x)]", []),
        ("$..nothing", []),
    ],
)
def test_what_a_path_finds(path: str, found: Any) -> None:
    assert query(STORE, path) == found


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("$.none", "key: invalid token key 'none' not found"),
        ("$.limit.x", "key: invalid token target. expected [map] got [float64]"),
        ("$.nums.x", "key: invalid token target. expected [map] got [slice]"),
        ("$.nums[9]", "index: invalid token out of range"),
        ("$.text[0]", "index: invalid token target. expected [array slice] got [string]"),
        ("$.store[0]", "index: invalid token target. expected [array slice] got [map]"),
        ("$.nil.x", "key: invalid token target. expected [map] got [nil]"),
        ("$.limit[*]", "wildcard: invalid token target. expected [array map slice] got [float64]"),
        ("$.nums[1:4:0]", "range: invalid token out of range"),
        ("$.nums['a','b']", "union: invalid token target. expected [map] got [slice]"),
        ("$.nums[('x')]", "key: invalid token target. expected [map] got [slice]"),
        ("$.nums[(@.none)]", "invalid expression. key: invalid token target. expected [map] got [slice]"),
        ("limit", "invalid JSONPath selector 'limit' unexpected token 'l' at index 0"),
        ("$limit", "invalid JSONPath selector '$limit' unexpected token 'l' at index 1"),
        ("", "invalid JSONPath selector '' unexpected token '' at index 0"),
        ("$.nums[", "invalid JSONPath selector '$.nums[' invalid token. '[' does not match any token format"),
        ("$.nums[]", "invalid JSONPath selector '$.nums[]' invalid token. '[]' does not match any token format"),
        ("$.nums[a]", "invalid JSONPath selector '$.nums[a]' invalid token. '[a]' does not match any token format"),
        ("$.nums[1,]", "invalid JSONPath selector '$.nums[1,]' invalid token. '[1,]' does not match any token format"),
        (
            "$.nums[1:2:3:4]",
            "invalid JSONPath selector '$.nums[1:2:3:4]' invalid token. '[1:2:3:4]' does not match any token format",
        ),
        ("$.nums[?]", "invalid JSONPath selector '$.nums[?]' invalid token. '[?]' does not match any token format"),
        ("$.nums[?()]", "invalid expression. is empty"),
        (
            "$.store['book'",
            "invalid JSONPath selector '$.store['book'' invalid token. '['book'' does not match any token format",
        ),
    ],
)
def test_what_cannot_be_found_or_read(path: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        query(STORE, path)
    assert caught.value.message == message


def test_numbers_are_floats() -> None:
    assert type(query("12", "$")) is float


def test_a_text_that_is_no_json() -> None:
    with pytest.raises(ExpressionError, match="looking for beginning of value"):
        query("nope", "$")


@pytest.mark.parametrize("path", ["$" + "..*" * 6, "$..a..a..a..a..a"])
def test_a_query_with_too_many_steps_is_stopped(path: str) -> None:
    with pytest.raises(ExpressionError, match="finds too much"):
        query('{"a":' * 80 + "1" + "}" * 80, path)
