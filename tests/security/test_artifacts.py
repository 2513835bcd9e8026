"""Artifacts of a member reach neither the server's files, nor other members, nor the server's own credentials."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.objects import Key, Object
from muster.kube.pod_security import ISOLATION_LABEL, RESTRICTED
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.errors import ArtifactError
from muster.workflows.executors.pod import InputStaging
from muster.workflows.executors.pod_spec import CannotRun, StagedInputs, build_pod
from muster.workflows.model import Launch, Node

SECRET = "the admin's token"
SCOPE = {"workflow.name": "wf", "pod.name": "wf-a"}
FOLDER: dict[str, Any] = {"archive": {"none": {}}}


def workflow_of(member: str, name: str = "wf", **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": member, "uid": f"{member}-{name}"},
        "spec": spec,
    }


class Members:
    """A server with the namespaces of two members, and what must stay out of their reach."""

    def __init__(self, cluster: EmbeddedCluster, home: Path) -> None:
        self.cluster, self.home = cluster, home
        self.artifacts = ArtifactClient(cluster, home / "workflows")
        self.alice, self.bob = workflow_of("alice"), workflow_of("bob")
        self.secret = home / "identity/token"
        self.secret.parent.mkdir()
        self.secret.write_text(SECRET)

    async def namespace(self, name: str) -> None:
        labels = {ISOLATION_LABEL: RESTRICTED}
        await self.cluster.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        )

    def output(self, **files: str | Path) -> Path:
        """A folder that a Pod left as its output: text is a file, a path is a link."""
        folder = self.home / "kept/0"
        folder.mkdir(parents=True)
        for name, content in files.items():
            if isinstance(content, Path):
                (folder / name).symlink_to(content)
            else:
                (folder / name).write_text(content)
        return folder

    async def store(self, key: str, source: Path, workflow: Object | None = None) -> None:
        artifact = {"name": "out", "path": "/out", **FOLDER, "s3": {"key": key}}
        await self.artifacts.save(workflow or self.alice, artifact, source, SCOPE)

    async def fetch(self, artifact: dict[str, Any], workflow: Object | None = None) -> Path:
        target = self.home / f"fetched-{len(list(self.home.glob('fetched-*')))}"
        await self.artifacts.fetch(workflow or self.alice, {"name": "in", **artifact}, target)
        return target

    async def read(self, key: str, workflow: Object | None = None) -> bytes:
        found = self.artifacts.read(workflow or self.alice, {"s3": {"key": key}})
        return b"".join([block async for block in found])

    def text_anywhere(self, folder: Path) -> str:
        return "".join(path.read_text() for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[Members]:
    async with EmbeddedCluster(tmp_path / "store", new_catalogue(), durability="process") as cluster:
        found = Members(cluster, tmp_path)
        await found.namespace("alice")
        await found.namespace("bob")
        yield found


# Links in stored folders.


@pytest.fixture(params=["absolute", "relative", "chain of links"])
async def trap(request: pytest.FixtureRequest, members: Members) -> Members:
    """A stored folder with a link to the server's files."""
    target: Path = members.secret.parent
    if request.param == "relative":
        target = Path("../" * 10 + str(members.secret.parent).lstrip("/"))
    source = members.output(data=target, token=target / "token", text="harmless")
    if request.param == "chain of links":
        (source / "first").symlink_to("data")
        (source / "data").unlink()
        (source / "data").symlink_to(members.secret.parent)
    await members.store("a/out", source)
    return members


@pytest.mark.parametrize("key", ["a/out/data/token", "a/out/token", "a//out/./token", "/a/out/data//token"])
async def test_a_member_fetches_a_file_of_the_server_through_a_link_in_the_store(trap: Members, key: str) -> None:
    """A member fetches the admin's token through a link in a stored folder"""
    with pytest.raises(ArtifactError):
        await trap.fetch({"s3": {"key": key}})


