"""Executes http templates in the server's process: builds the request, sends it, and judges the response."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import ssl
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import aiohttp
from yarl import URL

from muster.kube.builtin import NAMESPACE, SECRET
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import Key, Object, key_of, namespace_of, timestamp, uid_of
from muster.kube.pod_security import is_restricted, is_run_secret
from muster.kube.service_names import resolve_service
from muster.workflows.artifacts.egress import Egress, egress_proxy, upstream_proxy
from muster.workflows.lang.environment import evaluate_bool
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_values import Byte
from muster.workflows.model import Launch, Node, Outcome, Outputs, ReportOutcome, Template
from muster.workflows.step_threads import run_metered

LARGEST_BODY = 4 * 1024 * 1024
"""Of a response body, which becomes a parameter."""


class RequestError(Exception):
    """The request cannot be sent or got no response. The message is that of the node."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout: float | None
    verify: bool


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    headers: Mapping[str, Sequence[str]]
    body: bytes


def referenced_secrets(template: Template) -> list[tuple[str, str]]:
    """Returns (name, key) of the Secrets that its headers refer to."""
    refs = [_secret(header) for header in _http(template).get("headers") or ()]
    return [(str(ref.get("name") or ""), str(ref.get("key") or "")) for ref in refs if ref]


def build_request(template: Template, secrets: Mapping[tuple[str, str], str]) -> HttpRequest:
    """Raises RequestError with the wrong field."""
    http = _http(template)
    url = str(http.get("url") or "")
    if not url.startswith(("http://", "https://")):
        raise RequestError(f'http.url: "{url}" must begin with http:// or https://')
    seconds = http.get("timeoutSeconds")
    return HttpRequest(
        method=str(http.get("method") or "GET"),
        url=url,
        headers=tuple((str(header.get("name")), _value(header, secrets)) for header in http.get("headers") or ()),
        body=_body(http),
        timeout=float(seconds) if seconds else None,
        verify=not http.get("insecureSkipVerify"),
    )


def response_outcome(template: Template, response: HttpResponse, started: str, finished: str) -> Outcome:
    """A condition sees `request` and `response` as in Argo; values from Secrets are not visible to it."""
    http = _http(template)
    text = response.body.decode(errors="replace")
    message = _response_problem(http, response, text)
    return Outcome(
        "Failed" if message else "Succeeded",
        message,
        outputs=Outputs(result=text),
        started=started,
        finished=finished,
    )


def _response_problem(http: Mapping[str, Any], response: HttpResponse, text: str) -> str:
    """Returns what is wrong with the response, or ''."""
    condition = http.get("successCondition")
    if not condition:
        is_good = 200 <= response.status < 300
        return "" if is_good else f"received non-2xx response code: {response.status}"
    given = [header for header in http.get("headers") or () if not header.get("valueFrom")]
    scope = {
        "request": {
            "method": http.get("method") or "",
            "url": http.get("url") or "",
            "body": http.get("body") or "",
            "bodyBytes": [Byte(byte) for byte in _body(http)] if http.get("bodyFrom") else [],
            "headers": {str(header.get("name")): [str(header.get("value") or "")] for header in given},
        },
        "response": {
            "statusCode": response.status,
            "body": text,
            "headers": {name: list(values) for name, values in response.headers.items()},
        },
    }
    try:
        holds = evaluate_bool(str(condition), scope)
    except ExpressionError as error:
        return f"successCondition: {error}"
    return "" if holds else f"successCondition '{condition}' evaluated false"


def _http(template: Template) -> dict[str, Any]:
    found: dict[str, Any] = template.get("http") or {}
    return found


