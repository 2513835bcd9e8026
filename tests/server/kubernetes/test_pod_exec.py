from __future__ import annotations

import asyncio
import base64
from typing import Any

import aiohttp
import orjson
import pytest

from muster.kube.remote.exec_stream import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, V4, V5
from tests.server.kubernetes.served import Served

EXEC = "/api/v1/namespaces/default/pods/web/exec"


def words(*command: str, **query: str) -> list[tuple[str, str]]:
    return [*(("command", word) for word in command), *query.items()]


async def collect(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """Returns what arrived on every channel until the server closed the connection."""
    found: dict[int, bytes] = {}
    async with asyncio.timeout(20):
        async for message in socket:
            assert message.type is aiohttp.WSMsgType.BINARY, message
            found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


async def run(served: Served, *command: str, protocol: str = V5, **query: str) -> dict[int, bytes]:
    async with (
        served.session() as http,
        http.ws_connect(EXEC, params=words(*command, **query), protocols=[protocol]) as socket,
    ):
        assert socket.protocol == protocol
        return await collect(socket)


@pytest.mark.parametrize("protocol", [V5, V4])
async def test_output_and_exit_code_of_a_command(served: Served, protocol: str) -> None:
    found = await run(served, "sh", "-c", "echo out; echo err >&2; exit 3", protocol=protocol)
    assert (found[STDOUT], found[STDERR]) == (b"out\n", b"err\n")
    status = orjson.loads(found[ERROR])
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_success(served: Served) -> None:
    assert orjson.loads((await run(served, "true"))[ERROR])["status"] == "Success"


async def test_only_the_requested_streams_are_sent(served: Served) -> None:
    found = await run(served, "sh", "-c", "echo out; echo err >&2", stdout="true", stderr="false")
    assert found[STDOUT] == b"out\n" and STDERR not in found


async def test_large_output_is_complete(served: Served) -> None:
    assert len((await run(served, "head", "-c", "3000000", "/dev/zero"))[STDOUT]) == 3_000_000


async def test_input_and_its_end(served: Served) -> None:
    async with (
        served.session() as http,
        http.ws_connect(EXEC, params=words("cat", stdin="true"), protocols=[V5]) as socket,
    ):
        await socket.send_bytes(bytes((STDIN,)) + b"hello ")
        await socket.send_bytes(bytes((RESIZE,)) + b'{"Width":80,"Height":24}')
        await socket.send_bytes(bytes((RESIZE,)) + b"rubbish")
        await socket.send_bytes(b"")
        await socket.send_bytes(bytes((STDIN,)) + b"world")
        await socket.send_bytes(bytes((CLOSE, STDIN)))
        assert (await collect(socket))[STDOUT] == b"hello world"


async def test_base64_messages(served: Served) -> None:
    protocol = "v4.base64.channel.k8s.io"
    async with (
        served.session() as http,
        http.ws_connect(EXEC, params=words("head", "-c", "3", stdin="true"), protocols=[protocol]) as socket,
    ):
        await socket.send_str("0" + base64.b64encode(b"abc").decode())
        texts = [message.data async for message in socket]
    assert "1" + base64.b64encode(b"abc").decode() in texts
    assert orjson.loads(base64.b64decode(texts[-1][1:]))["status"] == "Success"


async def test_a_command_ends_when_the_client_disconnects(served: Served, tmp_path: Any) -> None:
    mark = tmp_path / "pid"
    async with served.session() as http:
        socket = await http.ws_connect(
            EXEC, params=words("sh", "-c", f"echo $$ > {mark}; exec sleep 1000"), protocols=[V5]
        )
        async with asyncio.timeout(20):
            while True:
                if mark.exists() and mark.read_text():
                    break
                await asyncio.sleep(0.005)
        await socket.close()
    pid = int(mark.read_text())
    async with asyncio.timeout(20):
        while True:
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    if stat.read().rpartition(")")[2].split()[0] == "Z":
                        return
            except (FileNotFoundError, ProcessLookupError):  # ended before the connection was open
                return
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("query", "protocols", "status"),
    [
        (words(), [V5], 400),
        (words("true", container="other"), [V5], 400),
        (words("true"), ["v9.channel.k8s.io"], 400),
    ],
)
async def test_errors_are_sent_before_the_socket_opens(
    served: Served, query: list[tuple[str, str]], protocols: list[str], status: int
) -> None:
    async with served.session() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(EXEC, params=query, protocols=protocols)
        assert refused.value.status == status


