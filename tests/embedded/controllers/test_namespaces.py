from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import NamespaceController
from muster.kube.builtin import CONFIG_MAP, NAMESPACE, POD, SERVICE_ACCOUNT, new_catalogue
from muster.kube.errors import Forbidden, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, is_deleting, meta, name_of
from tests.embedded.waiting import wait_for


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config_map(name: str, namespace: str = "team", finalizers: tuple[str, ...] = ()) -> Object:
    metadata = {"name": name, "namespace": namespace, "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def until_gone(cluster: EmbeddedCluster, kind: Kind, name: str, namespace: str = "") -> None:
    async for _ in cluster.watch(kind):
        try:
            await cluster.get(kind, name, namespace)
        except NotFound:
            return


async def test_a_namespace_takes_its_contents_along(tidy_cluster: EmbeddedCluster) -> None:
    await tidy_cluster.create(namespace("team"))
    await asyncio.gather(*(tidy_cluster.create(config_map(f"c{number}")) for number in range(500)))
    await tidy_cluster.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa", "namespace": "team"}}
    )
    await tidy_cluster.create(config_map("elsewhere", "default"))
    await tidy_cluster.delete(NAMESPACE, "team")
    await until_gone(tidy_cluster, NAMESPACE, "team")
    assert [name_of(o) for o in (await tidy_cluster.list(CONFIG_MAP)).items] == ["elsewhere"]
    assert (await tidy_cluster.list(SERVICE_ACCOUNT, "team")).items == []


async def test_it_waits_for_what_is_held_and_takes_nothing_new(tidy_cluster: EmbeddedCluster) -> None:
    await tidy_cluster.create(namespace("team"))
    await tidy_cluster.create(config_map("held", finalizers=("x.dev/hold",)))
    await tidy_cluster.create(config_map("loose"))
    leaving = await tidy_cluster.delete(NAMESPACE, "team")
    assert leaving["status"]["phase"] == "Terminating"
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await tidy_cluster.create(config_map("new"))
    await until_gone(tidy_cluster, CONFIG_MAP, "loose", "team")
    assert meta(await tidy_cluster.get(CONFIG_MAP, "held", "team"))["deletionTimestamp"]
    waiting = await wait_for(tidy_cluster, NAMESPACE, "team", lambda obj: "conditions" in obj["status"], "")
    told = {c["type"]: c["message"] for c in waiting["status"]["conditions"] if c["status"] == "True"}
    assert told == {
        "NamespaceContentRemaining": "Some resources are remaining: configmaps has 1 resource instances",
        "NamespaceFinalizersRemaining": "Some content has finalizers remaining: x.dev/hold in 1 resource instances",
    }
    await tidy_cluster.patch(CONFIG_MAP, "held", "team", {"metadata": {"finalizers": None}})
    await until_gone(tidy_cluster, NAMESPACE, "team")
    await tidy_cluster.create(namespace("team"))
    await tidy_cluster.create(config_map("fresh"))


async def test_pods_go_first(tidy_cluster: EmbeddedCluster) -> None:
    cluster = tidy_cluster
    await cluster.create(namespace("team"))
    await cluster.create(config_map("rest"))
    held = {"name": "p", "namespace": "team", "finalizers": ["x.dev/hold"]}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": held, "spec": spec})
    await cluster.create({**namespace("other")})
    await cluster.delete(NAMESPACE, "team")
    async for event in cluster.watch(POD, "team"):
        if meta(event.object).get("deletionTimestamp"):
            break
    await cluster.delete(NAMESPACE, "other")
    await until_gone(cluster, NAMESPACE, "other")
    assert not is_deleting(await cluster.get(CONFIG_MAP, "rest", "team"))
    await cluster.patch(POD, "p", "team", {"metadata": {"finalizers": None}})
    await until_gone(cluster, NAMESPACE, "team")


async def test_an_empty_namespace_is_deleted_and_an_update_cannot_remove_its_finalizer(
    tidy_cluster: EmbeddedCluster,
) -> None:
    made = await tidy_cluster.create(namespace("team"))
    updated = await tidy_cluster.update({**made, "spec": {"finalizers": []}})
    assert updated["spec"] == {"finalizers": ["kubernetes"]}
    await tidy_cluster.delete(NAMESPACE, "team")
    await until_gone(tidy_cluster, NAMESPACE, "team")


async def test_objects_of_an_unregistered_kind_are_deleted_too(tidy_cluster: EmbeddedCluster) -> None:
    crew = tidy_cluster.catalogue.register(Kind("x.dev", "v1", "Crew", "crews"))
    await tidy_cluster.create(namespace("team"))
    await tidy_cluster.create(
        {"apiVersion": "x.dev/v1", "kind": "Crew", "metadata": {"name": "c", "namespace": "team"}}
    )
    tidy_cluster.catalogue.unregister(crew)
    await tidy_cluster.delete(NAMESPACE, "team")
    await until_gone(tidy_cluster, NAMESPACE, "team")
    assert (await tidy_cluster.list(crew)).items == []


async def test_a_namespace_half_deleted_is_finished_after_a_restart(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        await cluster.create(namespace("team"))
        await cluster.create(config_map("c"))
        await cluster.delete(NAMESPACE, "team")
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        working = asyncio.create_task(NamespaceController(cluster).run())
        await until_gone(cluster, NAMESPACE, "team")
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        assert (await cluster.list(CONFIG_MAP)).items == []
