"""Where MLP Cooker's API is served besides the platform's port: to Pods as the Service `mlp-cooker-backend`, and at
`cooker.port`.

Pods of every namespace reach `http://mlp-cooker-backend:5002`, because templates of others call it so. The Service has
a loopback address of its own with the usual port, so that several servers on a machine do not get in each other's way.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from muster.embedded.node.hosts import WELL_KNOWN
from muster.kube.builtin import SERVICE
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, NotFound
from muster.kube.objects import Object, labels_of, spec_of
from muster.server.http_server import limits_from, open_listener, serve_http
from muster.server.settings import Settings

log = logging.getLogger(__name__)

NAME: Final = "mlp-cooker-backend"
NAMESPACE: Final = "kube-system"
PORT: Final = 5002
SERVICE_URL: Final = f"http://{NAME}:{PORT}"
_ADDRESSES: Final = [f"127.0.50.{number}" for number in range(2, 255)]
"""Below the addresses of Pods, which begin at 127.1.0.1."""


@asynccontextmanager
async def serve_cooker(
    settings: Settings, cluster: Cluster, app: ASGIApp, *, for_pods: bool = True
) -> AsyncIterator[None]:
    """Serves `app` for as long as the block lasts. `for_pods`: also at an address of this machine, for the Pods of the
    embedded cluster."""
    limits = limits_from(settings.budgets)

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)  # uvicorn takes a function, but no method

    async with AsyncExitStack() as stack:
        listener = None
        if for_pods:
            listener = stack.enter_context(open_service_listener(settings.home / "cooker-address"))
        if listener is not None:
            await stack.enter_async_context(serve_http(served, listener, limits))
            await ensure_service(cluster, listener.getsockname()[0])
        if settings.cooker.port:
            port = settings.cooker.port
            own = stack.enter_context(open_listener(settings.web.host, port, settings.home / "cooker-port"))
            await stack.enter_async_context(serve_http(served, own, limits))
        yield


@contextmanager
def open_service_listener(remembered: Path) -> Iterator[socket.socket | None]:
    """Listens on the address of the last time, so that running Pods still reach it; else on the first that is free.
    None if the machine has none."""
    last = [remembered.read_text().strip()] if remembered.exists() else []
    for address in [*(each for each in last if each in _ADDRESSES), *_ADDRESSES]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, PORT))
            listener.listen(socket.SOMAXCONN)
        except OSError:
            listener.close()
            continue
        with listener:
            remembered.write_text(address)
            yield listener
            return
    log.warning("%s cannot be served to Pods: no address in 127.0.50.0/24 has port %d free", NAME, PORT)
    yield None


async def ensure_service(cluster: Cluster, address: str) -> None:
    """Makes the Service lead to this address."""
    wanted = service_object(address)
    try:
        there = await cluster.get(SERVICE, NAME, NAMESPACE)
    except NotFound:
        there = None
    try:
        if there is None:
            await cluster.create(wanted)
        elif spec_of(there).get("clusterIP") != address or WELL_KNOWN not in labels_of(there):
            await cluster.delete(SERVICE, NAME, NAMESPACE)
            await cluster.create(wanted)
    except ApiError as error:
        log.warning("the Service %s cannot be created: %s", NAME, error)


def service_object(address: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {WELL_KNOWN: "true"}},
        "spec": {"clusterIP": address, "ports": [{"name": "http", "port": PORT, "protocol": "TCP"}]},
    }