@pytest.mark.parametrize("key", ["a/out/data/token", "a/out/token"])
async def test_a_member_downloads_a_file_of_the_server_through_a_link_in_the_store(trap: Members, key: str) -> None:
    """A member downloads the admin's token through a link in a stored folder"""
    with pytest.raises(ArtifactError):
        await trap.read(key)


async def test_a_member_fetches_the_folder_with_the_link(trap: Members) -> None:
    """A member fetches a stored folder whose link leads to the server's files; the link stays a link"""
    fetched = await trap.fetch({"s3": {"key": "a/out"}})
    assert (fetched / "token").is_symlink()
    assert SECRET not in trap.text_anywhere(fetched)


async def test_a_member_fetches_a_folder_of_the_server_through_a_link(trap: Members) -> None:
    """A member fetches a whole folder of the server through a link in the store"""
    with pytest.raises(ArtifactError):
        await trap.fetch({"s3": {"key": "a/out/data"}})


@pytest.mark.parametrize("key", ["a/out/data/token", "a/out/data/new", "a/out/token"])
async def test_a_member_writes_a_file_of_the_server_through_a_link(trap: Members, key: str) -> None:
    """A member overwrites the server's files through a link in the store"""
    source = trap.home / "evil"
    source.write_text("evil")
    with suppress(ArtifactError):
        await trap.store(key, source)
    assert trap.secret.read_text() == SECRET
    assert [path.name for path in trap.secret.parent.iterdir()] == ["token"]


@pytest.mark.parametrize("key", ["a/out/data/token", "a/out/data", "a/out/token", "a/out", "a"])
async def test_a_member_deletes_a_file_of_the_server_through_a_link(trap: Members, key: str) -> None:
    """A member deletes the server's files through a link in the store"""
    await trap.artifacts.delete(trap.alice, {"s3": {"key": key}})
    assert trap.secret.read_text() == SECRET


async def test_a_member_lists_a_folder_of_the_server_through_a_link(trap: Members) -> None:
    """A member lists the server's files through a link in the store"""
    assert await trap.artifacts.keys(trap.alice, {"s3": {"key": "a/out/data"}}) == []
    assert await trap.artifacts.keys(trap.alice, {"s3": {"key": "a"}}) == ["a/out/text"]


async def test_a_member_packs_what_a_link_leads_to(members: Members) -> None:
    """A member lets the server pack what a link in the output leads to"""
    source = members.output(token=members.secret, folder=members.secret.parent)
    for form in ("tar", "zip"):
        artifact: dict[str, Any] = {"name": form, "path": "/out", "archive": {form: {}}}
        kept = await members.artifacts.save(members.alice, artifact, source, SCOPE)
        assert SECRET.encode() not in await members.read(kept["s3"]["key"])
        if form == "zip":
            assert SECRET not in members.text_anywhere(await members.fetch(kept))


async def test_a_member_changes_modes_through_a_link(members: Members) -> None:
    """A member changes the mode of the server's files with mode and recurseMode and a link"""
    members.secret.chmod(0o600)
    await members.store("a", members.output(token=members.secret, folder=members.secret.parent))
    await members.fetch({"s3": {"key": "a"}, "mode": 0o777, "recurseMode": True})
    assert members.secret.stat().st_mode & 0o777 == 0o600
    assert members.secret.parent.stat().st_mode & 0o777 != 0o777


async def test_a_member_asks_for_a_set_user_id_file(members: Members) -> None:
    """A member gives an input the set-user-ID bit"""
    fetched = await members.fetch({"raw": {"data": "#!/bin/sh"}, "mode": 0o4777})
    assert fetched.stat().st_mode & 0o7777 == 0o777


async def test_a_member_stores_a_pipe_that_blocks_its_reader(members: Members) -> None:
    """A member stores a named pipe, which would block the server for ever"""
    source = members.output()
    os.mkfifo(source / "pipe")
    empty: dict[str, Any] = {}
    for artifact in (FOLDER, empty):
        with pytest.raises((ArtifactError, OSError)):
            await members.artifacts.save(members.alice, {"name": "p", "path": "/p", **artifact}, source, SCOPE)


