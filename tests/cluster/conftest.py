"""A real Kubernetes, started by `make cluster-up`. These tests run inside its network."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import GarbageCollector, NamespaceController
from muster.kube.builtin import CONFIG_MAP, JOB, NAMESPACE, POD, SERVICE_ACCOUNT, new_catalogue
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, name_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import load_kubeconfig
from tests.cluster.waiting import until
from tests.embedded.waiting import run_components
from tools.cluster.cluster import PARTS, other_versions
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.sources import Source

Needs = Callable[..., RealCluster]
OnDemand = Callable[..., RealCluster]


@pytest.fixture(scope="module")
def real() -> Iterator[RealCluster]:
    """The cluster; this process is in its network. MUSTER_CLUSTER names another cluster."""
    cluster = RealCluster(os.environ.get("MUSTER_CLUSTER", "muster"))
    if not cluster.is_up():
        pytest.fail("there is no cluster to test with: make cluster-up")
    with cluster.entered():
        yield cluster


@pytest.fixture(scope="module")
def needs(real: RealCluster) -> Needs:
    """`needs("kwok", "volcano")`: the cluster with these parts running."""

    def with_parts(*parts: str) -> RealCluster:
        for part in parts:
            ended = [name for name in PARTS[part].components if not real.pid(name)]
            # Another version of it does as well: the same tests run with it.
            if ended and not any(is_running(real, other) for other in other_versions(part)):
                pytest.fail(f"{', '.join(ended)} does not run: make cluster-up PARTS={part}")
        return real

    return with_parts


def is_running(real: RealCluster, part: str) -> bool:
    return all(real.pid(name) for name in PARTS[part].components)


def running_argo(real: RealCluster) -> tuple[str, Source]:
    """The component of the controller that runs, and its version."""
    part = next(PARTS[name] for name in ("argo", "argo-3.7") if is_running(real, name))
    return next(iter(part.components)), part.sources[0]


@pytest.fixture(scope="module")
def on_demand(needs: Needs, real: RealCluster) -> OnDemand:
    """`on_demand("kueue", "kwok")`: like `needs`, but skips the test if a part was not installed."""

    def with_parts(part: str, *others: str) -> RealCluster:
        if not any(real.pid(name) for name in PARTS[part].components):
            pytest.skip(f"{part} was not asked for: make cluster-up PARTS={part}")
        return needs(part, *others)

    return with_parts


@pytest.fixture
async def remote(real: RealCluster) -> AsyncIterator[RemoteCluster]:
    """Muster's client of the cluster."""
    async with RemoteCluster(load_kubeconfig(real.kubeconfig)) as cluster:
        yield cluster


@pytest.fixture
async def namespace(remote: RemoteCluster) -> AsyncIterator[str]:
    """A new namespace for the test, ready for Pods."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    await remote.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await until(remote, SERVICE_ACCOUNT, "default", name, lambda _: True)
    yield name
    await remote.delete(NAMESPACE, name)


@pytest.fixture(params=["real", "embedded"])
async def either(request: pytest.FixtureRequest, tmp_path: Path, real: RealCluster) -> AsyncIterator[Cluster]:
    """The real cluster through our client, and our own cluster: the same behaviour is expected of both. Each has a
    namespace "trial" with no ConfigMaps, Pods and Jobs but those of the test."""
    trial = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trial"}}
    if request.param == "embedded":
        async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as embedded:
            await embedded.create(trial)
            async with run_components(GarbageCollector(embedded), NamespaceController(embedded)):
                yield embedded
        return
    async with RemoteCluster(load_kubeconfig(real.kubeconfig)) as remote:
        # One namespace for all tests: a real cluster takes five seconds to remove one.
        with suppress(AlreadyExists):
            await remote.create(trial)
        await until(remote, SERVICE_ACCOUNT, "default", "trial", lambda _: True)
        await _empty(remote, "trial")
        yield remote


async def _empty(remote: RemoteCluster, namespace: str) -> None:
    async with asyncio.timeout(60):
        for kind in (JOB, POD, CONFIG_MAP):
            while found := await _is_from_test(remote, kind, namespace):
                for obj in found:
                    with suppress(NotFound):
                        if meta(obj).get("finalizers"):
                            await remote.patch(kind, name_of(obj), namespace, {"metadata": {"finalizers": None}})
                        await remote.delete(kind, name_of(obj), namespace, grace_seconds=0)


async def _is_from_test(remote: RemoteCluster, kind: Kind, namespace: str) -> list[Object]:
    """False for what Kubernetes itself puts into a namespace."""
    return [obj for obj in (await remote.list(kind, namespace)).items if name_of(obj) != "kube-root-ca.crt"]
