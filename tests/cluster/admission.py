"""Admission policies for the tests' node, which has no registry and little CPU."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from muster.kube.objects import Object
from tools.cluster import kwok
from tools.cluster.cluster import Cluster as RealCluster

API = "admissionregistration.k8s.io/v1beta1"
LOCAL_IMAGES = {"muster.dev/images": "local"}
"""Label of a namespace whose Pods use the images on the node, whatever their pull policy says."""


@contextmanager
def local_images(real: RealCluster) -> Iterator[None]:
    """In labelled namespaces, images are never pulled, not even those tagged `latest`: there is no registry."""
    container = 'Object.spec.containers{name: container.name, imagePullPolicy: "Never"}'
    pod = f"Object{{spec: Object.spec{{containers: object.spec.containers.map(container, {container})}}}}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    matching = {"namespaceSelector": {"matchLabels": LOCAL_IMAGES}, "resourceRules": [rule]}
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": pod}}
    probe = "muster-local-images"
    real.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": probe, "labels": LOCAL_IMAGES}})

    def in_force() -> bool:
        asked = ["run", "probe", "--image=any:latest", f"--namespace={probe}", "--dry-run=server", "--output=json"]
        return bool(json.loads(real.kubectl(*asked))["spec"]["containers"][0]["imagePullPolicy"] == "Never")

    real.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={probe}", "--timeout=60s")
    try:
        with _policy(real, probe, matching, mutation):
            poll(in_force, "images are still pulled")
            yield
    finally:
        real.kubectl("delete", "namespace", probe, "--wait=false")


@contextmanager
def with_cpu_capacity(real: RealCluster, cpu: int, memory: str) -> Iterator[None]:
    """The node offers this many CPUs, so that Pods with large requests fit at the same time."""
    node = real.layout.node
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"],
        "resourceNames": [node],
    }  # fmt: skip
    offered = ", ".join(
        f'JSONPatch{{op: "add", path: "/status/{field}/{resource}", value: "{amount}"}}'
        for field in ("capacity", "allocatable")
        for resource, amount in (("cpu", cpu), ("memory", memory))
    )
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{offered}]"}}

    def cpus() -> str:
        return real.kubectl("get", "node", node, "--output=jsonpath={.status.allocatable.cpu}")

    def offers_it() -> bool:
        # The kubelet rewrites the status only if it differs from its own, so change it first.
        status = json.dumps({"status": {"capacity": {"cpu": str(cpu)}}})
        real.kubectl("patch", "node", node, "--subresource=status", "--type=merge", f"--patch={status}")
        return cpus() == str(cpu)

    before = cpus()
    try:
        with _policy(real, "muster-roomy-node", {"resourceRules": [rule]}, mutation):
            poll(offers_it, f"{node} does not offer {cpu} CPUs")
            yield
    finally:
        poll(lambda: cpus() == before, f"{node} still offers {cpu} CPUs")


@contextmanager
def argo_pods_on_fake_nodes(real: RealCluster, seconds: str) -> Iterator[None]:
    """The Pods of all Workflows run on KWOK's nodes, where they seem to take this long and succeed. Their images need
    not exist."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    ours = {"matchExpressions": [{"key": "workflows.argoproj.io/workflow", "operator": "Exists"}]}
    toleration = ", ".join(f'"{name}": "{value}"' for name, value in kwok.FAKE_TOLERATION.items())
    values = {
        '"/spec/nodeSelector"': f'{{"type": "{kwok.FAKE_NODE}"}}',
        '"/spec/tolerations"': f"[{{{toleration}}}]",
        f'"/metadata/annotations/" + jsonpatch.escapeKey("{kwok.SECONDS}")': f'"{seconds}"',
    }
    patches = ", ".join(f'JSONPatch{{op: "add", path: {path}, value: {value}}}' for path, value in values.items())
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{patches}]"}}
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "probe",
            "namespace": "default",
            "labels": {"workflows.argoproj.io/workflow": "x"},
            "annotations": {"x": "y"},
        },
        "spec": {"containers": [{"name": "main", "image": "none:1"}]},
    }

    def in_force() -> bool:
        asked = ["create", "--filename=-", "--dry-run=server", "--output=json"]
        created = json.loads(real.kubectl(*asked, given=json.dumps(probe)))
        return bool((created["spec"].get("nodeSelector") or {}).get("type") == kwok.FAKE_NODE)

    with _policy(real, "muster-argo-fake-nodes", {"resourceRules": [rule], "objectSelector": ours}, mutation):
        poll(in_force, "Pods of Workflows do not run on fake nodes")
        yield


@contextmanager
def _policy(real: RealCluster, name: str, matching: Object, mutation: Object) -> Iterator[None]:
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": matching,
        "mutations": [mutation],
    }
    real.apply(
        {"apiVersion": API, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": API,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        },
    )
    try:
        yield
    finally:
        real.kubectl("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", name)


def poll(so: Callable[[], bool], otherwise: str, seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < ends, otherwise
        time.sleep(0.5)
