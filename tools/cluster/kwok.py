"""KWOK: simulated nodes and Pods, thousands of them on a small machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from tools.cluster.build import manifest, program
from tools.cluster.kubectl import apply, kubectl
from tools.cluster.layout import NODE_ADDRESS, Layout
from tools.cluster.processes import Component, Health
from tools.cluster.sources import KWOK

FAKE_NODE = "kwok"
"""Value of the label `type` of simulated nodes."""

FAKE_TOLERATION = {"key": "kwok.x-k8s.io/node", "operator": "Exists"}
"""What a Pod needs to be scheduled to one."""

SECONDS = "muster.dev/simulated-seconds"
"""Annotation: after this many seconds, a Pod on a fake node has Succeeded; with a `muster.dev/simulated-exit-code`
other than 0, Failed. The first has the same meaning in Muster's own cluster."""

EXIT_CODE = "muster.dev/simulated-exit-code"


def controller(layout: Layout) -> Component:
    configuration = layout.configuration / "kwok.yaml"
    stages = [manifest(KWOK, name).read_text() for name in KWOK.manifests]
    own = [yaml.safe_dump(document, sort_keys=False) for document in (_OPTIONS, _finish_stage())]
    configuration.write_text("\n---\n".join([*own, *stages]))
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
    """Creates or deletes nodes until there are exactly this many."""
    listed = _listed(layout)
    wanted = [f"fake-{number:04d}" for number in range(count)]
    surplus = [name for name in listed if name.removeprefix("node/") not in wanted]
    if surplus:
        kubectl(layout, "delete", "--wait=false", *surplus)
    if wanted:
        apply(layout, [fake_node(name, cpu=cpu, memory=memory, gpus=gpus) for name in wanted])
        kubectl(
            layout, "wait", "--for=condition=Ready", "--timeout=90s", "nodes", f"--selector=type={FAKE_NODE}"
        )  # fmt: skip


def has_nodes(layout: Layout) -> bool:
    return bool(_listed(layout))


def _listed(layout: Layout) -> list[str]:
    """Without those that a test has created."""
    found = kubectl(layout, "get", "nodes", f"--selector=type={FAKE_NODE}", "--output=name").split()
    return [name for name in found if name.startswith("node/fake-")]


def fake_node(
    name: str, *, cpu: int = 32, memory: str = "256Gi", gpus: int = 0, labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """One of them as an object."""
    resources = {"cpu": str(cpu), "memory": memory, "pods": "1000", "ephemeral-storage": "1Ti"}
    if gpus:
        resources["nvidia.com/gpu"] = str(gpus)
    own = {"type": FAKE_NODE, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **(labels or {})}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _finish_stage() -> dict[str, Any]:
    """Pods end according to their annotations."""
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


_OPTIONS = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    # A thousand real nodes would each report on their own Pods at the same time.
    "options": {"podPlayStageParallelism": 64},
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
