from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, new_catalogue
from muster.kube.cluster import Listing, WatchEvent
from muster.kube.controller import Informer, InformerSet, index_by_controller
from muster.kube.errors import BadRequest, Forbidden, Gone, Unavailable
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, labels_of, name_of, namespace_of
from tests.embedded.waiting import run_components


class ShakyCluster(EmbeddedCluster):
    """A real cluster behind a connection that breaks when the test says so."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, new_catalogue(), durability="process")
        self.lists = 0
        self.watches: list[str] = []
        self.refusals: list[Exception] = []
        """The errors that the next lists raise."""
        self._line: asyncio.Queue[WatchEvent | Exception | None] = asyncio.Queue()

    def cut(self, error: Exception | None = None) -> None:
        """Ends the current watch, with or without an error."""
        self._line.put_nowait(error)

    async def list(self, kind: Kind, *args: Any, **query: Any) -> Listing:
        self.lists += 1
        if self.refusals:
            raise self.refusals.pop(0)
        return await super().list(kind, *args, **query)

    async def watch(self, kind: Kind, *args: Any, **query: Any) -> AsyncIterator[WatchEvent]:
        self.watches.append(query["resource_version"])
        line: asyncio.Queue[WatchEvent | Exception | None] = asyncio.Queue()
        self._line = line
        events = super().watch(kind, *args, **query)

        async def carry() -> None:
            async for event in events:
                line.put_nowait(event)

        carrier = asyncio.create_task(carry())
        try:
            while isinstance(item := await line.get(), WatchEvent):
                yield item
            if item is not None:
                raise item
        finally:
            carrier.cancel()
            await asyncio.wait([carrier])


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ShakyCluster]:
    cluster = ShakyCluster(tmp_path / "cluster")
    async with cluster:
        yield cluster


def config_map(name: str, namespace: str = "default", **more: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, **more}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


class Changes:
    """Records the calls of on_change: (name before, name after)."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def __call__(self, before: Object | None, after: Object | None) -> None:
        self.seen.append((name_of(before or {}), name_of(after or {})))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        for _ in itertools.count():
            if condition():
                return
            await asyncio.sleep(0.001)


def names(informer: Informer) -> set[str]:
    return {key.name for key in informer.objects}


async def test_it_has_what_was_there_and_follows_what_changes(cluster: ShakyCluster) -> None:
    await cluster.create(config_map("a"))
    changes = Changes()
    async with Informer(cluster, CONFIG_MAP, on_change=changes) as informer:
        assert informer.synced.is_set()
        assert changes.seen == [("", "a")]
        await cluster.create(config_map("b"))
        await cluster.patch(CONFIG_MAP, "b", "default", {"data": {"x": "1"}})
        await cluster.delete(CONFIG_MAP, "a", "default")
        await until(lambda: len(changes.seen) == 4)
        assert changes.seen[1:] == [("", "b"), ("b", "b"), ("a", "")]
        assert set(informer.objects) == {Key("default", "b")}
        found = informer.get("default", "b")
        assert found is not None
        assert found["data"] == {"x": "1"}
        assert informer.get("default", "a") is None
        assert cluster.lists == 1


async def test_it_keeps_to_its_scope(cluster: ShakyCluster) -> None:
    await cluster.create(config_map("a", labels={"app": "x"}))
    await cluster.create(config_map("b", labels={"app": "y"}))
    await cluster.create(config_map("c", "kube-system", labels={"app": "x"}))
    async with Informer(cluster, CONFIG_MAP, "default", labels="app=x", fields="metadata.name!=z") as informer:
        assert names(informer) == {"a"}
        await cluster.create(config_map("z", labels={"app": "x"}))
        await cluster.patch(CONFIG_MAP, "b", "default", {"metadata": {"labels": {"app": "x"}}})
        await cluster.patch(CONFIG_MAP, "a", "default", {"metadata": {"labels": {"app": "y"}}})
        await until(lambda: names(informer) == {"b"})


async def test_indices_follow(cluster: ShakyCluster) -> None:
    indexers = {"color": lambda obj: [labels_of(obj).get("color")], "owner": index_by_controller}
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1", "controller": True},
        {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "u2"},
    ]
    await cluster.create(config_map("a", labels={"color": "red"}, ownerReferences=owners))
    async with Informer(cluster, CONFIG_MAP, indexers=indexers) as informer:
        assert [name_of(o) for o in informer.by("color", "red")] == ["a"]
        assert [name_of(o) for o in informer.by("owner", "u1")] == ["a"]
        assert informer.by("owner", "u2") == []
        await cluster.patch(CONFIG_MAP, "a", "default", {"metadata": {"labels": {"color": "blue"}}})
        await until(lambda: informer.by("color", "blue"))
        assert informer.by("color", "red") == []
        await cluster.delete(CONFIG_MAP, "a", "default")
        await until(lambda: not informer.by("color", "blue"))


async def test_only_what_is_kept_counts(cluster: ShakyCluster) -> None:
    def keep(obj: Object) -> Object:
        return {"metadata": {"name": name_of(obj), "labels": labels_of(obj)}}

    await cluster.create(config_map("a", labels={"color": "red"}))
    changes = Changes()
    async with Informer(cluster, CONFIG_MAP, on_change=changes, keep=keep) as informer:
        await cluster.patch(CONFIG_MAP, "a", "default", {"data": {"x": "1"}})
        await cluster.patch(CONFIG_MAP, "a", "default", {"metadata": {"labels": {"color": "blue"}}})
        await cluster.delete(CONFIG_MAP, "a", "default")
        await until(lambda: not informer.objects)
        assert changes.seen == [("", "a"), ("a", "a"), ("a", "")], "the data is not of interest"


