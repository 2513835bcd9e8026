"""The page and the files of the web UI, and what is served if it was not built."""

from __future__ import annotations

import gzip
from pathlib import Path

import aiohttp
import pytest
from starlette.requests import Request
from starlette.responses import Response

from muster.server.platform.pages import answer
from tests.server.platform.served import Served

only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def ui(tmp_path: Path) -> Path:
    assets = tmp_path / "ui" / "assets"
    assets.mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("not for browsers")
    (assets.parent / "index.html").write_text("<!doctype html><title>the page</title>")
    (assets.parent / "icon.svg").write_text("<svg/>")
    (assets / "index-1a2b.js").write_text("run()")
    (assets / "index-1a2b.js.gz").write_bytes(gzip.compress(b"run()"))
    return assets.parent


def get(ui: Path, path: str, **headers: str) -> Response:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": raw, "query_string": b"", "server": ("h", 80)}
    return answer(ui, Request(scope))


class TestFiles:
    @pytest.mark.parametrize("path", ["/", "/workflows/w1/versions/2", "/welcome", "/runs/r1?node=a", "/no/../such"])
    def test_every_address_serves_the_page(self, ui: Path, path: str) -> None:
        page = get(ui, path)
        assert b"the page" in bytes(page.body)
        assert page.headers["cache-control"] == "no-cache"
        assert page.headers["content-type"] == "text/html; charset=utf-8"

    def test_files_with_hashes_are_cached_forever_and_compressed(self, ui: Path) -> None:
        plain, packed = (get(ui, "/assets/index-1a2b.js", accept_encoding=said) for said in ("identity", "gzip, br"))
        assert plain.body == b"run()"
        assert gzip.decompress(bytes(packed.body)) == b"run()"
        assert packed.headers["content-encoding"] == "gzip"
        assert "immutable" in plain.headers["cache-control"]
        assert get(ui, "/assets/index-1a2b.js", if_none_match=plain.headers["etag"]).status_code == 304

    def test_files_beside_the_page(self, ui: Path) -> None:
        assert get(ui, "/icon.svg").headers["content-type"].startswith("image/svg+xml")

    @pytest.mark.parametrize(
        "name", ["gone-0.js", "../index.html", "../../secret.txt", "..%2findex.html", "", ".", "index-1a2b.js.gz"]
    )
    def test_no_other_files_are_served(self, ui: Path, name: str) -> None:
        with pytest.raises(Exception, match="404"):
            get(ui, f"/assets/{name}")


class TestWithoutUi:
    def test_the_page_says_how_to_build_the_ui(self, tmp_path: Path) -> None:
        told = get(tmp_path, "/workflows")
        assert told.status_code == 503
        assert b"make ui" in bytes(told.body)

    def test_the_one_time_link_still_works(self, tmp_path: Path) -> None:
        assert b"welcome.js" in bytes(get(tmp_path, "/welcome").body)
        assert b"link/use" in bytes(get(tmp_path, "/welcome.js").body)


@only_sqlite
async def test_pages_do_not_hide_api_routes(served: Served) -> None:
    stranger = served.client()
    (await stranger("GET", "/api/v1/nothing")).refused(404)
    (await stranger("GET", "/api")).refused(404)
    (await stranger("POST", "/workflows")).refused(405)
    (await stranger("PUT", "/api/v1/health")).refused(405)


@only_sqlite
async def test_only_scripts_from_files_run(served: Served) -> None:
    async with aiohttp.ClientSession() as session, session.get(served.url) as page:
        policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
