from __future__ import annotations

import pytest

from muster.kube.builtin import JOB, builtin_kinds
from muster.kube.field_descriptions import describe_field, describe_kind
from muster.kube.kinds import Kind, Schema


@pytest.mark.parametrize(
    ("name", "schema", "text"),
    [
        ("image", {"type": "string"}, "The image that the container is made of."),
        ("periodSeconds", {"type": "integer"}, "Period, in seconds."),
        ("podIP", {"type": "string"}, "Pod IP."),
        ("podAntiAffinity", {}, "Pod anti affinity."),
        ("lastTransitionTime", {"type": "string"}, "Last transition time, as a time such as 2026-01-31T12:00:00Z."),
        ("secretRef", {}, "Refers to the secret, by its name."),
        ("storageClassName", {"type": "string"}, "The name of the storage class."),
        ("readOnly", {"type": "boolean"}, "Whether it applies: read only."),
        ("accessModes", {"type": "array"}, "A list: access modes."),
        ("_", {}, "_."),
    ],
)
def test_a_field_is_described(name: str, schema: Schema, text: str) -> None:
    assert describe_field(name, schema) == text


def test_kinds_that_users_meet_are_described() -> None:
    assert describe_kind(JOB).startswith("Runs Pods")
    assert describe_kind(Kind("acme.io", "v1", "Job", "jobs")) == "", "another Job than Kubernetes'"
    assert all(map(describe_kind, builtin_kinds()))
