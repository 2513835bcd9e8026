"""`pods/proxy` and `services/proxy`: HTTP requests to a port of a Pod, through the API.

The rules are those of `port-forward`: a connection goes to the address of a running Pod, and before each one the kernel
is asked whose listener is there, because Pods share the machine's network. Credentials stay here. What a Pod returns is
shown in a sandbox, because a page behind `kubectl proxy` would otherwise have the origin of the API.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.endpoints import resolve_ports, select_pods
from muster.kube.builtin import POD, SERVICE
from muster.kube.errors import BadRequest, MethodNotAllowed, Unavailable
from muster.kube.objects import Object, is_condition_true, is_deleting, name_of, spec_of, status_of
from muster.server.kubernetes.request import ApiRequest, Target, pause, wait_for_loss_of_rights

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 300.0
_CHUNK = 64 * 1024
_PATH = re.compile(r"[\x21-\x7e]*")
_HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
})  # fmt: skip
_NOT_FORWARDED = _HOP_BY_HOP | {b"host", b"authorization", b"cookie", b"content-length", b"expect", b"forwarded"}
_NOT_RETURNED = _HOP_BY_HOP | {
    b"set-cookie", b"strict-transport-security", b"clear-site-data", b"alt-svc", b"www-authenticate", b"warning",
}  # fmt: skip
_SANDBOX = (b"content-security-policy", b"sandbox allow-forms allow-scripts")


class ProxyName(NamedTuple):
    """What a URL names: `web`, `web:8080`, `http:web:named-port`."""

    name: str
    port: str


def parse_name(text: str) -> ProxyName:
    parts = text.split(":")
    match parts:
        case [name]:
            return ProxyName(name, "")
        case [name, port]:
            return ProxyName(name, port)
        case ["http" | "", name, port]:
            return ProxyName(name, port)
        case ["https", _, _]:
            raise BadRequest(f'"{text}": the proxy speaks plain HTTP with Pods; use `kubectl port-forward` for HTTPS')
    raise BadRequest(f'"{text}" is not a name with a port: write NAME, NAME:PORT or http:NAME:PORT')


def pod_port(pod: Object, wanted: str) -> int:
    """Returns the number of a Pod's port; without `wanted`, its first one, or 80."""
    ports = [port for container in spec_of(pod).get("containers") or () for port in container.get("ports") or ()]
    if not wanted:
        return int(ports[0]["containerPort"]) if ports else 80
    if wanted.isascii() and wanted.isdecimal() and 0 < int(wanted) < 65536:
        return int(wanted)
    for port in ports:
        if port.get("name") == wanted:
            return int(port["containerPort"])
    raise BadRequest(f'the Pod "{name_of(pod)}" has no port "{wanted}"')


def service_backend(service: Object, pods: list[Object], wanted: str) -> tuple[Object, int]:
    """Returns a ready Pod behind a Service, and the number of the port there."""
    ports = spec_of(service).get("ports") or []
    chosen = [port for port in ports if not wanted or wanted in (port.get("name"), str(port["port"]))]
    if not chosen or (not wanted and len(ports) > 1):
        raise BadRequest(f'the Service "{name_of(service)}" has no port "{wanted}": name one of its ports')
    single = {**service, "spec": {**spec_of(service), "ports": chosen[:1]}}
    for pod in select_pods(service, pods):
        found = resolve_ports(single, pod)
        if found and not is_deleting(pod) and is_condition_true(status_of(pod).get("conditions") or [], "Ready"):
            return pod, found[0][2]
    raise Unavailable(f'no endpoints available for service "{name_of(service)}"')


