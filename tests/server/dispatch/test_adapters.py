"""Adapters from the settings, and where the jobs of members are on this cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.dispatch.aihc.adapter import AihcAdapter
from muster.dispatch.model import Job, Spec
from muster.dispatch.timaker.adapter import TimakerAdapter
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import POD, new_catalogue
from muster.server.dispatch.adapters import MemberClusterAdapter, create_adapters, with_expiry
from muster.server.dispatch.jobs import NAMESPACE_LABEL
from muster.server.dispatch.settings import AihcSettings, DispatchSettings, TimakerSettings


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(tmp_path / "store", new_catalogue(), durability="process") as running:
        yield running


def job(**more: Any) -> Job:
    return Job("1m7n1nx4k7yjxxj0", "container", {}, "cluster", "waiting", datetime(2026, 1, 1, tzinfo=UTC), **more)


def test_this_cluster_comes_first_and_clouds_are_configured(cluster: EmbeddedCluster) -> None:
    assert [adapter.name for adapter in create_adapters(DispatchSettings(), cluster)] == ["cluster"]
    settings = DispatchSettings(
        aihc=AihcSettings("https://aihc.example", "env:AK", "env:SK", pool="p", queue="q", queues=("r",)),
        timaker=TimakerSettings("http://10.0.0.1:31425", "env:ID", "env:KEY", "u"),
    )
    _, aihc, timaker = create_adapters(settings, cluster)
    assert isinstance(aihc, AihcAdapter)
    assert (aihc.client.pool, aihc.settings.queues) == ("aihc-serverless", ("q", "r"))
    assert isinstance(timaker, TimakerAdapter)
    request = timaker.request(job(), Spec("image:1", ("python", "train.py")), "name")
    assert (request["url"], request["headers"]["Host"]) == ("http://10.0.0.1:31425/gateway", "10.0.0.1:31425")


def test_objects_are_in_the_namespace_of_the_user(cluster: EmbeddedCluster) -> None:
    adapter = MemberClusterAdapter(cluster, "")
    spec = Spec("python:3.11", ("true",))
    made = adapter.request(job(labels={NAMESPACE_LABEL: "user-ann"}), spec, "name")
    assert made["metadata"]["namespace"] == "user-ann"
    assert adapter.request(job(), spec, "name")["metadata"]["namespace"] == "default"


async def test_a_stopped_pod_is_gone_only_when_nothing_of_it_runs(cluster: EmbeddedCluster) -> None:
    adapter, spec = MemberClusterAdapter(cluster, "default"), Spec("python:3.11", ("true",))
    waiting, running = [await adapter.start(job(), spec, name) for name in ("waiting", "running")]
    await cluster.patch(POD, "running", "default", {"spec": {"nodeName": "node"}})
    for external_id in (waiting, running):
        await adapter.stop(job(external_id=external_id), grace=0)
    (left,) = (await cluster.list(POD, "default")).items
    assert left["metadata"]["name"] == "running"
    assert left["metadata"]["deletionGracePeriodSeconds"] == 1
    assert "finalizers" not in left["metadata"], "it owns nothing, so it waits for no garbage collector"
    await adapter.close()


def test_an_ended_training_job_is_deleted_after_a_day_unless_it_says_otherwise() -> None:
    assert with_expiry({"spec": {"a": 1}})["spec"] == {"a": 1, "runPolicy": {"ttlSecondsAfterFinished": 86400}}
    kept = {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 5, "backoffLimit": 1}}}
    assert with_expiry(kept) == kept
