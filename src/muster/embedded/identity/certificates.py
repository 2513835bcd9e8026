"""The certificates of the API: an authority of our own and what it signs, made when they are missing or run out.

kubectl sends tokens over TLS only, and trusts exactly the authority that its kubeconfig names.
"""

from __future__ import annotations

import contextlib
import ipaddress
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.embedded.identity.private_files import write_private

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

_AUTHORITY_LIFE = timedelta(days=3650)
_SERVER_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)


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
    another month. The authority is kept as long as it lasts, so that kubeconfigs stay true."""
    moment = now or datetime.now(UTC)
    wanted = tuple(dict.fromkeys((*ALWAYS, *names)))
    found = Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    authority_key = directory / "ca.key"

    authority = _load(found.authority, authority_key)
    if authority is None or authority[0].not_valid_after_utc < moment + _SERVER_LIFE:
        authority = _new_authority(moment)
        write_private(authority_key, _key_pem(authority[1]))
        write_private(found.authority, _certificate_pem(authority[0]))

    server = _load(found.certificate, found.key)
    if server is None or not _serves(server[0], authority[0], wanted, moment):
        server = _new_server(authority, wanted, moment)
        write_private(found.key, _key_pem(server[1]))
        write_private(found.certificate, _certificate_pem(server[0]))
    return found


_Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _load(certificate: Path, key: Path) -> _Pair | None:
    """Both halves if they are there, can be read and belong together."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        cert = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
        if isinstance(private, ec.EllipticCurvePrivateKey) and private.public_key() == cert.public_key():
            return cert, private
    return None


def _serves(server: x509.Certificate, authority: x509.Certificate, names: tuple[str, ...], now: datetime) -> bool:
    if not server.not_valid_before_utc <= now < server.not_valid_after_utc - _RENEW_BEFORE:
        return False
    try:
        server.verify_directly_issued_by(authority)
        found = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:
        # Whatever is wrong with the old certificate, a new one is the answer.
        return False
    return set(_alternative_names(names)) <= set(found)


def _new_authority(now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"muster {now:%Y-%m-%d}")])
    certificate = (
        _builder(name, name, key, now, _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate, key


def _new_server(authority: _Pair, names: tuple[str, ...], now: datetime) -> _Pair:
    issuer, issuer_key = authority
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster")])
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    certificate = (
        _builder(subject, issuer.subject, key, now, _SERVER_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(names)), critical=False)
        .add_extension(issuer_id, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return certificate, key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A machine whose clock was just set back must still trust what it made a moment ago.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative_names(names: tuple[str, ...]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
