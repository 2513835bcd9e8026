from __future__ import annotations

import json
import logging
import sys

import pytest

from muster.operator.run import JsonFormatter
from muster.operator.settings import (
    OperatorSettings,
    SettingsError,
    enabled_job_kinds,
    lease_name,
    own_identity,
    with_election,
)
from muster.training.registry import JOB_KINDS


def test_all_kinds_unless_some_are_named() -> None:
    assert [type(d) for d in enabled_job_kinds(OperatorSettings())] == [type(d) for d in JOB_KINDS]
    chosen = enabled_job_kinds(OperatorSettings(kinds=("pytorchjob", "PaddleJob")))
    assert [d.kind.resource for d in chosen] == [
        "pytorchjobs.kubeflow.org", "paddlejobs.kubeflow.org", "paddlejobs.batch.paddlepaddle.org",
    ]  # fmt: skip


def test_a_kind_that_does_not_exist() -> None:
    with pytest.raises(SettingsError, match='"TorchJob" is not a kind of training job; use one of PyTorchJob, TFJob'):
        enabled_job_kinds(OperatorSettings(kinds=("TorchJob",)))


def test_operators_of_the_same_namespaces_share_an_election() -> None:
    assert lease_name([]) == "muster-operator"
    assert lease_name(["a", "b"]) == lease_name(["b", "a"]) != lease_name(["a"])
    chosen = with_election(OperatorSettings(namespaces=("a",)), "home", lease_seconds=30)
    assert chosen.election is not None
    assert (chosen.election.name, chosen.election.namespace) == (lease_name(["a"]), "home")
    assert chosen.election.lease_seconds == 30
    assert own_identity() != own_identity()


@pytest.mark.parametrize(("gang", "by_policy"), [("none", False), ("volcano", True), ("scheduler-plugins", True)])
def test_without_a_gang_scheduler_a_policy_makes_no_gang(gang: str, by_policy: bool) -> None:
    settings = OperatorSettings(gang=gang)  # type: ignore[arg-type]
    assert (settings.gang_settings.scheduler, settings.gang_settings.by_policy) == (gang, by_policy)


def test_a_line_of_log_is_a_json_object() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        record = logging.LogRecord("muster.x", logging.ERROR, "", 0, "%s failed", ("it",), sys.exc_info())
    record.created = 0.5
    line = json.loads(JsonFormatter().format(record))
    assert "ValueError: wrong" in line.pop("exception")
    assert line == {
        "time": "1970-01-01T00:00:00.500Z",
        "level": "error",
        "logger": "muster.x",
        "message": "it failed",
    }
