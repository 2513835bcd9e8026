"""metrics.k8s.io over HTTP: measured at the moment of the question."""

from __future__ import annotations

from muster.embedded.agent.node import is_simulated
from muster.embedded.api import shapes
from muster.embedded.api.calls import Answer, Call, answer
from muster.embedded.api.targets import Target, is_true
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import NODE, POD
from muster.kube.cluster import Listing
from muster.kube.errors import MethodNotAllowed, NotFound, Unavailable
from muster.kube.kinds import Kind
from muster.kube.metrics import NODE_METRICS, node_metrics, pod_metrics
from muster.kube.objects import Object, name_of, timestamp


async def measured(cluster: EmbeddedCluster, call: Call, kind: Kind, target: Target) -> Answer:
    if call.method not in ("GET", "HEAD") or target.subresource or is_true(call.query.get("watch")):
        raise MethodNotAllowed("what nodes and Pods use can be got and listed, no more")
    found = await _measure(cluster, kind, target.namespace, call.query.get("labelSelector", ""))
    form, include = call.form(), shapes.include_of(call.query)
    if not target.name:
        return answer(shapes.many(kind, Listing(found, ""), form, include), call)
    for one in found:
        if name_of(one) == target.name:
            return answer(shapes.one(kind, one, form, include), call)
    raise NotFound(f'{kind.resource} "{target.name}" not found')


async def _measure(cluster: EmbeddedCluster, kind: Kind, namespace: str, labels: str) -> list[Object]:
    if cluster.node is None:
        raise Unavailable("this cluster has no node agent yet, so nothing is measured")
    rates, window = await cluster.node.usage()
    if kind is not NODE_METRICS:
        pods = (await cluster.list(POD, namespace, labels=labels)).items
        return pod_metrics(pods, rates, timestamp(), window)
    nodes = [node for node in (await cluster.list(NODE, labels=labels)).items if not is_simulated(node)]
    return node_metrics(nodes, (await cluster.list(POD)).items, cluster.node.name, rates, timestamp(), window)
