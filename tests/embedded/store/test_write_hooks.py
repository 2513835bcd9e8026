from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.admission import collect_warnings
from muster.kube.builtin import CUSTOM_RESOURCE_DEFINITION, POD_GROUP, new_catalogue
from muster.kube.defaults import API_ACCESS_FOLDER
from muster.kube.errors import Invalid, MethodNotAllowed, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, is_condition_true, meta, name_of


def definition(plural: str = "crews", group: str = "x.dev", kind: str = "Crew", **spec: Any) -> Object:
    properties = {"size": {"type": "integer", "minimum": 1, "default": 1}, **spec}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "shortNames": ["cr"]},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def crew(name: str = "c", **spec: Any) -> Object:
    return {"apiVersion": "x.dev/v1", "kind": "Crew", "metadata": {"name": name}, "spec": spec}


async def until_gone(cluster: EmbeddedCluster, kind: Kind, name: str) -> None:
    async for _ in cluster.watch(kind):
        if all(name_of(o) != name for o in (await cluster.list(kind)).items):
            return


async def test_a_definition_brings_a_kind(cluster: EmbeddedCluster) -> None:
    with pytest.raises(NotFound):
        await cluster.create(crew())
    made = await cluster.create(definition())
    assert is_condition_true(made["status"]["conditions"], "Established")
    assert is_condition_true(made["status"]["conditions"], "NamesAccepted")
    assert made["status"]["storedVersions"] == ["v1"]
    assert (await cluster.create(crew()))["spec"] == {"size": 1}
    assert cluster.catalogue.find("cr").kind == "Crew"
    with pytest.raises(Invalid, match=r"spec\.size"):
        await cluster.create(crew("d", size=0))


async def test_new_defaults_apply_to_what_was_stored_before(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(definition())
    await cluster.create(crew())
    changed = definition(ship={"type": "string", "default": "Argo"})
    await cluster.update({**changed, "metadata": made["metadata"]})
    kind = cluster.catalogue.find("crews")
    watch = cluster.watch(kind)
    for read in (
        await cluster.get(kind, "c", "default"),
        (await cluster.list(kind)).items[0],
        (await anext(watch)).object,
    ):
        assert read["spec"] == {"size": 1, "ship": "Argo"}
    assert isinstance(watch, AsyncGenerator)
    await watch.aclose()


async def test_a_changed_definition_changes_the_kind(cluster: EmbeddedCluster) -> None:
    await cluster.create(definition())
    with pytest.raises(Invalid, match=r"spec\.ship"):
        await cluster.create(crew(ship="Argo"))
    changed = definition(ship={"type": "string"})
    await cluster.patch(CUSTOM_RESOURCE_DEFINITION, "crews.x.dev", "", {"spec": changed["spec"]})
    await cluster.create(crew(ship="Argo"))
    for word in ("crews", "crew", "cr", "crews.x.dev", "crews.v1.x.dev"):
        assert "ship" in cluster.catalogue.find(word).schema["properties"]["spec"]["properties"], word


async def test_kinds_are_there_again_after_a_restart(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        await cluster.create(definition())
        await cluster.create(crew())
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        assert name_of(await cluster.get(cluster.catalogue.find("crews"), "c")) == "c"


async def test_deleting_a_definition_takes_its_objects_and_then_the_kind(tidy_cluster: EmbeddedCluster) -> None:
    await tidy_cluster.create(definition())
    kind = tidy_cluster.catalogue.find("crews")
    for number in range(450):
        await tidy_cluster.create(crew(f"c{number}"))
    held = crew("held")
    held["metadata"]["finalizers"] = ["x.dev/hold"]
    await tidy_cluster.create(held)
    leaving = await tidy_cluster.delete(CUSTOM_RESOURCE_DEFINITION, "crews.x.dev")
    assert meta(leaving)["deletionTimestamp"]
    with pytest.raises(MethodNotAllowed, match="being deleted"):
        await tidy_cluster.create(crew("new"))
    async for _ in tidy_cluster.watch(kind):
        if [name_of(o) for o in (await tidy_cluster.list(kind)).items] == ["held"]:
            break
    assert tidy_cluster.catalogue.find("crews") is kind
    await tidy_cluster.patch(kind, "held", "", {"metadata": {"finalizers": None}})
    await until_gone(tidy_cluster, CUSTOM_RESOURCE_DEFINITION, "crews.x.dev")
    with pytest.raises(NotFound):
        tidy_cluster.catalogue.find("crews")
    await tidy_cluster.create(definition())
    assert (await tidy_cluster.list(kind)).items == []


async def test_a_definition_of_a_kind_that_is_built_in_changes_nothing_of_it(tidy_cluster: EmbeddedCluster) -> None:
    given = definition("podgroups", "scheduling.volcano.sh", "PodGroup")
    given["spec"]["versions"][0]["name"] = "v1beta1"
    await tidy_cluster.create(given)
    assert tidy_cluster.catalogue.of("scheduling.volcano.sh/v1beta1", "PodGroup") is POD_GROUP
    group = {
        "apiVersion": POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1},
    }
    await tidy_cluster.create(group)
    await tidy_cluster.delete(CUSTOM_RESOURCE_DEFINITION, "podgroups.scheduling.volcano.sh")
    await until_gone(tidy_cluster, CUSTOM_RESOURCE_DEFINITION, "podgroups.scheduling.volcano.sh")
    assert name_of(await tidy_cluster.get(POD_GROUP, "g")) == "g"
    assert tidy_cluster.catalogue.find("podgroups.scheduling.volcano.sh") is POD_GROUP


async def test_unsupported_fields_of_a_definition_are_warned_about(cluster: EmbeddedCluster) -> None:
    given = definition()
    given["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://x.dev"}, "conversionReviewVersions": ["v1"]},
    }
    with collect_warnings() as said:
        await cluster.create(given)
    assert len(said) == 1
    assert said[0].startswith("spec.conversion: ")