async def test_a_watch_that_ends_goes_on_where_it_was(cluster: ShakyCluster) -> None:
    async with Informer(cluster, CONFIG_MAP) as informer:
        await until(lambda: cluster.watches)
        await cluster.create(config_map("a"))
        await until(lambda: names(informer) == {"a"})
        cluster.cut()
        created = await cluster.create(config_map("b"))
        await until(lambda: names(informer) == {"a", "b"})
        assert cluster.lists == 1
        assert int(cluster.watches[1]) == int(created["metadata"]["resourceVersion"]) - 1


@pytest.mark.parametrize("error", [Unavailable("gone for a while"), ConnectionResetError("broken"), TimeoutError()])
async def test_so_does_one_that_breaks(cluster: ShakyCluster, error: Exception) -> None:
    async with Informer(cluster, CONFIG_MAP) as informer:
        await until(lambda: cluster.watches)
        cluster.cut(error)
        await cluster.create(config_map("a"))
        await until(lambda: names(informer) == {"a"})
        assert cluster.lists == 1


@pytest.mark.parametrize("error", [Gone("too old"), BadRequest("never heard of it"), Forbidden("not you")])
async def test_it_lists_again_when_the_cluster_refuses_to_go_on(cluster: ShakyCluster, error: Exception) -> None:
    await cluster.create(config_map("stays"))
    await cluster.create(config_map("goes"))
    changes = Changes()
    async with Informer(cluster, CONFIG_MAP, on_change=changes) as informer:
        await until(lambda: cluster.watches)
        changes.seen.clear()
        cluster.cut(error)
        await cluster.delete(CONFIG_MAP, "goes", "default")
        await cluster.create(config_map("comes"))
        await until(lambda: names(informer) == {"stays", "comes"})
        assert cluster.lists == 2
        assert changes.seen == [("goes", ""), ("", "comes")]


async def test_it_waits_for_a_cluster_that_is_not_there_yet(cluster: ShakyCluster) -> None:
    cluster.refusals = [Unavailable("starting"), Forbidden("no role yet"), Gone("the next page is too old")]
    await cluster.create(config_map("a"))
    async with Informer(cluster, CONFIG_MAP) as informer:
        assert names(informer) == {"a"}
        assert cluster.lists == 4


async def test_a_question_that_makes_no_sense_is_not_repeated(cluster: ShakyCluster) -> None:
    with pytest.raises(BadRequest, match="expected a value"):
        async with Informer(cluster, CONFIG_MAP, labels="app=("):
            pytest.fail("there is nothing to inform about")
    assert cluster.lists == 1


async def test_a_failing_listener_does_not_stop_it(cluster: ShakyCluster, caplog: pytest.LogCaptureFixture) -> None:
    def fail(before: Object | None, after: Object | None) -> None:
        raise ZeroDivisionError("in the listener")

    with caplog.at_level(logging.ERROR):
        async with Informer(cluster, CONFIG_MAP, on_change=fail) as informer:
            await cluster.create(config_map("a"))
            await until(lambda: names(informer) == {"a"})
    assert "on_change failed for configmaps default/a" in caplog.text


async def test_a_failing_indexer_is_not_kept_secret(cluster: ShakyCluster) -> None:
    informer = Informer(cluster, CONFIG_MAP, indexers={"data": lambda obj: [obj["data"]["color"]]})
    with pytest.raises(KeyError):
        async with informer:
            await cluster.create(config_map("a"))
            await until(lambda: informer._task is not None and informer._task.done())


async def test_stopping_while_it_waits_leaves_nothing_behind(cluster: ShakyCluster) -> None:
    cluster.refusals = [Unavailable("not yet")] * 100
    informer = Informer(cluster, CONFIG_MAP)
    before = asyncio.all_tasks()
    entering = asyncio.ensure_future(informer.__aenter__())
    await until(lambda: cluster.lists == 1)
    entering.cancel()
    await asyncio.wait([entering])
    assert entering.cancelled()
    assert asyncio.all_tasks() == before


def labelled_config_map(name: str, namespace: str, **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def test_what_several_namespaces_and_selectors_find_looks_like_one(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        for name in ("a", "b", "c"):
            await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            await cluster.create(labelled_config_map("of-x", name, of="x"))
            await cluster.create(labelled_config_map("theirs", name, theirs="x"))
            await cluster.create(labelled_config_map("other", name))
        changes: asyncio.Queue[str] = asyncio.Queue()
        informers = InformerSet(
            cluster,
            CONFIG_MAP,
            ["a", "b"],
            selectors=["of", "theirs,!of"],
            on_change=lambda before, after: changes.put_nowait(name_of(after or before or {})),
            indexers={"x": lambda obj: labels_of(obj).values()},
        )
        assert not informers.is_synced
        async with asyncio.timeout(10), run_components(informers):
            await informers.wait_synced()
            assert informers.is_synced
            assert sorted((namespace_of(o), name_of(o)) for o in informers) == [
                ("a", "of-x"), ("a", "theirs"), ("b", "of-x"), ("b", "theirs"),
            ]  # fmt: skip
            assert len(informers.by("x", "x")) == 4
            assert informers.get("b", "theirs") is not None
            assert informers.get("b", "other") is None and informers.get("c", "of-x") is None
            while not changes.empty():
                changes.get_nowait()
            await cluster.create(labelled_config_map("new", "b", of="y"))
            assert await changes.get() == "new"
            assert [name_of(o) for o in informers.by("x", "y")] == ["new"]
