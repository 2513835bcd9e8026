"""Objects through our client on a real API server, and on our own cluster: the same calls, the same responses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster.kube.builtin import CONFIG_MAP, JOB, POD
from muster.kube.cluster import Cluster, PatchType, Propagation
from muster.kube.errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, NotFound
from muster.kube.objects import Object, labels_of, meta, name_of, owner_reference, uid_of, version_of

pytestmark = [pytest.mark.cluster, pytest.mark.smoke]

NAMESPACE = "trial"
TOO_LITTLE = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}


def config_map(name: str = "conf", *, labels: dict[str, str] | None = None, **data: str) -> Object:
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str = "pod", **spec: Any) -> Object:
    containers = [{"name": "main", "image": "none:1", "env": [{"name": "A", "value": "1"}]}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        # No scheduler has this name: the Pod stays as it is.
        "spec": {"schedulerName": "nobody", "containers": containers, **spec},
    }


async def test_an_object_can_be_created_once(either: Cluster) -> None:
    made = await either.create(config_map(a="1"))
    assert await either.get(CONFIG_MAP, "conf", NAMESPACE) == made
    with pytest.raises(AlreadyExists, match='configmaps "conf" already exists'):
        await either.create(config_map())
    with pytest.raises(NotFound, match='configmaps "other" not found'):
        await either.get(CONFIG_MAP, "other", NAMESPACE)


async def test_a_name_can_be_generated(either: Cluster) -> None:
    given = config_map()
    given["metadata"] = {"generateName": "made-", "namespace": NAMESPACE}
    assert name_of(await either.create(given)).startswith("made-")


async def test_a_dry_run_leaves_nothing(either: Cluster) -> None:
    assert (await either.create(config_map(a="1"), dry_run=True))["data"] == {"a": "1"}
    with pytest.raises(NotFound):
        await either.get(CONFIG_MAP, "conf", NAMESPACE)


async def test_an_update_of_an_old_version_is_a_conflict(either: Cluster) -> None:
    made = await either.create(config_map(a="1"))
    changed = await either.update({**made, "data": {"a": "2"}})
    assert version_of(changed) != version_of(made)
    with pytest.raises(Conflict, match="the object has been modified"):
        await either.update({**made, "data": {"a": "3"}})
    same = await either.update(changed)
    assert version_of(same) == version_of(changed)


async def test_a_list_in_pages_is_a_snapshot(either: Cluster) -> None:
    for number in range(5):
        await either.create(config_map(f"item-{number}", labels={"part": "pages"}))
    page = await either.list(CONFIG_MAP, NAMESPACE, labels="part=pages", limit=2)
    first, moment = [name_of(item) for item in page.items], page.resource_version
    assert page.continue_
    await either.create(config_map("item-9", labels={"part": "pages"}))
    names = list(first)
    while page.continue_:
        page = await either.list(CONFIG_MAP, NAMESPACE, labels="part=pages", limit=2, continue_=page.continue_)
        assert page.resource_version == moment
        names += [name_of(item) for item in page.items]
    assert names == [f"item-{number}" for number in range(5)]
    assert all(item["kind"] == "ConfigMap" for item in page.items)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({"labels": "tier=a"}, ["one"]),
        ({"labels": "tier in (a, b)"}, ["one", "two"]),
        ({"labels": "tier!=a,!gone"}, ["two"]),
        ({"fields": "metadata.name=two"}, ["two"]),
        ({"labels": "tier", "fields": "metadata.name!=two"}, ["one"]),
    ],
)
async def test_selectors(either: Cluster, selector: dict[str, str], found: list[str]) -> None:
    await either.create(config_map("one", labels={"tier": "a"}))
    await either.create(config_map("two", labels={"tier": "b"}))
    await either.create(config_map("none", labels={"gone": "yes"}))
    listing = await either.list(
        CONFIG_MAP, NAMESPACE, labels=selector.get("labels", ""), fields=selector.get("fields", "")
    )
    assert [name_of(item) for item in listing.items if name_of(item) in ("one", "two", "none")] == found


@pytest.mark.parametrize(
    ("type_", "patch", "labels"),
    [
        ("merge", {"metadata": {"labels": {"b": "2", "a": None}}}, {"b": "2"}),
        ("json", [{"op": "add", "path": "/metadata/labels/b", "value": "2"}], {"a": "1", "b": "2"}),
        ("json", [{"op": "remove", "path": "/metadata/labels/a"}], {}),
        ("strategic", {"metadata": {"labels": {"b": "2"}}}, {"a": "1", "b": "2"}),
    ],
)
async def test_patches(either: Cluster, type_: PatchType, patch: Any, labels: dict[str, str]) -> None:
    await either.create(config_map(labels={"a": "1"}))
    assert labels_of(await either.patch(CONFIG_MAP, "conf", NAMESPACE, patch, type=type_)) == labels


async def test_a_strategic_patch_merges_lists_by_their_key(either: Cluster) -> None:
    await either.create(pod())
    patch = {"spec": {"containers": [{"name": "main", "image": "none:2"}]}}
    patched = await either.patch(POD, "pod", NAMESPACE, patch, type="strategic")
    (container,) = patched["spec"]["containers"]
    assert (container["image"], container["env"]) == ("none:2", [{"name": "A", "value": "1"}])


@pytest.mark.parametrize(
    ("type_", "patch", "error"),
    [
        ("json", [{"op": "test", "path": "/data/a", "value": "other"}], Invalid),
        ("json", [{"op": "remove", "path": "/data/none"}], Invalid),
        ("merge", {"metadata": {"resourceVersion": "1"}}, Conflict),
        ("merge", {"metadata": {"name": "other"}}, BadRequest),
        ("strategic", {"data": "text"}, (BadRequest, Invalid)),
    ],
)
async def test_patches_that_are_refused(either: Cluster, type_: PatchType, patch: Any, error: Any) -> None:
    await either.create(config_map(a="1"))
    with pytest.raises(error):
        await either.patch(CONFIG_MAP, "conf", NAMESPACE, patch, type=type_)
    assert (await either.get(CONFIG_MAP, "conf", NAMESPACE))["data"] == {"a": "1"}


async def test_a_patch_of_a_missing_object(either: Cluster) -> None:
    with pytest.raises(NotFound):
        await either.patch(CONFIG_MAP, "none", NAMESPACE, {"data": {"a": "1"}})


async def test_applied_fields_belong_to_their_manager(either: Cluster) -> None:
    def apply(manager: str, force: bool = False, **data: str) -> Any:
        wanted = {**config_map(), "data": data}
        return either.patch(CONFIG_MAP, "conf", NAMESPACE, wanted, type="apply", field_manager=manager, force=force)

    await apply("first", a="1", b="1")
    with pytest.raises(Conflict, match="first"):
        await apply("second", a="2")
    assert (await apply("second", force=True, a="2"))["data"] == {"a": "2", "b": "1"}
    # A field that is no longer applied is removed, unless another manager owns it.
    assert (await apply("first", c="3"))["data"] == {"a": "2", "c": "3"}


async def test_the_status_is_a_subresource(either: Cluster) -> None:
    made = await either.create(pod())
    phase = {"status": {"phase": "Running", "message": "so it is"}}
    patched = await either.patch(POD, "pod", NAMESPACE, phase, subresource="status")
    assert patched["status"]["message"] == "so it is"
    ignored = await either.patch(POD, "pod", NAMESPACE, {"status": {"message": "is it?"}})
    assert ignored["status"]["message"] == "so it is"
    both = {"metadata": {"labels": {"x": "y"}}, "spec": {"activeDeadlineSeconds": 5}, "status": {"message": "new"}}
    written = await either.patch(POD, "pod", NAMESPACE, both, subresource="status")
    assert (written["status"]["message"], written["spec"].get("activeDeadlineSeconds")) == ("new", None)
    assert uid_of(written) == uid_of(made)


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"containers": []}, {"spec.containers"}),
        ({"containers": [{"name": "Main", "image": "x"}]}, {"spec.containers[0].name"}),
        ({"containers": [{"name": "main"}]}, {"spec.containers[0].image"}),
        ({"restartPolicy": "Perhaps", "containers": [{"name": "main", "image": "x"}]}, {"spec.restartPolicy"}),
        (
            {"containers": [{"name": "main", "image": "x"}, {"name": "main", "image": "x"}]},
            {"spec.containers[1].name"},
        ),
        (
            {"containers": [{"name": "main", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            {"spec.containers[0].volumeMounts[0].name"},
        ),
        (
            {"containers": [{"name": "main", "image": "x", "resources": TOO_LITTLE}]},
            {"spec.containers[0].resources.requests"},
        ),
    ],
)
async def test_errors_name_the_field(either: Cluster, spec: Any, fields: set[str]) -> None:
    given = pod()
    given["spec"] = spec
    with pytest.raises(Invalid) as refused:
        await either.create(given)
    # Ours may be more exact: `requests[cpu]` instead of `requests`.
    assert all(any(cause.field.startswith(field) for cause in refused.value.causes) for field in fields)


async def test_a_field_that_does_not_exist_is_refused(either: Cluster) -> None:
    with pytest.raises(ApiError, match="imgae") as refused:
        await either.create(pod(containers=[{"name": "main", "image": "x", "imgae": "y"}]))
    assert isinstance(refused.value, BadRequest | Invalid)


async def test_most_of_a_pod_cannot_be_changed(either: Cluster) -> None:
    made = await either.create(pod(nodeName="here"))
    with pytest.raises(Invalid):
        await either.update({**made, "spec": {**made["spec"], "nodeName": "elsewhere"}})


async def test_preconditions_of_a_deletion(either: Cluster) -> None:
    made = await either.create(config_map())
    with pytest.raises(Conflict):
        await either.delete(CONFIG_MAP, "conf", NAMESPACE, uid="another")
    with pytest.raises(Conflict):
        await either.delete(CONFIG_MAP, "conf", NAMESPACE, resource_version="1")
    last = await either.delete(CONFIG_MAP, "conf", NAMESPACE, uid=uid_of(made), resource_version=version_of(made))
    assert uid_of(last) == uid_of(made)
    with pytest.raises(NotFound):
        await either.delete(CONFIG_MAP, "conf", NAMESPACE)


async def test_a_finalizer_holds_what_is_deleted(either: Cluster) -> None:
    given = config_map()
    given["metadata"]["finalizers"] = ["muster.dev/hold"]
    await either.create(given)
    assert meta(await either.delete(CONFIG_MAP, "conf", NAMESPACE))["deletionTimestamp"]
    assert meta(await either.get(CONFIG_MAP, "conf", NAMESPACE))["deletionTimestamp"]
    await either.patch(CONFIG_MAP, "conf", NAMESPACE, {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await either.get(CONFIG_MAP, "conf", NAMESPACE)


@pytest.mark.parametrize(("propagation", "kept"), [("Background", False), ("Foreground", False), ("Orphan", True)])
async def test_dependents_of_a_deleted_owner(either: Cluster, propagation: Propagation, kept: bool) -> None:
    owner = await either.create(config_map("owner"))
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [owner_reference(owner)]
    await either.create(child)
    await either.delete(CONFIG_MAP, "owner", NAMESPACE, propagation=propagation)
    await _until_gone(either, "owner")
    if kept:
        left = await either.get(CONFIG_MAP, "child", NAMESPACE)
        assert not meta(left).get("ownerReferences")
    else:
        await _until_gone(either, "child")


async def test_a_job_gets_the_defaults_of_kubernetes(either: Cluster) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none:1"}]}}
    given = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": NAMESPACE},
        "spec": {"suspend": True, "template": template},
    }
    made = await either.create(given)
    spec = made["spec"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert spec["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid_of(made)}
    await either.delete(JOB, "job", NAMESPACE)


async def _until_gone(cluster: Cluster, name: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await cluster.get(CONFIG_MAP, name, NAMESPACE)
            except NotFound:
                return
            await asyncio.sleep(0.1)
