from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.kube import builtin
from muster.kube.kinds import Kind
from muster.kube.objects import Object
from muster.kube.tables import build_table

NOW = datetime(2025, 1, 31, 12, 0, 0, tzinfo=UTC)
CREATED = "2025-01-31T11:55:00Z"


def a(**fields: Any) -> Object:
    return {**fields, "metadata": {"name": "x", "creationTimestamp": CREATED, **fields.get("metadata", {})}}


def done(*types: str) -> Object:
    return {"conditions": [{"type": t, "status": "True"} for t in types]}


@pytest.mark.parametrize(
    ("kind", "headings"),
    [
        (builtin.NAMESPACE, "NAME STATUS AGE"),
        (
            builtin.NODE,
            "NAME STATUS ROLES AGE VERSION | INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME",
        ),
        (builtin.POD_TEMPLATE, "NAME CONTAINERS IMAGES POD_LABELS"),
        (builtin.SERVICE, "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE | SELECTOR"),
        (builtin.CONFIG_MAP, "NAME DATA AGE"),
        (builtin.SECRET, "NAME TYPE DATA AGE"),
        (
            builtin.PERSISTENT_VOLUME,
            "NAME CAPACITY ACCESS_MODES RECLAIM_POLICY STATUS CLAIM STORAGECLASS VOLUMEATTRIBUTESCLASS REASON AGE "
            "| VOLUMEMODE",
        ),
        (
            builtin.PERSISTENT_VOLUME_CLAIM,
            "NAME STATUS VOLUME CAPACITY ACCESS_MODES STORAGECLASS VOLUMEATTRIBUTESCLASS AGE | VOLUMEMODE",
        ),
        (builtin.SERVICE_ACCOUNT, "NAME AGE"),
        (builtin.EVENT, "LAST_SEEN TYPE REASON OBJECT SUBOBJECT| SOURCE| MESSAGE FIRST_SEEN| COUNT| NAME|"),
        (builtin.ROLE, "NAME CREATED_AT"),
        (builtin.CLUSTER_ROLE, "NAME CREATED_AT"),
        (builtin.ROLE_BINDING, "NAME ROLE AGE | USERS GROUPS SERVICEACCOUNTS"),
        (builtin.CLUSTER_ROLE_BINDING, "NAME ROLE AGE | USERS GROUPS SERVICEACCOUNTS"),
        (builtin.PRIORITY_CLASS, "NAME VALUE GLOBAL-DEFAULT AGE | PREEMPTIONPOLICY"),
        (
            builtin.STORAGE_CLASS,
            "NAME PROVISIONER RECLAIMPOLICY VOLUMEBINDINGMODE ALLOWVOLUMEEXPANSION AGE",
        ),
        (builtin.JOB, "NAME STATUS COMPLETIONS DURATION AGE | CONTAINERS IMAGES SELECTOR"),
        (builtin.LEASE, "NAME HOLDER AGE"),
        (builtin.POD_GROUP, "NAME STATUS MINMEMBER RUNNINGS AGE | QUEUE"),
        (builtin.QUEUE, "NAME PARENT"),
        (builtin.PLUGIN_POD_GROUP, "NAME PHASE MINMEMBER RUNNING SUCCEEDED FAILED AGE"),
        (builtin.CUSTOM_RESOURCE_DEFINITION, "NAME CREATED_AT"),
    ],
)
def test_headings_are_kubectls(kind: Kind, headings: str) -> None:
    """Columns after the bar are shown with -o wide only."""
    plain, _, rest = headings.partition(" | ")
    words = [*plain.split(), *(f"{word}|" for word in rest.split())]
    columns = build_table(kind, [], NOW, wide=True).columns
    shown = [c.name.upper().replace(" ", "_") + ("|" if c.priority else "") for c in columns]
    assert shown == words