async def test_a_pod_replaces_its_staged_inputs_with_a_link(members: Members) -> None:
    """A Pod leaves links in its staged inputs, and the server deletes them after the Pod"""
    staging = InputStaging(members.home / "inputs", members.artifacts)
    place = members.home / "inputs/alice/pod"
    place.mkdir(parents=True)
    (place / "0").symlink_to(members.secret.parent)
    await staging.forget(Key("alice", "pod"))
    assert not place.exists()
    place.symlink_to(members.secret.parent)
    staging.sweep([])
    assert not place.is_symlink()
    assert members.secret.read_text() == SECRET


# Keys.


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("../bob/b/out", id="a key climbs to another member's folder"),
        pytest.param("a/../../bob/b/out", id="a key climbs from below to another member's folder"),
        pytest.param("/../bob/b/out", id="an absolute key climbs"),
        pytest.param("..", id="the key is the folder of all namespaces"),
        pytest.param("%2e%2e/bob/b/out", id="a key climbs percent-encoded"),
        pytest.param("..\\bob\\b\\out", id="a key climbs with backslashes"),
        pytest.param("a\0/../../bob/b/out", id="a key hides the way with a NUL"),
        pytest.param("bob/b/out", id="a key names the other namespace"),
        pytest.param("b/out", id="a key that the other member used"),
        pytest.param("\ud800", id="a key with half a character"),
        pytest.param("x" * 5000, id="a key that is too long"),
        pytest.param("a/" * 3000 + "x", id="a key that is nested too deeply"),
    ],
)
async def test_a_member_reads_another_members_artifact_by_a_key(members: Members, key: str) -> None:
    """A member reads another member's artifact by a key"""
    source = members.home / "out"
    source.write_text("bob's")
    await members.store("b/out", source, members.bob)
    assert await members.read("b/out", members.bob) == b"bob's"
    with pytest.raises(ArtifactError) as refused:
        await members.read(key)
    assert str(members.home) not in str(refused.value)
    with pytest.raises(ArtifactError):
        await members.fetch({"s3": {"key": key}})


@pytest.mark.parametrize("key", ["../bob/b/out", "a/../../bob/b/out", "b/out"])
async def test_a_member_deletes_another_members_artifact_by_a_key(members: Members, key: str) -> None:
    """A member deletes another member's artifact by a key"""
    source = members.home / "out"
    source.write_text("bob's")
    await members.store("b/out", source, members.bob)
    with suppress(ArtifactError):
        await members.artifacts.delete(members.alice, {"s3": {"key": key}})
    assert await members.read("b/out", members.bob) == b"bob's"


# Archives.


def a_tar(*entries: tuple[str, bytes, str], data: bytes = b"", pax: dict[str, str] | None = None) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, link in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = kind, link, 0o6777
            entry.size = len(data) if kind == tarfile.REGTYPE else 0
            entry.pax_headers = pax or {}
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def a_zip(name: str, kind: int = 0) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (kind | 0o777) << 16
        archive.writestr(entry, "/etc")
    return packed.getvalue()


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "an absolute name": lambda: a_tar(("/etc/evil", tarfile.REGTYPE, "")),
    "a name that climbs": lambda: a_tar(("../../identity/token", tarfile.REGTYPE, "")),
    "a name behind a link of the archive": lambda: a_tar(
        ("a", tarfile.DIRTYPE, ""), ("l", tarfile.SYMTYPE, "a"), ("l/x", tarfile.REGTYPE, "")
    ),
    "a link that climbs": lambda: a_tar(("a", tarfile.DIRTYPE, ""), ("l", tarfile.SYMTYPE, "../identity")),
    "an absolute link": lambda: a_tar(("a", tarfile.DIRTYPE, ""), ("l", tarfile.SYMTYPE, "/etc")),
    "nothing but a link": lambda: a_tar(("l", tarfile.SYMTYPE, "x")),
    "a hard link to a file of the server": lambda: a_tar(("l", tarfile.LNKTYPE, "/etc/passwd")),
    "a hard link through a link": lambda: a_tar(
        ("a", tarfile.DIRTYPE, ""), ("l", tarfile.SYMTYPE, "a"), ("h", tarfile.LNKTYPE, "l/x")
    ),
    "a device": lambda: a_tar(("d", tarfile.BLKTYPE, "")),
    "a pipe": lambda: a_tar(("p", tarfile.FIFOTYPE, "")),
    "a name of two megabytes": lambda: a_tar(("x", tarfile.REGTYPE, ""), pax={"comment": "x" * 2_000_000}),
    "a folder nested 5000 levels deep": lambda: a_tar(("a/" * 5000 + "x", tarfile.REGTYPE, "")),
    "a zip with a name that climbs": lambda: a_zip("../identity/token"),
    "a zip with a link": lambda: a_zip("l", 0o120000),
}


