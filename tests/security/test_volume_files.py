"""The files of volumes, which the server reads and writes for people with more rights than they have. Pods of theirs
write what is in a volume, links included."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
import pytest_asyncio

from muster.kube.budgets import Budgets
from muster.kube.builtin import PERSISTENT_VOLUME_CLAIM
from muster.kube.cluster import Cluster
from muster.kube.encryption import KEY_FILE, KeyRing
from muster.platform.database.database import Database, sqlite_url
from tests.server.platform.served import Client, Reply, Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

_numbers = count()


@dataclass(frozen=True, slots=True)
class Shelf:
    """A volume of Mallory's, with what a Pod of hers left in it."""

    name: str
    folder: Path
    secret: Path
    mallory: Client
    served: Served

    @property
    def path(self) -> str:
        return f"volumes/user-mallory/{self.name}"

    async def ask(self, method: str, route: str, body: Any = None, **query: str) -> Reply:
        sent = f"?{urlencode(query)}" if query else ""
        return await self.mallory(method, f"{self.path}/{route}{sent}", body)


@dataclass(frozen=True, slots=True)
class Scene:
    served: Served
    mallory: Client
    home: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> AsyncIterator[Scene]:
    home = tmp_path_factory.mktemp("volume-files")
    shutil.copy(migrated_sqlite, home / "platform.db")
    keys = KeyRing.load(home / KEY_FILE)
    database = await Database.open(sqlite_url(home / "platform.db"), keys=keys, survives_power_cut=False)
    try:
        async with serving(database, home) as served:
            yield Scene(served, await served.user("mallory"), home)
    finally:
        database.close()


@pytest_asyncio.fixture(loop_scope="module")
async def shelf(scene: Scene, tmp_path: Path) -> Shelf:
    name = f"data-{next(_numbers)}"
    made = await scene.mallory.post("volumes", {"name": name})
    folder, secret = scene.home / "volumes/user-mallory" / name, tmp_path / "secret"
    for each in (folder, secret):
        each.mkdir(parents=True)
    (secret / "token").write_text("hunter2")
    provisioned = {"pv.kubernetes.io/provisioned-by": "muster.dev/folder"}
    await _bind(scene.served.platform.cluster, made, folder, provisioned)
    return Shelf(name, folder, secret, scene.mallory, scene.served)


async def _bind(cluster: Cluster, volume: dict[str, Any], folder: Path, annotations: dict[str, str]) -> None:
    """What the claim controller does."""
    reference = {"namespace": volume["namespace"], "name": volume["name"], "uid": volume["uid"]}
    capacity = {"storage": "1Gi"}
    name = f"pv-{volume['name']}"
    pv: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"capacity": capacity, "accessModes": ["ReadWriteOnce"], "claimRef": reference,
                 "hostPath": {"path": str(folder)}},
    }  # fmt: skip
    await cluster.create(pv)
    claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, volume["name"], volume["namespace"])
    claim = await cluster.update({**claim, "spec": {**claim["spec"], "volumeName": name}})
    await cluster.update({**claim, "status": {"phase": "Bound", "capacity": capacity}}, subresource="status")


LEADING_OUT = {
    "a link to a file": ("f", "{secret}/token"),
    "a link to a folder": ("d/token", "{secret}"),
    "a link upwards": ("d/token", "../other"),
    "a link through the server": ("d/token", "/proc/self/root{secret}"),
    "a link to a descriptor of the server": ("f", "/proc/self/fd/0"),
}


