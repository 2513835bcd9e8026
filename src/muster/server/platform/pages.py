"""The web UI: one page, whose script finds out by the address what to show, and the files that it is made of.

`make ui` builds it into the folder `ui` beside this file, and wheels have it. Files under /assets have their content's
hash in their names, so browsers keep them for ever; the page itself is asked for each time.
"""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from muster.server.platform.plain_pages import NOT_BUILT, WELCOME, WELCOME_SCRIPT

UI = Path(__file__).parent / "ui"
_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


def add_pages(app: FastAPI, ui: Path = UI) -> None:
    """Everything that is not the API's: a file of the UI, or the page."""

    async def page_or_file(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
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
    found = _known(ui / "assets", name)
    if found is None:
        raise HTTPException(404, "there is no such file; load the page again, it may be older than the server")
    return _respond(found, request, _FOR_EVER)


def _file(ui: Path, name: str, request: Request) -> Response | None:
    """One that lies beside the page, like its icon."""
    found = _known(ui, name)
    return None if found is None else _respond(found, request, _ASK_AGAIN)


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    packed: bytes | None
    """The same for those who can unpack it, if it was worth it."""
    type: str
    etag: str


def read(path: Path) -> File | None:
    """None if it is not there. Looks at the disk again only if it has changed."""
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


def _known(folder: Path, name: str) -> File | None:
    """Of the files that are in the folder; a name can lead nowhere else."""
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
