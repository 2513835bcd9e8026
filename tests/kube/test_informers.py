from __future__ import annotations

import asyncio
from pathlib import Path

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, new_catalogue
from muster.kube.informers import Informers
from muster.kube.objects import Object, labels_of, name_of, namespace_of
from tests.embedded.waiting import going


def config_map(name: str, namespace: str, **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def test_what_several_namespaces_and_selectors_find_looks_like_one(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        for name in ("a", "b", "c"):
            await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            await cluster.create(config_map("of-x", name, of="x"))
            await cluster.create(config_map("theirs", name, theirs="x"))
            await cluster.create(config_map("other", name))
        changes: asyncio.Queue[str] = asyncio.Queue()
        informers = Informers(
            cluster,
            CONFIG_MAP,
            ["a", "b"],
            selectors=["of", "theirs,!of"],
            on_change=lambda before, after: changes.put_nowait(name_of(after or before or {})),
            indexers={"x": lambda obj: labels_of(obj).values()},
        )
        assert not informers.is_synced
        async with asyncio.timeout(10), going(informers):
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
            await cluster.create(config_map("new", "b", of="y"))
            assert await changes.get() == "new"
            assert [name_of(o) for o in informers.by("x", "y")] == ["new"]