@pytest.mark.parametrize("attack", LEADING_OUT, ids=lambda attack: f"A volume contains {attack}")
async def test_links_in_a_volume(shelf: Shelf, attack: str) -> None:
    """No route follows it: none reads, writes, renames or deletes behind it."""
    path, target = LEADING_OUT[attack]
    (shelf.folder / path.partition("/")[0]).symlink_to(target.format(secret=shelf.secret))
    (shelf.folder / "own").write_text("mine")
    other = shelf.folder.parent / "other"
    other.mkdir(exist_ok=True)
    (other / "token").write_text("hunter2")
    below = path.partition("/")[0] + "/new"
    asked = [
        await shelf.ask("GET", "files/content", path=path),
        await shelf.ask("GET", "files", path=path.partition("/")[0]),
        await shelf.ask("GET", "files/archive", path=path.partition("/")[0]),
        await shelf.ask("GET", "usage", path=path.partition("/")[0]),
        await shelf.ask("PUT", "files/content", "planted", path=below),
        await shelf.ask("POST", "folders", {"path": below}),
        await shelf.ask("POST", "files/rename", {"path": "own", "to": below}),
        await shelf.ask("DELETE", "files", path=f"{path.partition('/')[0]}/token"),
    ]
    for reply in asked:
        assert reply.status in (404, 409), reply.body
        assert "hunter2" not in str(reply.body)
    whole = await shelf.ask("GET", "files/archive", format="zip")
    assert "hunter2" not in str(whole.body)
    for folder in (shelf.secret, other):
        assert [(f.name, f.read_text()) for f in folder.iterdir()] == [("token", "hunter2")]


async def test_a_link_is_replaced_and_deleted_as_a_link(shelf: Shelf) -> None:
    """A member uploads over a link, renames it and deletes it, and what it leads to stays as it was."""
    for name in ("a", "b"):
        (shelf.folder / name).symlink_to(shelf.secret / "token")
    (await shelf.ask("PUT", "files/content", "mine", path="a", replace="true")).ok()
    assert not (shelf.folder / "a").is_symlink()
    (await shelf.ask("POST", "files/rename", {"path": "b", "to": "c"})).ok()
    (await shelf.ask("DELETE", "files", path="c")).ok()
    assert (shelf.secret / "token").read_text() == "hunter2"


async def test_a_folder_is_swapped_for_a_link_meanwhile(shelf: Shelf) -> None:
    """A Pod swaps a folder for a link out of the volume, as fast as it can, while its files are read and written."""
    (shelf.folder / "inside").mkdir()
    (shelf.folder / "inside" / "token").write_text("mine")
    (shelf.folder / "d").symlink_to("inside")
    ended = threading.Event()

    def swap() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            fresh = shelf.folder / "next"
            if number % 2:
                fresh.symlink_to(shelf.secret)
                (shelf.folder / "d").unlink()
            else:
                fresh.mkdir()
                (fresh / "token").write_text("mine")
                (shelf.folder / "d").unlink()
            fresh.rename(shelf.folder / "d")
            if not number % 2:
                with suppress(OSError):
                    (shelf.folder / "d").rename(shelf.folder / f"old-{number}")
                (shelf.folder / "d").symlink_to("inside")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(60):
            read = await shelf.ask("GET", "files/content", path="d/token")
            assert "hunter2" not in str(read.body)
            await shelf.ask("PUT", "files/content", "planted", path=f"d/{number}")
            await shelf.ask("DELETE", "files", path="d/token")
    finally:
        ended.set()
        swapping.join()
    assert [(f.name, f.read_text()) for f in shelf.secret.iterdir()] == [("token", "hunter2")]


