"""Issues X.509 certificates: an own authority, and server certificates that it signs.

Import this module only when a certificate has to be issued: the `cryptography` library is slow to load and large.
"""

from __future__ import annotations

import contextlib
import ipaddress
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_LIFE = timedelta(days=3650)
_SERVER_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)


class CertificateSet(NamedTuple):
    """An authority and a server certificate that it signed, with their keys, as PEM. b'' stands for a missing one."""

    authority: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes


class Period(NamedTuple):
    """The time in which certificates do not need to be checked again."""

    since: datetime
    until: datetime


def renew_certificates(old: CertificateSet, names: tuple[str, ...], now: datetime) -> tuple[CertificateSet, Period]:
    """Keeps what is valid for `names` and replaces the rest.

    The authority is kept as long as possible, so that kubeconfigs which contain it stay valid."""
    new = old
    authority = _parse(old.authority, old.authority_key)
    if authority is None or authority[0].not_valid_after_utc < now + _SERVER_LIFE:
        authority = _new_authority(now)
        new = new._replace(authority=_certificate_pem(authority[0]), authority_key=_key_pem(authority[1]))
    server = _parse(old.certificate, old.key)
    if server is None or not _is_valid(server[0], authority[0], names, now):
        server = _new_server(authority, names, now)
        new = new._replace(certificate=_certificate_pem(server[0]), key=_key_pem(server[1]))
    until = min(server[0].not_valid_after_utc - _RENEW_BEFORE, authority[0].not_valid_after_utc - _SERVER_LIFE)
    return new, Period(server[0].not_valid_before_utc, until)


class IssuedCertificate(NamedTuple):
    """A server's certificate and key, and the authority that signed it, as PEM."""

    authority: bytes
    certificate: bytes
    key: bytes

    def is_valid(self, names: tuple[str, ...], now: datetime) -> bool:
        """Whether it is valid for these names for at least another month."""
        server = _parse(self.certificate, self.key)
        with contextlib.suppress(ValueError):
            authority = x509.load_pem_x509_certificate(self.authority)
            return server is not None and _is_valid(server[0], authority, names, now)
        return False


def issue_certificate(names: tuple[str, ...], now: datetime) -> IssuedCertificate:
    """Returns a certificate for a year, from a new authority that signs nothing else: its key is thrown away."""
    authority = _new_authority(now)
    certificate, key = _new_server(authority, names, now)
    return IssuedCertificate(_certificate_pem(authority[0]), _certificate_pem(certificate), _key_pem(key))


_Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _parse(certificate: bytes, key: bytes) -> _Pair | None:
    """Returns both halves if they can be read and belong together."""
    with contextlib.suppress(ValueError, TypeError):
        cert = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, password=None)
        if isinstance(private, ec.EllipticCurvePrivateKey) and private.public_key() == cert.public_key():
            return cert, private
    return None


def _is_valid(server: x509.Certificate, authority: x509.Certificate, names: tuple[str, ...], now: datetime) -> bool:
    if not server.not_valid_before_utc <= now < server.not_valid_after_utc - _RENEW_BEFORE:
        return False
    try:
        server.verify_directly_issued_by(authority)
        found = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:
        # Whatever is wrong with the old certificate, it is replaced.
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
        # If the clock is set back a little, a certificate that was just issued must still be valid.
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
