from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.embedded.store.admission import (
    FieldValidation,
    admit_change,
    admit_new,
    admit_status,
    collect_warnings,
    private_copy,
    same_json,
    warn,
)
from muster.kube.errors import BadRequest, Cause, Invalid
from muster.kube.kinds import Kind
from muster.kube.objects import Object
from muster.kube.schema import ANY, INT32, STRING, obj, root

NOW = "2026-01-01T00:00:00Z"


def default(crew: Object) -> Object:
    spec = crew.get("spec") or {}
    return {**crew, "spec": {"size": 1, **{k: spec[k] for k in spec}}}


def rule(new: Object, old: Object | None) -> list[Cause]:
    if old is not None and new["spec"].get("ship") != old["spec"].get("ship"):
        return [Cause("spec.ship", "Forbidden: a crew keeps its ship", "FieldValueForbidden")]
    return []


CREW = Kind(
    "x.dev",
    "v1",
    "Crew",
    "crews",
    schema=root({
        "spec": obj({"size": INT32, "ship": STRING, "cargo": ANY, "captain": obj({"name": STRING}, ["name"])}),
        "status": obj({"aboard": INT32}),
    }),
    default=default,
    validate=rule,
)  # fmt: skip


def crew(**spec: Any) -> Object:
    return {"apiVersion": "x.dev/v1", "kind": "Crew", "metadata": {"name": "c"}, "spec": spec}


def stored(**spec: Any) -> Object:
    made = admit_new(CREW, crew(**spec), "c", "default", NOW)
    made["metadata"]["resourceVersion"] = "1"
    return made


def causes(error: pytest.ExceptionInfo[Invalid]) -> list[tuple[str, str]]:
    return [(c.field, c.reason) for c in error.value.causes]


def test_a_new_object_is_complete_and_has_no_status_yet() -> None:
    made = admit_new(CREW, {**crew(ship="Argo"), "status": {"aboard": 9}}, "c", "default", NOW)
    assert list(made) == ["apiVersion", "kind", "metadata", "spec"]
    assert made["spec"] == {"size": 1, "ship": "Argo"}
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["creationTimestamp"] == NOW


@pytest.mark.parametrize(
    ("spec", "at"),
    [
        ({"size": "three"}, [("spec.size", "FieldValueTypeInvalid")]),
        ({"captain": {}}, [("spec.captain.name", "FieldValueRequired")]),
        ({"ships": "Argo"}, [("spec.ships", "FieldValueInvalid")]),
    ],
)
def test_schema_errors_name_the_field(spec: Any, at: list[tuple[str, str]]) -> None:
    with pytest.raises(Invalid, match=r'^Crew\.x\.dev "c" is invalid: spec\.') as caught:
        admit_new(CREW, crew(**spec), "c", "default", NOW)
    assert causes(caught) == at


def test_a_defaulter_that_trips_over_a_wrong_type_does_not_hide_it() -> None:
    with pytest.raises(Invalid) as caught:
        admit_new(CREW, {**crew(), "spec": 17}, "c", "default", NOW)
    assert causes(caught) == [("spec", "FieldValueTypeInvalid")]


def test_several_problems_come_together() -> None:
    with pytest.raises(Invalid, match=r"is invalid: \[spec\.size: .*, spec\.captain\.name: Required value\]"):
        admit_new(CREW, crew(size="x", captain={}), "c", "default", NOW)


@pytest.mark.parametrize(
    ("changes", "generation"),
    [
        ({"spec": {"size": 2}}, 2),
        ({"spec": {"size": 1, "cargo": {"n": 1}}}, 2),
        ({"metadata": {"name": "c", "labels": {"a": "b"}}}, 1),
        ({"status": {"aboard": 3}}, None),
        ({"metadata": {"name": "c", "uid": "other", "generation": 9}}, None),
        ({"spec": {}}, None),
    ],
    ids=["spec", "free-form", "labels", "status is not for here", "system metadata", "only a default left out"],
)
def test_generation_counts_changes_of_the_spec_only(changes: Object, generation: int | None) -> None:
    old = stored(size=1)
    new = admit_change(CREW, old, {**old, **changes})
    if generation is None:
        assert new is old
    else:
        assert new["metadata"]["generation"] == generation
        assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert old["metadata"]["generation"] == 1


def test_true_is_not_one() -> None:
    old = stored(cargo={"n": 1})
    new = admit_change(CREW, old, crew(size=1, cargo={"n": True}))
    assert new is not old
    assert new["metadata"]["generation"] == 2
    assert not same_json({"a": 1}, {"a": True})
    assert same_json({"a": 1, "b": 2}, {"b": 2, "a": 1})