async def test_special_files_in_a_volume(shelf: Shelf) -> None:
    """A FIFO, a socket and a device would block the server, or read the machine."""
    os.mkfifo(shelf.folder / "fifo")
    names = ["fifo"]
    if os.geteuid() == 0:
        with suppress(OSError):  # not in every container
            os.mknod(shelf.folder / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
            names.append("device")
    for name in names:
        assert (await shelf.ask("GET", "files/content", path=name)).refused(409)["code"] == "volume.link"
        (await shelf.ask("PUT", "files/content", "x", path=name)).refused(409)
    listed = (await shelf.ask("GET", "files")).ok()
    assert {item["kind"] for item in listed["items"]} == {"other"}
    (await shelf.ask("GET", "files/archive")).ok()
    for name in names:
        (await shelf.ask("DELETE", "files", path=name)).ok()


ESCAPES = ["..", "../../../secret/token", "%2e%2e/x", "a/%2E%2E/%2E%2E/x", "d%2F..%2F..%2Fx", "a%00b", "x/" * 3000]


@pytest.mark.parametrize("path", ESCAPES, ids=lambda path: f"A member uses the path {path[:24]} in a volume")
async def test_paths_out_of_a_volume(shelf: Shelf, path: str) -> None:
    for method, route in (("GET", "files"), ("GET", "files/content"), ("GET", "files/archive"), ("GET", "usage"),
                          ("PUT", "files/content"), ("DELETE", "files")):  # fmt: skip
        assert (await shelf.ask(method, route, path=path)).status in (400, 422)
    for body in ({"path": path, "to": "x"}, {"path": "x", "to": path}):
        (await shelf.ask("POST", "files/rename", body)).refused(422)


async def test_storage_of_an_admin(shelf: Shelf) -> None:
    """A member reads, through a claim that an admin lets her use, files that her Pods may not read."""
    made = await shelf.mallory.post("volumes", {"name": "shared"})
    await _bind(shelf.served.platform.cluster, made, shelf.secret, {})
    for route in ("files", "files/content?path=token", "files/archive", "usage"):
        reply = (await shelf.mallory("GET", f"volumes/user-mallory/shared/{route}")).refused(409)
        assert reply["code"] == "volume.foreign"
    assert (await shelf.served.admin("GET", "volumes/user-mallory/shared/files")).status == 200


async def test_more_than_the_disk_space_of_a_member(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member uploads more than her volumes may hold, with and without saying how much it is."""
    settings = shelf.served.platform.settings
    monkeypatch.setattr(
        shelf.served.platform, "settings", replace(settings, budgets=Budgets(member_volume_megabytes=1))
    )

    async def content() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"x" * 500_000

    cookies = shelf.mallory.cookies
    for data in (io.BytesIO(b"x" * 2_000_000), content()):
        async with (
            aiohttp.ClientSession(cookies=cookies, headers={"X-CSRF-Token": cookies["muster_csrf"]}) as session,
            session.put(f"{shelf.mallory.url}/api/v1/{shelf.path}/files/content?path=big", data=data) as response,
        ):
            assert response.status == 413
            assert (await response.json())["code"] == "volume.full"
    assert list(shelf.folder.iterdir()) == []


async def test_uploads_at_the_same_time(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client begins many uploads at once, each of which alone would fit"""
    platform = shelf.served.platform
    stored = await platform.volume_files.bytes_in(str(shelf.folder.parent)) >> 20
    budgets = Budgets(member_volume_megabytes=stored + 2)
    monkeypatch.setattr(platform, "settings", replace(platform.settings, budgets=budgets))
    begun = asyncio.Barrier(4)

    async def body() -> AsyncIterator[bytes]:
        yield b"x"
        await begun.wait()
        yield bytes(700_000)

    async def upload(number: int) -> int:
        url = f"{shelf.served.url}/api/v1/{shelf.path}/files/content?path={number}"
        headers = {"X-CSRF-Token": shelf.mallory.cookies["muster_csrf"]}
        async with (
            aiohttp.ClientSession(cookie_jar=shelf.mallory.jar) as session,
            session.put(url, data=body(), headers=headers) as response,
        ):
            return response.status

    statuses = await asyncio.gather(*map(upload, range(4)))
    assert set(statuses) == {201, 413}
    assert sum(each.stat().st_size for each in shelf.folder.iterdir()) < 2 << 20


async def test_archives_that_are_refused(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has as many streams as it may asks for archives without end: none leaves a folder open"""
    streams: Any = shelf.served.platform.streams
    monkeypatch.setattr(streams, "_budgets", replace(streams._budgets, user_streams=0))
    for _ in range(3):
        (await shelf.ask("GET", "files/archive")).refused(429)
    opened = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            opened.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    assert str(shelf.folder) not in opened


async def test_large_bodies_that_are_no_uploads(shelf: Shelf) -> None:
    """A client sends a large body to a route whose path looks like an upload, or uploads without a session"""
    for path in (f"{shelf.path}/folders", f"{shelf.path}/files/content/more", f"{shelf.path}//files/content"):
        reply = await shelf.mallory("PUT", path, headers={"Content-Length": str(17 << 20)})
        assert reply.status in (404, 405, 413)
    reply = await shelf.served.client()("PUT", f"{shelf.path}/files/content?path=a", "x")
    reply.refused(401)
    (await shelf.mallory("PUT", f"{shelf.path}/files/content?path=a", "x", csrf=False)).refused(403)
    assert list(shelf.folder.iterdir()) == []