def _secret(header: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return (header.get("valueFrom") or {}).get("secretKeyRef")


def _value(header: Mapping[str, Any], secrets: Mapping[tuple[str, str], str]) -> str:
    ref = _secret(header)
    if ref is None:
        return str(header.get("value") or "")
    return secrets.get((str(ref.get("name") or ""), str(ref.get("key") or "")), "")


def _body(http: Mapping[str, Any]) -> bytes:
    source = http.get("bodyFrom")
    if not source:
        return str(http.get("body") or "").encode()
    try:
        return base64.b64decode(str(source.get("bytes") or ""), validate=True)
    except binascii.Error:
        raise RequestError("http.bodyFrom.bytes must be base64") from None


log = logging.getLogger(__name__)


class HttpExecutor:
    """The `Executor` of http templates.

    Headers may come from Secrets of the workflow's namespace; their values appear in no message and no condition. A
    request is sent at least once: if the server dies before the response is stored, it is sent again after the restart.
    `addresses` are those of this machine that restricted namespaces may use all the same.
    """

    def __init__(self, cluster: Cluster, report: ReportOutcome, addresses: Collection[str] = ()) -> None:
        self._cluster = cluster
        self._report = report
        self._addresses = addresses
        self._gates: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_GUEST_REQUESTS))
        """By namespace."""
        self._sender: RequestSender | None = None
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def launch(self, workflow: Object, spec: Object, launch: Launch, *, begun: bool) -> None:
        node = str(launch.node["id"])
        place = (uid_of(workflow), node)
        if place in self._tasks:
            return
        is_guest = await self._is_restricted(namespace_of(workflow))
        secrets = await self._secrets(workflow, node, launch.template)
        if secrets is None or place in self._tasks:
            return
        started = launch.node.get("startedAt") or timestamp()
        self._report(key_of(workflow), node, Outcome("Running", started=started))
        self._tasks[place] = asyncio.create_task(
            self._send(place, key_of(workflow), launch.template, secrets, started, is_guest), name=f"request {node}"
        )

    async def stop(self, workflow: Object, node: Node, *, force: bool) -> None:
        task = self._tasks.pop((uid_of(workflow), str(node["id"])), None)
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if task is None or task.cancelled():
            self._report(key_of(workflow), str(node["id"]), Outcome("Failed", "stopped", finished=timestamp()))

    def recorded(self, workflow: Object, nodes: Collection[str]) -> None:
        return

    async def stop_others(self, workflow: Object, nodes: Collection[str]) -> None:
        """No request outlives the server."""
        others = [node for uid, node in self._tasks if uid == uid_of(workflow) and node not in nodes]
        for node in others:
            self._tasks.pop((uid_of(workflow), node)).cancel()

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._sender is not None:
                await self._sender.close()
                self._sender = None

    async def _secrets(self, workflow: Object, node: str, template: Template) -> dict[tuple[str, str], str] | None:
        """Returns None if a Secret is missing, which has been reported."""
        found: dict[tuple[str, str], str] = {}
        for name, key in referenced_secrets(template):
            try:
                if is_run_secret(name):
                    raise NotFound(f"secret '{name}' belongs to a run of the platform; use a Secret of your own")
                data = (await self._cluster.get(SECRET, name, namespace_of(workflow))).get("data") or {}
                if key not in data:
                    raise NotFound(f"secret '{name}' does not have the key '{key}'")
            except NotFound as error:
                self._report(key_of(workflow), node, Outcome("Failed", error.message, finished=timestamp()))
                return None
            found[name, key] = base64.b64decode(data[key]).decode(errors="replace").strip("\r\n")
        return found

    async def _send(
        self,
        place: tuple[str, str],
        workflow: Key,
        template: Template,
        secrets: dict[tuple[str, str], str],
        started: str,
        is_guest: bool,
    ) -> None:
        try:
            request = build_request(template, secrets)
            if is_guest:
                response = await self._send_for_guest(workflow.namespace, request)
            else:
                response = await self._ready().send(await self._resolve_address(workflow.namespace, request))
            judge = partial(response_outcome, template, response, started, timestamp())
            outcome = await run_metered(judge) if _http(template).get("successCondition") else judge()
        except RequestError as error:
            outcome = Outcome("Failed", _without(str(error), secrets), started=started, finished=timestamp())
        except Exception as error:
            log.error(
                "%s: the request of %s failed: %s", workflow, place[1], type(error).__name__
            )  # it may quote a Secret
            outcome = Outcome("Error", f"{type(error).__name__}", started=started, finished=timestamp())
        self._tasks.pop(place, None)
        self._report(workflow, place[1], outcome)

    async def _resolve_address(self, namespace: str, request: HttpRequest) -> HttpRequest:
        """Returns the request with the address of a Pod if it goes to a Service of the cluster."""
        url = URL(request.url)
        if url.scheme != "http" or not url.host or not url.port:
            return request
        pod = await resolve_service(self._cluster, namespace, url.host, url.port)
        if pod is None:
            return request
        has_host = any(name.lower() == "host" for name, _ in request.headers)
        headers = request.headers if has_host else (*request.headers, ("Host", url.authority))
        return replace(request, url=str(url.with_host(pod[0]).with_port(pod[1])), headers=headers)

    async def _send_for_guest(self, namespace: str, request: HttpRequest) -> HttpResponse:
        """Sends a request of a restricted namespace: without the server's environment and .netrc, not to the server
        itself, and not for ever."""
        egress = Egress(self._addresses)
        async with self._gates[namespace], egress_proxy(egress) as proxy:
            sender = RequestSender(upstream_proxy() or proxy)
            try:
                return await sender.send(request)
            finally:
                await sender.close()
                if egress.refused:  # what the sender got is the response of the proxy
                    raise RequestError(egress.refused[0]) from None

    async def _is_restricted(self, namespace: str) -> bool:
        try:
            return is_restricted(await self._cluster.get(NAMESPACE, namespace))
        except NotFound:
            return False

    def _ready(self) -> RequestSender:
        """Created on first use: the library takes a tenth of a second to load."""
        if self._sender is None:
            self._sender = RequestSender()
        return self._sender


