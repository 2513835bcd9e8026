from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.errors import BadRequest, Conflict
from muster.kube.objects import Object
from muster.kube.schema import INT32, STRING, list_of, map_of, obj, root
from muster.kube.server_side_apply import format_field_path, from_fields_v1, server_side_apply, track_update

SCHEMA = root({
    "spec": obj({
        "replicas": INT32,
        "paused": {"type": "boolean"},
        "security": obj({"user": INT32, "group": INT32}),
        "nodeSelector": map_of(STRING, atomic=True),
        "containers": list_of(
            obj({"name": STRING, "image": STRING, "args": list_of(STRING), "pullPolicy": STRING}), map_keys=["name"]
        ),
    }),
    "status": obj({"phase": STRING}),
})  # fmt: skip
T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def deployment(spec: dict[str, Any] | None = None, **metadata: Any) -> Object:
    made: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", **metadata}}
    return made if spec is None else {**made, "spec": spec}


def apply(
    current: Object | None, config: Object, manager: str = "alice", now: str = T0, *, force: bool = False
) -> Object:
    return server_side_apply(current, config, SCHEMA, manager, force, now)


def owners(applied: Object) -> dict[str, set[str]]:
    return {
        f"{entry['manager']}/{entry['operation']}": {
            format_field_path(path) for path in from_fields_v1(entry["fieldsV1"])
        }
        for entry in applied["metadata"].get("managedFields", [])
    }


def test_applying_creates_and_owns() -> None:
    config = deployment({"replicas": 2, "containers": [{"name": "a", "image": "x"}]}, labels={"app": "web"})
    assert apply(None, config) == {
        **config,
        "metadata": {
            "name": "web",
            "labels": {"app": "web"},
            "managedFields": [
                {
                    "manager": "alice",
                    "operation": "Apply",
                    "apiVersion": "apps/v1",
                    "time": T0,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:app": {}}},
                        "f:spec": {
                            "f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}}},
                            "f:replicas": {},
                        },
                    },
                }
            ],
        },
    }


def test_applying_the_same_again_changes_nothing() -> None:
    config = deployment({"replicas": 2, "containers": [{"name": "a", "image": "x"}]})
    first = apply(None, config)
    assert apply(first, config, now=T1) is first


def test_the_owner_may_change_what_is_his() -> None:
    first = apply(None, deployment({"replicas": 2}))
    second = apply(first, deployment({"replicas": 3}), now=T1)
    assert second["spec"] == {"replicas": 3}
    assert second["metadata"]["managedFields"] == first["metadata"]["managedFields"]  # the same fields since T0


def test_another_may_not() -> None:
    first = apply(None, deployment({"replicas": 2}))
    with pytest.raises(Conflict) as caught:
        apply(first, deployment({"replicas": 3}), "bob")
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "alice": .spec.replicas'
    assert caught.value.to_status()["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "alice"', "field": ".spec.replicas"}
    ]


def test_all_conflicts_are_listed() -> None:
    first = apply(None, deployment({"replicas": 2, "containers": [{"name": "a", "image": "x"}]}))
    second = apply(first, deployment({"paused": True}), "carol", T1)
    with pytest.raises(Conflict) as caught:
        apply(second, deployment({"replicas": 3, "paused": False, "containers": [{"name": "a", "image": "y"}]}), "bob")
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "alice":\n'
        '- .spec.containers[name="a"].image\n'
        "- .spec.replicas\n"
        'conflicts with "carol":\n'
        "- .spec.paused"
    )


def test_force_takes_the_field_over() -> None:
    first = apply(None, deployment({"replicas": 2, "paused": True}))
    second = apply(first, deployment({"replicas": 3}), "bob", T1, force=True)
    assert second["spec"] == {"replicas": 3, "paused": True}
    assert owners(second) == {"alice/Apply": {".spec.paused"}, "bob/Apply": {".spec.replicas"}}


