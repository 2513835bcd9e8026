"""The certificates of the API: an own authority and a server certificate, created when they are missing or expire.

kubectl sends tokens over TLS only, and trusts only the authority in its kubeconfig.
"""

from __future__ import annotations

import contextlib
import hashlib
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson

from muster.embedded.auth.private_files import write_private

LOCAL_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
)
"""The names under which Pods and programs on this machine reach the API."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files that a TLS server needs, and the authority that its clients have to trust."""

    authority: Path
    certificate: Path
    key: Path

    def authority_pem(self) -> bytes:
        return self.authority.read_bytes()

    def server_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        return context

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))


def ensure_certificates(directory: Path, names: Iterable[str] = (), *, now: datetime | None = None) -> Certificates:
    """Returns certificates for `names` (hosts and addresses besides those of this machine) that are valid for at
    least another month."""
    moment = now or datetime.now(UTC)
    wanted = tuple(dict.fromkeys((*LOCAL_NAMES, *names)))
    found = Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    authority_key, note = directory / "ca.key", directory / "certificates.json"
    files = (found.authority, authority_key, found.certificate, found.key)
    if _is_known_valid(note, files, wanted, moment):
        return found

    from muster.kube.certificates import CertificateSet, renew_certificates

    old = CertificateSet(*(_read(path) for path in files))
    new, (since, until) = renew_certificates(old, wanted, moment)
    for path, before, after in zip(files, old, new, strict=True):
        if after != before:
            write_private(path, after)
    noted = {"sha256": _digest(files), "names": wanted, "since": since.timestamp(), "until": until.timestamp()}
    write_private(note, orjson.dumps(noted))
    return found


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def _is_known_valid(note: Path, files: Iterable[Path], names: Iterable[str], now: datetime) -> bool:
    """Whether exactly these files were found to be valid for these names, and still are."""
    try:
        noted = orjson.loads(note.read_bytes())
        return (
            noted["since"] <= now.timestamp() < noted["until"]
            and set(names) <= set(noted["names"])
            and noted["sha256"] == _digest(files)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _digest(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()
