"""Kubeflow's own end-to-end tests of its operator, run against ours: their client, their jobs, their assertions.

Their images are not available here. Images with the real frameworks and the programs of our examples replace them.
These train together for a few seconds and fail unless every replica ends with the same model.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from muster.kube.objects import meta, name_of, spec_of
from muster.operator import install_manifests as manifests
from muster.operator.install_manifests import InstallOptions
from tests.cluster import kubeflow
from tests.cluster.admission import LOCAL_IMAGES, local_images, poll, with_cpu_capacity
from tests.cluster.conftest import Needs
from tests.cluster.kubeflow import Run
from tests.cluster.operating import operating, without_the_peer
from tools.cluster import images, network
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.framework_images import framework_image
from tools.cluster.kubectl import KubectlFailed
from tools.cluster.layout import NODE_ADDRESS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
WEBHOOK_PORT = 9443
FRAMEWORKS = {
    "pytorchjob": "pytorch",
    "tfjob": "tensorflow",
    "mpijob": "mpi",
    "xgboostjob": "xgboost",
    "paddlejob": "paddle",
    "jaxjob": "jax",
}
# torch 1.13, which Debian has, needs the last two under torchrun.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PET_REDIRECTS": "1", "PET_TEE": "1"}


@pytest.fixture(scope="module")
def prepared(needs: Needs) -> Iterator[RealCluster]:
    """The cluster with the images that their tests name, and with room for six jobs at once."""
    cluster = needs("node", "volcano")
    for kind in kubeflow.KINDS:
        for image in trainers(kind):
            cluster.load(image)
    with without_the_peer(cluster), local_images(cluster), with_cpu_capacity(cluster, 16, "64Gi"):
        yield cluster


@pytest.fixture(scope="module", params=["none", "volcano"])
def gang(request: pytest.FixtureRequest, prepared: RealCluster) -> Iterator[str]:
    """Our operator with its webhook, for this gang scheduler."""
    name = str(request.param)
    with asked(prepared), operating(prepared, f"--gang-scheduler-name={name}", f"--webhook-port={WEBHOOK_PORT}"):
        poll(lambda: refuses(prepared), "wrong jobs are accepted")
        yield name


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, prepared: RealCluster, gang: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Run]]:
    """Starts the tests of all kinds at once: they mostly wait, as they check a job every fifteen seconds."""
    notes = tmp_path_factory.mktemp(gang)
    asked = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    kinds = [call.params["kind"] for call in asked if call and call.params["gang"] == gang]
    names = {kind: f"{kind}-{gang}-{uuid.uuid4().hex[:6]}" for kind in kinds}
    metadata = [{"name": name, "labels": LOCAL_IMAGES} for name in names.values()]
    prepared.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": each} for each in metadata))
    for name in names.values():
        prepared.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={name}", "--timeout=60s")
    within = network.inside(prepared.layout, [])
    begun = {kind: Run(prepared.kubeconfig, kind, name, gang, notes, within) for kind, name in names.items()}
    yield begun
    for run in begun.values():
        run.end()
    prepared.kubectl("delete", "namespace", "--wait=false", *names.values())


@pytest.mark.parametrize("kind", kubeflow.KINDS)
def test_they_pass(runs: dict[str, Run], kind: str, gang: str) -> None:
    outcome = runs[kind].outcome(600)
    passing, skipping = kubeflow.expected(kind, gang)
    assert (outcome.passed, outcome.skipped, outcome.failed) == (passing, skipping, frozenset()), outcome.said


def trainers(kind: str) -> list[images.Image]:
    """Builds images with the names in their tests: the framework, with our example at the path of theirs."""
    names = kubeflow.images_of(kind)
    greeting = [name for name in names if name.endswith("hello-world")]
    training = [name for name in names if name not in greeting]
    framework = FRAMEWORKS[kind]
    program = ROOT / "examples" / "training" / framework / "train.py"
    files = dict.fromkeys(("/train.py", *kubeflow.scripts_of(kind)), program)
    image = framework_image(framework, *training, files=files)
    environment = {**image.environment, **ENVIRONMENT}
    image = replace(image, entrypoint=("python3", "/train.py"), environment=environment)
    return [image, *(replace(images.busybox(), name=name, command=("echo", "hello")) for name in greeting)]


def refuses(cluster: RealCluster) -> bool:
    """True if an invalid job is rejected. It takes a moment until the API server calls the webhook."""
    wrong = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "wrong", "namespace": "default"},
        "spec": {"pytorchReplicaSpecs": {}},
    }
    try:
        cluster.kubectl("create", "--dry-run=server", "--filename=-", given=json.dumps(wrong))
    except KubectlFailed as error:
        assert "at least one role" in str(error), error
        return True
    return False


@contextmanager
def asked(cluster: RealCluster) -> Iterator[None]:
    """Lets API servers reach the operator's webhook, although it does not run in a Pod."""
    options = InstallOptions(namespace="default")
    service = manifests.service(options)
    (port,) = (port for port in spec_of(service)["ports"] if port["name"] == "webhook")
    webhook = manifests.webhook(options)
    objects = [
        manifests.secret(options),
        {**service, "spec": {"ports": [{**port, "targetPort": WEBHOOK_PORT}]}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**meta(service), "labels": {"kubernetes.io/service-name": name_of(service)}},
            "addressType": "IPv4",
            "ports": [{"name": "webhook", "port": WEBHOOK_PORT}],
            "endpoints": [{"addresses": [NODE_ADDRESS]}],
        },
        webhook,
    ]
    cluster.apply(*objects)
    try:
        yield
    finally:
        for obj in reversed(objects):
            cluster.kubectl("delete", obj["kind"], name_of(obj), "--namespace=default", "--ignore-not-found")
