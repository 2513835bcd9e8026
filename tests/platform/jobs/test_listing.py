"""Lists of jobs, filtered, sorted and cut."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.platform.database.paging import PageRequest
from muster.platform.errors import Invalid
from muster.platform.jobs.jobs import Job, seen
from muster.platform.jobs.listing import JobFilter, check_filter, chosen, page_of_jobs
from muster.training.dialects.pytorch import PyTorch
from tests.platform.jobs.test_jobs import pytorch


def job(number: int, **more: Any) -> Job:
    return replace(
        seen(PyTorch(), pytorch()),
        uid=f"00000000-{number:04}",
        name=f"job-{number}",
        created=datetime(2026, 1, number, tzinfo=UTC),
        **more,
    )


JOBS = [
    job(1, state="running", owner_id="ann"),
    job(2, state="failed", owner_id="bob", word="tfjob"),
    job(3, state="waiting", run_id="r1", namespace="other"),
]


@pytest.mark.parametrize(
    ("only", "numbers"),
    [
        (JobFilter(), [1, 2, 3]),
        (JobFilter(q="JOB-2"), [2]),
        (JobFilter(q="tfjob job"), [2]),
        (JobFilter(q="other"), [3]),
        (JobFilter(kinds=("pytorchjob",)), [1, 3]),
        (JobFilter(states=("failed", "waiting")), [2, 3]),
        (JobFilter(owners=("ann",)), [1]),
        (JobFilter(owners=()), []),
        (JobFilter(run="r1"), [3]),
        (JobFilter(namespace="default"), [1, 2]),
        (JobFilter(since=datetime(2026, 1, 2, tzinfo=UTC)), [2, 3]),
        (JobFilter(until=datetime(2026, 1, 2, tzinfo=UTC)), [1]),
    ],
)
def test_filters(only: JobFilter, numbers: list[int]) -> None:
    assert [int(found.name[-1]) for found in chosen(JOBS, only, lambda each: each.owner_id)] == numbers


@pytest.mark.parametrize(
    ("sort", "numbers"),
    [("", [3, 2, 1]), ("created", [1, 2, 3]), ("name", [1, 2, 3]), ("-kind", [2, 3, 1]), ("state", [3, 1, 2])],
)
def test_the_same_order_in_one_piece_and_in_many(sort: str, numbers: list[int]) -> None:
    assert [int(found.name[-1]) for found in page_of_jobs(JOBS, PageRequest(sort=sort)).items] == numbers
    pieces, cursor = [], ""
    for _ in numbers:
        page = page_of_jobs(JOBS, PageRequest(limit=1, cursor=cursor, sort=sort))
        assert page.total == 3
        pieces += page.items
        cursor = page.next or ""
    assert [int(found.name[-1]) for found in pieces] == numbers
    assert cursor == ""


def test_a_cursor_stays_good_when_jobs_come_and_go() -> None:
    page = page_of_jobs(JOBS, PageRequest(limit=1))
    later = [job(4), *JOBS[:2]]
    assert [found.name for found in page_of_jobs(later, PageRequest(cursor=page.next or "")).items] == [
        "job-2",
        "job-1",
    ]


@pytest.mark.parametrize("wanted", [PageRequest(sort="colour"), PageRequest(limit=0), PageRequest(cursor="x")])
def test_what_makes_no_sense_is_refused(wanted: PageRequest) -> None:
    with pytest.raises(Invalid):
        page_of_jobs(JOBS, wanted)


def test_unknown_kinds_and_states_are_refused() -> None:
    check_filter(JobFilter(kinds=("tfjob",), states=("running",)), ["tfjob"])
    for only in (JobFilter(kinds=("podjob",)), JobFilter(states=("gone",))):
        with pytest.raises(Invalid):
            check_filter(only, ["tfjob"])
