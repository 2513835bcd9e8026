from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import JOB
from muster.kube.errors import Cause
from muster.kube.objects import Object


def template(labels: Object | None = None, **spec: Any) -> Object:
    filled = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}], **spec}
    return {"metadata": {"labels": labels or {}}, "spec": filled}


def check(spec: Object, old: Object | None = None, *, name: str = "x") -> list[Cause]:
    assert JOB.validate is not None
    before = None if old is None else {"metadata": {"name": name}, "spec": {"template": template(), **old}}
    return JOB.validate({"metadata": {"name": name}, "spec": {"template": template(), **spec}}, before)


def policy(**rule: Any) -> Object:
    return {"podFailurePolicy": {"rules": [{"action": "Ignore", **rule}]}}


CODES = {"operator": "In", "values": [1, 42]}


@pytest.mark.parametrize(
    ("spec", "old"),
    [
        ({}, None),
        ({"parallelism": 0, "completions": 5, "backoffLimit": 0}, None),
        ({"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 2}, None),
        ({"template": template(restartPolicy="OnFailure")}, None),
        (policy(onExitCodes=CODES), None),
        ({"selector": {"matchLabels": {"a": "b"}}, "template": template({"a": "b", "c": "d"})}, None),
        ({"parallelism": 3, "suspend": True}, {"parallelism": 1}),
        (
            {"completionMode": "Indexed", "completions": 3, "parallelism": 3},
            {"completionMode": "Indexed", "completions": 2, "parallelism": 2},
        ),
        ({"template": template(nodeSelector={"a": "b"})}, {"suspend": True}),
    ],
)
def test_what_is_accepted(spec: Object, old: Object | None) -> None:
    assert check(spec, old) == []


@pytest.mark.parametrize(
    ("spec", "old", "field", "message"),
    [
        ({"parallelism": -1}, None, "spec.parallelism", "must be greater than or equal to 0"),
        ({"ttlSecondsAfterFinished": -1}, None, "spec.ttlSecondsAfterFinished", "must be greater than or equal to 0"),
        (
            {"template": template(restartPolicy="Always")},
            None,
            "spec.template.spec.restartPolicy",
            'Unsupported value: "Always": supported values: "OnFailure", "Never"',
        ),
        ({"template": template(containers=[])}, None, "spec.template.spec.containers", "Required value"),
        ({"template": {}}, None, "spec.template.spec", "Required value"),
        ({"template": template({"a": "b c"})}, None, "spec.template.metadata.labels[a]", '"b c"'),
        ({"completionMode": "Indexed"}, None, "spec.completions", "when completion mode is Indexed"),
        ({"backoffLimitPerIndex": 1}, None, "spec.backoffLimitPerIndex", "requires indexed completion mode"),
        ({"successPolicy": {"rules": []}}, None, "spec.successPolicy", "requires indexed completion mode"),
        ({"maxFailedIndexes": 1}, None, "spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"),
        (
            {**policy(onExitCodes=CODES), "template": template(restartPolicy="OnFailure")},
            None,
            "spec.template.spec.restartPolicy",
            "only 'Never' is supported when podFailurePolicy is set",
        ),
        (policy(), None, "spec.podFailurePolicy.rules[0]", "one of OnExitCodes and OnPodConditions is required"),
        (
            policy(onExitCodes={"operator": "In", "values": [0]}),
            None,
            "spec.podFailurePolicy.rules[0].onExitCodes.values",
            "must not be 0",
        ),
        (
            policy(onExitCodes={"operator": "NotIn", "values": []}),
            None,
            "spec.podFailurePolicy.rules[0].onExitCodes.values",
            "at least one value is required",
        ),
        (
            policy(action="FailIndex", onExitCodes=CODES),
            None,
            "spec.podFailurePolicy.rules[0].action",
            "requires the backoffLimitPerIndex",
        ),
        (
            {"selector": {"matchLabels": {"a": "b"}}},
            None,
            "spec.template.metadata.labels",
            "`selector` does not match template `labels`",
        ),
        ({"completions": 2}, {"completions": 1}, "spec.completions", "field is immutable"),
        ({"completionMode": "NonIndexed"}, {}, "spec.completionMode", "field is immutable"),
        ({"template": template(hostNetwork=True)}, {}, "spec.template", "field is immutable"),
        ({"template": template(nodeSelector={"a": "b"})}, {}, "spec.template", "field is immutable"),
    ],
)
def test_what_is_refused(spec: Object, old: Object | None, field: str, message: str) -> None:
    (cause,) = check(spec, old)
    assert cause.field == field
    assert message in cause.message


def test_a_jobs_name_has_to_fit_into_a_label() -> None:
    assert [cause.field for cause in check({}, name="x" * 64)] == ["metadata.name"]
    assert [cause.field for cause in check({}, name="a.b")] == ["metadata.name"]


def test_a_job_without_a_spec_lacks_its_template() -> None:
    assert JOB.validate is not None
    assert [cause.field for cause in JOB.validate({"metadata": {"name": "x"}}, None)] == ["spec.template"]