def test_two_who_agree_share_a_field() -> None:
    first = apply(None, deployment({"replicas": 2}))
    second = apply(first, deployment({"replicas": 2}), "bob", T1)
    assert owners(second) == {"alice/Apply": {".spec.replicas"}, "bob/Apply": {".spec.replicas"}}
    third = apply(second, deployment(), "alice", T2)
    assert third["spec"] == {"replicas": 2}
    assert owners(third) == {"bob/Apply": {".spec.replicas"}}
    fourth = apply(third, deployment(), "bob", T2)
    assert "spec" not in fourth
    assert owners(fourth) == {}


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        pytest.param({"replicas": 2, "paused": True}, {"paused": True}, {"paused": True}, id="a field"),
        pytest.param({"paused": True, "security": {"user": 1}}, {"paused": True}, {"paused": True}, id="an object"),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b", "image": "x"}]},
            {"containers": [{"name": "a"}]},
            {"containers": [{"name": "a"}]},
            id="an item",
        ),
        pytest.param(
            {"containers": [{"name": "a", "image": "x"}]},
            {"containers": [{"name": "a"}]},
            {"containers": [{"name": "a"}]},
            id="a field of an item",
        ),
        pytest.param({"security": {}}, {"security": {"user": 1}}, {"security": {"user": 1}}, id="empty before"),
        pytest.param({"security": {"user": 1}}, {"security": {}}, {"security": {}}, id="empty after"),
        pytest.param(
            {"nodeSelector": {"a": "1", "b": "2"}}, {"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": "1"}},
            id="part of what is one field",
        ),
        pytest.param(
            {"containers": [{"name": "a", "args": ["x", "y"]}]},
            {"containers": [{"name": "a", "args": ["y"]}]},
            {"containers": [{"name": "a", "args": ["y"]}]},
            id="a list that is one field",
        ),
    ],
)  # fmt: skip
def test_what_is_no_longer_applied_goes(first: dict[str, Any], second: dict[str, Any], left: dict[str, Any]) -> None:
    assert apply(apply(None, deployment(first)), deployment(second), now=T1)["spec"] == left


def test_what_nobody_applied_stays() -> None:
    first = apply(None, deployment({"replicas": 2, "containers": [{"name": "a", "image": "x"}]}))
    defaulted = deepcopy(first)
    defaulted["spec"]["containers"][0]["pullPolicy"] = "Always"
    defaulted["spec"]["paused"] = False
    assert apply(defaulted, deployment({"containers": [{"name": "a"}]}), now=T1)["spec"] == {
        "paused": False,
        "containers": [{"name": "a", "pullPolicy": "Always"}],
    }
    assert apply(defaulted, deployment({"replicas": 2}), now=T1)["spec"] == {"replicas": 2, "paused": False}


def test_an_empty_map_claims_nothing_of_what_others_put_into_it() -> None:
    first = apply(None, deployment({"security": {}}))
    second = apply(first, deployment({"security": {"user": 1}}), "bob", T1)
    third = apply(second, deployment(), "alice", T2)
    assert third["spec"] == {"security": {"user": 1}}


def test_lists_taken_apart_have_several_owners() -> None:
    first = apply(None, deployment({"containers": [{"name": "a", "image": "x"}]}, finalizers=["one"]))
    second = apply(first, deployment({"containers": [{"name": "b"}]}, finalizers=["two"]), "bob", T1)
    assert second["spec"]["containers"] == [{"name": "a", "image": "x"}, {"name": "b"}]
    assert second["metadata"]["finalizers"] == ["one", "two"]
    third = apply(second, deployment(), "alice", T2)
    assert third["spec"]["containers"] == [{"name": "b"}]
    assert third["metadata"]["finalizers"] == ["two"]


def test_the_first_apply_to_an_object_made_otherwise() -> None:
    made = deployment({"replicas": 2}, labels={"app": "web"}, creationTimestamp=T0) | {"status": {"phase": "Up"}}
    agreeing = apply(made, deployment({"replicas": 2}), now=T1)
    assert owners(agreeing) == {
        "before-first-apply/Update": {".metadata.labels.app", ".spec.replicas"},
        "alice/Apply": {".spec.replicas"},
    }
    with pytest.raises(Conflict) as caught:
        apply(made, deployment({"replicas": 3}))
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using apps/v1: .spec.replicas'
    )
    taken = apply(made, deployment({"replicas": 3}), force=True)
    assert owners(taken)["before-first-apply/Update"] == {".metadata.labels.app"}


