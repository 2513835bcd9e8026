"""Patches of every type, and the ownership of applied fields."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, POD
from muster.kube.cluster import PatchType
from muster.kube.errors import (
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    UnsupportedMediaType,
)
from muster.kube.objects import Object, meta, version_of
from tests.embedded.samples import CREW, config_map, pod


@pytest.mark.parametrize(
    ("type", "patch", "data"),
    [
        ("merge", {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        ("json", [{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
        ("strategic", {"data": {"c": "3"}}, {"a": "1", "b": "2", "c": "3"}),
        ("apply", {"data": {"c": "3"}}, {"a": "1", "b": "2", "c": "3"}),
    ],
)
async def test_patches(cluster: EmbeddedCluster, type: PatchType, patch: Any, data: dict[str, str]) -> None:
    await cluster.create(config_map(a="1", b="2"))
    assert (await cluster.patch(CONFIG_MAP, "c", "default", patch, type=type))["data"] == data


async def test_a_strategic_patch_merges_containers_by_name(cluster: EmbeddedCluster) -> None:
    await cluster.create(pod())
    patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    patched = await cluster.patch(POD, "p", "default", patch, type="strategic")
    assert patched["spec"]["containers"][0]["command"] == ["true"]
    assert patched["spec"]["containers"][0]["image"] == "busybox:2"
    assert meta(patched)["generation"] == 2


@pytest.mark.parametrize(
    ("type", "patch", "error", "said"),
    [
        ("merge", {"metadata": {"name": "other"}}, BadRequest, "cannot change the name"),
        ("merge", {"metadata": {"namespace": "other"}}, BadRequest, "cannot change the namespace"),
        ("merge", {"metadata": None}, BadRequest, "metadata"),
        ("merge", {"kind": "Secret"}, BadRequest, "cannot change the kind"),
        ("merge", {"metadata": {"resourceVersion": "1"}}, Conflict, "has been modified"),
        ("merge", {"datum": {}}, Invalid, "datum"),
        ("merge", [{"op": "remove"}], BadRequest, "must be an object"),
        ("json", {"data": {}}, BadRequest, "list of operations"),
        ("json", [{"op": "test", "path": "/data/a", "value": "2"}], Invalid, "test failed"),
        ("json", [{"op": "remove", "path": "/metadata"}], BadRequest, "metadata"),
        ("json", [{"op": "replace", "path": "", "value": 3}], BadRequest, "removes the whole object"),
        ("telepathy", {}, UnsupportedMediaType, "telepathy"),
    ],
)
async def test_patches_that_cannot_be(
    cluster: EmbeddedCluster, type: Any, patch: Any, error: type[Exception], said: str
) -> None:
    made = await cluster.create(config_map(a="1"))
    with pytest.raises(error, match=said):
        await cluster.patch(CONFIG_MAP, "c", "default", patch, type=type)
    assert await cluster.get(CONFIG_MAP, "c") is made


async def test_patches_of_one_object_at_once_all_count(cluster: EmbeddedCluster) -> None:
    await cluster.create(config_map())
    await asyncio.gather(*(cluster.patch(CONFIG_MAP, "c", "", {"data": {f"k{n}": "v"}}) for n in range(50)))
    assert len((await cluster.get(CONFIG_MAP, "c"))["data"]) == 50


async def test_patching_a_missing_object(cluster: EmbeddedCluster) -> None:
    with pytest.raises(NotFound, match='configmaps "x" not found'):
        await cluster.patch(CONFIG_MAP, "x", "default", {"data": {}})
    applied = await cluster.patch(CONFIG_MAP, "x", "default", {"data": {"a": "1"}}, type="apply", field_manager="me")
    assert applied["data"] == {"a": "1"}
    assert [m["manager"] for m in meta(applied)["managedFields"]] == ["me"]
    with pytest.raises(NotFound):
        await cluster.patch(POD, "x", "default", {"status": {}}, type="apply", subresource="status")


async def test_appliers_own_their_fields(cluster: EmbeddedCluster) -> None:
    async def apply(manager: str, data: dict[str, str], force: bool = False) -> Object:
        patch = {"data": data}
        return await cluster.patch(CONFIG_MAP, "x", "default", patch, type="apply", field_manager=manager, force=force)

    first = await apply("one", {"a": "1", "b": "1"})
    assert await apply("one", {"a": "1", "b": "1"}) is first
    with pytest.raises(Conflict, match="one") as caught:
        await apply("two", {"a": "2"})
    assert [c.field for c in caught.value.causes] == [".data.a"]
    assert (await apply("two", {"a": "2"}, force=True))["data"] == {"a": "2", "b": "1"}
    assert (await apply("one", {}))["data"] == {"a": "2"}
    updated = await cluster.patch(CONFIG_MAP, "x", "default", {"data": {"a": "3"}}, field_manager="editor")
    assert {m["manager"] for m in meta(updated)["managedFields"]} >= {"editor"}
    with pytest.raises(Conflict, match="editor"):
        await apply("two", {"a": "2"})


async def test_applying_a_status(cluster: EmbeddedCluster) -> None:
    await cluster.create(pod())
    applied = await cluster.patch(
        POD, "p", "default", {"status": {"phase": "Running"}, "spec": {"nodeName": "x"}},
        type="apply", subresource="status", field_manager="agent",
    )  # fmt: skip
    assert applied["status"]["phase"] == "Running"
    assert "nodeName" not in applied["spec"]
    assert ("agent", "status") in {(m["manager"], m.get("subresource")) for m in meta(applied)["managedFields"]}


async def test_objects_that_were_not_applied_have_no_managed_fields(cluster: EmbeddedCluster) -> None:
    made = await cluster.create({**config_map(), "metadata": {"name": "c", "managedFields": [{"manager": "x"}]}})
    assert "managedFields" not in meta(made)
    patched = await cluster.patch(CONFIG_MAP, "c", "default", {"metadata": {"managedFields": [{"manager": "x"}]}})
    assert "managedFields" not in meta(patched)


async def test_a_status_patch_leaves_the_spec_alone(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(pod())
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "x"}, "status": {"phase": "Running"}}
    patched = await cluster.patch(POD, "p", "default", patch, subresource="status")
    assert patched["status"]["phase"] == "Running"
    assert patched["spec"] is made["spec"]
    assert meta(patched)["labels"] == {"a": "b"}
    stale = {"metadata": {"resourceVersion": version_of(made)}, "status": {"phase": "Failed"}}
    with pytest.raises(Conflict):
        await cluster.patch(POD, "p", "default", stale, subresource="status")


async def test_scale(cluster: EmbeddedCluster) -> None:
    cluster.catalogue.register(CREW)
    given = {"apiVersion": "x.dev/v1", "kind": "Crew", "metadata": {"name": "c"}, "spec": {"replicas": 1}}
    made = await cluster.create(given)
    scale = await cluster.get_scale(CREW, "c", "default")
    assert scale["spec"] == {"replicas": 1}
    scale = await cluster.update({**scale, "spec": {"replicas": 3}}, subresource="scale", kind=CREW)
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 3})
    scale = await cluster.patch(CREW, "c", "default", {"spec": {"replicas": 4}}, subresource="scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 4})
    await cluster.update({**made, "metadata": {"name": "c"}, "spec": {"replicas": 5}}, subresource="scale")
    found = await cluster.get(CREW, "c")
    assert found["spec"] == {"replicas": 5}
    assert meta(found)["generation"] == 4
    with pytest.raises(Conflict):
        await cluster.update({**scale, "spec": {"replicas": 9}}, subresource="scale", kind=CREW)
