"""Volumes over HTTP on a complete Muster, with Pods that really use them."""

from __future__ import annotations

import asyncio
import io
import tarfile
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from muster.kube.builtin import POD
from muster.kube.objects import status_of
from muster.platform.database.database import sqlite_url
from muster.server.platform.security import LARGEST_BODY
from tests.server.platform.served import Client
from tests.server.platform.whole import PATIENCE, Whole, eventually, whole_muster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def muster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whole]:
    folder = tmp_path_factory.mktemp("volumes")
    async with whole_muster(folder / "home", sqlite_url(folder / "platform.db")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(muster: Whole) -> Client:
    await muster.admin.post("teams", {"name": "ml"})
    return await muster.member("ann", "ml")


async def bound(client: Client, name: str, **more: Any) -> str:
    """Creates a volume. Returns its path in the API."""
    made = await client.post("volumes", {"name": name, "size": "1Gi", **more})
    path = f"volumes/{made['namespace']}/{name}"

    async def is_bound() -> bool:
        return bool((await client.get(path))["state"] == "bound")

    await eventually(is_bound)
    return path


async def put(client: Client, route: str, content: Any, **query: str) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession(headers=client._headers) as session,
        session.put(f"{client.url}/api/v1/{route}", data=content, params=query) as response,
    ):
        return response.status, await response.json()


async def fetch(client: Client, route: str, headers: dict[str, str] | None = None, **query: str) -> Any:
    """Returns the response and its content."""
    async with (
        aiohttp.ClientSession(headers=client._headers) as session,
        session.get(f"{client.url}/api/v1/{route}", params=query, headers=headers) as response,
    ):
        return response, await response.read()


async def test_files_travel_between_a_person_and_a_pod(muster: Whole, ann: Client) -> None:
    path = await bound(ann, "data")
    volume = await ann.get(path)
    assert (volume["size"], volume["owner_name"], volume["used_by"], volume["may"]) == (
        "1Gi", "ann", [], ["write", "delete"],
    )  # fmt: skip
    await ann.post(f"{path}/folders", {"path": "in"})
    status, entry = await put(ann, f"{path}/files/content", b"hello", path="in/words.txt")
    assert (status, entry["path"], entry["size"]) == (201, "in/words.txt", 5)
    script = (
        "tr a-z A-Z < /v/in/words.txt > /v/in/answer.txt && echo more >> /v/in/words.txt && mkdir /v/out && sleep 60"
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user", "namespace": "user-ann"},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "command": ["sh", "-c", script],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                }
            ],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }
    await muster.cluster.create(pod)

    async def has_written() -> bool:
        found = await muster.cluster.get(POD, "user", "user-ann")
        assert status_of(found).get("phase") != "Failed", status_of(found)
        return "out" in [item["name"] for item in (await ann.get(f"{path}/files"))["items"]]

    await eventually(has_written)
    _, answer = await fetch(ann, f"{path}/files/content", path="in/answer.txt")
    _, words = await fetch(ann, f"{path}/files/content", path="in/words.txt")
    assert (answer, words) == (b"HELLO", b"hellomore\n")
    assert (await ann.get(path))["used_by"] == [
        {"kind": "pod", "namespace": "user-ann", "name": "user", "resource": "", "run_id": ""}
    ]
    refused = (await ann("DELETE", path)).refused(409)
    assert (refused["code"], refused["arguments"]["users"]) == ("volume.used", ["pod user"])
    await muster.cluster.delete(POD, "user", "user-ann", grace_seconds=0)

    async def is_unused() -> bool:
        return not (await ann.get(path))["used_by"]

    await eventually(is_unused)
    folder = muster.home / "volumes" / "user-ann"
    assert any(folder.iterdir())
    (await ann("DELETE", path)).ok()

    async def is_gone() -> bool:
        return (await ann("GET", path)).status == 404 and not any(folder.glob("data-*"))

    await eventually(is_gone)
    actions = [e["action"] for e in (await muster.admin.get("audit?kind=volume"))["items"]]
    assert actions == ["delete", "upload file", "create folder", "create"]


async def test_a_file_is_sent_as_a_download_whole_or_in_parts(ann: Client) -> None:
    path = await bound(ann, "pages")
    page = b"<script>alert(document.cookie)</script>"
    await put(ann, f"{path}/files/content", page, path='a"b.html')
    response, content = await fetch(ann, f"{path}/files/content", path='a"b.html')
    assert (response.status, content, response.headers["Content-Type"]) == (200, page, "application/octet-stream")
    assert response.headers["Content-Disposition"].startswith('attachment; filename="a_b.html"')
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    tag = response.headers["ETag"]
    parts: list[tuple[dict[str, str], int, bytes]] = [
        ({"Range": "bytes=1-6"}, 206, b"script"),
        ({"Range": "bytes=-9"}, 206, b"</script>"),
        ({"Range": "bytes=1-6", "If-Range": tag}, 206, b"script"),
        ({"Range": "bytes=1-6", "If-Range": '"old"'}, 200, page),
        ({"Range": "bytes=1000-"}, 416, b""),
    ]
    for headers, status, expected in parts:
        response, content = await fetch(ann, f"{path}/files/content", headers, path='a"b.html')
        assert (response.status, content) == (status, expected)