def test_what_kubectl_applied_by_itself_is_told_apart_from_what_others_did() -> None:
    """When kubectl moves on to server-side apply, it takes over the fields in its last-applied annotation, and no
    others."""
    last_applied = "kubectl.kubernetes.io/last-applied-configuration"
    config = deployment({"replicas": 2}, annotations={})
    note = json.dumps(config)
    made = deployment({"replicas": 2}, labels={"tier": "front"}, annotations={last_applied: note, "note": "hello"})
    found = owners(apply(made, deployment({"replicas": 2}), now=T1))
    assert found["kubectl-client-side-apply/Update"] == {".spec.replicas", f".metadata.annotations.{last_applied}"}
    assert found["before-first-apply/Update"] == {".metadata.labels.tier", ".metadata.annotations.note"}
    later = apply(made, deployment({"replicas": 3}), "kubectl", T1, force=True)
    assert json.loads(later["metadata"]["annotations"][last_applied]) == deployment({"replicas": 3})
    for rubbish in ("{", "[]", "7"):
        other = deployment({"replicas": 2}, annotations={last_applied: rubbish})
        assert "kubectl-client-side-apply/Update" not in owners(apply(other, deployment({"replicas": 2})))


@pytest.mark.parametrize(
    ("config", "manager", "error", "complaint"),
    [
        (deployment(), "", BadRequest, "fieldManager is required"),
        (deployment(managedFields=[{}]), "alice", BadRequest, "metadata.managedFields must not be set"),
        (deployment(resourceVersion="6"), "alice", Conflict, "has resourceVersion 7, not 6"),
        (deployment(uid="v"), "alice", Conflict, "has uid u, not v"),
    ],
)
def test_what_cannot_be_applied(config: Object, manager: str, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        apply(deployment(resourceVersion="7", uid="u"), config, manager)


def test_the_right_version_may_be_named() -> None:
    current = deployment(resourceVersion="7", uid="u")
    applied = apply(current, deployment({"replicas": 1}, resourceVersion="7", uid="u"))
    assert (applied["spec"], applied["metadata"]["resourceVersion"]) == ({"replicas": 1}, "7")


def test_subresources_have_owners_of_their_own() -> None:
    first = apply(None, deployment({"replicas": 1}))
    status = {**deployment(), "status": {"phase": "Up"}}
    second = server_side_apply(first, status, SCHEMA, "alice", False, T1, subresource="status")
    assert (second["spec"], second["status"]) == ({"replicas": 1}, {"phase": "Up"})
    assert [e.get("subresource") for e in second["metadata"]["managedFields"]] == [None, "status"]
    with pytest.raises(Conflict, match=r'conflict with "alice" with subresource "status": \.status.phase'):
        changed = {**deployment(), "status": {"phase": "Down"}}
        server_side_apply(second, changed, SCHEMA, "bob", False, T2, subresource="status")


def update(old: Object | None, new: Object, manager: str = "hpa", now: str = T1, **more: Any) -> Object:
    return track_update(old, new, SCHEMA, manager, now, **more)


def test_an_update_takes_over_what_it_changes() -> None:
    first = apply(None, deployment({"replicas": 2, "paused": True}))
    second = update(first, {**first, "spec": {"replicas": 5, "paused": True}})
    assert owners(second) == {"alice/Apply": {".spec.paused"}, "hpa/Update": {".spec.replicas"}}
    third = apply(second, deployment({"paused": True}), now=T2)  # alice leaves replicas to the autoscaler
    assert third["spec"] == {"replicas": 5, "paused": True}
    with pytest.raises(Conflict, match=r'conflict with "hpa" using apps/v1: \.spec.replicas'):
        apply(second, deployment({"replicas": 2, "paused": True}))


def test_an_update_that_removes_a_field_leaves_it_without_owner() -> None:
    first = apply(None, deployment({"replicas": 2, "containers": [{"name": "a", "image": "x"}]}))
    second = update(first, {**first, "spec": {"containers": [{"name": "a"}]}})
    assert owners(second) == {"alice/Apply": {'.spec.containers[name="a"]', '.spec.containers[name="a"].name'}}


def test_a_status_update_is_recorded_with_its_subresource() -> None:
    first = apply(None, deployment({"replicas": 2}))
    second = update(first, {**first, "status": {"phase": "Up"}}, "controller", subresource="status")
    assert second["metadata"]["managedFields"][1] == {
        "manager": "controller",
        "operation": "Update",
        "apiVersion": "apps/v1",
        "time": T1,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:phase": {}}},
        "subresource": "status",
    }
    third = update(second, {**second, "status": {"phase": "Down"}}, "controller", T2, subresource="status")
    assert third["metadata"]["managedFields"] == second["metadata"]["managedFields"]


def test_an_update_need_not_send_the_record() -> None:
    first = apply(None, deployment({"replicas": 2}))
    assert update(first, deployment({"replicas": 2})) == first
    assert owners(update(first, deployment({"replicas": 3}))) == {"hpa/Update": {".spec.replicas"}}


def test_an_update_that_changes_nothing_records_nothing() -> None:
    first = apply(None, deployment({"replicas": 2}))
    same = deepcopy(first)
    same["metadata"]["resourceVersion"] = "8"
    assert update(first, same) is same


def test_what_nobody_applied_has_no_record() -> None:
    old, new = deployment({"replicas": 2}), deployment({"replicas": 3})
    assert update(old, new) is new
    assert update(None, new) is new


def test_a_record_comes_only_from_the_server() -> None:
    sent = apply(None, deployment({"replicas": 2}))
    assert update(None, sent) == deployment({"replicas": 2})
    assert update(deployment({"replicas": 1}), sent) == deployment({"replicas": 2})


def test_a_record_can_be_erased() -> None:
    first = apply(None, deployment({"replicas": 2}))
    assert update(first, deployment({"replicas": 3}, managedFields=[{}])) == deployment({"replicas": 3})


images = st.sampled_from(["x", "y"])
containers = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"image": images, "args": st.lists(images)}),
    max_size=3,
    unique_by=lambda c: c["name"],
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 2),
        "security": st.fixed_dictionaries({}, optional={"user": st.integers(0, 2), "group": st.integers(0, 2)}),
        "nodeSelector": st.dictionaries(st.sampled_from("ab"), images, max_size=2),
        "containers": containers,
    },
)


