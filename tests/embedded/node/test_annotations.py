from __future__ import annotations

import json
from typing import Any

import pytest

from muster.embedded.node.pod_context import (
    ConfigError,
    container_order_of,
    output_paths,
    paths_outside_mounts,
    requested_stop_grace,
)
from muster.kube.cluster import CONTAINERS_ANNOTATION, KEEP_FILES_ANNOTATION, STOP_ANNOTATION
from muster.kube.objects import Object


def pod(**annotations: str) -> Object:
    names = {"keep": KEEP_FILES_ANNOTATION, "containers": CONTAINERS_ANNOTATION, "stop": STOP_ANNOTATION}
    metadata = {"annotations": {names[key]: text for key, text in annotations.items()}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}


@pytest.mark.parametrize(
    ("text", "paths"),
    [("", []), ("{}", []), ('{"b": ["/x"]}', []), ('{"a": ["/x", "/y/../z/"]}', ["/x", "/z"]), ('{"a": null}', [])],
)
def test_paths_to_keep(text: str, paths: list[str]) -> None:
    assert output_paths(pod(keep=text), "a") == paths


@pytest.mark.parametrize("text", ["{", "[]", '{"a": "/x"}', '{"a": ["x"]}', '{"a": [1]}'])
def test_paths_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="keep-files"):
        output_paths(pod(keep=text), "a")


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({"leading": ["a"]}, {"leading": ["a"], "after": {}, "retries": 0, "retrySeconds": 0.0}),
        (
            {"leading": ["a", "b"], "after": {"b": ["a"]}, "retries": "2", "retrySeconds": 1},
            {"leading": ["a", "b"], "after": {"b": ["a"]}, "retries": 2, "retrySeconds": 1.0},
        ),
    ],
)
def test_the_container_order_is_read(wish: dict[str, Any], expected: dict[str, Any]) -> None:
    assert container_order_of(pod(containers=json.dumps(wish))) == expected
    assert container_order_of(pod()) is None


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({}, "at least one container"),
        ({"leading": ["x"]}, "no container x"),
        ({"leading": ["a"], "after": {"a": ["x"]}}, "no container x"),
        ({"leading": ["a"], "after": {"y": ["a"]}}, "no container y"),
    ],
)
def test_a_container_order_with_unknown_containers_is_refused(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        container_order_of(pod(containers=json.dumps(wish)))


@pytest.mark.parametrize(("text", "grace"), [("30", 30.0), ("0", 0.0), ("-1", 0.0), ("now", 0.0)])
def test_a_requested_stop_has_a_grace_period(text: str, grace: float) -> None:
    assert requested_stop_grace(pod(stop=text)) == grace
    assert requested_stop_grace(pod()) is None


def test_only_what_is_in_no_mount_needs_a_place() -> None:
    paths = ["/tmp", "/tmp/x", "/tmpx", "/result", "/v/a/b", "/v", "/dev/stdout"]
    assert paths_outside_mounts(paths, ["/tmp", "/v/a"]) == ["/tmpx", "/result", "/v"]