async def proxy(cluster: EmbeddedCluster, request: ApiRequest, target: Target, protect: Callable[[str], None]) -> None:
    """Sends the request on, and the answer back. `protect` raises Forbidden for a Pod that the user may not enter."""
    if request.method not in METHODS:
        raise MethodNotAllowed(f"the proxy does not pass on {request.method}")
    if cluster.node is None:
        raise Unavailable("this cluster has no node agent yet, so no Pod can be reached")
    named = parse_name(target.name)
    pod, port = await _backend(cluster, target, named)
    protect(name_of(pod))
    with cluster.node.forward(name_of(pod), target.namespace) as address:
        await asyncio.to_thread(cluster.node.check_listener, name_of(pod), target.namespace, port)
        transfer = asyncio.create_task(_transfer(request, _url(request, target, address, port)))
        guard = asyncio.create_task(wait_for_loss_of_rights(request))
        try:
            await asyncio.wait((transfer, guard), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (transfer, guard):
                task.cancel()
            await asyncio.gather(transfer, guard, return_exceptions=True)
        if not transfer.cancelled():
            transfer.result()


async def _backend(cluster: EmbeddedCluster, target: Target, named: ProxyName) -> tuple[Object, int]:
    if target.plural == "pods":
        pod = await cluster.get(POD, named.name, target.namespace)
        return pod, pod_port(pod, named.port)
    service = await cluster.get(SERVICE, named.name, target.namespace)
    if not spec_of(service).get("selector"):
        raise BadRequest(f'the Service "{named.name}" has no selector, so there is no Pod behind it')
    return service_backend(service, (await cluster.list(POD, target.namespace)).items, named.port)


def _url(request: ApiRequest, target: Target, address: str, port: int) -> URL:
    """The path is passed on as it was sent, without decoding it."""
    raw = (request.scope.get("raw_path") or request.path.encode()).decode("latin-1").partition("?")[0]
    _, _, rest = raw.partition(f"/{target.plural}/")
    path = "/" + rest.partition("/proxy")[2].lstrip("/")
    query = request.scope["query_string"].decode("latin-1")
    if not _PATH.fullmatch(path) or not _PATH.fullmatch(query):
        raise BadRequest("the path has characters that a URL cannot have")
    return URL.build(scheme="http", host=address, port=port, path=path, query_string=query, encoded=True)


async def _transfer(request: ApiRequest, url: URL) -> None:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_IDLE_SECONDS)
    session = aiohttp.ClientSession(timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar())
    try:
        async with session:
            response = await session.request(
                request.method,
                url,
                headers=_request_headers(request),
                data=_body(request) if _has_body(request) else None,
                allow_redirects=False,
            )
            async with response:
                await _answer(request, response)
    except (aiohttp.ClientError, TimeoutError) as error:
        if request.started:
            raise ConnectionResetError(f"the Pod ended the connection: {error}") from None
        raise Unavailable(f"error trying to reach the Pod at port {url.port}: {error}") from None


def _has_body(request: ApiRequest) -> bool:
    return b"content-length" in request.headers or b"transfer-encoding" in request.headers


async def _body(request: ApiRequest) -> AsyncIterator[bytes]:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client disconnected before its request was complete")
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body"):
            return


def _request_headers(request: ApiRequest) -> CIMultiDict[str]:
    """Without what says who the user is."""
    return CIMultiDict(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in request.scope["headers"]
        if name not in _NOT_FORWARDED and not name.startswith((b"impersonate-", b"x-remote-"))
    )


async def _answer(request: ApiRequest, response: aiohttp.ClientResponse) -> None:
    headers = [(name.lower(), value) for name, value in response.raw_headers if name.lower() not in _NOT_RETURNED]
    headers = [(name, value) for name, value in headers if name != _SANDBOX[0]]
    request.started = True
    await request.send({
        "type": "http.response.start", "status": response.status, "headers": [*headers, _SANDBOX],
    })  # fmt: skip
    if request.method != "HEAD":
        async for piece in response.content.iter_chunked(_CHUNK):
            await request.send({"type": "http.response.body", "body": piece, "more_body": True})
            await pause(request)
    await request.send({"type": "http.response.body", "body": b""})
