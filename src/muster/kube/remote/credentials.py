"""The Authorization header of every request, kept fresh."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable
from typing import Any

import orjson

from muster.kube.errors import Unauthorized
from muster.kube.objects import parse_time
from muster.kube.remote.kubeconfig import Access, Password, Plugin, Token, TokenFile

REREAD_SECONDS = 60.0
"""How long a token file's content is trusted. Kubernetes rotates them long before they expire."""

_PLUGIN_SECONDS = 60.0
_EARLY_SECONDS = 10.0


class Credentials:
    """Answers the header, and on `renew` forgets what it knew, as after a 401."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.time) -> None:
        self._access = access
        self._clock = clock
        self._token = ""
        self._until = 0.0
        self._lock = asyncio.Lock()
        self.certificate: tuple[bytes, bytes] | None = None
        """A client certificate and key that a plugin gave us instead of a token."""

    @property
    def can_renew(self) -> bool:
        return isinstance(self._access.credentials, TokenFile | Plugin)

    def renew(self) -> None:
        self._until = 0.0

    async def header(self) -> str:
        """'' where the server needs none, or takes a client certificate."""
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
    """The status of the ExecCredential that the plugin prints."""
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