@pytest.mark.parametrize(("automount", "mounted"), [(None, True), (False, False)])
async def test_a_pod_shows_its_service_account_and_the_volume_with_its_token(
    cluster: EmbeddedCluster, automount: bool | None, mounted: bool
) -> None:
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}
    if automount is not None:
        account["automountServiceAccountToken"] = automount
    await cluster.create(account)
    containers = [{"name": "a", "image": "b"}]
    for name, wanted in {"default": {}, "trainer": {"serviceAccountName": "trainer"}}.items():
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {**wanted, "containers": containers},
        }
        made = await cluster.create(pod)
        assert made["spec"]["serviceAccountName"] == made["spec"]["serviceAccount"] == name
        mounts = [mount["mountPath"] for mount in made["spec"]["containers"][0].get("volumeMounts") or ()]
        assert (mounts == [API_ACCESS_FOLDER]) == (mounted or name == "default")


async def test_cel_rules_of_a_definition_are_evaluated(cluster: EmbeddedCluster) -> None:
    made = definition()
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["x-kubernetes-validations"] = [
        {"rule": "self.size <= 10", "message": "at most 10"},
        {"rule": "self.size >= oldSelf.size", "message": "must not shrink"},
    ]
    with collect_warnings() as warnings:
        await cluster.create(made)
    assert warnings == []
    with pytest.raises(Invalid, match=r'spec: Invalid value: "object": at most 10'):
        await cluster.create(crew(size=11))
    stored = await cluster.create(crew(size=5))
    with pytest.raises(Invalid, match="must not shrink"):
        await cluster.patch(cluster.catalogue.find("crews"), "c", "default", {"spec": {"size": 4}})
    await cluster.update({**stored, "spec": {"size": 6}})
    schema["x-kubernetes-validations"] = [{"rule": "self.size <"}]
    with pytest.raises(Invalid, match=r"x-kubernetes-validations\[0\]\.rule: Invalid value.*compilation failed"):
        await cluster.create({**made, "metadata": {"name": "others.x.dev"}})
