from __future__ import annotations

import pytest

from muster.kube.kinds import Kind
from muster.kube.objects import Object
from muster.training.registry import training_kinds


@pytest.mark.parametrize("kind", training_kinds(), ids=lambda kind: kind.resource)
@pytest.mark.parametrize("old", [None, {"metadata": {"name": "x"}, "spec": {}}])
def test_a_job_without_a_spec_is_told_what_it_lacks(kind: Kind, old: Object | None) -> None:
    assert kind.validate is not None
    assert [cause.reason for cause in kind.validate({"metadata": {"name": "x"}}, old)] == ["FieldValueRequired"]
