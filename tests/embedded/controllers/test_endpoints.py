"""EndpointSlices and Endpoints: which Pods are behind a Service."""

from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.endpoints import (
    HEADLESS_LABEL,
    SERVICE_LABEL,
    EndpointsController,
    plan_endpoints,
    plan_slices,
)
from muster.embedded.settings import ApiAccess
from muster.kube.builtin import ENDPOINT_SLICE, ENDPOINTS, POD
from muster.kube.objects import Object, labels_of, status_of
from tests.embedded.waiting import run_components, wait_for, wait_for_all


def service(**spec: Any) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default", "uid": "s"},
        "spec": {"selector": {"app": "a"}, "ports": ports, **spec},
    }


def pod(name: str = "p", port: int = 8080, *, ready: bool = True, ip: str = "127.1.0.1", **more: Any) -> Object:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    containers = [{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": port}]}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "a"}, **more.pop("meta", {})},
        "spec": {"nodeName": "n", "containers": containers},
        "status": {"phase": "Running", "podIP": ip, "conditions": conditions, **more},
    }


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("of", "spec", "conditions"),
    [
        (pod(), {}, (True, True, False)),
        (pod(ready=False), {}, (False, False, False)),
        (pod(ready=False), {"publishNotReadyAddresses": True}, (True, False, False)),
        (pod(meta=DELETED), {}, (False, True, True)),
        (pod(phase="Succeeded"), {}, None),
        (pod(ip=""), {}, None),
        (pod(meta={"labels": {"app": "b"}}), {}, None),
    ],
)
def test_conditions_of_an_endpoint(of: Object, spec: Object, conditions: tuple[bool, ...] | None) -> None:
    (found,) = plan_slices(service(**spec), [of])
    if conditions is None:
        assert found["endpoints"] == []
        return
    (endpoint,) = found["endpoints"]
    assert endpoint["conditions"] == dict(zip(("ready", "serving", "terminating"), conditions, strict=True))
    assert endpoint["addresses"] == ["127.1.0.1"]
    assert endpoint["targetRef"]["name"] == "p"


def test_pods_with_another_number_of_a_named_port_are_in_another_slice() -> None:
    slices = plan_slices(service(), [pod("a", 1), pod("b", 2), pod("c", 1)])
    assert [(s["ports"][0]["port"], len(s["endpoints"])) for s in slices] == [(1, 2), (2, 1)]
    assert len({s["metadata"]["name"] for s in slices}) == 2
    again = plan_slices(service(), [pod("a", 1)])
    assert again[0]["metadata"]["name"] == slices[0]["metadata"]["name"], "a slice keeps its name"


def test_a_slice_has_at_most_a_hundred_endpoints() -> None:
    slices = plan_slices(service(), [pod(f"p{number:03}") for number in range(250)])
    assert [len(each["endpoints"]) for each in slices] == [100, 100, 50]


def test_endpoints_say_who_is_not_ready() -> None:
    found = plan_endpoints(service(clusterIP="None"), [pod("a"), pod("b", ready=False), pod("c", meta=DELETED)])
    (subset,) = found["subsets"]
    assert [address["targetRef"]["name"] for address in subset["addresses"]] == ["a"]
    assert [address["targetRef"]["name"] for address in subset["notReadyAddresses"]] == ["b"]
    assert HEADLESS_LABEL in labels_of(found)
    assert "subsets" not in plan_endpoints(service(), [])


async def test_slices_follow_services_and_pods(cluster: EmbeddedCluster) -> None:
    api = ApiAccess("127.0.0.1", 6443, "", lambda pod, audience, seconds: "")
    own = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kubernetes", "namespace": "default"}}
    async with run_components(EndpointsController(cluster, api)):
        await cluster.create({**own, "spec": {"ports": [{"name": "https", "port": 6443}]}})
        await wait_for(cluster, ENDPOINTS, "kubernetes", lambda found: bool(found["subsets"]))
        made = await cluster.create(service())
        await wait_for(cluster, ENDPOINTS, "s", lambda found: "subsets" not in found)
        started = await cluster.create(pod())
        await cluster.update({**started, "status": status_of(pod())}, subresource="status")
        ready = await wait_for(cluster, ENDPOINTS, "s", lambda found: bool(found.get("subsets")))
        assert ready["subsets"][0]["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]

        def has_one(slices: list[Object]) -> bool:
            return [len(s["endpoints"]) for s in slices if labels_of(s)[SERVICE_LABEL] == "s"] == [1]

        await wait_for_all(cluster, ENDPOINT_SLICE, has_one)
        (first,) = (s for s in (await cluster.list(ENDPOINT_SLICE)).items if labels_of(s)[SERVICE_LABEL] == "s")
        await cluster.delete(ENDPOINT_SLICE, first["metadata"]["name"], "default")
        await wait_for_all(cluster, ENDPOINT_SLICE, has_one)
        await cluster.delete(POD, "p", "default", grace_seconds=0)
        await wait_for(cluster, ENDPOINTS, "s", lambda found: "subsets" not in found)
        assert made["metadata"]["uid"] == ready["metadata"]["ownerReferences"][0]["uid"]
