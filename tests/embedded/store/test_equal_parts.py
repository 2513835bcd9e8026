from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.store.equal_parts import EqualParts
from muster.kube.objects import copy_of


def pod(name: str, image: str = "debian") -> dict[str, Any]:
    container = {"name": "main", "image": image, "command": ["sh", "-c", "true"]}
    return {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": {"containers": [container], "volumes": []}}


def test_equal_parts_are_one_object_afterwards() -> None:
    first, second, third = pod("a"), pod("b"), pod("c", image="alpine")
    given = copy_of(first), copy_of(second), copy_of(third)
    equal = EqualParts()
    for each in (first, second, third):
        equal.share(each)
    assert (first, second, third) == given
    assert first["spec"] is second["spec"]
    assert first["metadata"]["labels"] is second["metadata"]["labels"]
    assert first["metadata"] is not second["metadata"]
    assert first["spec"]["containers"][0]["command"] is third["spec"]["containers"][0]["command"]


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (1, 1.0), ([], {}), ("", None)])
def test_values_that_python_takes_for_equal_stay_what_they_are(one: object, other: object) -> None:
    first, second = {"spec": {"value": one}}, {"spec": {"value": other}}
    equal = EqualParts()
    equal.share(first)
    equal.share(second)
    assert type(first["spec"]["value"]) is type(one)
    assert type(second["spec"]["value"]) is type(other)
