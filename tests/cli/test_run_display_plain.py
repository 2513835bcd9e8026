from __future__ import annotations

from typing import Any

import pytest

from muster.cli.run_display import PlainDisplay, ProgressBoard
from muster.kube.kinds import Kind

POD = Kind("", "v1", "Pod", "pods")


def pod(phase: str, **state: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "x", "uid": "x"},
        "spec": {"nodeName": "here", "containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]},
    }


def test_a_reason_to_wait_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    board, display = ProgressBoard(), PlainDisplay()
    failed = pod("Pending", waiting={"reason": "ErrImagePull", "message": "no such image"})
    resting = pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "Back-off pulling image"})
    for moment, seen in enumerate((failed, resting, failed, resting, pod("Running", running={}))):
        board.put(POD, seen, float(moment))
        display.update(board, moment + 2.0)
    assert capsys.readouterr().out.splitlines() == [
        "pod/x ErrImagePull: no such image",
        "pod/x ImagePullBackOff: Back-off pulling image",
        "pod/x Running",
    ]
