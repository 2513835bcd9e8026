"""Commands in Pods over a WebSocket: in one that runs, or in one that has failed and whose files are kept. The rules
are those of `muster exec -it`.

A browser gets a shell in a terminal. Binary messages are what the user types and what the terminal shows. Text messages
are JSON: `{"rows": 24, "columns": 80}` from the browser, `{"exit": 0}` or `{"error": "..."}` as the last message of the
server. A client that offers the protocol `v5.channel.k8s.io` gets the channels of the Kubernetes API instead, and may
choose the `command` and whether it has a terminal (`tty`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from fastapi import FastAPI, Request
from sqlalchemy.exc import DBAPIError
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from muster.kube.builtin import POD
from muster.kube.cluster import Process
from muster.kube.errors import ApiError, BadRequest
from muster.kube.objects import status_of, uid_of
from muster.kube.pod_security import belongs_to_run
from muster.kube.remote.exec_stream import ERROR, MOST_CELLS, V5, encode_frame, exit_status_of, pass_input
from muster.platform.errors import ConflictProblem, ForbiddenProblem, NotFoundProblem, Problem
from muster.platform.permissions import Actor, may_at_all, require
from muster.platform.records.common import Subject
from muster.platform.runs.runs import get_run, run_id_of
from muster.platform.users.audit import write_audit
from muster.server.platform.problems import problem_of, problem_response
from muster.server.platform.security import identify
from muster.server.platform.services import Services, services_of
from muster.server.platform.streams import RECHECK_SECONDS, StreamAccess
from muster.server.proxy.directory import namespace_owner
from muster.server.proxy.origins import is_own_page

log = logging.getLogger(__name__)

PATH: Final = "/api/v1/pods/{namespace}/{pod}/terminal"
SHELL: Final = ("/bin/sh", "-c", "export TERM=xterm-256color; command -v bash >/dev/null && exec bash || exec sh")
_POLICY_VIOLATION = 1008


def add_terminals(app: FastAPI) -> None:
    app.router.routes.append(WebSocketRoute(PATH, open_terminal))


async def open_terminal(socket: WebSocket) -> None:
    """A refusal is an HTTP response, before the WebSocket is accepted."""
    request = Request({**socket.scope, "type": "http", "method": "GET"})
    try:
        here, who = services_of(request), await _identify(request)
        namespace, pod = socket.path_params["namespace"], socket.path_params["pod"]
        query, has_channels = request.query_params, V5 in socket.scope.get("subprotocols", ())
        run, phase = await _check(here, who, namespace, pod)
        with here.streams.count(who.id):
            try:
                process = await here.cluster.exec(
                    pod,
                    namespace,
                    (has_channels and query.getlist("command")) or SHELL,
                    container=query.get("container", "")[:253],
                    stdin=True,
                    tty=not has_channels or query.get("tty") == "true",
                )
            except BadRequest as error:
                if phase == "Failed" and "completed pod" in error.message:  # Kubernetes' words
                    raise ConflictProblem.of("pod.not-kept", pod=pod) from None
                raise
            await _serve(socket, request, process, here, who, namespace, pod, run, has_channels)
    except (Problem, ApiError, DBAPIError) as error:
        problem = ConflictProblem(error.message) if isinstance(error, ApiError) else problem_of(error, PATH)
        with contextlib.suppress(RuntimeError):  # it was accepted meanwhile
            await socket.send_denial_response(problem_response(problem))


async def _identify(request: Request) -> Actor:
    headers = dict(request.headers)
    own_hosts = (headers.get("host", ""), urlsplit(services_of(request).url).netloc)
    if "authorization" not in headers and not any(is_own_page("GET", headers, h, websocket=True) for h in own_hosts):
        raise ForbiddenProblem.of("request.site")
    who = await identify(request)
    decision = may_at_all(who, "pod", "exec")
    if not decision:
        assert decision.error is not None
        raise ForbiddenProblem.from_error(decision.error)
    return who


async def _check(here: Services, who: Actor, namespace: str, pod: str) -> tuple[str, str]:
    """Returns the run that the Pod belongs to, or '', and the Pod's phase. Raises NotFound, Forbidden or Conflict.
    The names of Pods in other namespaces stay hidden."""
    owner = namespace_owner(namespace, here.namespaces.owner_of)
    require(who, "exec", Subject("pod", f"{namespace}/{pod}", owner=owner.user, team=owner.team), pod)
    try:
        found = await here.cluster.get(POD, pod, namespace)
    except ApiError:
        raise NotFoundProblem.named("Pod", f"{namespace}/{pod}") from None
    run = run_id_of(found) if belongs_to_run(found) else ""
    await _check_run(here, who, run)
    phase = str(status_of(found).get("phase") or "Pending")
    if phase not in ("Running", "Failed"):
        raise ConflictProblem.of("pod.not-running", pod=pod, phase=phase)
    await here.database.write(
        lambda connection: write_audit(connection, who, "exec", "pod", uid_of(found), f"{namespace}/{pod}")
    )
    return run, phase


async def _check_run(here: Services, who: Actor, run: str) -> None:
    """A Pod of a run holds the token of the run, which acts for its owner, so sharing the namespace is not enough."""
    if run:
        await here.database.read(lambda connection: get_run(connection, who, run, "exec"))


async def _serve(
    socket: WebSocket,
    request: Request,
    process: Process,
    here: Services,
    who: Actor,
    namespace: str,
    pod: str,
    run: str,
    has_channels: bool,
) -> None:
    owner = here.namespaces.owner_of
    subject = namespace_owner(namespace, owner)

    async def check() -> None:
        now = namespace_owner(namespace, owner)
        require(who, "exec", Subject("pod", f"{namespace}/{pod}", owner=now.user, team=now.team), pod)
        if now != subject:
            raise ForbiddenProblem.of("stream.rights")
        await _check_run(here, who, run)

    await socket.accept(V5 if has_channels else None)
    output = asyncio.create_task(_send_output(socket, process, has_channels), name="terminal output")
    input_ = asyncio.create_task(_receive_input(socket, process, has_channels), name="terminal input")
    guard = asyncio.create_task(_until_refused(StreamAccess(request, check)), name="terminal rights")
    try:
        done, _ = await asyncio.wait((output, input_, guard), return_when=asyncio.FIRST_COMPLETED)
        if output in done:
            await _send_exit(socket, process, has_channels)
        elif guard in done:
            await socket.close(_POLICY_VIOLATION, "you may no longer do this")
    finally:
        for task in (output, input_, guard):
            task.cancel()
        await asyncio.gather(output, input_, guard, return_exceptions=True)
        await process.close()


async def _send_output(socket: WebSocket, process: Process, has_channels: bool) -> None:
    async for channel, data in process.output():
        if data:
            await socket.send_bytes(encode_frame(channel, data) if has_channels else data)


async def _receive_input(socket: WebSocket, process: Process, has_channels: bool) -> None:
    """Runs until the client disconnects."""
    while True:
        try:
            message = await socket.receive()
        except (WebSocketDisconnect, RuntimeError):
            return
        if message["type"] == "websocket.disconnect":
            return
        with contextlib.suppress(ApiError, OSError):  # the command may have ended
            if has_channels:
                await pass_input(message.get("bytes") or b"", process)
            elif message.get("bytes"):
                await process.write(message["bytes"])
            elif (size := _read_size(message.get("text") or "")) is not None:
                await process.resize(*size)


def _read_size(text: str) -> tuple[int, int] | None:
    try:
        given: Any = orjson.loads(text)
        rows, columns = given["rows"], given["columns"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    valid = all(isinstance(number, int) and 0 < number <= MOST_CELLS for number in (rows, columns))
    return (rows, columns) if valid else None


async def _send_exit(socket: WebSocket, process: Process, has_channels: bool) -> None:
    try:
        code = await process.wait()
        said: dict[str, Any] = {"exit": code}
        status = exit_status_of(code)
    except ApiError as error:
        said, status = {"error": error.message}, error.to_status()
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):
        if has_channels:
            await socket.send_bytes(encode_frame(ERROR, orjson.dumps(status)))
        else:
            await socket.send_text(orjson.dumps(said).decode())
        await socket.close()


async def _until_refused(access: StreamAccess) -> None:
    while await access.refusal() is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RECHECK_SECONDS):
                await access.changes.next()
