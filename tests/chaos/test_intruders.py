"""Without a token, the server reveals only that it runs. Garbage on the port does no harm."""

from __future__ import annotations

import random
import socket
import ssl
from urllib.parse import urlsplit

import aiohttp
import orjson
import pytest

from muster.kube.builtin import CONFIG_MAP
from muster.kube.errors import ApiError, Unauthorized
from muster.kube.objects import name_of
from muster.kube.remote.client import RemoteCluster
from tests.chaos.real_server import RealServer
from tests.chaos.simple_objects import config_map

# aiohttp leaves the sockets of refused TLS requests to the garbage collector, which may close them during a later test.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

HEALTH = ("/healthz", "/livez", "/readyz", "/version")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


async def test_garbage_on_the_port(shared_server: RealServer) -> None:
    async with shared_server.client() as cluster:
        address = urlsplit(cluster.access.server)
    assert address.hostname is not None and address.port is not None
    where = (address.hostname, address.port)
    noise = random.Random(5)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    lingering = []
    for number in range(40):
        plain = socket.create_connection(where)
        if number % 4 == 0:
            plain.sendall(noise.randbytes(3000))
        elif number % 4 == 1:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        elif number % 4 == 2:
            lingering.append(plain)  # sends nothing for as long as the test lasts
            continue
        else:
            with context.wrap_socket(plain) as secure:
                secure.sendall(
                    noise.choice([noise.randbytes(3000), b"GET / HTTP/1.1\r\n", b"POST /api HTTP/9\r\n\r\n"])
                )
        plain.close()
    async with shared_server.client() as cluster:
        assert name_of(await cluster.create(config_map("after", "the noise"))) == "after"
    assert "Traceback" not in shared_server.log()
    for plain in lingering:
        plain.close()


@pytest.mark.parametrize("token", ["", "muster_wrong", "a.b.c", "x" * 5000], ids=["none", "wrong", "parts", "long"])
async def test_the_command_reports_that_access_is_denied(shared_server: RealServer, token: str) -> None:
    async with shared_server.client(token) as cluster:
        with pytest.raises(Unauthorized):
            await cluster.get(CONFIG_MAP, "kube-root-ca.crt", "default")
    done = shared_server.muster("get", "configmaps", "--kubeconfig", str(shared_server.home / "other-kubeconfig"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "Unauthorized" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "authorization", ["", "Bearer muster_wrong", "Basic YWRtaW46YWRtaW4=", "Bearer", "muster-admin"]
)
async def test_without_a_token_only_health_and_version_are_answered(
    shared_server: RealServer, authorization: str
) -> None:
    async with shared_server.client() as cluster:
        known = await everything(cluster)
        root = cluster.access.server
        trust = ssl.create_default_context(cadata=cluster.access.authority.decode())
    assert len(known) > 100
    headers = {"Authorization": authorization} if authorization else {}
    asked = [("GET", path) for path in (*HEALTH, "/", "/metrics", "/logs", "/debug/pprof", "/nothing/there")]
    asked += [(method, path) for path in known for method in (METHODS if "/default/" in path else ("GET",))]
    answered = {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust), headers=headers) as session:
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        where = f"{root}/api/v1/namespaces/default/pods/x/exec?command=id"
        async with session.get(where, headers={**upgrade, **key}) as response:
            assert response.status == 401
        for method, path in asked:
            async with session.request(method, root + path, json={} if method != "GET" else None) as response:
                answered[method, path] = response.status
    assert {path for (_, path), status in answered.items() if status == 200} == set(HEALTH)
    assert {status for (_, path), status in answered.items() if path not in HEALTH} == {401}
    assert "Traceback" not in shared_server.log()


async def everything(cluster: RemoteCluster) -> list[str]:
    """Every path in discovery, with an object of every kind and all subresources."""
    paths = [path for path in orjson.loads(await cluster.raw("/"))["paths"] if path not in HEALTH]
    found = []
    for path in paths:
        try:
            answer = orjson.loads(await cluster.raw(path))
        except ApiError:
            continue
        found.append(path)
        for resource in answer.get("resources", ()):
            plural, _, below = resource["name"].partition("/")
            scope = f"{path}/namespaces/default/{plural}" if resource["namespaced"] else f"{path}/{plural}"
            found += [scope, f"{scope}/x"] if not below else [f"{scope}/x/{below}"]
    return found
