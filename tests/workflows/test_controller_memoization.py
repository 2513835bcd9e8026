"""Results of memoized templates are stored in ConfigMaps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, new_catalogue
from muster.kube.objects import labels_of, version_of
from muster.workflows.cluster_view import CACHE_LABELS, fit_entries, store_memos
from muster.workflows.model import Memo, Outputs

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def memo(key: str, *, cache: str = "cache", node: str = "wf-1", result: str = "42") -> Memo:
    return Memo(cache, key, node, Outputs(result=result))


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as found:
        yield found


async def entries(cluster: EmbeddedCluster, name: str = "cache") -> dict[str, dict[str, object]]:
    data = (await cluster.get(CONFIG_MAP, name, "default"))["data"]
    return {key: json.loads(text) for key, text in data.items()}


async def test_a_cache_is_made_when_it_is_needed_first_and_looks_as_argo_wants_it(cluster: EmbeddedCluster) -> None:
    await store_memos(cluster, "default", [memo("a")], NOW)
    assert labels_of(await cluster.get(CONFIG_MAP, "cache", "default")) == {
        "workflows.argoproj.io/configmap-type": "Cache"
    }
    assert await entries(cluster) == {
        "a": {
            "nodeID": "wf-1",
            "outputs": {"result": "42"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "lastHitTimestamp": "2026-01-02T03:04:05Z",
        }
    }


async def test_more_is_added_and_the_same_key_replaced(cluster: EmbeddedCluster) -> None:
    await store_memos(cluster, "default", [memo("a"), memo("b")], NOW)
    await store_memos(cluster, "default", [memo("b", result="new"), memo("c")], NOW)
    found = await entries(cluster)
    assert {key: entry["outputs"] for key, entry in found.items()} == {
        "a": {"result": "42"},
        "b": {"result": "new"},
        "c": {"result": "42"},
    }


async def test_many_entries_are_one_write_for_each_cache(cluster: EmbeddedCluster) -> None:
    await store_memos(cluster, "default", [memo("first"), memo("first", cache="other")], NOW)
    before = cluster.store.version
    memos = [memo(str(number), cache=("cache", "other")[number % 2]) for number in range(100)]
    await store_memos(cluster, "default", memos, NOW)
    assert cluster.store.version == before + 2
    assert len(await entries(cluster)) == len(await entries(cluster, "other")) == 51


async def test_what_somebody_made_of_it_stays(cluster: EmbeddedCluster) -> None:
    made = await cluster.create({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cache", "namespace": "default", "labels": {"team": "x", **CACHE_LABELS}},
        "data": {"theirs": "{}"},
    })  # fmt: skip
    await store_memos(cluster, "default", [memo("ours")], NOW)
    found = await cluster.get(CONFIG_MAP, "cache", "default")
    assert version_of(found) != version_of(made)
    assert labels_of(found) == {"team": "x", **CACHE_LABELS}
    assert set(found["data"]) == {"theirs", "ours"}


async def test_two_workflows_that_make_the_same_cache_at_the_same_time_both_get_their_entries(
    cluster: EmbeddedCluster,
) -> None:
    await asyncio.gather(*(store_memos(cluster, "default", [memo(str(number))], NOW) for number in range(5)))
    assert set(await entries(cluster)) == {"0", "1", "2", "3", "4"}


def entry(day: int, size: int = 10) -> str:
    return json.dumps({"creationTimestamp": f"2026-01-{day:02}T00:00:00Z", "outputs": "x" * size})


@pytest.mark.parametrize(
    ("known", "new", "dropped"),
    [
        ({}, {"a": entry(1)}, []),
        ({"a": entry(1)}, {"b": entry(2)}, []),
        ({"a": entry(1, 300), "b": entry(2, 300)}, {"c": entry(3, 300)}, ["a"]),
        ({"b": entry(2, 300), "a": entry(1, 300)}, {"c": entry(3, 600)}, ["a", "b"]),
        ({"a": entry(1, 300), "b": entry(2, 300)}, {"a": entry(3, 300)}, []),
        ({"broken": "x" * 400, "b": entry(2, 300)}, {"c": entry(3, 300)}, ["broken"]),
    ],
)
def test_a_full_cache_drops_its_oldest_entries(known: dict[str, str], new: dict[str, str], dropped: list[str]) -> None:
    assert list(fit_entries(known, new, 1000)) == dropped
