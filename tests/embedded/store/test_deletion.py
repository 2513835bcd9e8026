from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.embedded.store.deletion import DEFAULT_GRACE, is_released, plan_deletion, without_finalizer
from muster.kube.builtin import CONFIG_MAP, NAMESPACE, POD
from muster.kube.cluster import Propagation
from muster.kube.objects import Object

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def pod(*, node: str = "n", phase: str = "Running", grace: int | None = None, **metadata: Any) -> Object:
    spec: Object = {"nodeName": node} if node else {}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    return {"metadata": {"name": "p", **metadata}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("obj", "wanted", "stamped"),
    [
        (pod(), None, ("2026-01-01T12:00:30Z", DEFAULT_GRACE)),
        (pod(grace=5), None, ("2026-01-01T12:00:05Z", 5)),
        (pod(grace=5), 60, ("2026-01-01T12:01:00Z", 60)),
        (pod(grace=5), -1, ("2026-01-01T12:00:01Z", 1)),
        (pod(grace=0), None, None),
        (pod(), 0, None),
        (pod(node=""), None, None),
        (pod(node="", phase="Pending"), 60, None),
        (pod(phase="Succeeded"), None, None),
        (pod(phase="Failed"), 60, None),
    ],
)
def test_a_pod_gets_its_grace_only_while_it_runs_on_a_node(
    obj: Object, wanted: int | None, stamped: tuple[str, int] | None
) -> None:
    verdict = plan_deletion(POD, obj, "Background", wanted, NOW)
    assert verdict.remove is (stamped is None)
    if stamped:
        metadata = verdict.object["metadata"]
        assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == stamped


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(None, "unchanged"), (30, "unchanged"), (99, "unchanged"), (10, "2026-01-01T11:59:50Z"), (0, "removed")],
)
def test_a_second_wish_can_only_hurry(wanted: int | None, expected: str) -> None:
    leaving = pod(deletionTimestamp="2026-01-01T12:00:10Z", deletionGracePeriodSeconds=30)
    verdict = plan_deletion(POD, leaving, "Background", wanted, NOW)
    if expected == "removed":
        assert verdict.remove
    elif expected == "unchanged":
        assert verdict == (False, leaving)
        assert verdict.object is leaving
    else:
        assert verdict.object["metadata"]["deletionTimestamp"] == expected
        assert verdict.object["metadata"]["deletionGracePeriodSeconds"] == wanted


@pytest.mark.parametrize(
    ("finalizers", "propagation", "left"),
    [
        ([], "Background", None),
        ([], "Foreground", ["foregroundDeletion"]),
        ([], "Orphan", ["orphan"]),
        (["a.b/c"], "Background", ["a.b/c"]),
        (["a.b/c"], "Foreground", ["a.b/c", "foregroundDeletion"]),
        (["foregroundDeletion"], "Orphan", ["orphan"]),
        (["foregroundDeletion"], "Background", None),
    ],
)
def test_finalizers_and_propagation_hold_an_object(
    finalizers: list[str], propagation: Propagation, left: list[str] | None
) -> None:
    obj: Object = {"metadata": {"name": "c", "finalizers": finalizers}}
    verdict = plan_deletion(CONFIG_MAP, obj, propagation, None, NOW)
    assert verdict.remove is (left is None)
    if left:
        metadata = verdict.object["metadata"]
        assert metadata["finalizers"] == left
        assert metadata["deletionTimestamp"] == "2026-01-01T12:00:00Z"
        assert metadata["deletionGracePeriodSeconds"] == 0


def test_deletion_is_a_change_of_what_is_wanted() -> None:
    obj: Object = {"metadata": {"name": "c", "generation": 4, "finalizers": ["a.b/c"]}, "spec": {}}
    marked = plan_deletion(CONFIG_MAP, obj, "Background", None, NOW).object
    assert marked["metadata"]["generation"] == 5
    assert obj["metadata"]["generation"] == 4
    assert plan_deletion(CONFIG_MAP, marked, "Background", None, NOW).object is marked


def test_a_namespace_waits_for_its_contents() -> None:
    obj: Object = {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    verdict = plan_deletion(NAMESPACE, obj, "Background", None, NOW)
    assert not verdict.remove
    assert verdict.object["status"] == {"phase": "Terminating"}
    assert not is_released(NAMESPACE, verdict.object)
    assert is_released(NAMESPACE, {**verdict.object, "spec": {}})


@pytest.mark.parametrize(
    ("metadata", "released"),
    [
        ({}, False),
        ({"deletionTimestamp": "t"}, True),
        ({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}, True),
        ({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 5}, False),
        ({"deletionTimestamp": "t", "finalizers": ["x"]}, False),
    ],
)
def test_when_an_object_is_released(metadata: dict[str, Any], released: bool) -> None:
    assert is_released(POD, {"metadata": metadata}) is released


def test_taking_a_finalizer_away() -> None:
    obj: Object = {"metadata": {"finalizers": ["a", "b"]}}
    assert without_finalizer(obj, "a") == {"metadata": {"finalizers": ["b"]}}
    assert without_finalizer(without_finalizer(obj, "a"), "b") == {"metadata": {}}
    assert obj == {"metadata": {"finalizers": ["a", "b"]}}
