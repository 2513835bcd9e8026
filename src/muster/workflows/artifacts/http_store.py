"""Artifacts behind HTTP: any URL, and Artifactory."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp

from muster.workflows.artifacts.locations import (
    ArtifactError,
    ArtifactMissing,
    ArtifactUnreachable,
    Location,
    kind_of,
    public_url,
)
from muster.workflows.artifacts.stores import SecretOf, StoreAccess

_CHUNK = 1 << 18
_LONGEST_TOKEN = 1 << 20
_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=30, sock_read=300)


class HttpStore:
    def __init__(self, secret_of: SecretOf, access: StoreAccess = StoreAccess()) -> None:  # noqa: B008
        self._secret_of = secret_of
        self._access = access

    async def load(self, location: Location, target: Path) -> None:
        with target.open("wb") as file:
            async for block in self.read(location):
                file.write(block)

    async def save(self, source: Path, location: Location) -> None:
        if source.is_dir():
            raise ArtifactError("a folder cannot be sent over HTTP: use an archive (remove archive.none)")
        with source.open("rb") as file:
            async with self._request("PUT", location, data=file):
                return

    async def delete(self, location: Location) -> None:
        try:
            async with self._request("DELETE", location):
                return
        except ArtifactMissing:
            return

    async def keys(self, location: Location) -> list[str]:
        raise ArtifactError(f"{kind_of(location)} artifacts cannot be listed")

    async def read(self, location: Location) -> AsyncIterator[bytes]:
        async with self._request("GET", location) as response:
            async for block in response.content.iter_chunked(_CHUNK):
                yield block

    @asynccontextmanager
    async def _request(
        self, method: str, location: Location, data: Any = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        settings: Mapping[str, Any] = location[kind_of(location)]
        url = str(settings.get("url") or "")
        shown = public_url(url)
        if urlsplit(url).scheme not in ("http", "https"):
            raise ArtifactError(f'"{shown}" is not a URL: write https://HOST/PATH')
        headers = {str(h["name"]): str(h.get("value") or "") for h in settings.get("headers") or ()}
        auth: Mapping[str, Any] = settings.get("auth") or {}
        try:
            async with self._session() as session:
                headers.update(await self._token(session, auth.get("oauth2") or {}))
                headers.update(await self._login({**settings, **(auth.get("basicAuth") or {})}))
                context = await self._certificate(auth.get("clientCert") or {})
                async with session.request(
                    method, url, headers=headers, data=data, ssl=context or True, proxy=self._access.proxy or None
                ) as response:
                    _check(response.status, method, shown)
                    yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ArtifactUnreachable(f"{method} {shown}: {_reason(error)}") from None
        except ValueError as error:
            raise ArtifactError(f"{method} {shown}: {error}") from None

    def _session(self) -> aiohttp.ClientSession:
        """The environment of the server, and its .netrc, are for the server's own."""
        is_own = not self._access.for_member
        return aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=is_own, auto_decompress=False)

    async def _login(self, settings: Mapping[str, Any]) -> dict[str, str]:
        name, password = settings.get("usernameSecret"), settings.get("passwordSecret")
        if not name:
            return {}
        return _basic(await self._secret_of(name), await self._secret_of(password) if password else "")

    async def _token(self, session: aiohttp.ClientSession, oauth: Mapping[str, Any]) -> dict[str, str]:
        if not oauth.get("clientIDSecret"):
            return {}
        form = {"grant_type": "client_credentials", "scope": " ".join(oauth.get("scopes") or ())}
        form.update((p["key"], p.get("value") or "") for p in oauth.get("endpointParams") or ())
        who = _basic(
            await self._secret_of(oauth["clientIDSecret"]), await self._secret_of(oauth.get("clientSecretSecret") or {})
        )
        url = (await self._secret_of(oauth.get("tokenURLSecret") or {})).strip()
        if self._access.resolve is not None:
            url = await self._access.resolve(url)
        body = {k: v for k, v in form.items() if v}
        async with session.post(url, data=body, headers=who, proxy=self._access.proxy or None) as response:
            _check(response.status, "POST", "the token URL of oauth2")
            token = _read_token(await _read_limited(response))
        if not token:
            raise ArtifactError("the token URL of oauth2 did not return an access_token: check tokenURLSecret")
        return {"Authorization": f"Bearer {token}"}

    async def _certificate(self, client: Mapping[str, Any]) -> ssl.SSLContext | None:
        if not client.get("clientCertSecret"):
            return None
        context = ssl.create_default_context()
        with TemporaryDirectory() as folder:  # certificates can only be passed as a file
            certificate, key = Path(folder, "certificate"), Path(folder, "key")
            certificate.write_text(await self._secret_of(client["clientCertSecret"]))
            key.touch(0o600)
            key.write_text(await self._secret_of(client.get("clientKeySecret") or {}))
            context.load_cert_chain(certificate, key)
        return context


def _read_token(body: bytes) -> str:
    """Returns the access token in the answer of an OAuth server; '' if there is none. Most send JSON, some a form."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = {key: values[0] for key, values in parse_qs(body.decode(errors="replace")).items()}
    return str(answer.get("access_token") or "") if isinstance(answer, dict) else ""


async def _read_limited(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for block in response.content.iter_chunked(_CHUNK):
        body += block
        if len(body) > _LONGEST_TOKEN:
            raise ArtifactError(f"the token URL of oauth2 returned more than {_LONGEST_TOKEN >> 20} MB")
    return bytes(body)


def _basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


def _check(status: int, method: str, shown: str) -> None:
    if status in (404, 410):
        raise ArtifactMissing(f"{method} {shown}: nothing is there (HTTP {status})")
    if status >= 500 or status == 429:
        raise ArtifactUnreachable(f"{method} {shown}: HTTP {status}")
    if status >= 300:
        raise ArtifactError(f"{method} {shown}: HTTP {status}")


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}"
    return type(error).__name__ if isinstance(error, TimeoutError | aiohttp.ClientError) else str(error)
