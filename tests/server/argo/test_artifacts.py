"""Users who may read a workflow may download its artifacts. Browsers do not run scripts in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.kube.objects import Object
from muster.kube.rbac import AUTHENTICATED
from muster.server.argo.artifacts import folder_page, secrets_in
from tests.server.argo.served import Argo, serving

NODES: Object = {
    "wf": {
        "id": "wf", "name": "wf", "type": "Pod", "phase": "Succeeded", "templateName": "main",
        "outputs": {"artifacts": [
            {"name": "model", "s3": {"key": "wf/model.html"}, "archive": {"none": {}}},
            {"name": "folder", "s3": {"key": "wf/folder"}, "archive": {"none": {}}},
            {"name": "gone", "s3": {"key": "wf/gone"}},
            {"name": "secret", "s3": {"key": "x", "bucket": "b", "endpoint": "s3.example.com",
                                      "accessKeySecret": {"name": "keys", "key": "a"}}},
        ]},
        "inputs": {"artifacts": [{"name": "words", "raw": {"data": "hello"}}]},
    },
}  # fmt: skip


@pytest.fixture
async def argo(tmp_path: Path) -> AsyncIterator[Argo]:
    kept = tmp_path / "artifacts" / "default" / "wf"
    (kept / "folder" / "inner").mkdir(parents=True)
    (kept / "model.html").write_text("<script>alert(1)</script>")
    (kept / "folder" / "a.txt").write_text("a")
    (kept / "folder" / "inner" / "b.txt").write_text("b")
    async with serving(tmp_path, artifacts=True) as served, served.session() as session:
        argo = Argo(served, session)
        await argo.workflow("wf", "Succeeded", NODES)
        yield argo


async def get(argo: Argo, path: str, token: str | None = None) -> tuple[int, str, dict[str, str]]:
    async with argo.served.session(token) as session, session.get(path, allow_redirects=False) as response:
        return response.status, await response.text(), {name.lower(): value for name, value in response.headers.items()}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/artifacts/default/wf/wf/model", "<script>alert(1)</script>"),
        ("/artifacts/default/@latest/wf/model", "<script>alert(1)</script>"),
        ("/artifacts-by-uid/UID/wf/model", "<script>alert(1)</script>"),
        ("/input-artifacts/default/wf/wf/words", "hello"),
        ("/input-artifacts-by-uid/UID/wf/words", "hello"),
        ("/artifact-files/default/workflows/wf/wf/outputs/model", "<script>alert(1)</script>"),
        ("/artifact-files/default/workflows/wf/wf/outputs/folder/inner/b.txt", "b"),
        ("/artifact-files/default/archived-workflows/UID/wf/outputs/folder/a.txt", "a"),
        ("/artifact-files/default/workflows/wf/wf/inputs/words", "hello"),
    ],
)
async def test_downloads(argo: Argo, path: str, text: str) -> None:
    uid = (await argo("GET", "workflows/default/wf"))["metadata"]["uid"]
    status, body, headers = await get(argo, path.replace("UID", uid))
    assert (status, body) == (200, text)
    assert "sandbox" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


async def test_a_download_has_the_name_of_its_file(argo: Argo) -> None:
    _, _, headers = await get(argo, "/artifacts/default/wf/wf/model")
    assert headers["content-disposition"] == 'filename="model.html"'
    assert headers["content-type"] == "text/html"


async def test_a_folder_is_a_page_of_links(argo: Argo) -> None:
    where = "/artifact-files/default/workflows/wf/wf/outputs/folder"
    status, _, headers = await get(argo, where)
    assert (status, headers["location"]) == (307, f"{where}/")
    status, page, headers = await get(argo, f"{where}/")
    assert status == 200
    assert '<a href="./a.txt">a.txt</a>' in page
    assert '<a href="./inner/">inner/</a>' in page
    assert "sandbox" in headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/artifacts/default/wf/wf/gone", 404),
        ("/artifacts/default/wf/wf/nothing", 404),
        ("/artifacts/default/wf/other/model", 404),
        ("/artifacts/default/nope/wf/model", 404),
        ("/artifacts-by-uid/nope/wf/model", 404),
        ("/artifact-files/default/workflows/wf/wf/sideways/model", 400),
        ("/artifact-files/default/elsewhere/wf/wf/outputs/model", 400),
        ("/artifact-files/default/workflows/wf/wf/outputs/folder/..%2F..%2Fsecret", 400),
    ],
)
async def test_missing_artifacts(argo: Argo, path: str, status: int) -> None:
    assert (await get(argo, path))[0] == status


async def test_artifacts_need_permission_to_read_the_workflow(argo: Argo) -> None:
    uid = (await argo("GET", "workflows/default/wf"))["metadata"]["uid"]
    paths = (
        "/artifacts/default/wf/wf/model",
        f"/artifacts-by-uid/{uid}/wf/model",
        "/input-artifacts/default/wf/wf/words",
        "/artifact-files/default/workflows/wf/wf/outputs/model",
    )
    bob = argo.served.identity.tokens.issue("bob", [AUTHENTICATED])
    for path in paths:
        assert (await get(argo, path, ""))[0] == 401
        assert (await get(argo, path, bob))[0] == 403


def test_credentials_need_permission_to_read_the_secret() -> None:
    artifact = NODES["wf"]["outputs"]["artifacts"][3]
    assert list(secrets_in({"s3": artifact["s3"]})) == ["keys"]
    assert list(secrets_in({"s3": {"key": "x"}})) == []


def test_names_in_links_are_escaped() -> None:
    page = folder_page(["javascript:alert(1)", "<b>.txt", "in/a", "in/b"]).decode()
    assert 'href="./javascript%3Aalert%281%29"' in page
    assert "<b>" not in page
    assert page.count("in/") == 2, "one link, with its text"