async def test_a_large_file_is_stored_as_it_arrives(ann: Client) -> None:
    path = await bound(ann, "large")
    block = bytes(range(256)) * 4096

    async def content() -> AsyncIterator[bytes]:
        for _ in range(LARGEST_BODY // len(block) + 2):
            yield block

    size = len(block) * (LARGEST_BODY // len(block) + 2)
    status, entry = await put(ann, f"{path}/files/content", content(), path="large.bin")
    assert (status, entry["size"]) == (201, size)
    usage = await ann.get(f"{path}/usage")
    assert usage["files"] == 1 and usage["bytes"] >= size and usage["complete"]
    response, part = await fetch(ann, f"{path}/files/content", {"Range": f"bytes={size - 256}-"}, path="large.bin")
    assert (response.headers["Content-Range"], part) == (f"bytes {size - 256}-{size - 1}/{size}", bytes(range(256)))


async def test_an_upload_that_breaks_off_leaves_nothing(muster: Whole, ann: Client) -> None:
    path = await bound(ann, "broken")
    sent = asyncio.Event()

    async def content() -> AsyncIterator[bytes]:
        yield b"x" * 3_000_000
        sent.set()
        await asyncio.sleep(PATIENCE)

    uploading = asyncio.create_task(put(ann, f"{path}/files/content", content(), path="a"))
    await sent.wait()
    uploading.cancel()
    (folder,) = (muster.home / "volumes" / "user-ann").glob("broken-*")

    async def is_empty() -> bool:
        return not list(folder.iterdir())

    await eventually(is_empty)


async def test_folders_are_sent_as_archives_and_files_are_renamed_and_deleted(muster: Whole, ann: Client) -> None:
    path = await bound(ann, "tree", team="ml")
    assert path == "volumes/team-ml/tree"
    await ann.post(f"{path}/folders", {"path": "d"})
    await put(ann, f"{path}/files/content", b"1", path="d/one")
    refused = await put(ann, f"{path}/files/content", b"2", path="d/one")
    assert (refused[0], refused[1]["code"]) == (409, "volume.exists")
    await put(ann, f"{path}/files/content", b"2", path="d/one", replace="true")
    await ann.post(f"{path}/files/rename", {"path": "d/one", "to": "d/two"})
    assert (await ann("POST", f"{path}/files/rename", {"path": "d", "to": "d/e"})).refused(409)[
        "code"
    ] == "volume.inside"
    response, content = await fetch(ann, f"{path}/files/archive", path="d")
    assert 'filename="d.zip"' in response.headers["Content-Disposition"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"two": b"2"}
    response, content = await fetch(ann, f"{path}/files/archive", format="tar")
    assert 'filename="tree.tar"' in response.headers["Content-Disposition"]
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.getnames() == ["d", "d/two"]
    (await ann("DELETE", f"{path}/files?path=d")).ok()
    assert (await ann("DELETE", f"{path}/files?path=d")).refused(404)["code"] == "volume.missing"
    assert (await ann("DELETE", f"{path}/files")).refused(422)["errors"][0]["code"] == "volume.top"
    assert (await ann.get(f"{path}/files"))["items"] == []
    entries = (await muster.admin.get("audit?kind=volume"))["items"]
    noted = [(e["action"], e["details"].get("path")) for e in entries if e["subject_name"] == "tree"]
    assert noted == [
        ("delete folder", "d"),
        ("rename file", "d/one"),
        ("upload file", "d/one"),
        ("upload file", "d/one"),
        ("create folder", "d"),
        ("create", None),
    ]


async def test_volumes_are_listed_for_those_who_may_see_them(muster: Whole, ann: Client) -> None:
    await bound(ann, "own")
    await bound(ann, "ours", team="ml")
    bob = await muster.member("bob", "ml")
    eve = await muster.member("eve")
    names = {
        name: {item["name"] for item in (await client.get("volumes?q=ou"))["items"]}
        for name, client in (("ann", ann), ("bob", bob), ("eve", eve), ("admin", muster.admin))
    }
    assert names == {"ann": {"ours"}, "bob": {"ours"}, "eve": set(), "admin": {"ours"}}
    assert (await bob.get("volumes/team-ml/ours"))["may"] == ["write"]
    (await bob("DELETE", "volumes/team-ml/ours")).refused(403)
    (await eve("GET", "volumes/user-ann/own/files")).refused(404)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "Upper"}, "volume.name"),
        ({"name": "../x"}, "volume.name"),
        ({"name": "x" * 64}, "volume.name"),
        ({"name": "x", "size": "much"}, "volume.size"),
        ({"name": "x", "size": "-1Gi"}, "volume.size"),
        ({"name": "x", "size": "0"}, "volume.size"),
    ],
)
async def test_a_volume_that_is_not_valid_is_refused(ann: Client, body: dict[str, str], code: str) -> None:
    assert (await ann("POST", "volumes", body)).refused(422)["errors"][0]["code"] == code


async def test_a_name_is_taken_once(ann: Client) -> None:
    await bound(ann, "twice")
    assert (await ann("POST", "volumes", {"name": "twice"})).refused(409)["code"] == "volume.taken"
