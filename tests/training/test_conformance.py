"""Manifests of other projects are accepted and wired unchanged. Skipped if the folder is missing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import new_catalogue
from muster.kube.cluster import Endpoint
from muster.kube.manifests import load_manifest_files
from muster.kube.objects import Object, name_of
from muster.kube.schema_validation import validate
from muster.training.children import build_replica_pod
from muster.training.model import replica_name
from muster.training.registry import JOB_KINDS, training_kinds
from tests.training.sample_jobs import cluster_addresses, loopback_addresses

ROOT = Path(os.environ.get("MUSTER_CONFORMANCE") or Path(__file__).parents[3] / "shared" / "conformance")
FILES = sorted(file for folder in ("training-operator", "paddlecloud") for file in (ROOT / folder).rglob("*.yaml"))

GOLDEN = Path(__file__).parent / "conformance.json"

REFUSED = {"training-operator/tensorflow/distribution_strategy/pvc.yaml": "spec.storageClassName"}
"""Files with a placeholder that Kubernetes itself rejects, and the field at fault."""


def objects(file: Path) -> list[Object]:
    return [document.object for document in load_manifest_files([file])]


@pytest.mark.skipif(not FILES, reason="the conformance manifests are not here (set MUSTER_CONFORMANCE)")
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_is_accepted_and_every_replica_can_be_made(file: Path) -> None:
    catalogue = new_catalogue()
    for kind in training_kinds():
        catalogue.register(kind)
    job_kinds = {(d.kind.api_version, d.kind.kind): d for d in JOB_KINDS}
    for obj in objects(file):
        kind = catalogue.of_object(obj)
        causes = [*validate(obj, kind.schema), *(kind.validate(obj, None) if kind.validate else [])]
        refused = REFUSED.get(str(file.relative_to(ROOT)))
        assert [cause.field for cause in causes] == ([refused] if refused else [])
        job_kind = job_kinds.get((kind.api_version, kind.kind))
        if job_kind is None:
            continue
        job = job_kind.read({**obj, "metadata": {"namespace": "default", "uid": "u", **obj["metadata"]}})
        addresses = loopback_addresses(job)
        extra = {name: addresses[next(job.replicas())] for name in job_kind.extra_ports(job)}
        pods = [build_replica_pod(job_kind, job, replica, {**addresses, **extra}) for replica in job.replicas()]
        assert len({name_of(pod) for pod in pods}) == job.size > 0
        for pod in pods:
            assert validate(pod, catalogue.of("v1", "Pod").schema) == []


@pytest.mark.skipif(not FILES, reason="the conformance manifests are not here (set MUSTER_CONFORMANCE)")
def test_the_environment_of_every_replica_is_unchanged() -> None:
    """On a cluster with DNS. Read a difference before you accept it: MUSTER_ACCEPT=1 rewrites the file."""
    told = {str(file.relative_to(ROOT)): wirings(file) for file in FILES}
    if os.environ.get("MUSTER_ACCEPT"):
        GOLDEN.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    expected = json.loads(GOLDEN.read_text())
    for file in sorted(told.keys() | expected.keys()):
        assert told.get(file) == expected.get(file), file


def wirings(file: Path) -> dict[str, Any]:
    job_kinds = {(kind.api_version, kind.kind): d for d in JOB_KINDS for kind in (d.kind, *d.other_versions)}
    found: dict[str, Any] = {}
    for obj in objects(file):
        job_kind = job_kinds.get((obj["apiVersion"], obj["kind"]))
        if job_kind is None:
            continue
        job = job_kind.read({**obj, "metadata": {"namespace": "default", "uid": "u", **obj["metadata"]}})
        addresses = cluster_addresses(job_kind, job)
        extra = {
            name: Endpoint(replica_name(job, replica), port)
            for name, (replica, port) in job_kind.extra_ports(job).items()
        }
        found |= {
            replica_name(job, replica): dict(job_kind.wiring(job, replica, {**addresses, **extra}).env)
            for replica in job.replicas()
        }
    return found
