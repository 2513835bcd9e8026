from __future__ import annotations

import pytest

from muster.kube.objects import Object
from muster.kube.pod_validation import validate_label_selector, validate_placement

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_affinity(*rules: Object, field: str = "matchExpressions") -> Object:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{field: list(rules)}]}}}}


def rule(operator: str, *values: str, key: str = "zone") -> Object:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def spread(**fields: object) -> Object:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [constraint]}


TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodeSelector": {"kubernetes.io/hostname": "n1"}},
        {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]},
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]},
        node_affinity(rule("In", "a", "b"), rule("NotIn", "c"), rule("Exists"), rule("Gt", "5"), rule("Lt", "-1")),
        node_affinity({"key": "metadata.name", "operator": "In", "values": ["n1"]}, field="matchFields"),
        {"affinity": {"podAffinity": {REQUIRED: [TERM]}}},
        {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}}},
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": {}}]}}},
        {
            "affinity": {
                "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [rule("In", "a b")]}}]}
            }
        },
        spread(minDomains=2),
        {"schedulingGates": [{"name": "a"}, {"name": "example.com/b"}]},
    ],
)
def test_good_placement(spec: Object) -> None:
    assert list(validate_placement(spec, "spec")) == []


AT = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector", 'Invalid value: "a b"'),
        ({"nodeSelector": {"a": "c d"}}, "spec.nodeSelector[a]", 'Invalid value: "c d"'),
        (
            {"tolerations": [{"operator": "Equal"}]},
            "spec.tolerations[0].operator",
            "must be Exists when `key` is empty",
        ),
        ({"tolerations": [{"key": "-"}]}, "spec.tolerations[0].key", 'Invalid value: "-"'),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "spec.tolerations[0].value",
            "value must be empty when `operator` is 'Exists'",
        ),
        ({"tolerations": [{"key": "a", "value": "b c"}]}, "spec.tolerations[0].value", "a label's value has"),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]},
            "spec.tolerations[0].effect",
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
            AT,
            "must have at least one node selector term",
        ),
        (node_affinity(rule("In")), f"{AT}[0].matchExpressions[0].values", "must be specified when `operator` is 'In'"),
        (node_affinity(rule("Exists", "x")), f"{AT}[0].matchExpressions[0].values", "may not be specified when"),
        (node_affinity(rule("Gt", "1", "2")), f"{AT}[0].matchExpressions[0].values", "must be specified single value"),
        (node_affinity(rule("Lt", "x")), f"{AT}[0].matchExpressions[0].values[0]", "must be an integer"),
        (node_affinity(rule("Exists", key="a b")), f"{AT}[0].matchExpressions[0].key", 'Invalid value: "a b"'),
        (node_affinity(rule("In", "a b")), f"{AT}[0].matchExpressions[0].values[0]", "a label's value has"),
        (
            node_affinity(rule("In", "n1"), field="matchFields"),
            f"{AT}[0].matchFields[0].key",
            "not a valid field selector key",
        ),
        (
            node_affinity(rule("Exists", key="metadata.name"), field="matchFields"),
            f"{AT}[0].matchFields[0].operator",
            'supported values: "In", "NotIn"',
        ),
        (
            node_affinity(rule("In", "a", "b", key="metadata.name"), field="matchFields"),
            f"{AT}[0].matchFields[0].values",
            "must have exactly one value",
        ),
        (
            {"nodeName": "n1", "schedulingGates": [{"name": "g"}]},
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        ),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]}}},
            f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight",
            "must be in the range 1-100",
        ),
        (
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": ""}]}}},
            f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey",
            "Required value: can not be empty",
        ),
        (
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "a b"}]}}},
            f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey",
            'Invalid value: "a b"',
        ),
        (spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew", "must be greater than zero"),
        (spread(topologyKey=""), "spec.topologySpreadConstraints[0].topologyKey", "can not be empty"),
        (spread(minDomains=0), "spec.topologySpreadConstraints[0].minDomains", "must be greater than zero"),
        (
            spread(minDomains=1, whenUnsatisfiable="ScheduleAnyway"),
            "spec.topologySpreadConstraints[0].minDomains",
            "can only use minDomains if whenUnsatisfiable=DoNotSchedule",
        ),
        ({"schedulingGates": [{"name": "a b"}]}, "spec.schedulingGates[0].name", 'Invalid value: "a b"'),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, "spec.schedulingGates[1].name", 'Duplicate value: "a"'),
    ],
)
def test_bad_placement(spec: Object, field: str, message: str) -> None:
    (cause,) = validate_placement(spec, "spec")
    assert cause.field == field
    assert message in cause.message


def test_label_selectors() -> None:
    selector = {"matchLabels": {"a": "b c"}, "matchExpressions": [rule("In"), rule("Exists")]}
    assert [cause.field for cause in validate_label_selector(selector, "s")] == [
        "s.matchLabels[a]",
        "s.matchExpressions[0].values",
    ]
    assert list(validate_label_selector(None, "s")) == []
