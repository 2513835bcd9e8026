"""Which workflows a list request selects."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.errors import BadRequest, MethodNotAllowed, NotFound
from muster.kube.objects import Object, name_of
from muster.server.argo.access import label_value
from muster.server.argo.app import Routes, match_path, route
from muster.server.argo.requests import parse_fields
from muster.server.argo.workflows import parse_list_query, select_page


def workflow(name: str, created: int, finished: int = 0) -> Object:
    status = {"startedAt": f"2026-01-01T00:0{created}:30Z"}
    if finished:
        status["finishedAt"] = f"2026-01-01T00:0{finished}:00Z"
    return {"metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:0{created}:00Z"}, "status": status}


ALL = [workflow("old-done", 1, 5), workflow("run-a", 2), workflow("done", 3, 4), workflow("run-b", 3)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["run-b", "run-a", "old-done", "done"]),
        ({"listOptions.fieldSelector": "metadata.name=done"}, ["done"]),
        ({"listOptions.fieldSelector": "metadata.name==done"}, ["done"]),
        ({"listOptions.fieldSelector": "metadata.name!=done"}, ["run-b", "run-a", "old-done"]),
        ({"listOptions.fieldSelector": "metadata.name=done", "nameFilter": "Contains"}, ["old-done", "done"]),
        ({"listOptions.fieldSelector": "metadata.name=run", "nameFilter": "Prefix"}, ["run-b", "run-a"]),
        ({"namePrefix": "run-"}, ["run-b", "run-a"]),
        ({"createdAfter": "2026-01-01T00:02:00Z"}, ["run-b", "done"]),
        ({"finishedBefore": "2026-01-01T00:04:30Z"}, ["done"]),
        ({"listOptions.fieldSelector": "spec.startedAt>2026-01-01T00:03:00Z"}, ["run-b", "done"]),
        ({"listOptions.fieldSelector": "spec.startedAt<2026-01-01T00:02:00Z"}, ["old-done"]),
        ({"listOptions.limit": "2"}, ["run-b", "run-a"]),
        ({"listOptions.limit": "2", "listOptions.continue": "3"}, ["done"]),
    ],
)
def test_selection(query: dict[str, str], names: list[str]) -> None:
    assert [name_of(one) for one in select_page(ALL, parse_list_query(query)).items] == names


def test_pages_have_a_continue_token() -> None:
    counted = {"listOptions.limit": "3", "listOptions.fieldSelector": "ext.showRemainingItemCount=true"}
    page = select_page(ALL, parse_list_query(counted))
    assert (page.next_offset, page.remaining, parse_list_query(counted).counted) == (3, 1, True)
    assert select_page(ALL, parse_list_query({})).next_offset is None


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"listOptions.continue": "x"}, "listOptions.continue"),
        ({"listOptions.limit": "-1"}, "listOptions.limit"),
        ({"nameFilter": "Like"}, "nameFilter"),
        ({"createdAfter": "yesterday"}, "createdAfter"),
        ({"listOptions.fieldSelector": "spec.x=1"}, "unsupported requirement spec.x=1"),
        ({"listOptions.fieldSelector": "metadata.namespace=b"}, "contradict"),
    ],
)
def test_errors_name_the_invalid_option(query: dict[str, str], told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        parse_list_query(query, "a")


WHOLE = {
    "metadata": {"name": "x", "uid": "u"},
    "items": [{"spec": {"a": 1}, "status": {"nodes": {"n": 1}, "phase": "p"}}],
}


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ("", WHOLE),
        ("metadata.name", {"metadata": {"name": "x"}}),
        ("items.spec,items.status.phase", {"items": [{"spec": {"a": 1}, "status": {"phase": "p"}}]}),
        (
            "-items.status.nodes",
            {"metadata": {"name": "x", "uid": "u"}, "items": [{"spec": {"a": 1}, "status": {"phase": "p"}}]},
        ),
        ("nothing", {}),
    ],
)
def test_fields(fields: str, left: Any) -> None:
    assert parse_fields(fields).cut(WHOLE) == left


@pytest.mark.parametrize(
    ("fields", "path", "wanted"),
    [
        ("", "items.status.nodes", True),
        ("items.status", "items.status.nodes", True),
        ("items.status.nodes.x", "items.status.nodes", True),
        ("items.metadata", "items.status.nodes", False),
        ("-items.status.nodes", "items.status.nodes", False),
        ("-items.spec", "items.status.nodes", True),
    ],
)
def test_fields_decide_what_is_read(fields: str, path: str, wanted: bool) -> None:
    assert parse_fields(fields).wants(path) is wanted


async def _handler(request: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("pattern", "path", "names"),
    [
        ("/api/v1/workflows/{namespace}", "api/v1/workflows/a", {"namespace": "a"}),
        ("/api/v1/workflows/{namespace}", "api/v1/workflows/", {"namespace": ""}),
        ("/api/v1/workflows/{namespace}", "api/v1/workflows", {"namespace": ""}),
        ("/api/v1/workflows/{namespace}", "api/v1/workflows/a/b", None),
        ("/api/v1/workflows/{namespace}/{name}", "api/v1/workflows/a", None),
        (
            "/api/v1/workflows/{namespace}/{name}/{pod}/log",
            "api/v1/workflows/a/b//log",
            {"namespace": "a", "name": "b", "pod": ""},
        ),
        ("/files/{a}/{rest...}", "files/x/y/z/", {"a": "x", "rest": "y/z/"}),
    ],
)
def test_patterns(pattern: str, path: str, names: dict[str, str] | None) -> None:
    assert match_path(route("GET", pattern, _handler).pattern, path.split("/")) == names


def test_routes_match_their_paths() -> None:
    routes = Routes([
        route("GET", "/api/v1/workflows/{namespace}", _handler),
        route("POST", "/api/v1/events/{namespace}/{discriminator}", _handler),
        route("GET", "/artifacts/{rest...}", _handler),
    ])  # fmt: skip
    assert routes.knows("GET", "/api/v1/workflows/x/y")
    assert routes.knows("GET", "/artifacts/x")
    assert routes.knows("POST", "/api/v1/events/x/y")
    assert not routes.knows("GET", "/api/v1/events")
    assert not routes.knows("POST", "/api/v1/events")
    assert not routes.knows("GET", "/api/v1/pods")
    assert not routes.knows("GET", "/apis/argoproj.io/v1alpha1/workflows")
    with pytest.raises(MethodNotAllowed, match="takes GET"):
        routes.find("PUT", "/api/v1/workflows/x")
    with pytest.raises(NotFound):
        routes.find("GET", "/api/v1/workflows/x/y")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ann", "ann"),
        ("system:serviceaccount:a:b", "system-serviceaccount-a-b"),
        ("-x@y-", "x-y"),
        ("a" * 70, "a" * 63),
    ],
)
def test_names_as_labels(name: str, value: str) -> None:
    assert label_value(name) == value