ROWS: list[tuple[Kind, Object, tuple[Any, ...]]] = [
    (builtin.NAMESPACE, a(status={"phase": "Active"}), ("x", "Active", "5m")),
    (
        builtin.NODE,
        a(
            metadata={"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}},
            spec={"unschedulable": True},
            status={
                **done("Ready"),
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1.35.4", "osImage": "Debian"},
            },
        ),
        ("x", "Ready,SchedulingDisabled", "gpu,worker", "5m", "v1.35.4",
         "10.0.0.1", "<none>", "Debian", "<unknown>", "<unknown>"),
    ),
    (
        builtin.NODE,
        a(status={"conditions": [{"type": "Ready", "status": "Unknown"}]}),
        ("x", "NotReady", "<none>", "5m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"),
    ),
    (builtin.NODE, a(), ("x", "Unknown", "<none>", "5m", "", "<none>", "<none>", *["<unknown>"] * 3)),
    (
        builtin.POD_TEMPLATE,
        a(template={"metadata": {"labels": {"b": "2", "a": "1"}},
                    "spec": {"containers": [{"name": "m", "image": "i"}]}}),
        ("x", "m", "i", "a=1,b=2"),
    ),
    (
        builtin.SERVICE,
        a(spec={"type": "NodePort", "clusterIP": "10.1.1.1", "selector": {"a": "b"},
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}),
        ("x", "NodePort", "10.1.1.1", "<none>", "80:30080/TCP,53/UDP", "5m", "a=b"),
    ),
    (builtin.SERVICE, a(spec={"clusterIP": "None"}), ("x", "ClusterIP", "None", "<none>", "<none>", "5m", "<none>")),
    (
        builtin.SERVICE,
        a(spec={"type": "ExternalName", "externalName": "a.example"}),
        ("x", "ExternalName", "<none>", "a.example", "<none>", "5m", "<none>"),
    ),
    (
        builtin.SERVICE,
        a(spec={"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]},
          status={"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "2.2.2.2"}]}}),
        ("x", "LoadBalancer", "<none>", "2.2.2.2,h,1.1.1.1", "<none>", "5m", "<none>"),
    ),
    (builtin.SERVICE, a(spec={"type": "LoadBalancer"}),
     ("x", "LoadBalancer", "<none>", "<pending>", "<none>", "5m", "<none>")),
    (builtin.CONFIG_MAP, a(data={"a": "1", "b": "2"}, binaryData={"c": ""}), ("x", 3, "5m")),
    (builtin.SECRET, a(type="Opaque", data={"a": ""}), ("x", "Opaque", 1, "5m")),
    (
        builtin.PERSISTENT_VOLUME,
        a(
            spec={
                "capacity": {"storage": "5Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "ns", "name": "c"},
                "storageClassName": "fast",
                "volumeMode": "Filesystem",
            },
            status={"phase": "Bound"},
        ),
        ("x", "5Gi", "RWO,RWX", "Retain", "Bound", "ns/c", "fast", "<unset>", "", "5m", "Filesystem"),
    ),
    (
        builtin.PERSISTENT_VOLUME_CLAIM,
        a(
            spec={"volumeName": "pv1", "storageClassName": "fast"},
            status={"phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOncePod"]},
        ),
        ("x", "Bound", "pv1", "5Gi", "RWOP", "fast", "<unset>", "5m", "<unset>"),
    ),
    (
        builtin.PERSISTENT_VOLUME_CLAIM,
        a(metadata={"deletionTimestamp": CREATED}, status={"phase": "Pending"}),
        ("x", "Terminating", "", "", "", "", "<unset>", "5m", "<unset>"),
    ),
    (
        builtin.EVENT,
        a(
            type="Warning", reason="BackOff", message=" Back-off\n", count=7,
            firstTimestamp="2025-01-31T11:00:00Z", lastTimestamp="2025-01-31T11:59:00Z",
            involvedObject={"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"},
            source={"component": "kubelet", "host": "n1"},
        ),
        ("60s", "Warning", "BackOff", "pod/p", "spec.containers{a}", "kubelet, n1", "Back-off", "60m", 7, "x"),
    ),
    (
        builtin.EVENT,
        a(
            type="Normal", reason="R", eventTime="2025-01-31T11:00:00.000000Z", reportingComponent="c",
            series={"count": 3, "lastObservedTime": "2025-01-31T11:59:50.000000Z"}, involvedObject={"kind": "Node"},
        ),
        ("10s", "Normal", "R", "node", "", "c", "", "60m", 3, "x"),
    ),
    (
        builtin.ROLE_BINDING,
        a(
            roleRef={"kind": "Role", "name": "r"},
            subjects=[
                {"kind": "User", "name": "u"},
                {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "namespace": "ns", "name": "s"},
            ],
        ),
        ("x", "Role/r", "5m", "u, v", "", "ns/s"),
    ),
    (builtin.PRIORITY_CLASS, a(value=10, preemptionPolicy="Never"), ("x", 10, "false", "5m", "Never")),
    (
        builtin.STORAGE_CLASS,
        a(metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, provisioner="p"),
        ("x (default)", "p", "Delete", "Immediate", "false", "5m"),
    ),
    (builtin.LEASE, a(spec={"holderIdentity": "me"}), ("x", "me", "5m")),
    (
        builtin.POD_GROUP,
        a(spec={"minMember": 4, "queue": "q"}, status={"phase": "Running", "running": 4}),
        ("x", "Running", 4, 4, "5m", "q"),
    ),
    (builtin.QUEUE, a(spec={"parent": "root"}), ("x", "root")),
    (builtin.PLUGIN_POD_GROUP, a(spec={"minMember": 2}), ("x", "", 2, "", "", "", "5m")),
    (builtin.ROLE, a(), ("x", CREATED)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "obj", "cells"), ROWS)
def test_rows(kind: Kind, obj: Object, cells: tuple[Any, ...]) -> None:
    assert build_table(kind, [obj], NOW, wide=True).rows[0].cells == cells


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}}


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({"completions": 3}, {"succeeded": 1, "startTime": "2025-01-31T11:58:00Z"}, ("Running", "1/3", "2m")),
        (
            {"completions": 3},
            {"succeeded": 3, "startTime": "2025-01-31T11:55:00Z", "completionTime": "2025-01-31T11:55:30Z",
             **done("Complete")},
            ("Complete", "3/3", "30s"),
        ),
        ({"parallelism": 2}, done("Failed"), ("Failed", "0/1 of 2", "")),
        ({"parallelism": 1}, done("Suspended"), ("Suspended", "0/1", "")),
        ({}, done("FailureTarget"), ("FailureTarget", "0/1", "")),
        ({}, done("SuccessCriteriaMet"), ("SuccessCriteriaMet", "0/1", "")),
    ],
)  # fmt: skip
def test_jobs(spec: Object, status: Object, cells: tuple[str, ...]) -> None:
    selector = {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d", "e"]},
            {"key": "f", "operator": "Exists"},
            {"key": "g", "operator": "DoesNotExist"},
        ],
    }
    job = a(spec={**spec, "template": TEMPLATE, "selector": selector}, status=status)
    assert build_table(builtin.JOB, [job], NOW, wide=True).rows[0].cells == (
        "x", *cells, "5m", "a,b", "i,j", "a=b,c in (d,e),f,!g",
    )  # fmt: skip


def test_a_job_on_its_way_out() -> None:
    job = a(metadata={"deletionTimestamp": CREATED}, spec={"template": TEMPLATE})
    assert build_table(builtin.JOB, [job], NOW).rows[0].cells[1] == "Terminating"
