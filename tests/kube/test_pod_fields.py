"""Every field of a Pod is harmless, checked or refused by the policy of restricted namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube import pod_fields
from muster.kube.builtin import PERSISTENT_VOLUME_CLAIM, POD_SPEC_SCHEMA
from muster.kube.pod_fields import find_pod_violations, find_spec_violations
from muster.kube.pod_security import PodGrants, grants_for, read_grants

_POD: Any = POD_SPEC_SCHEMA["properties"]
_CONTAINER: Any = _POD["containers"]["items"]["properties"]
_VOLUME: Any = _POD["volumes"]["items"]["properties"]
_PROBE: Any = _CONTAINER["livenessProbe"]["properties"]
_HOOK: Any = _CONTAINER["lifecycle"]["properties"]["preStop"]["properties"]
_ENV: Any = _CONTAINER["env"]["items"]["properties"]["valueFrom"]["properties"]


@pytest.mark.parametrize(
    ("upstream", "known"),
    [
        pytest.param(_POD, pod_fields.POD_FIELDS, id="Pod"),
        pytest.param(_CONTAINER, pod_fields.CONTAINER_FIELDS, id="container"),
        pytest.param(
            _POD["ephemeralContainers"]["items"]["properties"], pod_fields.CONTAINER_FIELDS, id="ephemeral container"
        ),
        pytest.param(_VOLUME, pod_fields.VOLUME_FIELDS, id="volume"),
        pytest.param(
            _VOLUME["projected"]["properties"]["sources"]["items"]["properties"],
            pod_fields.PROJECTED_FIELDS,
            id="projected volume",
        ),
        pytest.param(_CONTAINER["volumeMounts"]["items"]["properties"], pod_fields.MOUNT_FIELDS, id="volume mount"),
        pytest.param(_CONTAINER["ports"]["items"]["properties"], pod_fields.PORT_FIELDS, id="port"),
        pytest.param(_PROBE, pod_fields.PROBE_FIELDS, id="probe"),
        pytest.param(_HOOK, pod_fields.HOOK_FIELDS, id="lifecycle hook"),
        pytest.param(
            _POD["securityContext"]["properties"], pod_fields.POD_SECURITY_FIELDS, id="security context of a Pod"
        ),
        pytest.param(
            _CONTAINER["securityContext"]["properties"],
            pod_fields.CONTAINER_SECURITY_FIELDS,
            id="security context of a container",
        ),
        pytest.param(
            PERSISTENT_VOLUME_CLAIM.schema["properties"]["spec"]["properties"], pod_fields.CLAIM_FIELDS, id="claim"
        ),
    ],
)
def test_the_policy_knows_every_field_of_kubernetes(upstream: Any, known: Any) -> None:
    """A new field of Kubernetes is refused until the policy decides about it; this test says which."""
    assert set(upstream) <= set(known)


def test_sources_of_variables_are_known_or_refused() -> None:
    assert set(_ENV) - set(pod_fields.ENV_SOURCES) == {"fileKeyRef"}
    found = find_spec_violations(
        {"containers": [{"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"path": "x"}}}]}]}, "spec", PodGrants()
    )
    assert [each.field for each in found] == ["spec.containers[0].env[0].valueFrom.fileKeyRef"]


def test_a_field_that_the_policy_does_not_know_is_refused() -> None:
    (found,) = find_spec_violations({"newHostThing": True}, "spec", PodGrants())
    assert str(found) == "spec.newHostThing: newHostThing is not known to the policy of this namespace; leave it out"


def test_a_usual_pod_is_fine() -> None:
    spec = {
        "restartPolicy": "Never",
        "securityContext": {},
        "containers": [
            {
                "name": "main",
                "image": "python:3.12",
                "command": ["python"],
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "a"}}}],
                "volumeMounts": [
                    {"name": "scratch", "mountPath": "/scratch"},
                    {"name": "shm", "mountPath": "/dev/shm"},
                    {"name": "data", "mountPath": "/data", "subPath": "mine"},
                ],
                "livenessProbe": {"httpGet": {"port": 80, "path": "/"}},
                "ports": [{"containerPort": 80}],
            }
        ],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": "data", "hostPath": {"path": "/data"}},
        ],
    }
    metadata = {
        "name": "a",
        "annotations": {"muster.dev/keep-files": '{"main": ["/tmp/out"]}', "muster.dev/stop": "30", "note": "x"},
        "labels": {"app": "x"},
    }
    assert find_pod_violations({"metadata": metadata, "spec": spec}, PodGrants(paths={"/data": False})) == []


def test_the_grants_of_a_namespace_survive_the_annotation() -> None:
    grants = PodGrants(paths={"/data": True}, claims={"shared": True}, queues=frozenset({"vc-1"}))
    namespace = {"metadata": {"name": "a", "annotations": {"muster.dev/grants": grants.to_annotation()}}}
    assert read_grants(namespace) == grants


@pytest.mark.parametrize("text", ["", "{", "[]", '{"paths": 1}', '{"queues": 1}', "null"])
def test_an_annotation_that_cannot_be_read_grants_nothing(text: str) -> None:
    namespace = {"metadata": {"name": "a", "annotations": {"muster.dev/grants": text}}}
    grants = read_grants(namespace)
    assert (dict(grants.paths), dict(grants.claims), grants.queues) == ({}, {}, frozenset())


def test_a_pod_may_use_what_its_run_and_its_controller_give_it() -> None:
    namespace = {"metadata": {"name": "a"}}
    grants = grants_for(namespace, run="1", read_only=["/code"], staged="/inputs/a/pod", account="mpi-launcher")
    assert grants.paths == {"/code": True, "/inputs/a/pod": False}
    assert grants.accounts == {"", "default", "mpi-launcher"}
