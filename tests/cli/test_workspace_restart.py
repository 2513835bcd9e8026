"""The server is killed while a workspace is open in a browser: the Pod goes on, and the page reconnects."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.commands import Muster
from tests.embedded.waiting import wait_until

_SERVER = """
import http.server, os
class Counter(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        Counter.count += 1
        self.send_response(200); self.end_headers()
        self.wfile.write(f"{os.getpid()} {Counter.count}".encode())
server = http.server.HTTPServer(("", 0), Counter)
open("/data/port", "w").write(str(server.server_port))
server.serve_forever()
"""


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object) -> None:
        return None


def ask(url: str, host: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    """The status, the body and the cookie of an answer."""
    data = b"{}" if method == "POST" else None
    sent = {"Host": host, "Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, data, sent, method=method)
    try:
        answer: HTTPResponse = urllib.request.build_opener(_Stay).open(request, timeout=30)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers.get("Set-Cookie", "")
    except OSError as error:
        return 0, str(error), ""
    with answer:
        return answer.status, answer.read().decode(), answer.headers.get("Set-Cookie", "")


@pytest.mark.slow
@pytest.mark.smoke
async def test_a_page_survives_the_death_of_the_server(muster: Muster) -> None:
    home = muster.home
    muster("up", "-d").ok()
    work = muster.folder / "work"
    work.mkdir()
    command: dict[str, Any] = {"name": "main", "image": "python:3.11", "command": ["python3", "-c", _SERVER]}
    command["volumeMounts"] = [{"name": "work", "mountPath": "/data"}]
    spec = {"containers": [command], "volumes": [{"name": "work", "hostPath": {"path": str(work)}}]}
    metadata = {"name": "lab"}
    muster.file("lab.json", json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    muster("apply", "-f", "lab.json").ok()
    await wait_until(lambda: (work / "port").exists() and (work / "port").read_text())
    annotation = {"workspaces.muster.dev/port": (work / "port").read_text()}
    changed = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "annotations": annotation}, "spec": spec}
    muster.file("lab.json", json.dumps(changed))
    muster("apply", "-f", "lab.json").ok()
    uid = json.loads(muster("get", "pod", "lab", "-o", "json").ok().out)["metadata"]["uid"]

    web = (home / "web-port").read_text().strip()
    token = (home / "platform" / "local-token").read_text().strip()
    base = f"http://127.0.0.1:{web}"
    _, said, _ = ask(
        f"{base}/api/v1/workspaces/{uid}/open", f"localhost:{web}", "POST", Authorization=f"Bearer {token}"
    )
    link = urlsplit(json.loads(said)["url"])
    status, _, cookie = ask(f"{base}{link.path}?{link.query}", link.netloc)
    assert status == 303
    browser = {"Cookie": cookie.partition(";")[0]}
    status, first, _ = ask(f"{base}/", link.netloc, **browser)
    assert (status, first.split()[1]) == (200, "1")

    os.kill(json.loads((home / "server.json").read_text())["pid"], signal.SIGKILL)
    muster("up", "-d").ok()
    assert (home / "web-port").read_text().strip() == web
    await wait_until(lambda: ask(f"{base}/", link.netloc, **browser)[0] == 200)
    _, again, _ = ask(f"{base}/", link.netloc, **browser)
    assert again.split()[0] == first.split()[0]  # the same process
    assert int(again.split()[1]) > 1  # with its state
    muster("delete", "pod", "lab", "--grace-period=0").ok()
