from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.admission import collect_warnings
from muster.kube.builtin import CONFIG_MAP, JOB, NAMESPACE, NODE, PERSISTENT_VOLUME_CLAIM, POD, new_catalogue
from muster.kube.cluster import Cluster, Endpoint, LogQuery, Process
from muster.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    Unavailable,
)
from muster.kube.kinds import Kind
from muster.kube.metrics_api import UsageByPod
from muster.kube.objects import Key, Object, get_condition, key_of, meta, name_of, uid_of, version_of
from tests.embedded.samples import CREW, config_map, pod


async def test_it_is_a_cluster(cluster: EmbeddedCluster) -> None:
    as_others_see_it: Cluster = cluster
    assert as_others_see_it.catalogue.find("po") is POD


async def test_the_namespaces_every_cluster_has(cluster: EmbeddedCluster) -> None:
    found = (await cluster.list(NAMESPACE)).items
    assert [name_of(n) for n in found] == ["default", "kube-system"]
    assert found[0]["status"] == {"phase": "Active"}
    assert found[0]["spec"] == {"finalizers": ["kubernetes"]}
    assert meta(found[0])["labels"] == {"kubernetes.io/metadata.name": "default"}
    with pytest.raises(Forbidden, match="may not be deleted"):
        await cluster.delete(NAMESPACE, "default")


async def test_a_cluster_that_cannot_begin_lets_go_of_its_directory(tmp_path: Path) -> None:
    broken = EmbeddedCluster(tmp_path, new_catalogue())
    broken.store.database.close()
    with pytest.raises(Unavailable, match="nothing was stored"):
        async with broken:
            pass
    async with EmbeddedCluster(tmp_path, new_catalogue()) as cluster:
        assert len((await cluster.list(NAMESPACE)).items) == 2


async def test_create_answers_what_get_and_list_will(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(config_map(a="1"))
    assert await cluster.get(CONFIG_MAP, "c", "default") is made
    assert (await cluster.list(CONFIG_MAP, "default")).items == [made]
    assert set(meta(made)) == {"name", "namespace", "uid", "creationTimestamp", "resourceVersion"}
    with pytest.raises(AlreadyExists, match='configmaps "c" already exists'):
        await cluster.create(config_map())


async def test_the_namespace_is_default_unless_said(cluster: EmbeddedCluster) -> None:
    made = await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    assert key_of(made) == Key("default", "x")
    assert await cluster.get(CONFIG_MAP, "x") is made


async def test_later_changes_by_the_caller_have_no_effect(cluster: EmbeddedCluster) -> None:
    mine = config_map(a="1")
    await cluster.create(mine)
    mine["data"]["a"] = "changed"
    assert (await cluster.get(CONFIG_MAP, "c"))["data"] == {"a": "1"}
    patch = {"data": {"b": "1"}}
    await cluster.patch(CONFIG_MAP, "c", "default", patch)
    patch["data"]["b"] = "changed"
    assert (await cluster.get(CONFIG_MAP, "c"))["data"] == {"a": "1", "b": "1"}


async def test_generated_names(cluster: EmbeddedCluster) -> None:
    given = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "run-"}}
    made = await asyncio.gather(*(cluster.create(given) for _ in range(50)))
    assert len({name_of(o) for o in made}) == 50
    assert all(name_of(o).startswith("run-") and meta(o)["generateName"] == "run-" for o in made)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, BadRequest, "kind and apiVersion are required"),
        ({"apiVersion": "v1", "kind": "Pods"}, NotFound, 'did you mean "Pod"'),
        ({"apiVersion": "v2", "kind": "Pod"}, NotFound, "has it in v1"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, Invalid, "name or generateName is required"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}, Invalid, "name or generateName is required"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}},
            Invalid,
            "metadata.name: expected a string",
        ),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": ["x"]}},
            Invalid,
            "metadata.generateName: expected a string",
        ),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": 7}, BadRequest, "not an object"),
        (config_map("Upper"), Invalid, "metadata.name"),
        (config_map("x", "nowhere"), NotFound, 'namespaces "nowhere" not found'),
        ({**config_map(), "metadata": {"name": "x", "resourceVersion": "1"}}, BadRequest, "resourceVersion"),
        (
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "x"}},
            BadRequest,
            "is cluster-scoped",
        ),
        ({**config_map(), "dta": {"a": "b"}}, Invalid, 'dta: .*did you mean "data"'),
        ({**config_map(), "data": {"a": 1}}, Invalid, r"data(\.a|\[a\])"),
        ({**pod(), "metadata": {"name": "p", "annotations": {"a": "x" * 300_000}}}, Invalid, "Too long"),
        (pod(containers=[{"name": "c", "image": "i", "args": ["x" * 2_000_000]}]), TooLarge, "the limit is 1,572,864"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else None,
)
async def test_invalid_objects_are_not_created(
    cluster: EmbeddedCluster, given: Object, error: type[Exception], said: str
) -> None:
    before = (await cluster.list(CONFIG_MAP)).resource_version
    with pytest.raises(error, match=said):
        await cluster.create(given)
    assert (await cluster.list(CONFIG_MAP)).resource_version == before


