from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muster.kube.errors import Unauthorized
from muster.kube.remote.kubeconfig import Access, Password, Plugin, Token, TokenFile
from muster.kube.remote.transport import REREAD_SECONDS, Credentials

PRINTS = """
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["kind"] == "ExecCredential"
path = sys.argv[1]
count = int(open(path).read() or 0) + 1 if os.path.exists(path) else 1
open(path, "w").write(str(count))
print(json.dumps({"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": STATUS}))
"""


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def plugin(tmp_path: Path, status: str) -> Plugin:
    """A program that counts its calls."""
    script = tmp_path / "plugin.py"
    script.write_text(PRINTS.replace("STATUS", status))
    return Plugin(sys.executable, (str(script), str(tmp_path / "count")))


@pytest.mark.parametrize(
    ("credentials", "header"),
    [(None, ""), (Token("t"), "Bearer t"), (Password("u", "p"), "Basic dTpw")],
)
async def test_the_simple_ones(credentials: Token | Password | None, header: str) -> None:
    found = Credentials(Access("https://h", credentials=credentials))
    assert await found.header() == header
    assert not found.can_renew


async def test_a_token_file_is_read_again_after_a_while(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text("old\n")
    found = Credentials(Access("https://h", credentials=TokenFile(path)), clock)
    assert await found.header() == "Bearer old"
    path.write_text("new\n")
    assert await found.header() == "Bearer old"
    clock.now += REREAD_SECONDS
    assert await found.header() == "Bearer new"


async def test_a_token_file_is_read_again_when_the_server_refuses_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    found = Credentials(Access("https://h", credentials=TokenFile(path)))
    await found.header()
    path.write_text("new")
    found.renew()
    assert found.can_renew and await found.header() == "Bearer new"


async def test_a_token_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(Unauthorized, match="cannot be read"):
        await Credentials(Access("https://h", credentials=TokenFile(tmp_path / "token"))).header()


async def test_a_plugin_is_asked_again_when_its_token_expires(tmp_path: Path) -> None:
    clock = Clock()
    source = plugin(tmp_path, '{"token": f"t{count}", "expirationTimestamp": "2027-01-15T09:00:00Z"}')
    found = Credentials(Access("https://h", credentials=source), clock)
    assert await found.header() == "Bearer t1"
    clock.now += 3580
    assert await found.header() == "Bearer t1"
    clock.now += 15
    assert await found.header() == "Bearer t2"


async def test_a_plugin_without_an_expiry_is_asked_once(tmp_path: Path) -> None:
    found = Credentials(Access("https://h", credentials=plugin(tmp_path, '{"token": f"t{count}"}')))
    assert [await found.header() for _ in range(3)] == ["Bearer t1"] * 3


async def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    source = plugin(tmp_path, '{"clientCertificateData": "cert", "clientKeyData": "key"}')
    found = Credentials(Access("https://h", credentials=source))
    assert await found.header() == ""
    assert found.certificate == (b"cert", b"key")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Plugin("no-such-program", install_hint="Install it."), r"no-such-program.*Install it\."),
        (Plugin(sys.executable, ("-c", "import sys; sys.exit('not logged in')")), "ended with code 1: not logged in"),
        (Plugin(sys.executable, ("-c", "print('hello')")), "printed no ExecCredential"),
        (Plugin(sys.executable, ("-c", "print('{}')")), "printed no ExecCredential"),
    ],
)
async def test_a_plugin_that_fails(source: Plugin, message: str) -> None:
    with pytest.raises(Unauthorized, match=message):
        await Credentials(Access("https://h", credentials=source)).header()
