"""The program with which an MPI job's launcher reaches its workers, against our own API server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.training.kinds import kubexec
from tests.server.kubernetes.served import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as running:
        yield running


async def run(served: Served, *arguments: str, token: str = "") -> tuple[int, bytes, bytes]:
    folder = served.kubeconfig.parent / "account"
    folder.mkdir(exist_ok=True)
    (folder / "namespace").write_text("default")
    (folder / "token").write_text(token or served.token)
    (folder / "ca.crt").write_bytes(served.certificates.authority_pem())
    host, _, port = served.url.removeprefix("https://").partition(":")
    environment = {
        "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "KUBEXEC_ACCOUNT": str(folder),
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, kubexec.__file__, *arguments, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out, err


async def test_what_a_command_writes_and_how_it_ends(served: Served) -> None:
    assert await run(served, "web", "main", "sh", "-c", "echo out; echo err >&2; exit 3") == (3, b"out\n", b"err\n")
    assert await run(served, "web", "main", "echo", "a b", "$c & d=e") == (0, b"a b $c & d=e\n", b"")


async def test_much_output_arrives_whole(served: Served) -> None:
    code, out, _ = await run(served, "web", "main", "head", "-c", "3000000", "/dev/zero")
    assert (code, len(out)) == (0, 3_000_000)


async def test_a_refusal_says_why_and_looks_like_ssh_s(served: Served) -> None:
    code, out, err = await run(served, "web", "main", "true", token="wrong")
    assert (code, out) == (255, b"")
    assert err.startswith(b"kubexec.py: web cannot be reached: HTTP/1.1 401")
    code, _, err = await run(served, "web", "other", "true")
    assert code == 255 and b"other" in err
    assert (await run(served, "web"))[0] == 255


@pytest.mark.parametrize(
    ("received", "frame"),
    [
        (b"", None),
        (b"\x82", None),
        (b"\x82\x02a", None),
        (b"\x82\x02ab", (True, 2, b"ab", b"")),
        (b"\x02\x02abrest", (False, 2, b"ab", b"rest")),
        (b"\x89\x00", (True, 9, b"", b"")),
        (b"\x82\x7e\x00", None),
        (b"\x82\x7e\x00\x80" + b"a" * 128, (True, 2, b"a" * 128, b"")),
        (b"\x82\x7f" + (70000).to_bytes(8, "big") + b"a" * 70000 + b"b", (True, 2, b"a" * 70000, b"b")),
    ],
)
def test_frames(received: bytes, frame: tuple[bool, int, bytes, bytes] | None) -> None:
    assert kubexec.parse_frame(received) == frame
