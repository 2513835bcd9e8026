"""Services whose Pods listen on other ports than their clients use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from muster.embedded.node.service_proxy import MAX_SERVICES, Backend, ServiceAddresses, build_table, needs_proxy
from muster.kube.objects import Object
from tests.embedded.node.harness import Node


def service(*ports: Any, name: str = "web", **spec: Any) -> Object:
    listed = [{"port": port} if isinstance(port, int) else {"port": port[0], "targetPort": port[1]} for port in ports]
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "web"}, "ports": listed, **spec}}


@pytest.mark.parametrize(
    ("obj", "needed"),
    [
        (service(80), False),
        (service((80, 80)), False),
        (service((80, 8080)), True),
        (service((80, "http")), True),
        (service(443, (80, 8080)), True),
        (service((80, 8080), clusterIP="None"), False),
        (service((80, 8080), type="ExternalName"), False),
        (service((80, 8080), selector={}), False),
    ],
)
def test_only_services_that_change_a_port_need_a_proxy(obj: Object, needed: bool) -> None:
    assert needs_proxy(obj) is needed


@pytest.mark.parametrize(("port", "forwarded"), [(80, False), (1023, False), (1024, True)])
def test_members_cannot_take_the_machines_low_ports(port: int, forwarded: bool) -> None:
    told = list[str]()
    addresses = ServiceAddresses(lambda: "127.0.3.1", lambda _: None, lambda _, problem: told.append(problem))
    addresses.set_service(service(2000, (port, 8080)), restricted=True)
    assert bool(addresses.address_of(service())) is forwarded
    assert bool(told) is not forwarded
    addresses.set_service(service(2000, (port, 8080)), restricted=False)
    assert addresses.address_of(service())


def test_every_port_leads_to_the_pods_that_have_it() -> None:
    pods = [Backend("127.1.0.1", {"http": 8000}), Backend("127.1.0.2", {})]
    assert build_table([(service((80, 8080), (81, "http")), "127.0.2.1", pods)]) == {
        "127.0.2.1:80": ["127.1.0.1:8080", "127.1.0.2:8080"],
        "127.0.2.1:81": ["127.1.0.1:8000"],
    }


def test_a_namespace_cannot_take_all_addresses() -> None:
    free = iter(range(1000))
    addresses = ServiceAddresses(lambda: f"127.0.3.{next(free)}", lambda _: None, lambda *_: None)
    for number in range(MAX_SERVICES + 5):
        addresses.set_service(service((80, 8080), name=f"s{number}"))
    assert addresses.address_of(service(name="s0"))
    assert not addresses.address_of(service(name=f"s{MAX_SERVICES}")), "its name leads to its Pods"


@asynccontextmanager
async def echoing(host: str) -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(host.encode() + b" " + await reader.read())
        writer.close()

    async with await asyncio.start_server(echo, host, 0) as server:
        yield server.sockets[0].getsockname()[1]


async def ask(address: str, text: bytes) -> bytes:
    for _ in range(500):
        with suppress(ConnectionRefusedError):
            reader, writer = await asyncio.open_connection(*address.split(":"))
            writer.write(text)
            writer.write_eof()
            said = await reader.read()
            writer.close()
            return said
        await asyncio.sleep(0.02)
    raise AssertionError(f"nothing listens on {address}")


async def test_connections_go_to_the_pods_in_turn_and_past_those_that_have_ended() -> None:
    told = list[str]()
    addresses = ServiceAddresses(lambda: "127.0.3.1", lambda _: None, lambda _, problem: told.append(problem))
    addresses.set_service(service((18480, 80)))
    try:
        async with echoing("127.0.3.2") as one, echoing("127.0.3.3") as other:
            pods = [f"127.0.3.2:{one}", "127.0.3.9:1", f"127.0.3.3:{other}"]
            addresses.forward({"127.0.3.1:18480": pods})
            heard = {await ask("127.0.3.1:18480", b"hello") for _ in range(6)}
            assert heard == {b"127.0.3.2 hello", b"127.0.3.3 hello"}
            addresses.forward({"127.0.3.1:18481": pods, f"127.0.3.2:{one}": pods})
            assert b"hello" in await ask("127.0.3.1:18481", b"hello")
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.3.1", 18480)
    finally:
        await addresses.close()


async def test_a_pod_reaches_a_service_on_its_port(node: Node) -> None:
    await node.put(
        "Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 18480, "targetPort": "http"}]}
    )
    serve = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=18491)"
    ports = {"ports": [{"name": "http", "containerPort": 18491}]}
    await node.create("server", "python3", "-c", serve, container=ports, metadata={"labels": {"app": "web"}})
    await node.phase("server", "Running")
    fetch = (
        "import os, time, urllib.request as u\n"
        "assert os.environ['WEB_SERVICE_PORT'] == '18480'\n"
        "for _ in range(300):\n"
        "    try: print(u.urlopen('http://web:18480/').status); break\n"
        "    except OSError: time.sleep(0.1)\n"
    )
    assert await node.output("client", "python3", "-c", fetch) == "200\n"
