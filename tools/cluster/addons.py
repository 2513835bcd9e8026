"""What runs in the cluster beside Kubernetes itself: KWOK, Volcano, Argo and Kubeflow's training-operator.

They run as processes outside of Pods, each as a user of its own who may do everything.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import yaml

from tools.cluster.build import manifest, program
from tools.cluster.images import ARGOEXEC
from tools.cluster.kubectl import apply, apply_definitions, kubectl
from tools.cluster.layout import NODE_ADDRESS, Layout
from tools.cluster.processes import Component, Health, is_running, wait_until
from tools.cluster.sources import ARGO, KWOK, TRAINING_OPERATOR, VOLCANO

FAKE_NODE = "kwok"
"""Value of the label `type` of nodes that only look like nodes."""

FAKE_TOLERATION = {"key": "kwok.x-k8s.io/node", "operator": "Exists"}
"""What a Pod needs to be placed on one."""

SECONDS = "muster.dev/simulated-seconds"
"""Annotation: after so many seconds a Pod on a fake node has Succeeded; with a `muster.dev/simulated-exit-code` other
than 0, Failed. The first means the same to Muster's own cluster."""

EXIT_CODE = "muster.dev/simulated-exit-code"
WORKFLOWS = "argo"
"""The namespace whose workflows Argo runs."""

OPERATOR_NAMESPACE = "kubeflow"
_WEBHOOK_SECRET = "training-operator-webhook-cert"  # noqa: S105 (its name)
_PRIVATE_TMP = 'mount --make-rprivate / && mount --bind "$0" /tmp && exec "$@"'


def kwok(layout: Layout) -> Component:
    configuration = layout.configuration / "kwok.yaml"
    stages = [manifest(KWOK, name).read_text() for name in KWOK.manifests]
    stages.append(yaml.safe_dump(_finish_stage(), sort_keys=False))
    configuration.write_text("\n---\n".join(stages))
    command = [
        str(program(KWOK, "kwok")),
        f"--kubeconfig={layout.kubeconfig_of('kwok')}",
        f"--config={configuration}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector=type={FAKE_NODE}",
        f"--node-ip={NODE_ADDRESS}",
        "--cidr=10.99.0.0/16",
        "--server-address=127.0.0.1:10247",
        "--node-lease-duration-seconds=40",
    ]
    return Component("kwok", command, health=Health(10247))


def fake_nodes(layout: Layout, count: int, *, cpu: int = 32, memory: str = "256Gi", gpus: int = 0) -> None:
    """As many nodes as that, no more and no less."""
    listed = kubectl(layout, "get", "nodes", f"--selector=type={FAKE_NODE}", "--output=name").split()
    wanted = [f"fake-{number:04d}" for number in range(count)]
    surplus = [name for name in listed if name.removeprefix("node/") not in wanted]
    if surplus:
        kubectl(layout, "delete", "--wait=false", *surplus)
    if wanted:
        apply(layout, [_fake_node(name, cpu, memory, gpus) for name in wanted])
        kubectl(
            layout, "wait", "--for=condition=Ready", "--timeout=90s", "nodes", f"--selector=type={FAKE_NODE}"
        )  # fmt: skip


def prepare_volcano(layout: Layout) -> None:
    folders = ("config/crd/volcano/bases", "config/crd/jobflow/bases")
    apply_definitions(layout, *(str(manifest(VOLCANO, folder)) for folder in folders))


def volcano_scheduler(layout: Layout) -> Component:
    command = [
        str(program(VOLCANO, "vc-scheduler")),
        f"--kubeconfig={layout.kubeconfig_of('volcano')}",
        f"--scheduler-conf={manifest(VOLCANO, 'installer/helm/chart/volcano/config/volcano-scheduler.conf')}",
        "--leader-elect=false",
        "--enable-healthz=true",
        "--healthz-address=127.0.0.1:11251",
        "--cache-dumper=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--v=2",
    ]
    return Component("vc-scheduler", command, health=Health(11251))


def volcano_controllers(layout: Layout) -> Component:
    command = [
        str(program(VOLCANO, "vc-controller-manager")),
        f"--kubeconfig={layout.kubeconfig_of('volcano')}",
        "--leader-elect=false",
        "--enable-healthz=true",
        "--healthz-address=127.0.0.1:11252",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--v=2",
    ]
    return Component("vc-controller-manager", command, health=Health(11252))


def finish_volcano(layout: Layout) -> None:
    """Nothing is scheduled before the queue is open."""

    def is_open() -> bool:
        state = kubectl(
            layout, "get", "queue.scheduling.volcano.sh", "default", "--ignore-not-found",
            "--output=jsonpath={.status.state}",
        )  # fmt: skip
        return state == "Open"

    wait_until(layout, "vc-controller-manager", is_open, 60, "done with opening the default queue")


def prepare_argo(layout: Layout) -> None:
    definitions = manifest(ARGO, "manifests/base/crds/minimal")
    files = [str(path) for path in sorted(definitions.glob("argoproj.io_*.yaml"))]
    apply_definitions(layout, *files)
    metadata = {"namespace": WORKFLOWS, "name": "workflow"}
    results = {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}
    apply(
        layout,
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WORKFLOWS}},
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": WORKFLOWS, "name": "workflow-controller-configmap"},
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": metadata,
                "rules": [results],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "workflow"},
                "subjects": [{"kind": "ServiceAccount", "namespace": WORKFLOWS, "name": "default"}],
            },
        ],
    )


