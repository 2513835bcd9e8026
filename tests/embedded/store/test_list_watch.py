from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.history import make_change
from muster.embedded.store.list_watch import event_for_change, selector_predicate
from muster.kube.builtin import CONFIG_MAP, new_catalogue
from muster.kube.cluster import WatchEvent
from muster.kube.errors import BadRequest, Gone, Unavailable
from muster.kube.objects import Key, Object, key_of, name_of


def config_map(name: str, namespace: str = "default", **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def take(events: AsyncIterator[WatchEvent], count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async for event in events:
        found.append((event.type, name_of(event.object)))
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "in", "ADDED"),
        (None, "out", None),
        ("out", "in", "ADDED"),
        ("in", "in", "MODIFIED"),
        ("in", "out", "DELETED"),
        ("out", "out", None),
        ("in", None, "DELETED"),
        ("out", None, None),
    ],
)
def test_a_selector_turns_changes_into_arrivals_and_departures(
    before: str | None, after: str | None, expected: str | None
) -> None:
    def state(where: str | None, version: int) -> Object | None:
        return None if where is None else {"metadata": {"labels": {"where": where}, "resourceVersion": str(version)}}

    last = state(after, 2) or state(before, 2)
    assert last is not None
    change = make_change(2, Key("a", "x"), state(before, 1), last, after is None)
    matches = selector_predicate(CONFIG_MAP, "where=in", "")
    assert matches is not None
    event = event_for_change(change, matches)
    assert (event and event.type) == expected
    if event is not None:
        assert event.object["metadata"]["resourceVersion"] == "2"
        assert event.object["metadata"]["labels"] == {"where": "in"}


@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        ("", "", {"a", "b", "c"}),
        ("app=x", "", {"a", "b"}),
        ("", "metadata.name=a", {"a"}),
        ("app=x", "metadata.name!=a", {"b"}),
    ],
)
def test_selectors_of_both_sorts(labels: str, fields: str, expected: set[str]) -> None:
    matches = selector_predicate(CONFIG_MAP, labels, fields)
    objects = [config_map("a", app="x"), config_map("b", app="x"), config_map("c", app="y")]
    assert {name_of(o) for o in objects if matches is None or matches(o)} == expected


async def test_without_a_version_a_watch_begins_with_what_is_there(cluster: EmbeddedCluster) -> None:
    await cluster.create(config_map("one"))
    events = cluster.watch(CONFIG_MAP, "default")
    assert await take(events, 1) == [("ADDED", "one")]
    watching = asyncio.create_task(take(cluster.watch(CONFIG_MAP, "default"), 3))
    await asyncio.sleep(0)
    await cluster.create(config_map("two"))
    await cluster.delete(CONFIG_MAP, "one", "default")
    assert await watching == [("ADDED", "one"), ("ADDED", "two"), ("DELETED", "one")]


async def test_a_watch_from_a_list_misses_nothing(cluster: EmbeddedCluster) -> None:
    await cluster.create(config_map("before"))
    version = (await cluster.list(CONFIG_MAP)).resource_version
    await cluster.create(config_map("between"))
    events = cluster.watch(CONFIG_MAP, resource_version=version)
    assert await take(events, 1) == [("ADDED", "between")]


async def test_other_namespaces_and_kinds_are_not_seen(cluster: EmbeddedCluster) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    version = (await cluster.list(CONFIG_MAP)).resource_version
    await cluster.create(config_map("theirs", "other"))
    await cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}})
    await cluster.create(config_map("ours"))
    assert await take(cluster.watch(CONFIG_MAP, "default", resource_version=version), 1) == [("ADDED", "ours")]
    both = await take(cluster.watch(CONFIG_MAP, resource_version=version), 2)
    assert both == [("ADDED", "theirs"), ("ADDED", "ours")]


async def test_bookmarks_tell_how_far_a_quiet_watch_has_come(cluster: EmbeddedCluster) -> None:
    version = (await cluster.list(CONFIG_MAP)).resource_version
    batches = cluster.watch_batches(CONFIG_MAP, labels="app=none", resource_version=version, bookmarks=0.01)
    await cluster.create(config_map("unseen"))
    await cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}})
    batch = await anext(batches)
    now = (await cluster.list(CONFIG_MAP)).resource_version
    assert batch == [
        WatchEvent("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": now}})
    ]