@pytest.mark.parametrize("make", [pytest.param(make, id=what) for what, make in ARCHIVES.items()])
async def test_an_input_archive_reaches_out_of_its_folder(members: Members, make: Callable[[], bytes]) -> None:
    """A member's archive is unpacked outside of its folder, or stops the server"""
    content = make()
    form = "zip" if content.startswith(b"PK") else "tar"
    source = members.home / "archive"
    source.write_bytes(content)
    await members.store("archive", source)
    with pytest.raises(ArtifactError):
        await members.fetch({"s3": {"key": "archive"}, "archive": {form: {}}})
    assert members.secret.read_text() == SECRET


async def test_an_archive_brings_a_set_user_id_program(members: Members) -> None:
    """A member's archive contains a set-user-ID program"""
    source = members.home / "archive"
    source.write_bytes(a_tar(("a", tarfile.REGTYPE, ""), ("b", tarfile.DIRTYPE, "")))
    await members.store("archive", source)
    fetched = await members.fetch({"s3": {"key": "archive"}, "archive": {"tar": {}}})
    assert not any(path.stat().st_mode & 0o7000 for path in fetched.iterdir())


# Inputs in volumes.


def launch(template: dict[str, Any]) -> Launch:
    node = Node(id="n", name="wf.a", type="Pod")
    return Launch(kind="pod", node=node, template={"name": "a", **template}, pod_name="wf-a", wants_result=False)


def a_reader(**mount: Any) -> dict[str, Any]:
    mounts = [{"name": "root", "mountPath": "/data", **mount}]
    return {
        "inputs": {"artifacts": [{"name": "in", "path": "/data/x", "raw": {"data": "x"}}]},
        "container": {"image": "busybox", "volumeMounts": mounts},
        "volumes": [{"name": "root", "hostPath": {"path": "/srv/shared"}}],
    }


def test_a_read_only_storage_root_is_written_by_an_input_artifact() -> None:
    """A member writes to a read-only storage root with an input artifact"""
    with pytest.raises(CannotRun, match="read-only"):
        build_pod(workflow_of("alice"), {}, launch(a_reader(readOnly=True)), StagedInputs("/inputs", [0]))


def test_the_init_container_gets_a_read_only_volume_as_writable() -> None:
    """The init container of another input mounts a read-only storage root as writable"""
    template = a_reader()
    template["container"]["volumeMounts"].append({"name": "other", "mountPath": "/other", "readOnly": True})
    template["volumes"].append({"name": "other", "hostPath": {"path": "/srv/read-only"}})
    pod = build_pod(workflow_of("alice"), {}, launch(template), StagedInputs("/inputs", [0]))
    mounts = {m["name"]: m.get("readOnly", False) for m in pod["spec"]["initContainers"][0]["volumeMounts"]}
    assert mounts == {"input-artifacts": True, "root": False, "other": True}
