"""Problems in manifests, with their lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.kube.errors import Cause
from muster.kube.manifests import load_manifests
from muster.kube.pod_security import PodGrants
from muster.platform.jobs.validation import (
    Limits,
    check_documents,
    cluster_findings,
    secrets_in,
    templates_in,
    with_owner,
)

LIMITS = Limits("default", PodGrants(only_listed=True), frozenset({"vc-closed"}))

MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: one
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
            - name: pytorch
              image: x
"""
PADDLE = """\
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: two}
spec:
  worker:
    replicas: 1
    template:
      spec:
        hostPID: true
        containers: [{name: main, image: x, envFrom: [{secretRef: {name: key}}]}]
"""


def told(text: str, limits: Limits | None = LIMITS) -> list[tuple[int, str]]:
    return [(each.line, each.code) for each in check_documents(load_manifests(text, "x"), limits)]


@pytest.mark.parametrize(
    ("before", "after", "line", "code"),
    [
        ("kind: PyTorchJob", "kind: Job", 2, "job.kind"),
        ("name: one", "name: one\n  namespace: kube-system", 5, "job.namespace"),
        ("name: one", "name: one\n  labels: {muster.dev/team: x}", 5, "confined.label"),
        ("name: one", "name: one\n  annotations: {muster.dev/etcd: http://x}", 5, "job.etcd"),
        ("name: one", "name: one\n  ownerReferences: [{}]", 5, "confined.owner"),
        ("name: one", "name: one\n  labels: {scheduling.volcano.sh/queue-name: vc-closed}", 5, "job.queue"),
        ("spec:\n  py", "spec:\n  runPolicy:\n    schedulingPolicy:\n      queue: vc-closed\n  py", 8, "job.queue"),
        ("        spec:", "        metadata: {labels: {muster.dev/run: x}}\n        spec:", 9, "confined.label"),
        (
            "        spec:",
            "        metadata:\n          annotations:\n            scheduling.k8s.io/group-name: x\n        spec:",
            11,
            "job.group",
        ),
        ("          containers:", "          hostIPC: true\n          containers:", 10, "confined.host"),
    ],
)
def test_every_problem_has_a_line(before: str, after: str, line: int, code: str) -> None:
    assert told(MANIFEST) == []
    assert told(MANIFEST.replace(before, after, 1)) == [(line, code)]


def test_admins_only_cannot_set_the_owner() -> None:
    wild = MANIFEST.replace("          containers:", "          hostIPC: true\n          containers:")
    assert told(wild.replace("name: one", "name: one\n  namespace: other"), None) == []
    assert told(wild.replace("name: one", "name: one\n  labels: {muster.dev/owner: x}"), None) == [
        (5, "confined.label")
    ]


def test_a_text_without_objects_is_one_problem() -> None:
    assert told("# nothing\n") == [(0, "job.empty")]


def test_duplicate_names_are_reported_at_the_second() -> None:
    assert told(f"{MANIFEST}---\n{MANIFEST}") == [(17, "job.twice")]
    other = MANIFEST.replace("PyTorchJob", "JAXJob").replace("pytorch", "jax")
    assert told(f"{MANIFEST}---\n{other}") == []


def test_templates_are_found_in_every_kind() -> None:
    for text, path in ((MANIFEST, "spec.pytorchReplicaSpecs.Worker.template"), (PADDLE, "spec.worker.template")):
        (document,) = load_manifests(text, "x")
        assert [where for where, _ in templates_in(document.object)] == [path]
    assert told(PADDLE) == [(9, "confined.host"), (10, "confined.secret")]


@pytest.mark.parametrize("limits", [LIMITS, None], ids=["member", "admin"])
@pytest.mark.parametrize("value", ["x", 1, True, [[]], [{}], {"a": []}])
@pytest.mark.parametrize("place", ["spec", "spec.pytorchReplicaSpecs", "metadata.labels", "metadata.annotations"])
def test_values_of_any_type_are_left_to_the_schema(place: str, value: object, limits: Limits | None) -> None:
    """The cluster refuses them, after the platform has looked at them."""
    above, _, field = place.rpartition(".")
    obj: dict[str, Any] = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}, "spec": {}}
    (obj[above] if above else obj)[field] = value
    assert told(json.dumps(obj), limits) == []
    assert secrets_in(obj) == set()


def test_secrets_are_found_in_every_field() -> None:
    (document,) = load_manifests(PADDLE, "x")
    assert secrets_in(document.object) == {"key"}


def test_errors_of_the_cluster_have_lines_too() -> None:
    (document,) = load_manifests(MANIFEST, "x")
    (found,) = cluster_findings(
        document, [Cause("spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].image", "no")], ""
    )
    assert (found.line, found.message) == (12, "no")
    (found,) = cluster_findings(document, [], "it is there already", "metadata.name")
    assert (found.line, found.to_error().message) == (4, "line 4: it is there already")


def test_the_platform_sets_the_owner() -> None:
    (document,) = load_manifests(MANIFEST, "x")
    made = with_owner(document.object, "default", "ann", "vision")
    labels = {"muster.dev/owner": "ann", "muster.dev/team": "vision"}
    assert made["metadata"] == {"namespace": "default", "name": "one", "labels": labels}
    assert "labels" not in document.object["metadata"]
    assert with_owner(document.object, "default", "ann", "")["metadata"]["labels"] == {"muster.dev/owner": "ann"}
