"""The client of API servers against our own API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import CONFIG_MAP, POD
from muster.kube.cluster import Cluster, LogQuery
from muster.kube.controller import Informer
from muster.kube.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Gone, NotFound, Unauthorized
from muster.kube.objects import meta, name_of, version_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import Access, Token, load_kubeconfig
from tests.server.kubernetes.served import Served, serving


@pytest.fixture
async def remote(served: Served) -> AsyncIterator[RemoteCluster]:
    async with RemoteCluster(load_kubeconfig(served.kubeconfig)) as cluster:
        yield cluster


def config_map(name: str = "conf", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"of": name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_it_implements_the_cluster_protocol(remote: RemoteCluster) -> None:
    cluster: Cluster = remote
    made = await cluster.create(config_map(a="1"))
    assert await cluster.get(CONFIG_MAP, "conf", "default") == made
    with pytest.raises(AlreadyExists):
        await cluster.create(config_map())
    changed = await cluster.update({**made, "data": {"a": "2"}})
    with pytest.raises(Conflict):
        await cluster.update({**made, "data": {"a": "3"}})
    patched = await cluster.patch(CONFIG_MAP, "conf", "default", {"data": {"b": "4"}})
    assert patched["data"] == {"a": "2", "b": "4"} and version_of(patched) != version_of(changed)
    applied = await cluster.patch(CONFIG_MAP, "new", "default", config_map("new", c="5"), type="apply")
    assert applied["data"] == {"c": "5"}
    assert [name_of(obj) for obj in (await cluster.list(CONFIG_MAP, labels="of=conf")).items] == ["conf"]
    last = await cluster.delete(CONFIG_MAP, "conf", "default")
    assert meta(last)["uid"] == meta(made)["uid"]
    with pytest.raises(NotFound, match='configmaps "conf" not found'):
        await cluster.get(CONFIG_MAP, "conf", "default")


async def test_errors_name_the_fields(remote: RemoteCluster) -> None:
    bad = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"nme": "main"}]}}
    with pytest.raises(BadRequest) as error:
        await remote.create(bad)
    assert "spec.containers[0].nme" in {cause.field for cause in error.value.causes}


async def test_an_informer_stays_current(served: Served, remote: RemoteCluster) -> None:
    seen = asyncio.Event()

    def changed(before: Any, after: Any) -> None:
        if before is not None and after is None:
            seen.set()

    await served.cluster.create(config_map("a"))
    async with Informer(remote, CONFIG_MAP, on_change=changed) as informer, asyncio.timeout(20):
        assert informer.get("default", "a") is not None
        await served.cluster.create(config_map("b"))
        await served.cluster.delete(CONFIG_MAP, "b", "default")
        await seen.wait()
        assert informer.get("default", "b") is None


async def test_a_watch_from_an_old_version_is_gone(tmp_path: Path) -> None:
    async with serving(tmp_path, history=4) as served, RemoteCluster(load_kubeconfig(served.kubeconfig)) as remote:
        oldest = version_of(await remote.create(config_map("a")))
        for number in range(20):
            await remote.create(config_map(f"b{number}"))
        with pytest.raises(Gone):
            _ = [event async for event in remote.watch(CONFIG_MAP, resource_version=oldest)]


async def test_logs(served: Served, remote: RemoteCluster) -> None:
    served.node.write("default", "web", b"one\n")
    assert b"".join([piece async for piece in remote.logs("web", "default")]) == b"one\n"
    with pytest.raises(NotFound):
        _ = [piece async for piece in remote.logs("nope", "default")]
    following = aiter(remote.logs("web", "default", LogQuery(follow=True, container="main", tail_lines=3)))
    async with asyncio.timeout(20):
        assert await anext(following) == b"one\n"
        served.node.write("default", "web", b"two\n")
        assert await anext(following) == b"two\n"
    assert (served.node.asked[-1].tail_lines, served.node.asked[-1].container) == (3, "main")


async def test_a_command(remote: RemoteCluster) -> None:
    process = await remote.exec("web", "default", ["sh", "-c", "cat; echo err >&2; exit 5"], stdin=True)
    await process.write(b"in")
    await process.resize(24, 80)
    await process.write(b"")
    found: dict[int, bytes] = {}
    async with asyncio.timeout(20):
        async for stream, data in process.output():
            found[stream] = found.get(stream, b"") + data
        assert await process.wait() == 5
    assert found == {1: b"in", 2: b"err\n"}
    await process.close()


async def test_a_command_that_cannot_run(remote: RemoteCluster) -> None:
    with pytest.raises(BadRequest, match="not valid"):
        await remote.exec("web", "default", ["true"], container="other")


async def test_a_cancelled_command_ends(remote: RemoteCluster) -> None:
    process = await remote.exec("web", "default", ["sleep", "1000"])
    await process.close()


async def test_tables(remote: RemoteCluster) -> None:
    await remote.create(config_map("a", x="1"))
    table = await remote.table(CONFIG_MAP, "default")
    assert table["kind"] == "Table" and table["rows"][0]["cells"][:2] == ["a", 1]
    async with asyncio.timeout(20):
        async for event in remote.watch_table(CONFIG_MAP, "default"):
            assert event.object["rows"][0]["cells"][0] == "a"
            break


async def test_kinds_from_discovery(remote: RemoteCluster) -> None:
    assert await remote.find("po") is POD
    assert (await remote.find("sa")).kind == "ServiceAccount"
    assert (await remote.version())["major"] == "1"
    with pytest.raises(NotFound):
        await remote.find("widgets")


async def test_warnings_are_reported(served: Served) -> None:
    heard: list[str] = []
    access = load_kubeconfig(served.kubeconfig)
    async with RemoteCluster(access, on_warning=heard.append, field_validation="Warn") as remote:
        await remote.create({**config_map(), "extra": 1})
    assert heard == ['unknown field "extra"']


async def test_requests_without_credentials_are_refused(served: Served) -> None:
    authority = served.certificates.authority_pem()
    async with RemoteCluster(Access(served.url, authority=authority)) as nobody:
        with pytest.raises(Unauthorized):
            await nobody.list(POD)
    weak = Token(served.identity.tokens.issue("weak"))
    async with RemoteCluster(Access(served.url, authority=authority, credentials=weak)) as guest:
        with pytest.raises(Forbidden):
            await guest.list(POD)