def _without(message: str, secrets: dict[tuple[str, str], str]) -> str:
    """The library may quote a header that it rejects."""
    for value in secrets.values():
        if value:
            message = message.replace(value, "***")
    return message


_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=60)
_GUEST_TIMEOUT = aiohttp.ClientTimeout(total=3600, connect=60)
_GUEST_REQUESTS = 20
"""Requests of a restricted namespace at the same time."""


class RequestSender:
    """Sends requests over persistent connections. Call `close` in the end. With a proxy, all requests go through it,
    and nothing of the server's environment is used."""

    def __init__(self, proxy: str = "") -> None:
        self._proxy = proxy
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Raises RequestError, worded like Go's errors."""
        try:
            return await self._send(request)
        except TimeoutError:
            problem = "context deadline exceeded"
        except aiohttp.ClientConnectorError as error:
            problem = str(error.os_error.strerror or error.os_error) if error.os_error else str(error)
        except aiohttp.TooManyRedirects:
            problem = "stopped after 10 redirects"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
        raise RequestError(f'{request.method.capitalize()} "{_shown(request.url)}": {problem}')

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _send(self, request: HttpRequest) -> HttpResponse:
        longest = _GUEST_TIMEOUT if self._proxy else _TIMEOUT
        timeout = longest if request.timeout is None else aiohttp.ClientTimeout(total=request.timeout)
        async with self._session(request.verify).request(
            request.method,
            URL(request.url),
            headers=request.headers,
            data=request.body or None,
            skip_auto_headers=("Content-Type",),
            timeout=timeout,
            proxy=self._proxy or None,
        ) as answer:
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > LARGEST_BODY:
                    raise RequestError(
                        f'{request.method.capitalize()} "{_shown(request.url)}": the response is larger than '
                        f"{LARGEST_BODY} bytes"
                    )
            headers: dict[str, list[str]] = defaultdict(list)
            for name, value in answer.headers.items():
                headers[_canonical_header(name)].append(value)
            return HttpResponse(answer.status, headers, bytes(body))

    def _session(self, verify: bool) -> aiohttp.ClientSession:
        if verify not in self._sessions:
            self._sessions[verify] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=True if verify else _unverified_context(), limit=100),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=not self._proxy,
            )
        return self._sessions[verify]


def _unverified_context() -> ssl.SSLContext:
    """For insecureSkipVerify, which the user has asked for."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _canonical_header(name: str) -> str:
    """Returns a header name as Go writes it: Content-Type."""
    return "-".join(part.capitalize() for part in name.split("-"))


def _shown(url: str) -> str:
    """Returns the URL without its password."""
    try:
        parsed = URL(url)
    except ValueError:
        return "the URL"
    return str(parsed.with_password("xxxxx")) if parsed.password else url
