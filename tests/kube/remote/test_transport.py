"""The transport with a failing server or connection."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.kube.errors import ApiError, Forbidden, Gone, NotFound, TooManyRequests, Unauthorized, Unavailable
from muster.kube.remote.kubeconfig import Access, TokenFile
from muster.kube.remote.transport import Transport, warning_text
from tests.http_server import Handler, serve_http


@asynccontextmanager
async def server(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    async with serve_http(handler, tls) as port:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"


@asynccontextmanager
async def transport(handler: Handler, credentials: TokenFile | None = None) -> AsyncIterator[Transport]:
    async with server(handler) as url:
        made = Transport(Access(url, source="test", credentials=credentials))
        try:
            yield made
        finally:
            await made.close()


def status(code: int, reason: str, **more: object) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": f"it is {reason}", **more}
    return web.json_response(body, status=code)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda: status(404, "NotFound"), NotFound),
        (lambda: status(403, "Forbidden"), Forbidden),
        (lambda: status(410, "Expired"), Gone),
        (lambda: web.Response(status=404, text="404 page not found"), NotFound),
        (lambda: web.Response(status=500, text="<html>"), ApiError),
        (lambda: web.Response(status=401), Unauthorized),
        (lambda: web.Response(status=503, text="starting"), Unavailable),
    ],
)
async def test_errors_keep_their_meaning(answer: Callable[[], web.Response], error: type[ApiError]) -> None:
    async def handler(request: web.Request) -> web.Response:
        return answer()

    async with transport(handler) as client:
        with pytest.raises(error):
            await client.request("GET", "/x")


async def test_a_busy_server_is_asked_again() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.method)
        if len(asked) < 3:
            return web.Response(status=429, headers={"Retry-After": "0"})
        return web.json_response({})

    async with transport(handler) as client:
        assert await client.request("POST", "/x", body={}) == b"{}"
    assert asked == ["POST"] * 3


async def test_but_not_for_ever() -> None:
    asked = 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=429, headers={"Retry-After": "0"})

    async with transport(handler) as client:
        with pytest.raises(TooManyRequests):
            await client.request("GET", "/x")
    assert asked == 8


async def test_what_may_have_happened_is_not_repeated() -> None:
    asked = 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=503)

    async with transport(handler) as client:
        with pytest.raises(Unavailable):
            await client.request("POST", "/x", body={})
    assert asked == 1


async def test_a_refused_token_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def handler(request: web.Request) -> web.Response:
        if request.headers["Authorization"] == "Bearer old":
            token.write_text("new")
            return web.Response(status=401)
        return web.json_response({})

    async with transport(handler, credentials=TokenFile(token)) as client:
        assert await client.request("GET", "/x") == b"{}"


async def test_nobody_listens() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    async with server(handler) as url:
        pass
    client = Transport(Access(url, source="my kubeconfig"))
    with pytest.raises(Unavailable, match=r"cannot reach the API server at http://127.* \(my kubeconfig\)"):
        await client.request("GET", "/x")
    await client.close()


async def test_a_stream_that_breaks_off() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport is not None
        request.transport.close()
        return response

    async with transport(handler) as client:
        received = b""
        with pytest.raises(Unavailable, match="was lost during a response"):
            async with client.stream("/x") as pieces:
                async for piece in pieces:
                    received += piece
        assert received == b"one\n"


async def test_a_stream_that_is_refused() -> None:
    async def handler(request: web.Request) -> web.Response:
        return status(410, "Expired")

    async with transport(handler) as client:
        with pytest.raises(Gone):
            async with client.stream("/x"):
                pass


async def test_a_server_that_never_answers() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with transport(handler) as client:
        with pytest.raises(Unavailable, match="in time"):
            async with client.stream("/x", seconds=0.2):
                pass


async def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    certificate, key = self_signed()
    (tmp_path / "both.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=certificate.decode())
    context.load_cert_chain(tmp_path / "both.pem")
    context.verify_mode = ssl.CERT_REQUIRED

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        return web.json_response({"subject": subject[0][0][1]})

    async with server(handler, context) as url:
        trusted = Access(url, authority=certificate, certificate=certificate, key=key)
        client = Transport(trusted)
        assert await client.request("GET", "/x") == b'{"subject": "localhost"}'
        await client.close()
        for access, message in (
            (replace(trusted, authority=self_signed()[0]), "certificate that is not trusted"),
            (replace(trusted, tls_name="example.org"), "certificate that is not trusted"),
            (replace(trusted, certificate=b"", key=b""), "the connection to|cannot reach"),
            (replace(trusted, key=self_signed()[1]), "client certificate of the kubeconfig cannot be used"),
        ):
            client = Transport(access)
            with pytest.raises(Unavailable, match=message):
                await client.request("GET", "/x")
            await client.close()
        client = Transport(replace(trusted, authority=b"", insecure=True))
        assert await client.request("GET", "/x")
        await client.close()


def self_signed() -> tuple[bytes, bytes]:
    """A self-signed certificate for both ends of a connection."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private


async def test_warnings_reach_whoever_listens() -> None:
    async def handler(request: web.Request) -> web.Response:
        response = web.json_response({})
        response.headers.add("Warning", '299 - "unknown field \\"a\\""')
        response.headers.add("Warning", '299 - "second"')
        return response

    heard: list[str] = []
    async with server(handler) as url:
        client = Transport(Access(url), on_warning=heard.append)
        await client.request("GET", "/x")
        await client.close()
    assert heard == ['unknown field "a"', "second"]


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ('299 - "a b"', "a b"),
        ('299 - "say \\"hi\\""', 'say "hi"'),
        ("plain", "plain"),
        ('299 agent "x" "date"', 'x" "date'),
    ],
)
def test_the_text_of_a_warning(header: str, text: str) -> None:
    assert warning_text(header) == text
