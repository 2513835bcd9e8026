"""EndpointSlices and Endpoints: which Pods are behind a Service, for clients that ask.

`plan_slices` and `plan_endpoints` are pure. Nothing here routes traffic: the names of Services lead to Pods through
their hosts files (`embedded/node/hosts.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.settings import ApiAccess
from muster.embedded.store.history import Change
from muster.kube.builtin import ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE
from muster.kube.controller import Controller
from muster.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    is_condition_true,
    is_deleting,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
)

SERVICE_LABEL: Final = "kubernetes.io/service-name"
MANAGED_BY_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"
API_SERVICE: Final = Key("default", "kubernetes")
MOST_ENDPOINTS: Final = 100
"""Of one slice."""
_ENDED = ("Succeeded", "Failed")
_DELAY = 0.05
"""Seconds for which changes are collected: the Pods of a job start together."""

Ports = tuple[tuple[str, str, int], ...]
"""(name, protocol, number) of the ports of a slice."""


def plan_slices(service: Object, pods: Iterable[Object]) -> list[Object]:
    """Returns the slices of a Service with a selector. A slice has Pods with the same ports: a named port may have
    different numbers. Names are derived from the content's place, so that a slice is updated rather than replaced."""
    groups: dict[Ports, list[Object]] = {}
    for pod in sorted(select_pods(service, pods), key=name_of):
        groups.setdefault(resolve_ports(service, pod), []).append(_endpoint(service, pod))
    if not groups:
        groups[()] = []
    found = []
    for ports, endpoints in sorted(groups.items()):
        for start in range(0, max(1, len(endpoints)), MOST_ENDPOINTS):
            part = endpoints[start : start + MOST_ENDPOINTS]
            found.append(_slice(service, ports, part, f"{ports}{start}"))
    return found


def plan_endpoints(service: Object, pods: Iterable[Object]) -> Object:
    """Returns the Endpoints of a Service with a selector: the older form, without Pods that are being deleted."""
    groups: dict[Ports, dict[str, list[Object]]] = {}
    for pod in sorted(select_pods(service, pods), key=name_of):
        if is_deleting(pod):
            continue
        side = "addresses" if _is_ready(service, pod) else "notReadyAddresses"
        address = {"ip": status_of(pod)["podIP"], "targetRef": _reference(pod)}
        if node := spec_of(pod).get("nodeName"):
            address["nodeName"] = node
        groups.setdefault(resolve_ports(service, pod), {}).setdefault(side, []).append(address)
    subsets = [{**sides, "ports": _port_objects(ports)} for ports, sides in sorted(groups.items()) if ports]
    wanted = {**_common(service), "apiVersion": "v1", "kind": "Endpoints"}
    return {**wanted, "subsets": subsets} if subsets else wanted


def resolve_ports(service: Object, pod: Object) -> Ports:
    """Returns the ports of a Service with their numbers in a Pod. A name that the Pod does not have is left out."""
    named = {
        port["name"]: port["containerPort"]
        for container in (*(spec_of(pod).get("initContainers") or ()), *(spec_of(pod).get("containers") or ()))
        for port in container.get("ports") or ()
        if port.get("name")
    }
    found = []
    for port in spec_of(service).get("ports") or ():
        target = port.get("targetPort") or port["port"]
        number = named.get(target) if isinstance(target, str) else target
        if number:
            found.append((port.get("name") or "", port.get("protocol") or "TCP", int(number)))
    return tuple(found)


def api_endpoints(service: Object, api: ApiAccess) -> tuple[list[Object], Object]:
    """Returns the slices and Endpoints of the Service `kubernetes`, which leads to this server."""
    ports: Ports = (("https", "TCP", api.port),)
    made = _slice(service, ports, [{"addresses": [api.host], "conditions": {"ready": True}}], "")
    made["metadata"]["name"] = name_of(service)
    older = {**_common(service), "apiVersion": "v1", "kind": "Endpoints"}
    older["subsets"] = [{"addresses": [{"ip": api.host}], "ports": _port_objects(ports)}]
    return [made], older


def select_pods(service: Object, pods: Iterable[Object]) -> list[Object]:
    """Returns the Pods behind a Service that have an address and have not ended."""
    selector: Mapping[str, str] = spec_of(service).get("selector") or {}
    return [
        pod
        for pod in pods
        if selector.items() <= labels_of(pod).items()
        and status_of(pod).get("podIP")
        and status_of(pod).get("phase") not in _ENDED
    ]


def _is_ready(service: Object, pod: Object) -> bool:
    if spec_of(service).get("publishNotReadyAddresses"):
        return True
    return not is_deleting(pod) and _is_serving(pod)


def _is_serving(pod: Object) -> bool:
    return is_condition_true(status_of(pod).get("conditions") or [], "Ready")


def _endpoint(service: Object, pod: Object) -> Object:
    endpoint: Object = {
        "addresses": [status_of(pod)["podIP"]],
        "conditions": {
            "ready": _is_ready(service, pod), "serving": _is_serving(pod), "terminating": is_deleting(pod),
        },
        "targetRef": _reference(pod),
    }  # fmt: skip
    if node := spec_of(pod).get("nodeName"):
        endpoint["nodeName"] = node
    if spec_of(pod).get("hostname") and spec_of(pod).get("subdomain") == name_of(service):
        endpoint["hostname"] = spec_of(pod)["hostname"]
    return endpoint


