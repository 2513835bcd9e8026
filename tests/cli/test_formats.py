from __future__ import annotations

import json
from typing import Any

import pytest

from muster.cli.errors import CommandError
from muster.cli.formats import (
    Format,
    custom_column_values,
    format_objects,
    parse_custom_columns,
    parse_format,
    sort_by_path,
)
from muster.kube.kinds import Kind

POD = Kind("", "v1", "Pod", "pods")
JOB = Kind("batch", "v1", "Job", "jobs")


def pod(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **fields}


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("", Format("")),
        ("wide", Format("wide")),
        ("yaml", Format("yaml")),
        ("jsonpath={.a}={.b}", Format("jsonpath", "{.a}={.b}")),
        ("custom-columns=NAME:.metadata.name", Format("custom-columns", "NAME:.metadata.name")),
    ],
)
def test_parsing_of_formats(text: str, format: Format) -> None:
    assert parse_format(text) == format


@pytest.mark.parametrize("text", ["xml", "yaml=x", "jsonpath", "jsonpath={.a", "custom-columns="])
def test_the_error_names_an_unknown_format(text: str) -> None:
    with pytest.raises(CommandError, match=r"jsonpath|-o takes"):
        parse_format(text)


def test_names_include_their_type() -> None:
    assert format_objects(Format("name"), [(POD, pod("x")), (JOB, pod("y"))], single=False) == "pod/x\njob.batch/y\n"


def test_one_object_requested_by_name_is_not_in_a_list() -> None:
    assert json.loads(format_objects(Format("json"), [(POD, pod("x"))], single=True))["kind"] == "Pod"
    found = json.loads(format_objects(Format("json"), [(POD, pod("x"))], single=False))
    assert (found["kind"], [o["metadata"]["name"] for o in found["items"]]) == ("List", ["x"])


def test_managed_fields_are_shown_on_request() -> None:
    obj = pod("x")
    obj["metadata"]["managedFields"] = [{"manager": "muster"}]
    assert "managedFields" not in format_objects(Format("yaml"), [(POD, obj)], single=True)
    assert "managedFields" in format_objects(Format("yaml"), [(POD, obj)], single=True, managed_fields=True)


def test_a_template_sees_the_list() -> None:
    found = [(POD, pod("x")), (POD, pod("y"))]
    assert format_objects(Format("jsonpath", "{.items[*].metadata.name}"), found, single=False) == "x y"


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([3, 10, 2], [2, 3, 10]),
        (["b", "a", None], ["a", "b", None]),
        (["2026-01-02T00:00:00Z", "2025-12-31T00:00:00Z"], ["2025-12-31T00:00:00Z", "2026-01-02T00:00:00Z"]),
    ],
)
def test_sorting_of_numbers_times_and_text(values: list[Any], order: list[Any]) -> None:
    found = [(POD, pod(str(n), **({"v": v} if v is not None else {}))) for n, v in enumerate(values)]
    assert [obj.get("v") for _, obj in sort_by_path("{.v}", found)] == order


def test_custom_columns() -> None:
    columns = parse_custom_columns("NAME:.metadata.name,IMAGES:.spec.containers[*].image,NODE:.spec.nodeName")
    obj = pod("x", spec={"containers": [{"image": "a"}, {"image": "b"}]})
    assert custom_column_values(columns, obj) == ["x", "a,b", "<none>"]
    with pytest.raises(CommandError, match="HEADER:PATH"):
        parse_custom_columns("NAME")
