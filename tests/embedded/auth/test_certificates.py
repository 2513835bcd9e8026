from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from muster.embedded.auth.certificates import Certificates, ensure_certificates

NOW = datetime.now(UTC)


def contents(found: Certificates) -> tuple[bytes, bytes, bytes]:
    return found.authority.read_bytes(), found.certificate.read_bytes(), found.key.read_bytes()


async def shake_hands(server: Certificates, client: ssl.SSLContext, name: str) -> None:
    """Opens a real TLS connection. The client checks that the server is `name`."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0, ssl=server.server_context()) as listening:
        port = listening.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        writer.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "kubernetes.default.svc", "box.lan", "10.0.0.7"])
async def test_clients_trust_the_server_by_every_name_it_has(tmp_path: Path, name: str) -> None:
    found = ensure_certificates(tmp_path, ["box.lan", "10.0.0.7"])
    strict = found.client_context()
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    await shake_hands(found, strict, name)


async def test_clients_reject_other_servers(tmp_path: Path) -> None:
    ours, theirs = ensure_certificates(tmp_path / "a"), ensure_certificates(tmp_path / "b")
    with pytest.raises(ssl.SSLCertVerificationError):
        await shake_hands(theirs, ours.client_context(), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        await shake_hands(ours, ours.client_context(), "example.org")


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    ensure_certificates(tmp_path / "identity")
    for path in (tmp_path / "identity").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_they_are_made_once(tmp_path: Path) -> None:
    before = contents(ensure_certificates(tmp_path, ["box.lan"]))
    assert contents(ensure_certificates(tmp_path, ["box.lan"])) == before


def test_a_new_name_needs_a_new_certificate_of_the_same_authority(tmp_path: Path) -> None:
    authority, certificate, _ = contents(ensure_certificates(tmp_path))
    after = contents(ensure_certificates(tmp_path, ["new.lan"]))
    assert after[0] == authority
    assert after[1] != certificate


@pytest.mark.parametrize(
    ("later", "renewed"), [(timedelta(days=300), False), (timedelta(days=340), True), (timedelta(days=3400), True)]
)
def test_it_is_renewed_before_it_expires(tmp_path: Path, later: timedelta, renewed: bool) -> None:
    before = contents(ensure_certificates(tmp_path, now=NOW))
    after = contents(ensure_certificates(tmp_path, now=NOW + later))
    assert (before[1] != after[1]) is renewed
    assert x509.load_pem_x509_certificate(after[1]).not_valid_after_utc > NOW + later + timedelta(days=30)


def test_an_authority_about_to_end_is_replaced_with_what_it_signed(tmp_path: Path) -> None:
    before = contents(ensure_certificates(tmp_path, now=NOW))
    after = contents(ensure_certificates(tmp_path, now=NOW + timedelta(days=3400)))
    assert before[0] != after[0]


@pytest.mark.parametrize("victim", ["ca.crt", "ca.key", "server.crt", "server.key", "certificates.json"])
async def test_a_damaged_file_is_replaced(tmp_path: Path, victim: str) -> None:
    ensure_certificates(tmp_path)
    (tmp_path / victim).write_bytes(b"rubbish")
    found = ensure_certificates(tmp_path)
    await shake_hands(found, found.client_context(), "localhost")


def test_valid_certificates_are_not_checked_again(tmp_path: Path) -> None:
    """Loading the library for certificates takes longer than starting a server."""
    script = "import sys, pathlib; from muster.embedded.auth.certificates import ensure_certificates as ensure"
    script += "; ensure(pathlib.Path(sys.argv[1])); print('cryptography' in sys.modules)"
    said = [subprocess.check_output([sys.executable, "-c", script, str(tmp_path)]) for _ in range(2)]
    assert said == [b"True\n", b"False\n"]
