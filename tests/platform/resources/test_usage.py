"""The usage of virtual clusters over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, func, select

from muster.platform.database.database import Database
from muster.platform.database.tables import cluster_usage
from muster.platform.permissions import Actor
from muster.platform.resources.resources import NewCluster, create_cluster, delete_cluster
from muster.platform.resources.usage import (
    KEPT,
    STEP,
    UsageSample,
    UsageStep,
    merge_steps,
    record_usage,
    step_for,
    usage_since,
)

BOSS = Actor("boss", "boss", admin=True)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


async def test_samples_of_five_minutes_are_one_row_and_old_rows_are_deleted(database: Database) -> None:
    def story(connection: Connection) -> None:
        cluster = create_cluster(connection, BOSS, NewCluster("c", {"cpu": 1}, total=4)).id
        for minutes, used in [(0, 1), (1, 4), (4, 1), (5, 3), (65, 2)]:
            record_usage(
                connection, {cluster: UsageSample(used, 4), "gone": UsageSample(1, 1)}, NOON + minutes * MINUTE
            )
        found = usage_since(connection, cluster, NOON)
        assert [(each.at, each.looks, each.mean, each.peak) for each in found] == [
            (NOON, 3, 2.0, 4),
            (NOON + STEP, 1, 3.0, 3),
            (NOON + 13 * STEP, 1, 2.0, 2),
        ]
        assert [each.peak for each in usage_since(connection, cluster, NOON + STEP)] == [3, 2]
        record_usage(connection, {cluster: UsageSample(0, 4)}, NOON + KEPT + 6 * MINUTE)
        assert [each.peak for each in usage_since(connection, cluster, NOON)] == [2, 0]
        delete_cluster(connection, BOSS, cluster)
        assert connection.execute(select(func.count()).select_from(cluster_usage)).scalar_one() == 0

    await database.write(story)


@pytest.mark.parametrize(
    ("time", "step"),
    [
        (timedelta(hours=1), STEP),
        (timedelta(hours=24), STEP),
        (timedelta(hours=29), 2 * STEP),
        (KEPT, 6 * STEP),
    ],
)
def test_long_periods_have_longer_steps(time: timedelta, step: timedelta) -> None:
    assert step_for(time) == step


def test_joining_steps_keeps_the_peak_the_mean_and_the_gaps() -> None:
    given = [UsageStep(NOON, 1, 0, 0, 4), UsageStep(NOON + STEP, 3, 6, 4, 5), UsageStep(NOON + 4 * STEP, 1, 1, 1, 5)]
    found = merge_steps(given, 2 * STEP)
    assert found == [UsageStep(NOON, 4, 6, 4, 5), UsageStep(NOON + 4 * STEP, 1, 1, 1, 5)]
    assert found[0].mean == 1.5