async def test_kubectl_gets_the_error_on_its_second_try(served: Served) -> None:
    """After a refused WebSocket, it tries SPDY and shows only the error of that."""
    query = words("true", container="other")
    async with served.session() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(EXEC, params=query, protocols=[V5])
        async with http.post(EXEC, params=query, headers={"Upgrade": "SPDY/3.1"}) as response:
            assert "container other is not valid" in await response.text()


async def test_exec_requires_permission(served: Served) -> None:
    for token, status in (("", 401), ("wrong", 401), (served.identity.tokens.issue("nobody"), 403)):
        async with served.session(token) as http:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect(EXEC, params=words("true"), protocols=[V5])
            assert refused.value.status == status


async def test_a_browser_sends_its_token_as_a_protocol(served: Served) -> None:
    encoded = base64.urlsafe_b64encode(served.token.encode()).rstrip(b"=").decode()
    protocols = [f"base64url.bearer.authorization.k8s.io.{encoded}", V5]
    async with (
        served.session("") as http,
        http.ws_connect(EXEC, params=words("echo", "hi"), protocols=protocols) as socket,
    ):
        assert socket.protocol == V5
        assert (await collect(socket))[STDOUT] == b"hi\n"


async def test_the_error_for_spdy_clients_names_an_alternative(served: Served) -> None:
    await served.cluster.create({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    })  # fmt: skip
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    async with served.session() as http:
        async with http.post(EXEC, params=words("true"), headers=headers) as response:
            assert "kubectl 1.31 or newer" in (await response.json())["message"]
        async with http.get(EXEC, params=words("true")) as response:
            assert "send an upgrade request" in (await response.json())["message"]


ATTACH = EXEC.replace("exec", "attach")


async def test_attach_connects_to_the_container(served: Served) -> None:
    query = {"stdin": "true", "container": "main"}
    async with (
        served.session() as http,
        http.ws_connect(ATTACH, params=query, protocols=[V5]) as socket,
    ):
        await socket.send_bytes(bytes((RESIZE,)) + b'{"Width": 80, "Height": 24}')
        await socket.send_bytes(bytes((STDIN,)) + b"typed\n")
        await socket.send_bytes(bytes((CLOSE, STDIN)))
        found = await collect(socket)
    assert found[STDOUT] == b"up\ntyped\n"
    assert orjson.loads(found[ERROR])["status"] == "Success"


@pytest.mark.parametrize(
    ("path", "query", "status", "message"),
    [
        (ATTACH.replace("web", "silent"), {"stdin": "true"}, 400, "has no standard input"),
        (ATTACH, {"container": "other"}, 400, "container other is not valid"),
        (ATTACH.replace("web", "none"), {}, 404, "not found"),
    ],
)
async def test_attach_refuses_what_it_cannot_do(
    served: Served, path: str, query: dict[str, str], status: int, message: str
) -> None:
    async with served.session() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(path, params=query, protocols=[V5])
        assert caught.value.status == status
        # kubectl tries again over SPDY, and shows that error.
        async with http.post(path, params=query, headers={"Upgrade": "SPDY/3.1"}) as response:
            assert message in (await response.json())["message"]


async def test_a_log_over_a_websocket(served: Served) -> None:
    for line in (b"one\n", b"two\n"):
        served.node.write("default", "talks", line)
    path = "/api/v1/namespaces/default/pods/talks/log"
    async with served.session() as http:
        async with http.ws_connect(path, protocols=["binary.k8s.io"]) as socket:
            assert b"".join([message.data async for message in socket]) == b"one\ntwo\n"
            assert socket.close_code == 1000
        async with http.ws_connect(path, params={"follow": "true"}, protocols=["binary.k8s.io"]) as socket:
            assert await socket.receive_bytes() == b"one\n"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(path.replace("talks", "none"), protocols=["binary.k8s.io"])
        assert refused.value.status == 404
