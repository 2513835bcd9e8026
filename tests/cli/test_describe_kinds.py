from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from muster.cli.describe_kinds import (
    describe_any,
    describe_config_map,
    describe_job,
    describe_node,
    describe_pod,
    describe_secret,
)
from muster.cli.output import SectionGrid, Sections, label_for_key, render_sections

NOW = datetime(2026, 1, 1, 12, 10, tzinfo=UTC)
EVENT = {
    "type": "Warning",
    "reason": "FailedScheduling",
    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    "source": {"component": "scheduler"},
    "firstTimestamp": "2026-01-01T12:00:00Z",
    "lastTimestamp": "2026-01-01T12:09:50Z",
    "count": 4,
}


def text(fields: Any) -> str:
    return "\n".join(render_sections(fields))


def test_labels_are_aligned_and_blocks_indented() -> None:
    fields: Sections = [
        ("Name", "x"),
        ("Namespace", "default"),
        ("Labels", ["a=1", "b=2"]),
        ("Annotations", []),
        ("Limits", [("cpu", "1"), ("memory", "1Gi")]),
        ("Conditions", SectionGrid(("Type", "Status"), [("Ready", "True")])),
        ("Note", "two\nlines"),
    ]
    assert render_sections(fields) == [
        "Name:         x",
        "Namespace:    default",
        "Labels:       a=1",
        "              b=2",
        "Annotations:  <none>",
        "Limits:",
        "  cpu:     1",
        "  memory:  1Gi",
        "Conditions:",
        "  Type   Status",
        "  ----   ------",
        "  Ready  True",
        "Note:         two",
        "              lines",
    ]


def test_field_names_become_words() -> None:
    assert [label_for_key(key) for key in ("creationTimestamp", "apiVersion", "podIP", "nvidia.com/gpu", "uid")] == [
        "Creation Timestamp",
        "API Version",
        "Pod IP",
        "nvidia.com/gpu",
        "UID",
    ]


def test_a_pending_pod_says_why_and_shows_its_events() -> None:
    pod = {
        "metadata": {"name": "x", "namespace": "default", "labels": {"app": "train"}},
        "spec": {"containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", "true"]}]},
        "status": {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": EVENT["message"]}
            ],
        },
    }
    shown = text(describe_pod(pod, [EVENT], {}, NOW))
    assert "Status:           Pending\n" in shown
    assert "Why:              Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.\n" in shown
    assert "Node:             <none>\n" in shown
    assert "Labels:           app=train\n" in shown
    assert "  Warning  FailedScheduling  10s (x4 over 10m)  scheduler  0/1 nodes are available" in shown


def test_a_failed_pod_shows_exit_code_and_last_lines() -> None:
    pod = {
        "metadata": {
            "name": "x",
            "namespace": "default",
            "ownerReferences": [{"kind": "Job", "name": "train", "controller": True}],
        },
        "spec": {
            "nodeName": "here",
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    ],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
                }
            ],
            "volumes": [{"name": "data", "configMap": {"name": "settings"}}],
        },
        "status": {
            "phase": "Failed",
            "containerStatuses": [
                {
                    "name": "main",
                    "restartCount": 0,
                    "state": {
                        "terminated": {
                            "exitCode": 1,
                            "reason": "Error",
                            "startedAt": "2026-01-01T12:00:00Z",
                            "finishedAt": "2026-01-01T12:00:05Z",
                        }
                    },
                }
            ],
        },
    }
    shown = text(describe_pod(pod, [], {"main": ["Traceback", "ValueError: no data"]}, NOW))
    for line in (
        "Status:           Failed",
        'Why:              container "main" exited with code 1',
        "Controlled By:    Job/train",
        "    State:           Terminated",
        "      Reason:        Error",
        "      Exit Code:     1",
        "    Last Log Lines:  Traceback",
        "                     ValueError: no data",
        "      cpu:     1",
        "      A:     1",
        "      NODE:  (v1:spec.nodeName)",
        "      KEY:   <set to the key 'k' of secret 's'>",
        "    Mounts:          /data from data (ro)",
        "    Type:  ConfigMap (a volume populated by a ConfigMap)",
        "Events:           <none>",
    ):
        assert line in shown.splitlines(), f"{line!r} is not in:\n{shown}"


def test_any_kind_is_shown_field_by_field() -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "ring", "namespace": "default", "uid": "u", "managedFields": [{"manager": "x"}]},
        "spec": {"minMember": 2, "minResources": {"cpu": "1"}},
        "status": {"phase": "Inqueue", "conditions": [{"type": "Scheduled", "status": "True"}]},
    }
    assert text(describe_any(group, [], NOW)).splitlines() == [
        "Name:         ring",
        "Namespace:    default",
        "Labels:       <none>",
        "Annotations:  <none>",
        "API Version:  scheduling.volcano.sh/v1beta1",
        "Kind:         PodGroup",
        "Metadata:",
        "  UID:  u",
        "Spec:",
        "  Min Member:  2",
        "  Min Resources:",
        "    Cpu:  1",
        "Status:",
        "  Conditions:",
        "    Status:  True",
        "    Type:    Scheduled",
        "  Phase:  Inqueue",
        "Events:       <none>",
    ]


def test_a_secret_shows_sizes_only() -> None:
    secret = {"metadata": {"name": "s", "namespace": "d"}, "type": "Opaque", "data": {"password": "aHVudGVyMg=="}}
    shown = text(describe_secret(secret, [], NOW))
    assert "password:  7 bytes" in shown
    assert "hunter2" not in shown
    assert "aHVudGVyMg==" not in shown


def test_a_config_map_shows_its_text() -> None:
    shown = text(describe_config_map({"metadata": {"name": "c"}, "data": {"run.sh": "echo 1\necho 2\n"}}, [], NOW))
    assert "  run.sh:  echo 1\n           echo 2\n" in shown


def test_a_job_counts_its_pods() -> None:
    job = {
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"parallelism": 2, "completions": 4},
        "status": {
            "active": 2,
            "succeeded": 1,
            "startTime": "2026-01-01T12:00:00Z",
            "completionTime": "2026-01-01T12:05:00Z",
        },
    }
    pods = [
        {"metadata": {"name": f"p{n}"}, "status": {"phase": phase}} for n, phase in enumerate(("Pending", "Running"))
    ]
    shown = text(describe_job(job, pods, [], NOW))
    assert "2 Active (1 Pending, 1 Running) / 1 Succeeded / 0 Failed" in shown
    assert "Duration:         5m" in shown
    assert "  p0    Pending  <none>" in shown.splitlines()


def test_a_node_shows_what_is_allocated() -> None:
    node = {
        "metadata": {"name": "here", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "1"}},
    }
    pod = {
        "metadata": {"name": "x", "namespace": "default", "creationTimestamp": "2026-01-01T12:00:00Z"},
        "spec": {
            "containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
            "initContainers": [{"resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}],
        },
    }
    lines = text(describe_node(node, [pod], [], NOW)).splitlines()
    assert "  default    x     1 (25%)       1Gi (12%)        10m" in lines
    assert "  cpu             1 (25%)" in lines
    assert "  nvidia.com/gpu  0 (0%)" in lines
