"""HTTP requests to an API server over aiohttp: TLS, credentials, retries, and errors that say what to do."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import ipaddress
import os
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
from yarl import URL

from muster.kube.errors import ApiError, Unauthorized, Unavailable, from_status
from muster.kube.objects import parse_time
from muster.kube.remote.kubeconfig import Access, Password, Plugin, Token, TokenFile

Parameters = Iterable[tuple[str, str]]
OnAnswer = Callable[[str, URL, int, float], None]
"""(method, URL, code, seconds until the response): called for every request, including repeated ones."""

_MAX_ATTEMPTS = 8
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
_LARGE = 1 << 20


class Transport:
    """One connection pool to one server. There is no rate limit on our side: the server says when it has enough."""

    def __init__(
        self,
        access: Access,
        *,
        on_warning: Callable[[str], None] | None = None,
        on_answer: OnAnswer | None = None,
        agent: str = "muster",
    ) -> None:
        self.access = access
        self._credentials = Credentials(access)
        self._on_warning = on_warning
        self._on_answer = on_answer
        self._base_headers = {"User-Agent": agent}
        if _is_local(access.server):
            # Compression costs more than the loopback device saves.
            self._base_headers["Accept-Encoding"] = "identity"
        self._session: aiohttp.ClientSession | None = None
        self._certificate: tuple[bytes, bytes] | None = None
        self._ssl: ssl.SSLContext | bool = True

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        parameters: Parameters = (),
        *,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Returns the response's body. Raises ApiError. Waits and repeats the request if the server says so."""
        content = None if body is None else orjson.dumps(body)
        for attempt in range(_MAX_ATTEMPTS):
            headers = {"Accept": accept, **({"Content-Type": content_type} if content is not None else {})}
            async with self._open(method, path, parameters, headers, content, _ANSWER_SECONDS) as response:
                if response.status < 400:
                    received = await response.read()
                    self._warn(response)
                    return received
                error = await _error(response)
            wait = _retry_delay(response, error, attempt)
            if wait is None:
                raise error
            await asyncio.sleep(wait)
        raise error

    @asynccontextmanager
    async def stream(
        self, path: str, parameters: Parameters = (), *, accept: str = "application/json", seconds: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yields a streamed response in the pieces in which it arrives. A broken connection raises Unavailable."""
        async with self._open("GET", path, parameters, {"Accept": accept}, None, seconds) as response:
            if response.status >= 400:
                raise await _error(response)
            self._warn(response)
            try:
                yield response.content.iter_any()
            finally:
                _abort(response)

    async def websocket(
        self, path: str, parameters: Parameters, protocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse:
        session = await self._ready()
        headers = await self._headers({})
        async with self._translate_errors():
            try:
                return await session.ws_connect(
                    self._url(path, parameters), headers=headers, protocols=protocols, ssl=self._ssl, max_msg_size=0,
                    server_hostname=self.access.tls_name or None,
                )  # fmt: skip
            except aiohttp.WSServerHandshakeError as error:
                refused = error
        # The library drops the body of a rejected upgrade; a request without the upgrade returns the reason.
        raise await self._reason(path, parameters, refused)

    async def _reason(self, path: str, parameters: Parameters, refused: aiohttp.WSServerHandshakeError) -> ApiError:
        try:
            await self.request("GET", path, parameters)
        except ApiError as error:
            return error
        return from_status({}, refused.status)

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        parameters: Parameters,
        headers: Mapping[str, str],
        content: bytes | None,
        seconds: float | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        session = await self._ready()
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)
        url = self._url(path, parameters)

        async def send() -> aiohttp.ClientResponse:
            began = time.perf_counter()
            response = await session.request(
                method,
                url,
                headers=await self._headers(headers),
                data=_payload(content),
                timeout=timeout,
                ssl=self._ssl,
                allow_redirects=False,
                server_hostname=self.access.tls_name or None,
            )
            if self._on_answer is not None:
                self._on_answer(method, url, response.status, time.perf_counter() - began)
            return response

        async with self._translate_errors():
            response = await send()
            if response.status == 401 and self._credentials.can_renew:
                response.release()
                self._credentials.renew()
                response = await send()
            async with response:
                yield response

    async def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        headers = {**self._base_headers, **more}
        authorization = await self._credentials.header()
        if authorization:
            headers["Authorization"] = authorization
        if self._credentials.certificate != self._certificate:
            self._certificate = self._credentials.certificate
            self._ssl = _ssl_context(self.access, self._certificate)
        return headers

    async def _ready(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._ssl = _ssl_context(self.access, self._certificate)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
                json_serialize=lambda value: orjson.dumps(value).decode(),
                read_bufsize=1 << 20,
            )
        return self._session

    def _url(self, path: str, parameters: Parameters) -> URL:
        return URL(self.access.server + path).with_query(list(parameters))

    @asynccontextmanager
    async def _translate_errors(self) -> AsyncIterator[None]:
        """Turns connection errors into errors that say what to do."""
        where = f"the API server at {self.access.server}"
        source = f" ({self.access.source})" if self.access.source else ""
        try:
            yield
        except ApiError:
            raise
        except aiohttp.ClientConnectorCertificateError as error:
            raise Unavailable(
                f"{where}{source} has a certificate that is not trusted: {error.certificate_error}. "
                "Check the kubeconfig's certificate-authority-data"
            ) from None
        except aiohttp.ClientConnectorError as error:
            raise Unavailable(f"cannot reach {where}{source}: {error.os_error.strerror or error.os_error}") from None
        except TimeoutError:
            raise Unavailable(f"{where}{source} did not respond in time") from None
        except aiohttp.ClientPayloadError:
            raise Unavailable(f"the connection to {where}{source} was lost during a response") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"the connection to {where}{source} broke: {error or type(error).__name__}") from None

    def _warn(self, response: aiohttp.ClientResponse) -> None:
        if self._on_warning is None:
            return
        for text in response.headers.getall("Warning", ()):
            self._on_warning(warning_text(text))


def warning_text(header: str) -> str:
    """Returns the text between the quotes of `299 - "unknown field \\"x\\""`."""
    _, quote, rest = header.partition('"')
    text = rest.rpartition('"')[0] if quote else header
    return text.replace('\\"', '"').replace("\\\\", "\\")


def _payload(content: bytes | None) -> bytes | io.BytesIO | None:
    """Sends large content in pieces, so that the event loop is not blocked."""
    return io.BytesIO(content) if content is not None and len(content) > _LARGE else content


async def _error(response: aiohttp.ClientResponse) -> ApiError:
    content = await response.read()
    status: dict[str, Any] = {}
    with contextlib.suppress(orjson.JSONDecodeError):
        found = orjson.loads(content)
        if isinstance(found, dict) and found.get("kind") == "Status":
            status = found
    if not status:
        said = content.decode(errors="replace").strip()[:500] or response.reason or ""
        status = {"message": f"the API answered {response.status}: {said}"}
    error = from_status(status, response.status)
    after = response.headers.get("Retry-After", "")
    if error.retry_after is None and after.isdigit():
        error.retry_after = float(after)
    return error


def _retry_delay(response: aiohttp.ClientResponse, error: ApiError, attempt: int) -> float | None:
    """Returns how long to wait before repeating; None means not to. Without a time from the server, only 429 is
    repeated: repeating anything else might do it twice."""
    if attempt + 1 == _MAX_ATTEMPTS or response.status not in (429, 502, 503, 504):
        return None
    if error.retry_after is not None and (response.status == 429 or "Retry-After" in response.headers):
        return min(float(error.retry_after), 30.0)
    return min(0.1 * 2**attempt, 5.0) if response.status == 429 else None


def _abort(response: aiohttp.ClientResponse) -> None:
    """Closes a running stream without TLS's closing handshake, which a program that ends need not wait for."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _is_local(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ssl_context(access: Access, certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext | bool:
    if not access.server.startswith("https://"):
        return True
    context = ssl.create_default_context(cadata=access.authority.decode() if access.authority else None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    chain, key = certificate or (access.certificate, access.key)
    if chain and key:
        _load_chain(context, chain, key)
    return context


def _load_chain(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    # The ssl module reads a client certificate from files only.
    with tempfile.TemporaryDirectory(prefix="muster-") as directory:
        certificate_path, key_path = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate_path.write_bytes(chain)
        key_path.touch(mode=0o600)
        key_path.write_bytes(key)
        try:
            context.load_cert_chain(certificate_path, key_path)
        except (ssl.SSLError, ValueError) as error:
            raise Unavailable(f"the client certificate of the kubeconfig cannot be used: {error}") from None


REREAD_SECONDS = 60.0
"""How long a token file's content is used before it is read again. Kubernetes rotates tokens long before they
expire."""

_PLUGIN_SECONDS = 60.0
_EARLY_SECONDS = 10.0


class Credentials:
    """Returns the Authorization header. `renew` discards cached credentials, as after a 401."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.time) -> None:
        self._access = access
        self._clock = clock
        self._token = ""
        self._until = 0.0
        self._lock = asyncio.Lock()
        self.certificate: tuple[bytes, bytes] | None = None
        """A client certificate and key that a plugin returned instead of a token."""

    @property
    def can_renew(self) -> bool:
        return isinstance(self._access.credentials, TokenFile | Plugin)

    def renew(self) -> None:
        self._until = 0.0

    async def header(self) -> str:
        """Returns '' if the server needs no header, or takes a client certificate."""
        match self._access.credentials:
            case None:
                return ""
            case Token(value):
                return f"Bearer {value}"
            case Password(user, password):
                return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        if self._clock() >= self._until:
            async with self._lock:
                if self._clock() >= self._until:
                    await self._refresh()
        return f"Bearer {self._token}" if self._token else ""

    async def _refresh(self) -> None:
        source = self._access.credentials
        if isinstance(source, TokenFile):
            try:
                self._token = source.path.read_text().strip()
            except OSError as error:
                raise Unauthorized(f"the token file {source.path} cannot be read: {error.strerror}") from None
            self._until = self._clock() + REREAD_SECONDS
        elif isinstance(source, Plugin):
            status = await run_plugin(source, self._access)
            self._token = str(status.get("token") or "")
            certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
            self.certificate = (str(certificate).encode(), str(key).encode()) if certificate and key else None
            expires = status.get("expirationTimestamp")
            self._until = parse_time(str(expires)).timestamp() - _EARLY_SECONDS if expires else float("inf")


async def run_plugin(plugin: Plugin, access: Access) -> dict[str, Any]:
    """Returns the status of the ExecCredential that the plugin prints."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster:
        authority = base64.b64encode(access.authority).decode()
        spec["cluster"] = {"server": access.server, "certificate-authority-data": authority}
    asked = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": orjson.dumps(asked).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f". {plugin.install_hint}" if plugin.install_hint else ""
        raise Unauthorized(
            f'the credential plugin "{plugin.command}" of {access.source} cannot be run: {error.strerror}{hint}'
        ) from None
    try:
        printed, complaints = await asyncio.wait_for(process.communicate(), _PLUGIN_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Unauthorized(
            f'the credential plugin "{plugin.command}" did not answer within {_PLUGIN_SECONDS:.0f} s'
        ) from None
    if process.returncode:
        last = complaints.decode(errors="replace").strip().splitlines()[-1:]
        raise Unauthorized(
            f'the credential plugin "{plugin.command}" ended with code {process.returncode}: {" ".join(last)}'
        )
    try:
        status = orjson.loads(printed)["status"]
        if not isinstance(status, dict):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise Unauthorized(f'the credential plugin "{plugin.command}" printed no ExecCredential') from None
    return status
