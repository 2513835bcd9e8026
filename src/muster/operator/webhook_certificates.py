"""The webhook's certificate: from files that another program renews, or issued here and shared in a Secret.

An API server trusts the authorities in the webhook's configuration. When the certificate is renewed, the old and the
new authority are both trusted, so that replicas can follow one after the other and no request fails in between.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from muster.kube.builtin import SECRET
from muster.kube.cluster import Cluster
from muster.kube.errors import Conflict, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object

if TYPE_CHECKING:
    from muster.kube.certificates import IssuedCertificate

CONFIGURATION = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
    has_status=False,
)

_log = logging.getLogger(__name__)
_END = b"-----END CERTIFICATE-----\n"
_ATTEMPTS = 5


class CertificateError(RuntimeError):
    """Says what is missing, and who should have provided it."""


class KeyPair(NamedTuple):
    """A certificate (with its chain) and its key, as PEM."""

    certificate: bytes
    key: bytes

    def load_into(self, context: ssl.SSLContext) -> None:
        """New connections use this pair. Raises SSLError and leaves the context unchanged if certificate and key do not
        match."""
        with _memory_file(self.certificate + b"\n" + self.key) as path:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
            context.load_cert_chain(path)


class CertificateSource(Protocol):
    async def pair(self) -> KeyPair:
        """Returns the current pair. Raises CertificateError or ApiError if there is none."""
        ...


class CertificateFiles:
    """`tls.crt` and `tls.key` in a folder, such as a mounted Secret of cert-manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def pair(self) -> KeyPair:
        try:
            return KeyPair((self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes())
        except OSError as error:
            raise CertificateError(f"the webhook's certificate cannot be read: {error}") from None


class CertificateSecret:
    """Issued by the first replica that finds it missing or about to expire, and kept in a Secret."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        secret: str,
        service: str,
        configuration: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._secret = secret
        self._configuration = configuration
        self._clock = clock
        self._names = (
            f"{service}.{namespace}.svc",
            f"{service}.{namespace}.svc.cluster.local",
            f"{service}.{namespace}",
        )

    async def pair(self) -> KeyPair:
        for _ in range(_ATTEMPTS):
            try:
                # The configuration is read first: any later change of it was preceded by a write of the Secret, so this
                # never replaces a newer state with an older one.
                configuration = await self._find_configuration()
                issued = await self._ensure_issued()
                if configuration is not None:
                    await self._trust(configuration, issued.authority)
            except Conflict:
                continue
            return KeyPair(issued.certificate, issued.key)
        raise CertificateError(f"too many conflicts with other replicas on the Secret {self._namespace}/{self._secret}")

    async def _ensure_issued(self) -> IssuedCertificate:
        try:
            secret = await self._cluster.get(SECRET, self._secret, self._namespace)
        except NotFound:
            raise CertificateError(
                f"the Secret {self._namespace}/{self._secret} for the webhook's certificate is missing; "
                "`muster operator install` creates an empty one"
            ) from None
        # Imported here because it takes megabytes, which an operator without a webhook saves.
        from muster.kube.certificates import issue_certificate

        found, now = _read(secret), self._clock()
        if found.is_valid(self._names, now):
            return found
        made = issue_certificate(self._names, now)
        made = made._replace(authority=made.authority + _first_certificate(found.authority))
        data = {"ca.crt": made.authority, "tls.crt": made.certificate, "tls.key": made.key}
        encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
        await self._cluster.update({**secret, "data": {**(secret.get("data") or {}), **encoded}})
        _log.info("issued a new certificate for the webhook", extra={"secret": f"{self._namespace}/{self._secret}"})
        return made

    async def _find_configuration(self) -> Object | None:
        try:
            return await self._cluster.get(CONFIGURATION, self._configuration)
        except NotFound:
            _log.warning(
                "there is no ValidatingWebhookConfiguration %s, so the webhook is never called", self._configuration
            )
            return None

    async def _trust(self, configuration: Object, authority: bytes) -> None:
        bundle = base64.b64encode(authority).decode()
        webhooks = [
            {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": bundle}}
            for webhook in configuration.get("webhooks") or ()
        ]
        if webhooks != configuration.get("webhooks"):
            await self._cluster.update({**configuration, "webhooks": webhooks})


def _read(secret: Object) -> IssuedCertificate:
    from muster.kube.certificates import IssuedCertificate

    data = secret.get("data") or {}
    try:
        return IssuedCertificate(*(base64.b64decode(data.get(name) or "") for name in ("ca.crt", "tls.crt", "tls.key")))
    except (binascii.Error, TypeError):
        return IssuedCertificate(b"", b"", b"")


def _first_certificate(bundle: bytes) -> bytes:
    """Returns only the authority in use until now; earlier ones are no longer needed."""
    first, end, _ = bundle.partition(_END)
    return first + end if end else b""


class _memory_file:  # noqa: N801 (reads as a function)
    """A file that only this process can open, by path: OpenSSL requires a path, and the disk may be read-only."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __enter__(self) -> str:
        self._file = os.memfd_create("certificate", os.MFD_CLOEXEC)
        os.write(self._file, self._content)
        return f"/proc/self/fd/{self._file}"

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