@given(specs, specs, specs)
def test_whoever_forces_gets_what_he_applies_and_again_changes_nothing(a: Any, b: Any, c: Any) -> None:
    current = apply(apply(None, deployment(a)), deployment(b), "bob", T1, force=True)
    before = deepcopy(current)
    config = deployment(c)
    applied = apply(current, config, "alice", T2, force=True)
    assert current == before
    assert apply(applied, config, "alice", T2) is applied
    by_name = {c["name"]: c for c in applied.get("spec", {}).get("containers", [])}
    for name, value in c.items():
        if name == "containers":
            assert all(by_name[item["name"]].items() >= item.items() for item in value)
        elif name == "security":
            assert applied["spec"]["security"].items() >= value.items()
        else:
            assert applied["spec"][name] == value


@given(specs, specs)
def test_applying_nothing_undoes_what_one_applied_alone(a: Any, b: Any) -> None:
    once = apply(None, deployment(a))
    twice = apply(once, deployment(b), now=T1)
    assert apply(twice, deployment(), now=T2) == deployment()


@given(specs, specs)
def test_the_last_configuration_alone_decides_when_there_is_one_applier(a: Any, b: Any) -> None:
    applied = apply(apply(None, deployment(a)), deployment(b), now=T1)
    assert applied.get("spec", {}) == b
