"""Which waiting jobs start, as a table and as laws."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.dispatch import Capacity, Resources
from muster.dispatch.admission import RESERVE_AFTER, Candidate, admit, demand_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def candidate(id: str, *, cpu: float = 1, gpu: float = 0, gpu_type: str = "", nodes: int = 1, age: float = 1,
              type: str = "train", project: str = "", on: str = "local", priority: int = 0,
              **more: Any) -> Candidate:  # fmt: skip
    demand = demand_of(Resources(cpu=cpu, memory="0", gpu=gpu, gpu_type=gpu_type, nodes=nodes))
    return Candidate(id, type, project, on, priority, NOW - timedelta(seconds=age), demand, **more)


def room(**free: float) -> dict[str, Capacity | None]:
    found = {name.replace("_", "/"): amount for name, amount in free.items()}
    return {"local": Capacity(dict.fromkeys(found, 8.0), found)}


@pytest.mark.parametrize(
    ("waiting", "capacity", "options", "starts"),
    [
        ([candidate("a"), candidate("b")], {"local": None}, {}, "ab"),
        ([candidate("a", age=1), candidate("b", age=2)], room(cpu=1), {}, "b"),
        ([candidate("a"), candidate("b", priority=1)], room(cpu=1), {}, "b"),
        ([candidate("a", cpu=4), candidate("b", cpu=2)], room(cpu=3), {}, "b"),
        ([candidate("a", cpu=4, age=RESERVE_AFTER + 1), candidate("b", cpu=2)], room(cpu=3), {}, ""),
        ([candidate("a", nodes=4)], room(cpu=3), {}, ""),
        ([candidate("a", gpu=1)], room(cpu=3), {}, ""),
        ([candidate("a", gpu=1, gpu_type="V100")], room(cpu=3, gpu=1), {}, "a"),
        ([candidate("a", gpu=1, gpu_type="V100")], room(cpu=3, gpu=2, gpu_A100=2), {}, ""),
        ([candidate("a", gpu=1, gpu_type="V100")], room(cpu=3, gpu=2, gpu_V100=1), {}, "a"),
        ([candidate("a"), candidate("b")], room(cpu=2), {"held": {"local": [{"cpu": 1.0}]}}, "a"),
        ([candidate("a"), candidate("b")], room(cpu=9), {"limits": {"train": 1}}, "a"),
        ([candidate("a")], room(cpu=9), {"limits": {"train": 1}, "active": {("p", "train"): 1}}, ""),
        ([candidate("a", project="p"), candidate("b", project="q")], room(cpu=9),
         {"limits": {("p", "train"): 1}, "active": {("p", "train"): 1}}, "b"),
        ([candidate("a", at=NOW + timedelta(1)), candidate("b", at=NOW - timedelta(1))], room(cpu=9), {}, "b"),
        ([candidate("a", next_at=NOW + timedelta(1))], room(cpu=9), {}, ""),
        ([candidate("a", after=("x",)), candidate("b", after=("y",))], room(cpu=9),
         {"dependencies": {"x": "running", "y": "succeeded"}}, "b"),
        ([candidate("a", on="moon")], room(cpu=9), {}, ""),
        ([candidate(id) for id in "abc"], room(cpu=9), {"at_most": 2}, "ab"),
    ],
)  # fmt: skip
def test_what_starts(waiting: list[Candidate], capacity: dict[str, Capacity | None], options: dict[str, Any],
                     starts: str) -> None:  # fmt: skip
    admission = admit(waiting, now=NOW, capacity=capacity, **options)
    assert "".join(admission.starts) == starts
    assert set(admission.reasons) == {job.id for job in waiting} - set(starts)


@pytest.mark.parametrize("state", ["failed", "cancelled", None])
def test_a_job_that_comes_after_a_failed_one_never_starts(state: Any) -> None:
    states = {"x": state} if state else {}
    admission = admit([candidate("a", after=("x",))], now=NOW, capacity=room(cpu=9), dependencies=states)
    assert admission.faults["a"].code == "Dispatch.Dependency"
    assert "job x, which it comes after" in admission.faults["a"].message


def test_a_job_that_can_never_fit_says_so() -> None:
    admission = admit([candidate("a", cpu=9)], now=NOW, capacity=room(cpu=0))
    assert admission.reasons["a"] == "can never start on local: it needs more cpu than there is in total"


JOBS = st.lists(
    st.builds(
        candidate,
        st.uuids().map(str),
        cpu=st.integers(0, 6),
        gpu=st.integers(0, 3),
        type=st.sampled_from(["train", "test"]),
        project=st.sampled_from(["p", "q"]),
        priority=st.integers(0, 2),
        age=st.floats(0, 2000),
    ),
    max_size=20,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JOBS, st.floats(0, 10), st.floats(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_laws(waiting: list[Candidate], cpu: float, gpu: float, of_type: int, of_project: int) -> None:
    """No more is given away than there is, no limit is exceeded, and every job starts or has a reason."""
    limits: dict[str | tuple[str, str], int] = {"train": of_type, ("p", "test"): of_project}
    capacity = {"local": Capacity({"cpu": 6, "gpu": 3}, {"cpu": cpu, "gpu": gpu})}
    admission = admit(waiting, now=NOW, capacity=capacity, limits=limits)
    by_id = {job.id: job for job in waiting}
    started = [by_id[id] for id in admission.starts]
    assert sum(job.demand["cpu"] for job in started) <= cpu
    assert sum(job.demand.get("gpu", 0) for job in started) <= gpu
    assert Counter(job.type for job in started)["train"] <= of_type
    assert Counter((job.project, job.type) for job in started)["p", "test"] <= of_project
    assert set(admission.starts) | set(admission.reasons) == set(by_id)
    for job in waiting:
        if job.id in admission.reasons:
            assert admission.reasons[job.id]
            alike = [s for s in started if (s.demand, s.type, s.project) == (job.demand, job.type, job.project)]
            assert all((-s.priority, s.created, s.id) < (-job.priority, job.created, job.id) for s in alike)