async def test_a_dry_run_checks_everything_and_stores_nothing(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(config_map(), dry_run=True)
    assert uid_of(made)
    with pytest.raises(NotFound, match='configmaps "c" not found'):
        await cluster.get(CONFIG_MAP, "c")
    made = await cluster.create(config_map(a="1"))
    with pytest.raises(AlreadyExists):
        await cluster.create(config_map(), dry_run=True)
    assert (await cluster.update({**made, "data": {"a": "2"}}, dry_run=True))["data"] == {"a": "2"}
    assert (await cluster.patch(CONFIG_MAP, "c", "", {"data": {"a": "3"}}, dry_run=True))["data"] == {"a": "3"}
    await cluster.delete(CONFIG_MAP, "c", dry_run=True)
    assert await cluster.get(CONFIG_MAP, "c") is made


async def test_a_new_pod_waits_and_its_status_has_its_own_door(cluster: EmbeddedCluster) -> None:
    made = await cluster.create({**pod(), "status": {"phase": "Running"}})
    assert made.get("status", {}).get("phase") != "Running"
    assert meta(made)["generation"] == 1
    running = await cluster.update({**made, "status": {"phase": "Running"}}, subresource="status")
    assert running["status"] == {"phase": "Running"}
    assert meta(running)["generation"] == 1
    labelled = await cluster.update({**running, "metadata": {**meta(running), "labels": {"a": "b"}}, "status": {}})
    assert labelled["status"] == {"phase": "Running"}
    same = await cluster.update({**labelled, "spec": {"containers": []}}, subresource="status")
    assert same is labelled
    with pytest.raises(NotFound, match="have no status"):
        await cluster.update(await cluster.create(config_map()), subresource="status")


async def test_labels_and_annotations_of_built_in_kinds_may_be_written_with_their_status(
    cluster: EmbeddedCluster,
) -> None:
    made = await cluster.create({**pod(), "metadata": {"name": "p", "labels": {"a": "b"}}})
    change = {"metadata": {"annotations": {"seen": "yes"}, "finalizers": ["x.dev/f"]}, "status": {"phase": "Running"}}
    patched = await cluster.patch(POD, "p", "default", change, subresource="status")
    assert (meta(patched)["annotations"], meta(patched)["labels"]) == ({"seen": "yes"}, {"a": "b"})
    assert "finalizers" not in meta(patched)
    bare = {"name": "p", "namespace": "default", "labels": {"c": "d"}}
    updated = await cluster.update({**made, "metadata": bare, "status": {"phase": "Running"}}, subresource="status")
    assert (meta(updated)["annotations"], meta(updated)["labels"]) == ({"seen": "yes"}, {"c": "d"})
    for wrong in ({"labels": {"c": 1}}, {"labels": {"c": "not valid!"}}):
        with pytest.raises(Invalid, match=r"metadata\.labels"):
            await cluster.patch(POD, "p", "default", {"metadata": wrong}, subresource="status")


async def test_a_node_registers_with_its_status(cluster: EmbeddedCluster) -> None:
    status = {"capacity": {"cpu": "2"}}
    given = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
    assert (await cluster.create(given))["status"]["capacity"] == {"cpu": "2"}
    assert meta(await cluster.get(NODE, "n")).get("namespace") is None


async def test_an_update_of_something_old_conflicts(cluster: EmbeddedCluster) -> None:
    first = await cluster.create(config_map(a="1"))
    second = await cluster.update({**first, "data": {"a": "2"}})
    assert int(version_of(second)) > int(version_of(first))
    with pytest.raises(Conflict, match='cannot be fulfilled on configmaps "c": the object has been modified'):
        await cluster.update({**first, "data": {"a": "3"}})
    with pytest.raises(Conflict, match="UID in precondition: other"):
        await cluster.update({**second, "metadata": {**meta(second), "uid": "other"}})
    unconditional = await cluster.update(config_map(a="4"))
    assert unconditional["data"] == {"a": "4"}
    assert uid_of(unconditional) == uid_of(first)
    with pytest.raises(NotFound):
        await cluster.update(config_map("missing"))


async def test_an_update_that_changes_nothing_is_no_change(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(config_map(a="1"))
    assert await cluster.update(config_map(a="1")) is made
    assert await cluster.patch(CONFIG_MAP, "c", "default", {"data": {"a": "1"}}) is made
    assert (await cluster.list(CONFIG_MAP)).resource_version == version_of(made)


async def test_of_many_updates_of_one_version_one_wins(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(config_map(a="0"))
    results = await asyncio.gather(
        *(cluster.update({**made, "data": {"a": str(n)}}) for n in range(1, 30)), return_exceptions=True
    )
    winners = [r for r in results if isinstance(r, dict)]
    assert len(winners) == 1
    assert {type(r) for r in results} == {dict, Conflict}
    assert await cluster.get(CONFIG_MAP, "c") == winners[0]


async def test_counters_that_retry_lose_no_count(cluster: EmbeddedCluster) -> None:
    await cluster.create(config_map(n="0"))

    async def count() -> None:
        while True:
            now = await cluster.get(CONFIG_MAP, "c")
            try:
                await cluster.update({**now, "data": {"n": str(int(now["data"]["n"]) + 1)}})
            except Conflict:
                continue
            return

    await asyncio.gather(*(count() for _ in range(40)))
    assert (await cluster.get(CONFIG_MAP, "c"))["data"] == {"n": "40"}


async def test_versions_of_one_kind_show_the_same_objects(cluster: EmbeddedCluster) -> None:
    cluster.catalogue.register(CREW)
    newer = cluster.catalogue.register(Kind("x.dev", "v2", "Crew", "crews", schema=CREW.schema))
    await cluster.create({"apiVersion": "x.dev/v1", "kind": "Crew", "metadata": {"name": "c"}})
    assert (await cluster.get(newer, "c"))["apiVersion"] == "x.dev/v2"
    assert [o["apiVersion"] for o in (await cluster.list(newer)).items] == ["x.dev/v2"]
    assert (await anext(cluster.watch(newer))).object["apiVersion"] == "x.dev/v2"
    moved = await cluster.patch(newer, "c", "", {"spec": {"replicas": 2}})
    assert moved["apiVersion"] == "x.dev/v2"
    seen = cluster.watch(CREW, resource_version=str(int(version_of(moved)) - 1))
    assert (await anext(seen)).object["apiVersion"] == "x.dev/v1"


@pytest.mark.parametrize("mode", ["Warn", "Ignore"])
async def test_clients_may_ask_for_unknown_fields_to_be_dropped(cluster: EmbeddedCluster, mode: Any) -> None:
    with collect_warnings() as said:
        made = await cluster.create({**config_map(a="1"), "datum": 1}, field_validation=mode)
        updated = await cluster.update({**made, "datum": 1, "data": {"a": "2"}}, field_validation=mode)
        patched = await cluster.patch(CONFIG_MAP, "c", "", {"datum": 1, "data": {"a": "3"}}, field_validation=mode)
    assert all("datum" not in o for o in (made, updated, patched))
    assert patched["data"] == {"a": "3"}
    assert said == (['unknown field "datum"'] * 3 if mode == "Warn" else [])


async def test_binding_gives_every_pod_a_node(cluster: EmbeddedCluster) -> None:
    pods = [await cluster.create(pod(f"p{n}")) for n in range(3)]
    bound = await cluster.bind([(key_of(p), uid_of(p), f"node-{n}") for n, p in enumerate(pods)])
    assert [p["spec"]["nodeName"] for p in bound] == ["node-0", "node-1", "node-2"]
    condition = get_condition(bound[0]["status"]["conditions"], "PodScheduled")
    assert condition is not None
    assert condition["status"] == "True"
    assert (await cluster.list(POD)).items == bound


@pytest.mark.parametrize("trouble", ["bound", "deleting", "gone", "replaced"])
async def test_binding_is_all_or_nothing(cluster: EmbeddedCluster, trouble: str) -> None:
    good, bad = (
        await cluster.create(pod("good")),
        await cluster.create({**pod("bad"), "metadata": {"name": "bad", "finalizers": ["x.dev/hold"]}}),
    )
    uid = uid_of(bad)
    if trouble == "bound":
        await cluster.bind([(key_of(bad), uid, "elsewhere")])
    elif trouble == "deleting":
        await cluster.delete(POD, "bad")
    elif trouble == "gone":
        bad = {**bad, "metadata": {**meta(bad), "name": "never"}}
    else:
        uid = "another"
    with pytest.raises(Conflict, match="cannot be bound to n"):
        await cluster.bind([(key_of(good), uid_of(good), "n"), (key_of(bad), uid, "n")])
    assert await cluster.get(POD, "good") is good


async def test_of_two_schedulers_one_binds(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(pod())
    results = await asyncio.gather(
        *(cluster.bind([(key_of(made), uid_of(made), node)]) for node in ("a", "b")), return_exceptions=True
    )
    assert [type(r) for r in results] == [list, Conflict]


async def test_everything_survives_a_restart(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue()) as cluster:
        kept = await cluster.create(config_map(a="1"))
        await cluster.create(config_map("gone"))
        await cluster.delete(CONFIG_MAP, "gone")
        version = (await cluster.list(CONFIG_MAP)).resource_version
    async with EmbeddedCluster(tmp_path, new_catalogue()) as cluster:
        page = await cluster.list(CONFIG_MAP)
        assert (page.items, page.resource_version) == ([kept], version)
        assert len((await cluster.list(NAMESPACE)).items) == 2
        events = cluster.watch(CONFIG_MAP, resource_version=version_of(kept))
        assert [(await anext(events)).type for _ in range(2)] == ["ADDED", "DELETED"]


async def test_logs_exec_and_addresses_need_a_node_agent(cluster: EmbeddedCluster) -> None:
    with pytest.raises(Unavailable):
        await anext(cluster.logs("p", "default"))
    with pytest.raises(Unavailable):
        await cluster.exec("p", "default", ["true"])
    with pytest.raises(Unavailable):
        await cluster.endpoint("p", "default", 80, owner=pod())

    class Node:
        name = "node"

        async def usage(self) -> tuple[UsageByPod, float]:
            return {}, 1.0

        def pods(self) -> dict[str, Object]:
            return {}

        async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
            yield f"{namespace}/{pod} {query.container}".encode()

        async def exec(
            self, pod: str, namespace: str, command: Sequence[str], *, container: str, stdin: bool, tty: bool
        ) -> Process:
            raise NotFound(f"{namespace}/{pod} {container} {command} {stdin} {tty}")

        async def attach(self, pod: str, namespace: str, *, container: str, stdin: bool) -> Process:
            raise NotFound(f"{namespace}/{pod} {container} {stdin}")

        def forward(self, pod: str, namespace: str) -> AbstractContextManager[str]:
            raise NotFound(f"{namespace}/{pod}")

        def check_listener(self, pod: str, namespace: str, port: int) -> None:
            raise NotFound(f"{namespace}/{pod}:{port}")

    class Addresses:
        async def endpoint(self, pod: str, namespace: str, port: int, *, owner: Object, attempt: int = 0) -> Endpoint:
            return Endpoint(name_of(owner), port + attempt)

    cluster.node, cluster.addresses = Node(), Addresses()
    assert [piece async for piece in cluster.logs("p", "ns", LogQuery(container="c"))] == [b"ns/p c"]
    assert await cluster.endpoint("p", "ns", 80, owner=pod("o"), attempt=1) == Endpoint("o", 81)
    with pytest.raises(NotFound, match="ns/p c"):
        await cluster.exec("p", "ns", ["ls"], container="c")
    with pytest.raises(NotFound, match="ns/p c True"):
        await cluster.attach("p", "ns", container="c", stdin=True)


async def test_a_job_is_written_and_read_like_any_kind(cluster: EmbeddedCluster) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["true"]}]}}
    given = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    made = await cluster.create(given)
    assert await cluster.get(JOB, "j") is made


async def test_an_empty_struct_of_a_go_client_is_no_change(cluster: EmbeddedCluster) -> None:
    """Go writes structs without content as {}: reading a Pod and writing it back must change nothing."""
    made = await cluster.create(pod())
    containers = [{**each, "resources": {}} for each in made["spec"]["containers"]]
    same = await cluster.update({**made, "spec": {**made["spec"], "containers": containers}, "status": {}})
    assert same is made
    patched = await cluster.patch(
        POD, name_of(made), "default", {"spec": {"containers": containers}, "status": {}}, type="strategic"
    )
    assert patched is made
    node = await cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    assert await cluster.patch(NODE, "n", "", {"spec": {}, "status": {"nodeInfo": {}}}) is node
    selecting = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
                 "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    claim = await cluster.create(selecting)
    with pytest.raises(Invalid):
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "c", "default", {"spec": {"selector": {}}})
    assert (await cluster.get(PERSISTENT_VOLUME_CLAIM, "c", "default")) is claim


async def test_a_new_pod_has_its_quality_of_service_class(cluster: EmbeddedCluster) -> None:
    assert (await cluster.create(pod()))["status"]["qosClass"] == "BestEffort"