def test_versions_share_what_did_not_change() -> None:
    old = stored(size=1, cargo={"much": ["stuff"]})
    new = admit_change(CREW, old, {**crew(size=1, cargo={"much": ["stuff"]}), "metadata": {"labels": {"a": "b"}}})
    assert new["spec"] is old["spec"]


def test_a_rule_sees_both_states() -> None:
    with pytest.raises(Invalid, match="a crew keeps its ship") as caught:
        admit_change(CREW, stored(ship="Argo"), crew(ship="Beagle"))
    assert causes(caught) == [("spec.ship", "FieldValueForbidden")]


def test_an_update_is_checked_where_it_changes_something() -> None:
    with pytest.raises(Invalid) as caught:
        admit_change(CREW, stored(), {**crew(size="x")})
    assert causes(caught) == [("spec.size", "FieldValueTypeInvalid")]
    with pytest.raises(Invalid) as caught:
        admit_change(CREW, stored(), {**crew(), "extra": 1})
    assert causes(caught) == [("extra", "FieldValueInvalid")]
    outdated = {**stored(), "spec": {"size": 1, "gone": "field of an older schema"}}
    relabelled = admit_change(CREW, outdated, {**outdated, "metadata": {"labels": {"a": "b"}}})
    assert relabelled["metadata"]["labels"] == {"a": "b"}


def test_a_status_changes_nothing_else() -> None:
    old = stored(size=1)
    new = admit_status(CREW, old, {"aboard": 2})
    assert new == {**old, "status": {"aboard": 2}}
    assert new["spec"] is old["spec"]
    assert admit_status(CREW, new, {"aboard": 2}) is new
    assert admit_status(CREW, new, None) == old
    with pytest.raises(Invalid) as caught:
        admit_status(CREW, old, {"aboard": "two", "shore": 1})
    assert causes(caught) == [("status.aboard", "FieldValueTypeInvalid"), ("status.shore", "FieldValueInvalid")]


@pytest.mark.parametrize(
    ("mode", "warnings"),
    [("Warn", ['unknown field "spec.ships"', 'unknown field "metadata.label"']), ("Ignore", [])],
)
def test_unknown_fields_can_be_dropped_with_or_without_a_word(mode: FieldValidation, warnings: list[str]) -> None:
    given = {**crew(size=1, ships="Argo"), "metadata": {"name": "c", "label": {}}}
    with collect_warnings() as said:
        copied = private_copy(CREW, given, mode)
    assert copied == crew(size=1)
    assert sorted(said) == sorted(warnings)
    assert given["spec"]["ships"] == "Argo"


def test_nulls_are_absent_fields() -> None:
    given = {**crew(size=None, captain=None), "status": None}
    assert private_copy(CREW, given, "Strict") == crew()
    with pytest.raises(Invalid) as caught:
        private_copy(CREW, crew(size=None, ships=None, other=1), "Strict")
    assert {field for field, _ in causes(caught)} >= {"spec.other"}


def test_a_copy_is_private() -> None:
    given = crew(cargo={"a": [1]})
    private_copy(CREW, given, "Strict")["spec"]["cargo"]["a"].append(2)
    assert given["spec"]["cargo"] == {"a": [1]}


@pytest.mark.parametrize("given", [{"metadata": "x"}, [], "x", {"metadata": {"name": {1, 2}}}])
def test_bodies_that_are_no_objects_are_refused(given: Any) -> None:
    with pytest.raises(BadRequest):
        private_copy(CREW, given, "Strict")


def test_warnings_without_a_collector_are_dropped() -> None:
    warn("into the void")
    with collect_warnings() as said:
        warn("heard")
    assert said == ["heard"]


def test_fields_without_effect_are_warned_about_once() -> None:
    timid = replace(
        CREW, warnings=lambda crew: [Cause("spec.cargo", "has no effect")] if "cargo" in crew["spec"] else []
    )
    with collect_warnings() as said:
        made = admit_new(timid, crew(cargo=1), "c", "default", NOW)
        admit_change(timid, made, {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})
    assert said == ["spec.cargo: has no effect"]
    with collect_warnings() as said:
        admit_change(timid, made, {**made, "spec": {"cargo": 2}})
    assert said == ["spec.cargo: has no effect"]


def test_a_required_field_cannot_be_replaced_by_another_one() -> None:
    kind = replace(CREW, default=None, validate=None, schema=root({"captain": STRING, "cook": STRING}, ["captain"]))
    old = admit_new(kind, {"captain": "ann"}, "a", "", NOW)
    with pytest.raises(Invalid) as refused:
        admit_change(kind, old, {"metadata": {"name": "a"}, "cook": "bob"})
    assert causes(refused) == [("captain", "FieldValueRequired")]