async def test_too_old_and_nonsensical_versions(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process", history=10) as cluster:
        version = (await cluster.list(CONFIG_MAP)).resource_version
        for number in range(40):
            await cluster.create(config_map(f"x{number}"))
        with pytest.raises(Gone, match="too old resource version"):
            await anext(cluster.watch(CONFIG_MAP, resource_version=version))
        with pytest.raises(Gone):
            await anext(cluster.watch(CONFIG_MAP, resource_version="999999"))
        with pytest.raises(BadRequest, match="resourceVersion"):
            await anext(cluster.watch(CONFIG_MAP, resource_version="yesterday"))
        with pytest.raises(BadRequest):
            await anext(cluster.watch(CONFIG_MAP, labels="a in ("))


async def test_a_slow_watcher_has_to_list_again(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process", history=10) as cluster:
        await cluster.create(config_map("first"))
        version = (await cluster.list(CONFIG_MAP)).resource_version
        slow = cluster.watch(CONFIG_MAP, resource_version=version)
        await cluster.create(config_map("second"))
        assert name_of((await anext(slow)).object) == "second"
        for number in range(40):
            await cluster.create(config_map(f"x{number}"))
        with pytest.raises(Gone, match="fell behind"):
            await anext(slow)


async def test_closing_the_cluster_ends_a_watch(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        version = (await cluster.list(CONFIG_MAP)).resource_version
        watching = asyncio.create_task(take(cluster.watch(CONFIG_MAP, resource_version=version), 1))
        await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await watching


NAMES = st.sampled_from(["a", "b", "c", "d"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]))
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, LABELS),
        st.tuples(st.just("label"), NAMES, LABELS),
        st.tuples(st.just("delete"), NAMES, st.just({})),
        st.tuples(st.just("pause"), st.just(""), st.just({})),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS, selector=st.sampled_from(["", "app=x", "app!=x,tier", "!app"]), start=st.integers(0, 40))
async def test_following_a_watch_gives_the_same_objects_as_a_list(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, str, Any]], selector: str, start: int
) -> None:
    directory = tmp_path_factory.mktemp("cluster")
    async with EmbeddedCluster(directory, new_catalogue(), durability="process") as cluster:
        followers: list[asyncio.Task[None]] = []
        known: list[dict[Key, Object]] = []
        writes: list[asyncio.Task[Object]] = []

        async def follow(state: dict[Key, Object], version: str) -> None:
            seen_versions = [int(version)]
            async for event in cluster.watch(CONFIG_MAP, labels=selector, resource_version=version):
                key, found = key_of(event.object), int(event.object["metadata"]["resourceVersion"])
                assert found > seen_versions[-1]
                seen_versions.append(found)
                if event.type == "ADDED":
                    assert key not in state
                else:
                    assert key in state
                if event.type == "DELETED":
                    del state[key]
                else:
                    state[key] = event.object

        async def join() -> None:
            page = await cluster.list(CONFIG_MAP, labels=selector)
            state = {key_of(o): o for o in page.items}
            known.append(state)
            followers.append(asyncio.create_task(follow(state, page.resource_version)))

        await join()
        for number, (operation, name, labels) in enumerate(operations):
            if number == start:
                await join()
            if operation == "create":
                writes.append(asyncio.create_task(cluster.create(config_map(name, **labels))))
            elif operation == "label":
                change = {"metadata": {"labels": {"app": None, "tier": None, **labels}}}
                writes.append(asyncio.create_task(cluster.patch(CONFIG_MAP, name, "default", change)))
            elif operation == "delete":
                writes.append(asyncio.create_task(cluster.delete(CONFIG_MAP, name, "default")))
            else:
                await asyncio.gather(*writes, return_exceptions=True)
        await asyncio.gather(*writes, return_exceptions=True)
        for _ in range(5):
            await asyncio.sleep(0)
        for follower in followers:
            assert not follower.done(), follower.exception()
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
        page = await cluster.list(CONFIG_MAP, labels=selector)
        assert all(state == {key_of(o): o for o in page.items} for state in known)
