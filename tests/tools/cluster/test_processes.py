from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tools.cluster.layout import Layout
from tools.cluster.processes import failure, log_of, pid_of, recorded


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("MUSTER_CLUSTER_HOME", str(tmp_path))
    layout = Layout("tried")
    layout.make()
    return layout


def started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_a_process_is_known_by_when_it_started(layout: Layout) -> None:
    me = os.getpid()
    (layout.processes / "same").write_text(json.dumps({"pid": me, "started": started(me)}))
    (layout.processes / "reused").write_text(json.dumps({"pid": me, "started": "1"}))
    (layout.processes / "ended at once").write_text(json.dumps({"pid": 2**22 + 1, "started": None}))
    (layout.processes / ".half").write_text("{")
    names = ["same", "reused", "ended at once", "never"]
    assert [pid_of(layout, name) for name in names] == [me, None, None, None]
    assert set(recorded(layout)) == {"same", "reused", "ended at once"}


def test_a_failure_shows_the_end_of_the_log(layout: Layout) -> None:
    log_of(layout, "etcd").write_text("".join(f"line {number}\n" for number in range(100)))
    told = str(failure(layout, "etcd", "ended"))
    assert told.startswith("etcd ended.") and told.endswith("line 99") and "line 50" not in told
