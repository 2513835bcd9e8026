"""Attacks on the memory of the server."""

from __future__ import annotations

import asyncio
import gc
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.budgets import Budgets
from muster.kube.builtin import CONFIG_MAP, new_catalogue
from muster.kube.errors import ApiError, Forbidden
from muster.kube.objects import Object
from muster.kube.pod_security import ISOLATION_LABEL, RESTRICTED
from muster.platform.errors import BadRequestProblem, Problem
from muster.server.pipelines.app import parse_body
from muster.server.workers import WorkerPool
from tests.server.argo.served import serving

_LONG = "x" * 600_000


@asynccontextmanager
async def _no_garbage() -> AsyncIterator[None]:
    """Fails if errors of ours that were raised meanwhile stay in memory without a collection."""
    gc.collect()
    before = {id(each) for each in _errors()}
    gc.disable()
    try:
        yield
        async with asyncio.timeout(10):  # the request may still be ending
            while any(id(each) not in before for each in _errors()):  # noqa: ASYNC110 (nothing tells when)
                await asyncio.sleep(0.05)
    finally:
        gc.enable()


def _errors() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, (ApiError, Problem))]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(
            "/api/v1/namespaces/default/configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": _LONG, "b": _LONG}},
            id="A member sends objects that are too large, over and over; each stays in memory: Kubernetes API",
        ),
        pytest.param(
            "/api/v1/workflows/default",
            {"workflow": {"metadata": {"name": "a"}, "spec": {"entrypoint": "a", "x": _LONG}}},
            id="A member sends objects that are too large, over and over; each stays in memory: Argo API",
        ),
    ],
)
async def test_refused_objects_leave_no_garbage(path: str, body: Any, tmp_path: Path) -> None:
    headers = {"Content-Type": "application/json"}
    async with (
        WorkerPool(Budgets()) as workers,
        serving(tmp_path, workers=workers) as served,
        aiohttp.ClientSession(headers={**headers, "Authorization": f"Bearer {served.token}"}) as session,
    ):
        tls = served.certificates.client_context()
        async with _no_garbage():
            data = io.BytesIO(json.dumps(body).encode())
            async with session.post(served.url + path, data=data, ssl=tls) as response:
                assert response.status in (400, 413, 422)


async def test_refused_texts_leave_no_garbage() -> None:
    """A member sends pipelines that a worker refuses, over and over; each stays in memory"""
    async with WorkerPool(Budgets()) as workers, _no_garbage():
        with pytest.raises(BadRequestProblem):
            await workers.run("mallory", parse_body, {}, b"{" + _LONG.encode())


_RESTRICTED = {"metadata": {"name": "user-mallory", "labels": {ISOLATION_LABEL: RESTRICTED}}}


def _config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "user-mallory"},
            "data": data}  # fmt: skip


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        cluster.store.member_megabytes = 1
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", **_RESTRICTED})
        yield cluster


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"a": "x" * 400_000}, id="A member stores objects without end: large texts"),
        pytest.param(
            {f"k{n}": "" for n in range(4_000)}, id="A member stores objects without end: many tiny values in each"
        ),
    ],
)
async def test_objects_of_a_namespace_have_a_limit(cluster: EmbeddedCluster, data: dict[str, str]) -> None:
    created = 0
    with pytest.raises(
        Forbidden, match=r"take more than 1 MB of memory \(budgets.memberObjectMegabytes\); delete some"
    ):
        for created in range(50):
            await cluster.create(_config_map(f"a{created}", **data))
    assert 1 < created < 5
    await cluster.create({**_config_map("other"), "metadata": {"name": "other", "namespace": "default"}})
    for number in range(created):
        await cluster.delete(CONFIG_MAP, f"a{number}", "user-mallory")
    await cluster.create(_config_map("again"))


async def test_objects_are_weighed_after_a_restart(tmp_path: Path) -> None:
    """A member stores more than the limit allows after each restart of the server"""
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as first:
        await first.create({"apiVersion": "v1", "kind": "Namespace", **_RESTRICTED})
        for number in range(3):
            await first.create(_config_map(f"a{number}", a="x" * 400_000))
        weight = first.store.view.weight("user-mallory")
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as second:
        assert second.store.view.weight("user-mallory") == weight > 1_200_000
        second.store.member_megabytes = 1
        with pytest.raises(Forbidden, match="delete some"):
            await second.create(_config_map("b"))


async def test_objects_do_not_grow_beyond_the_limit(cluster: EmbeddedCluster) -> None:
    """A member stores many small objects, and lets them grow"""
    small = await cluster.create(_config_map("small", a="x"))
    for number in range(3):
        await cluster.create(_config_map(f"a{number}", a="x" * 400_000))
    with pytest.raises(Forbidden, match="delete some"):
        cluster.check_growth(small, {**small, "data": {"a": "x" * 1000}})
    cluster.check_growth(small, {**small, "data": {}})
