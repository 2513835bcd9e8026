"""Serves the web UI, and plain pages if it was not built."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

WELCOME = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Muster</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 12vh auto; padding: 0 1rem }
  input, button { font: inherit; width: 100%; box-sizing: border-box; padding: .5rem; margin: .25rem 0 1rem }
  [role=alert] { color: #b00020; min-height: 1.5em }
</style>
<h1>Muster</h1>
<p id="told">Looking at the link …</p>
<form hidden>
  <input name="username" autocomplete="username" readonly hidden>
  <label>Password 密码 <input name="password" type="password" autocomplete="new-password" required></label>
  <button>Log in 登录</button>
</form>
<p role="alert"></p>
<script src="/welcome.js" type="module"></script>
"""

WELCOME_SCRIPT = """const told = document.querySelector("#told")
const form = document.querySelector("form")
const alert = document.querySelector("[role=alert]")
const secret = location.hash.slice(1)

async function ask(path, body) {
  const answer = await fetch(`/api/v1/${path}`, {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body),
  })
  const said = await answer.json()
  if (!answer.ok) throw new Error(said.detail)
  return said
}

form.addEventListener("submit", async event => {
  event.preventDefault()
  alert.textContent = ""
  try {
    await ask("link/use", {secret, password: form.password.value})
    location.replace("/")
  } catch (error) {
    alert.textContent = error.message
  }
})

try {
  const {name} = await ask("link", {secret})
  told.textContent = `Choose a password for the account “${name}”. 请为账号“${name}”设置密码。`
  form.username.value = name
  form.hidden = false
} catch (error) {
  told.textContent = error.message
}
"""

NOT_BUILT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Muster</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 36rem; margin: 12vh auto; padding: 0 1rem }
  code { background: #8883; padding: .1em .3em; border-radius: .2em }
</style>
<h1>Muster</h1>
<p>The web UI was not built. In a checkout of Muster, run <code>make ui</code> and load this page again.</p>
<p lang="zh">网页界面尚未构建。请在 Muster 的源码目录中运行 <code>make ui</code>，然后刷新本页。</p>
<p>The API is here: <a href="/api/v1/health">/api/v1</a>, and so is <code>muster --help</code>.</p>
"""


UI = Path(__file__).parent / "ui"
_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


def add_pages(app: FastAPI, ui: Path = UI) -> None:
    """Returns a file of the UI, or the page, for every path outside the API."""

    async def page_or_file(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})  # before it is accepted, this is a 403
            return
        path: str = scope["path"]
        if path.startswith("/api/") or path == "/api":
            raise HTTPException(404)
        if scope["method"] not in {"GET", "HEAD"}:
            raise HTTPException(405)
        await answer(ui, Request(scope))(scope, receive, send)

    app.router.default = page_or_file


def answer(ui: Path, request: Request) -> Response:
    path = request.url.path
    page = read(ui / "index.html")
    if page is None:
        return _without_ui(path)
    if path.startswith("/assets/"):
        return _asset(ui, path.removeprefix("/assets/"), request)
    known = _file(ui, path.removeprefix("/"), request) if path.count("/") == 1 else None
    return known or _respond(page, request, _ASK_AGAIN)


def _asset(ui: Path, name: str, request: Request) -> Response:
    found = _find_file(ui / "assets", name)
    if found is None:
        raise HTTPException(404, "there is no such file; load the page again, it may be older than the server")
    return _respond(found, request, _FOR_EVER)


def _file(ui: Path, name: str, request: Request) -> Response | None:
    """One that lies beside the page, like its icon."""
    found = _find_file(ui, name)
    return None if found is None else _respond(found, request, _ASK_AGAIN)


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    packed: bytes | None
    """The same for those who can unpack it, if it was worth it."""
    type: str
    etag: str


def read(path: Path) -> File | None:
    """Reads a file; None if it does not exist. Reads the disk again only if the file changed."""
    try:
        status = path.stat()
    except OSError:
        return None
    return _read(path, status.st_mtime_ns, status.st_size)


@cache
def _read(path: Path, changed: int, size: int) -> File:
    packed = path.with_name(f"{path.name}.gz")
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind in {"application/json", "image/svg+xml"}
    return File(
        path.read_bytes(),
        packed.read_bytes() if packed.exists() else None,
        f"{kind}; charset=utf-8" if text else kind,
        f'"{changed:x}-{size:x}"',
    )


def _find_file(folder: Path, name: str) -> File | None:
    """Only files in the folder; a name cannot lead elsewhere."""
    if not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name or name.endswith(".gz"):
        return None
    path = folder / name
    return read(path) if path.is_file() else None


def _respond(file: File, request: Request, keep: str) -> Response:
    headers = {"Cache-Control": keep, "ETag": file.etag, "Vary": "Accept-Encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    content = file.content
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        content = file.packed
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=file.type, headers=headers)


def _without_ui(path: str) -> Response:
    once = {"Cache-Control": "no-store"}
    if path == "/welcome":
        return Response(WELCOME, media_type="text/html", headers=once)
    if path == "/welcome.js":
        return Response(WELCOME_SCRIPT, media_type="text/javascript", headers=once)
    if path.startswith("/assets/") or "." in path.rpartition("/")[2]:
        raise HTTPException(404)
    return Response(NOT_BUILT, 503, headers=once, media_type="text/html")
