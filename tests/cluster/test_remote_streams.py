"""Watches, logs and commands through our client on a real API server; watches also on our own cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from muster.kube.builtin import CONFIG_MAP, POD
from muster.kube.cluster import Cluster, LogQuery, Process, WatchEvent
from muster.kube.errors import ApiError, BadRequest, NotFound
from muster.kube.objects import Object, name_of, version_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import load_kubeconfig
from tests.cluster.conftest import Needs
from tests.cluster.waiting import phase_of, until
from tools.cluster import images
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.smoke]

NAMESPACE = "trial"


def config_map(name: str, namespace: str = NAMESPACE, **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def take(events: Any, count: int) -> list[tuple[str, str]]:
    """Returns the type and name of the first events, without bookmarks and Kubernetes' own objects."""
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(30), aclosing(events):
        async for event in events:
            if event.type != "BOOKMARK" and name_of(event.object) != "kube-root-ca.crt":
                found.append((event.type, name_of(event.object)))
            if len(found) == count:
                break
    return found


async def test_a_watch_starts_with_the_existing_objects(either: Cluster) -> None:
    await either.create(config_map("a"))
    events = either.watch(CONFIG_MAP, NAMESPACE)
    taking = asyncio.create_task(take(events, 1))
    assert await taking == [("ADDED", "a")]


async def test_a_watch_continues_where_another_ended(either: Cluster) -> None:
    first = await either.create(config_map("a"))
    await either.create(config_map("b"))
    await either.patch(CONFIG_MAP, "a", NAMESPACE, {"data": {"x": "1"}})
    await either.delete(CONFIG_MAP, "b", NAMESPACE)
    expected = [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert await take(either.watch(CONFIG_MAP, NAMESPACE, resource_version=version_of(first)), 3) == expected
    listing = await either.list(CONFIG_MAP, NAMESPACE)
    await either.create(config_map("c"))
    later = either.watch(CONFIG_MAP, NAMESPACE, resource_version=listing.resource_version)
    assert await take(later, 1) == [("ADDED", "c")]


async def test_with_a_selector_changes_become_additions_and_deletions(either: Cluster) -> None:
    start = (await either.list(CONFIG_MAP, NAMESPACE)).resource_version
    await either.create(config_map("a", stage="no"))
    await either.patch(CONFIG_MAP, "a", NAMESPACE, {"metadata": {"labels": {"stage": "yes"}}})
    await either.patch(CONFIG_MAP, "a", NAMESPACE, {"metadata": {"labels": {"stage": "no"}}})
    watching = either.watch(CONFIG_MAP, NAMESPACE, labels="stage=yes", resource_version=start)
    assert await take(watching, 2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_every_event_has_the_kind_of_its_object(remote: RemoteCluster, namespace: str) -> None:
    await remote.create(config_map("a", namespace))
    events: Any = remote.watch(CONFIG_MAP, namespace, fields="metadata.name=a")
    async with asyncio.timeout(30), aclosing(events):
        event: WatchEvent = await anext(events)
    assert (event.object["apiVersion"], event.object["kind"]) == ("v1", "ConfigMap")


async def test_discovery_finds_custom_resources(needs: Needs, remote: RemoteCluster) -> None:
    needs("volcano")
    queue = await remote.find("queues.scheduling.volcano.sh")
    assert (queue.group, queue.kind, queue.namespaced) == ("scheduling.volcano.sh", "Queue", False)
    assert (await remote.version())["gitVersion"] == "v1.35.4"


async def test_the_servers_tables(remote: RemoteCluster, namespace: str) -> None:
    await remote.create(config_map("a", namespace))
    table = await remote.table(CONFIG_MAP, namespace)
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Data", "Age"]
    assert "a" in [row["cells"][0] for row in table["rows"]]


async def test_requests_without_valid_credentials_are_refused(real: RealCluster) -> None:
    access = load_kubeconfig(real.kubeconfig_of("kube-proxy"))
    async with RemoteCluster(access) as proxy:
        with pytest.raises(ApiError, match='User "system:kube-proxy" cannot list resource "configmaps"') as refused:
            await proxy.list(CONFIG_MAP)
    assert refused.value.code == 403


@pytest.fixture
async def talking(needs: Needs, remote: RemoteCluster, namespace: str) -> AsyncIterator[str]:
    """A Pod that prints a line, waits for a file, prints another line and ends."""
    needs("node")
    script = "echo one; echo warned >&2; until [ -e /tmp/go ]; do sleep 0.1; done; echo two"
    container = {"name": "main", "image": images.BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    metadata = {"name": "talking", "namespace": namespace}
    await remote.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await until(remote, POD, "talking", namespace, lambda pod: phase_of(pod) == "Running")
    yield namespace


async def said(process: Process) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async with asyncio.timeout(30):
        async for stream, data in process.output():
            found[stream] = found.get(stream, b"") + data
    return found


async def test_logs_are_followed_to_the_end(remote: RemoteCluster, talking: str) -> None:
    following: Any = remote.logs("talking", talking, LogQuery(follow=True, container="main"))
    heard = b""
    async with asyncio.timeout(30), aclosing(following):
        while b"one\n" not in heard or b"warned\n" not in heard:
            heard += await anext(following)
        process = await remote.exec("talking", talking, ["touch", "/tmp/go"])
        assert await said(process) == {} and await process.wait() == 0
        async for piece in following:
            heard += piece
    assert heard.endswith(b"two\n")
    last = [piece async for piece in remote.logs("talking", talking, LogQuery(tail_lines=1))]
    assert b"".join(last) == b"two\n"
    stamped = b"".join([piece async for piece in remote.logs("talking", talking, LogQuery(timestamps=True))])
    assert len(stamped.splitlines()) == 3 and b"Z one\n" in stamped


async def test_a_command_with_input(remote: RemoteCluster, talking: str) -> None:
    process = await remote.exec("talking", talking, ["sh", "-c", "cat; echo err >&2; exit 5"], stdin=True)
    await process.write(b"in")
    await process.write(b"")
    assert await said(process) == {1: b"in", 2: b"err\n"}
    assert await process.wait() == 5
    await process.close()


async def test_a_command_on_a_terminal(remote: RemoteCluster, talking: str) -> None:
    # The size takes another way to the terminal, and may arrive after the line.
    script = "read line; until stty size 2>/dev/null | grep -x '33 101'; do sleep 0.1; done"
    process = await remote.exec("talking", talking, ["sh", "-c", script], stdin=True, tty=True)
    await process.resize(33, 101)
    await process.write(b"go\n")
    output = (await said(process))[1]
    assert b"33 101" in output and await process.wait() == 0
    await process.close()


async def test_commands_that_cannot_run(remote: RemoteCluster, talking: str) -> None:
    with pytest.raises(BadRequest, match="container other is not valid"):
        await remote.exec("talking", talking, ["true"], container="other")
    with pytest.raises(NotFound):
        await remote.exec("nobody", talking, ["true"])
    process = await remote.exec("talking", talking, ["no-such-program"])
    await said(process)
    with pytest.raises(ApiError, match="no-such-program"):
        await process.wait()
    await process.close()


async def test_a_missing_log(remote: RemoteCluster, talking: str) -> None:
    with pytest.raises(NotFound):
        _ = [piece async for piece in remote.logs("nobody", talking)]
    with pytest.raises(BadRequest, match="container other is not valid"):
        _ = [piece async for piece in remote.logs("talking", talking, LogQuery(container="other"))]
