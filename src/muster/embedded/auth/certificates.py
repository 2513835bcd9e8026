"""The certificates of the API: an authority of our own and what it signs, made when they are missing or run out.

kubectl sends tokens over TLS only, and trusts exactly the authority that its kubeconfig names.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson

from muster.embedded.auth.private_files import write_private

ALWAYS = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
)
"""The names a Pod or a program on this machine may call the API by."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths to what a TLS server needs, and to the authority its clients have to trust."""

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
    """Certificates for `names` (hosts and addresses, besides the ones of this machine) that are good for at least
    another month."""
    moment = now or datetime.now(UTC)
    wanted = tuple(dict.fromkeys((*ALWAYS, *names)))
    found = Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    authority_key, note = directory / "ca.key", directory / "certificates.json"
    files = (found.authority, authority_key, found.certificate, found.key)
    if _is_noted(note, files, wanted, moment):
        return found

    from muster.embedded.auth.x509 import ensure_certificate_files

    since, until = ensure_certificate_files(*files, wanted, moment)
    said = {"sha256": _digest(files), "names": wanted, "since": since.timestamp(), "until": until.timestamp()}
    write_private(note, orjson.dumps(said))
    return found


def _is_noted(note: Path, files: Iterable[Path], names: Iterable[str], now: datetime) -> bool:
    """Whether these very files were found to be good for these names, and still are."""
    try:
        said = orjson.loads(note.read_bytes())
        return (
            said["since"] <= now.timestamp() < said["until"]
            and set(names) <= set(said["names"])
            and said["sha256"] == _digest(files)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _digest(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()
