"""When an idle notebook is warned and stopped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.kube.objects import timestamp
from muster.workspaces.culler import Activity, decide_culling, read_activity
from muster.workspaces.images import WorkspaceSettings
from muster.workspaces.kinds import (
    CULL_AT_ANNOTATION,
    CULL_IDLE_ANNOTATION,
    CULLED_AT_ANNOTATION,
    LAST_ACTIVITY_ANNOTATION,
    STOP_ANNOTATION,
)
from tests.workspaces.sample_workspaces import notebook

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
SETTINGS = WorkspaceSettings(cull_idle_minutes=60, cull_warning_minutes=15)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("idle", "busy", "warned", "stopped"),
    [(1, False, False, False), (44, False, False, False), (46, False, True, False), (60, False, False, True),
     (600, True, False, False), (600, False, False, True)],
)  # fmt: skip
def test_an_idle_notebook_is_warned_then_stopped(idle: float, busy: bool, warned: bool, stopped: bool) -> None:
    decision = decide_culling(notebook(), Activity(busy, ago(idle)), ago(1000), NOW, SETTINGS)
    assert bool(decision.warn) is warned
    assert bool(decision.stop) is stopped
    assert (STOP_ANNOTATION in decision.annotations) is stopped
    assert (CULLED_AT_ANNOTATION in decision.annotations) is stopped
    assert (decision.annotations.get(CULL_AT_ANNOTATION) is not None) is warned
    assert decision.annotations[LAST_ACTIVITY_ANNOTATION] == timestamp(NOW if busy else ago(idle))


def test_a_warning_is_told_once_and_taken_back_when_the_notebook_is_used() -> None:
    warned = notebook(annotations={CULL_AT_ANNOTATION: timestamp(ago(-10))})
    assert decide_culling(warned, Activity(False, ago(50)), ago(100), NOW, SETTINGS).warn == ""
    used = decide_culling(warned, Activity(True, None), ago(100), NOW, SETTINGS)
    assert used.annotations[CULL_AT_ANNOTATION] is None


def test_a_notebook_that_was_never_used_is_idle_since_it_became_ready() -> None:
    assert not decide_culling(notebook(), Activity(False, None), ago(5), NOW, SETTINGS).stop
    assert decide_culling(notebook(), Activity(False, None), ago(61), NOW, SETTINGS).stop


@pytest.mark.parametrize(("own", "stops"), [("0", False), ("30", True), ("nonsense", False)])
def test_a_notebook_may_have_its_own_limit(own: str, stops: bool) -> None:
    nb = notebook(annotations={CULL_IDLE_ANNOTATION: own})
    assert bool(decide_culling(nb, Activity(False, ago(40)), ago(100), NOW, SETTINGS).stop) is stops


def test_without_a_limit_only_the_last_activity_is_recorded_and_only_if_it_changed() -> None:
    first = decide_culling(notebook(), Activity(False, ago(40)), ago(100), NOW, WorkspaceSettings())
    assert not first.stop
    again = notebook(annotations={LAST_ACTIVITY_ANNOTATION: timestamp(ago(40))})
    assert not decide_culling(again, Activity(False, ago(40)), ago(100), NOW, WorkspaceSettings()).annotations


@pytest.mark.parametrize(
    ("kernels", "terminals", "expected"),
    [
        ([], [], Activity(False, None)),
        (
            [{"execution_state": "idle", "last_activity": "2026-11-17T11:00:00Z"}],
            [{"name": "1", "last_activity": "2026-11-17T11:30:00Z"}],
            Activity(False, ago(30)),
        ),
        ([{"execution_state": "busy", "last_activity": "2026-11-17T11:00:00Z"}], None, Activity(True, ago(60))),
        ({"not": "a list"}, [1, {"last_activity": "yesterday"}], Activity(False, None)),
        ([{"execution_state": {}, "last_activity": []}], [{"execution_state": ["busy"]}], Activity(False, None)),
    ],
)
def test_the_answers_of_jupyter_are_read_whatever_they_are(kernels: Any, terminals: Any, expected: Activity) -> None:
    assert read_activity(kernels, terminals) == expected
