from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.store.writes import apply_scale, to_scale
from muster.kube.errors import Invalid, NotFound
from muster.kube.kinds import Kind, Scale
from muster.kube.objects import Object

KIND = Kind("x.dev", "v1", "Crew", "crews", scale=Scale(".spec.size.count", ".status.ready", ".status.selector"))
OBJ: Object = {
    "apiVersion": "x.dev/v1",
    "kind": "Crew",
    "metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
    "spec": {"size": {"count": 3, "unit": "people"}},
    "status": {"ready": 2, "selector": "crew=c"},
}


def test_an_object_as_a_scale() -> None:
    assert to_scale(KIND, OBJ) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "crew=c"},
    }
    bare = to_scale(KIND, {"metadata": {"name": "c"}})
    assert (bare["spec"], bare["status"]) == ({"replicas": 0}, {"replicas": 0})


def test_scaling_changes_the_one_number_and_not_the_original() -> None:
    assert apply_scale(KIND, OBJ, {"spec": {"replicas": 5}})["spec"] == {"size": {"count": 5, "unit": "people"}}
    assert apply_scale(KIND, {"metadata": {"name": "c"}}, {"spec": {"replicas": 1}})["spec"] == {"size": {"count": 1}}
    assert OBJ["spec"]["size"]["count"] == 3


@pytest.mark.parametrize("replicas", [-1, "3", 1.5, True, None])
def test_a_number_of_replicas_is_a_whole_number(replicas: Any) -> None:
    with pytest.raises(Invalid, match=r"spec\.replicas"):
        apply_scale(KIND, OBJ, {"spec": {"replicas": replicas}})


def test_not_every_kind_can_be_scaled() -> None:
    with pytest.raises(NotFound, match=r"crews\.x\.dev cannot be scaled"):
        to_scale(Kind("x.dev", "v1", "Crew", "crews"), OBJ)
