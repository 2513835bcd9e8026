"""Sends requests, over connections that are kept."""

from __future__ import annotations

import ssl
from collections import defaultdict

import aiohttp
from yarl import URL

from muster.workflows.requests.template import LARGEST_BODY, Request, RequestError, Response

_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=60)


class Sender:
    """`close` it in the end."""

    def __init__(self) -> None:
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def send(self, request: Request) -> Response:
        """Raises RequestError, in words like Go's."""
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

    async def _send(self, request: Request) -> Response:
        timeout = _TIMEOUT if request.timeout is None else aiohttp.ClientTimeout(total=request.timeout)
        async with self._session(request.verify).request(
            request.method,
            URL(request.url),
            headers=request.headers,
            data=request.body or None,
            skip_auto_headers=("Content-Type",),
            timeout=timeout,
        ) as answer:
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > LARGEST_BODY:
                    raise RequestError(
                        f'{request.method.capitalize()} "{_shown(request.url)}": the answer is larger than '
                        f"{LARGEST_BODY} bytes"
                    )
            headers: dict[str, list[str]] = defaultdict(list)
            for name, value in answer.headers.items():
                headers[_canonical(name)].append(value)
            return Response(answer.status, headers, bytes(body))

    def _session(self, verify: bool) -> aiohttp.ClientSession:
        if verify not in self._sessions:
            self._sessions[verify] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=True if verify else _anything(), limit=100),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True,
            )
        return self._sessions[verify]


def _anything() -> ssl.SSLContext:
    """insecureSkipVerify: the user has asked for it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _canonical(name: str) -> str:
    """As Go writes the names of headers: Content-Type."""
    return "-".join(part.capitalize() for part in name.split("-"))


def _shown(url: str) -> str:
    """Without a password."""
    try:
        parsed = URL(url)
    except ValueError:
        return "the URL"
    return str(parsed.with_password("xxxxx")) if parsed.password else url