def _reference(pod: Object) -> Object:
    return {"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)}


def _common(service: Object) -> Object:
    labels = dict(labels_of(service))
    if spec_of(service).get("clusterIP") == "None":
        labels[HEADLESS_LABEL] = ""
    metadata: Object = {"name": name_of(service), "namespace": namespace_of(service), "labels": labels}
    return {"metadata": {**metadata, "ownerReferences": [owner_reference(service)]}}


def _slice(service: Object, ports: Ports, endpoints: Sequence[Object], place: str) -> Object:
    common = _common(service)
    metadata = common["metadata"]
    metadata["name"] = f"{name_of(service)}-{hashlib.sha256(place.encode()).hexdigest()[:5]}"
    metadata["labels"] |= {SERVICE_LABEL: name_of(service), MANAGED_BY_LABEL: MANAGER}
    return {
        **common, "apiVersion": ENDPOINT_SLICE.api_version, "kind": ENDPOINT_SLICE.kind, "addressType": "IPv4",
        "endpoints": list(endpoints), "ports": _port_objects(ports),
    }  # fmt: skip


def _port_objects(ports: Ports) -> list[Object]:
    return [{"name": name, "protocol": protocol, "port": number} for name, protocol, number in ports]


class EndpointsController:
    """`api` is where this server's own API is, for the Service `kubernetes`."""

    def __init__(self, cluster: EmbeddedCluster, api: ApiAccess | None = None) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._api = api
        self._queue: Controller[Key] = Controller("endpoints", self._reconcile, workers=2)

    async def run(self) -> None:
        stop = self._store.listen(self._changed)
        try:
            for service in self._store.view.objects(SERVICE.resource):
                self._queue.enqueue(Key(namespace_of(service), name_of(service)))
            await self._queue.run()
        finally:
            stop()

    def _changed(self, resource: str, change: Change) -> None:
        if resource == SERVICE.resource:
            self._queue.enqueue_after(change.key, _DELAY)
        elif resource == POD.resource:
            services = self._store.view.in_namespace(SERVICE.resource, change.key.namespace)
            if services is None:
                return
            selectors = {
                name: chosen for name, each in services.all().items() if (chosen := spec_of(each).get("selector"))
            }
            if not selectors or not _matters(change):
                return
            labels = [labels_of(pod) for pod in (change.before, change.after) if pod is not None]
            for name, selector in selectors.items():
                if any(selector.items() <= found.items() for found in labels):
                    self._queue.enqueue_after(Key(change.key.namespace, name), _DELAY)
        elif resource in (ENDPOINT_SLICE.resource, ENDPOINTS.resource):
            obj = change.after or change.before or {}
            name = labels_of(obj).get(SERVICE_LABEL) or name_of(obj)
            self._queue.enqueue_after(Key(change.key.namespace, name), _DELAY)

    async def _reconcile(self, key: Key) -> None:
        service = self._store.get(SERVICE.resource, key)
        if service is None or is_deleting(service):
            return  # the garbage collector deletes what it owns
        if key == API_SERVICE and self._api is not None:
            slices, endpoints = api_endpoints(service, self._api)
        elif spec_of(service).get("selector"):
            bucket = self._store.view.in_namespace(POD.resource, key.namespace)
            pods = [] if bucket is None else list(bucket.all().values())
            slices, endpoints = plan_slices(service, pods), plan_endpoints(service, pods)
        else:
            return
        wanted = {name_of(each): each for each in slices}
        for old in self._store.view.objects(ENDPOINT_SLICE.resource, key.namespace):
            labels = labels_of(old)
            is_ours = labels.get(SERVICE_LABEL) == key.name and labels.get(MANAGED_BY_LABEL) == MANAGER
            if is_ours and name_of(old) not in wanted:
                await self._delete(old)
        for each in wanted.values():
            await self._store_object(ENDPOINT_SLICE, each)
        await self._store_object(ENDPOINTS, endpoints)

    async def _store_object(self, kind: Kind, wanted: Object) -> None:
        key = Key(namespace_of(wanted), name_of(wanted))
        old = self._store.get(kind.resource, key)
        try:
            if old is None:
                await self._cluster.create(wanted)
            elif _content(old) != _content(wanted):
                kept = {name: value for name, value in old.items() if name not in ("endpoints", "subsets", "ports")}
                metadata = {**meta(old), "labels": meta(wanted)["labels"]}
                await self._cluster.update({**kept, **wanted, "metadata": metadata})
        except (AlreadyExists, Conflict):
            self._queue.enqueue_after(Key(key.namespace, labels_of(wanted).get(SERVICE_LABEL) or key.name), _DELAY)
        except (Forbidden, NotFound):  # the namespace is being deleted, or a quota forbids it
            return

    async def _delete(self, old: Object) -> None:
        try:
            await self._cluster.delete(ENDPOINT_SLICE, name_of(old), namespace_of(old), uid=uid_of(old))
        except (NotFound, Conflict):
            return


def _content(obj: Object) -> bytes:
    parts: dict[str, Any] = {name: obj.get(name) or [] for name in ("endpoints", "subsets", "ports")}
    return orjson.dumps({**parts, "labels": labels_of(obj)}, option=orjson.OPT_SORT_KEYS)


def _matters(change: Change) -> bool:
    """Whether a change of a Pod can change what is behind a Service."""
    before, after = change.before, change.after
    if before is None or after is None or labels_of(before) != labels_of(after):
        return True
    old, new = status_of(before), status_of(after)
    return (
        is_deleting(before) != is_deleting(after)
        or any(old.get(field) != new.get(field) for field in ("phase", "podIP"))
        or _is_serving(before) != _is_serving(after)
    )