def argo(layout: Layout) -> Component:
    command = [
        str(program(ARGO, "workflow-controller")),
        f"--kubeconfig={layout.kubeconfig_of('argo')}",
        "--namespaced",
        f"--namespace={WORKFLOWS}",
        f"--executor-image={ARGOEXEC}",
        "--executor-image-pull-policy=Never",
        "--qps=1000",
        "--burst=2000",
    ]
    return Component("workflow-controller", command, {"LEADER_ELECTION_DISABLE": "true"}, Health(6060))


def prepare_training_operator(layout: Layout) -> None:
    """Everything of upstream's manifests but the Deployment: its process runs beside the cluster. The Service of its
    webhook leads there."""
    rendered = kubectl(layout, "kustomize", str(manifest(TRAINING_OPERATOR, "manifests") / "overlays" / "standalone"))
    objects = [obj for obj in yaml.safe_load_all(rendered) if obj and obj["kind"] != "Deployment"]
    namespaces = [obj for obj in objects if obj["kind"] == "Namespace"]
    apply(layout, namespaces)
    certificate = kubectl(
        layout, "get", "secret", _WEBHOOK_SECRET, f"--namespace={OPERATOR_NAMESPACE}", "--ignore-not-found"
    )  # fmt: skip
    for obj in objects:
        if obj["kind"] == "Service":
            obj["spec"].pop("selector", None)
    # Applying an empty Secret again would empty it.
    apply(layout, [obj for obj in objects if not (certificate and obj["kind"] == "Secret")] + [_webhook_endpoint()])
    kubectl(layout, "wait", "--for=condition=Established", "--timeout=60s", "crd/pytorchjobs.kubeflow.org")


def training_operator(layout: Layout) -> Component:
    """As shipped. It insists on its certificate below /tmp, so it gets one of its own."""
    private = _operator_tmp(layout)
    (private / "k8s-webhook-server" / "serving-certs").mkdir(parents=True, exist_ok=True)
    command = [
        "unshare", "--mount", "/bin/sh", "-c", _PRIVATE_TMP, str(private),
        str(program(TRAINING_OPERATOR, "training-operator")),
        f"--kubeconfig={layout.kubeconfig_of('training-operator')}",
        "--metrics-bind-address=127.0.0.1:8080",
        "--health-probe-bind-address=127.0.0.1:8081",
    ]  # fmt: skip
    return Component("training-operator", command, health=Health(8081, "/readyz"))


def deliver_certificate(layout: Layout) -> None:
    """What the kubelet would do for a Pod: the operator writes its certificate to a Secret and waits for the files."""
    folder = _operator_tmp(layout) / "k8s-webhook-server" / "serving-certs"
    found: dict[str, str] = {}

    def is_written() -> bool:
        secret = kubectl(
            layout, "get", "secret", _WEBHOOK_SECRET, f"--namespace={OPERATOR_NAMESPACE}", "--output=json"
        )  # fmt: skip
        found.update(json.loads(secret).get("data") or {})
        return "tls.crt" in found

    if not is_running(layout, "training-operator"):
        return
    wait_until(layout, "training-operator", is_written, 60, "done with its certificate")
    for name, content in found.items():
        unfinished = folder / f".{name}"
        unfinished.write_bytes(base64.b64decode(content))
        unfinished.rename(folder / name)


def _operator_tmp(layout: Layout) -> Path:
    return layout.root / "training-operator-tmp"


def _webhook_endpoint() -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": OPERATOR_NAMESPACE,
            "name": "training-operator-process",
            "labels": {"kubernetes.io/service-name": "training-operator"},
        },
        "addressType": "IPv4",
        "ports": [
            {"name": "webhook-server", "port": 9443, "protocol": "TCP"},
            {"name": "monitoring-port", "port": 8080, "protocol": "TCP"},
        ],
        "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}}],
    }


def _fake_node(name: str, cpu: int, memory: str, gpus: int) -> dict[str, Any]:
    resources = {"cpu": str(cpu), "memory": memory, "pods": "1000", "ephemeral-storage": "1Ti"}
    if gpus:
        resources["nvidia.com/gpu"] = str(gpus)
    labels = {
        "type": FAKE_NODE, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _finish_stage() -> dict[str, Any]:
    """Pods end as their annotations say."""
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "pod-finish"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {
                "matchExpressions": [
                    {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
                    {"key": ".status.phase", "operator": "In", "values": ["Running"]},
                    {"key": f'.metadata.annotations["{SECONDS}"]', "operator": "Exists"},
                ]
            },
            "delay": {
                "durationMilliseconds": 0,
                "durationFrom": {"expressionFrom": f'.metadata.annotations["{SECONDS}"] + "s"'},
            },
            "next": {"statusTemplate": _FINISHED},
        },
    }


_FINISHED = (
    """\
{{ $now := Now }}
{{ $root := . }}
{{ $code := or ( index .metadata.annotations "CODE" ) "0" }}
containerStatuses:
{{ range $index, $item := .spec.containers }}
{{ $origin := index $root.status.containerStatuses $index }}
- image: {{ $item.image | Quote }}
  name: {{ $item.name | Quote }}
  ready: false
  restartCount: 0
  started: false
  state:
    terminated:
      exitCode: {{ $code }}
      finishedAt: {{ $now | Quote }}
      reason: {{ if eq $code "0" }}Completed{{ else }}Error{{ end }}
      startedAt: {{ $origin.state.running.startedAt | Quote }}
{{ end }}
phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}
"""
).replace("CODE", EXIT_CODE)
