"""Artifacts of a member reach neither the server's files, nor other members, nor the server's own credentials."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import muster
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.budgets import Budgets
from muster.kube.builtin import new_catalogue
from muster.kube.objects import Key, Object
from muster.kube.pod_security import ISOLATION_LABEL, RESTRICTED, PodGrants
from muster.platform.graphs.argo_manifest import check_workflow_policy
from muster.platform.modules.build_process import BuildContext, BuildFailed, BuildLog, GuestAccess
from muster.platform.modules.git_source import fetch as fetch_module
from muster.platform.modules.git_source import git_environment
from muster.server.downloads import content_disposition
from muster.workflows.artifacts import egress
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.egress import Egress, EgressRefused, address_problem, upstream_proxy
from muster.workflows.artifacts.git_addresses import read_repository
from muster.workflows.artifacts.landlock import landlock_version
from muster.workflows.artifacts.local_store import ArtifactQuota
from muster.workflows.artifacts.locations import ArtifactError, prefixed_key
from muster.workflows.artifacts.member_jobs import MemberAccess
from muster.workflows.executors.http import HttpExecutor
from muster.workflows.executors.pod import InputStaging
from muster.workflows.executors.pod_spec import CannotRun, StagedInputs, build_pod
from muster.workflows.model import Launch, Node, Outcome
from tests.http_server import serve_git, serve_http

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

    async def put_secret(self, namespace: str, name: str, **values: str) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        metadata = {"name": name, "namespace": namespace}
        await self.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    def allow(self, *addresses: str) -> None:
        access = MemberAccess(Budgets(), addresses)
        self.artifacts = ArtifactClient(self.cluster, self.home / "workflows", members=access)

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


class GitServer:
    """A repository, served over HTTP."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        folder.mkdir()
        self._git("init", "--quiet", "--initial-branch=main")

    def commit(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self._save()

    def link(self, name: str, target: Path) -> None:
        (self.folder / name).symlink_to(target)
        self._save()

    def add_submodule(self, name: str, url: str, commit: str) -> None:
        (self.folder / ".gitmodules").write_text(f'[submodule "{name}"]\n\tpath = {name}\n\turl = {url}\n')
        self._git("update-index", "--add", "--cacheinfo", f"160000,{commit},{name}")
        self._save(".gitmodules")

    def head(self) -> str:
        return self._git("rev-parse", "HEAD")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/.git"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[GitServer]:
        async with serve_http(self._answer) as self.port:
            yield self

    async def _answer(self, request: web.Request) -> web.Response:
        return await serve_git(request, self.folder)

    def _save(self, what: str = ".") -> None:
        self._git("add", what)
        self._git("commit", "--quiet", "-m", "x")

    def _git(self, *words: str) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null"}
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(self.folder), *who, *words]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()


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


async def test_a_pod_plants_links_where_inputs_are_staged(members: Members) -> None:
    """A Pod that has mounted the folder of staged inputs plants links there while the server writes to it"""
    staging = InputStaging(members.home / "inputs", members.artifacts)
    place = members.home / "inputs/alice/wf-a"
    place.mkdir(parents=True)
    held = os.open(place, os.O_RDONLY)
    for name in ("0", "0.coming", "0.unpacked"):
        os.symlink(members.secret, name, dir_fd=held)
    template = {"inputs": {"artifacts": [{"name": "in", "path": "/in", "raw": {"data": "evil"}}]}}
    staged = await staging.stage(members.alice, launch(template))
    os.close(held)
    assert staged is not None
    assert members.secret.read_text() == SECRET
    assert (place / "0").read_text() == "evil"
    assert [path.name for path in place.iterdir()] == ["0"]
    assert list((members.home / "inputs/.coming").iterdir()) == []


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
    assert len(str(refused.value)) < 1000
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


async def test_a_member_of_a_team_changes_the_artifacts_of_anothers_run(members: Members) -> None:
    """A member of a team overwrites or deletes what a run of another member of the team stored"""
    run = f"run-{'0' * 26}"
    source = members.home / "out"
    source.write_text("the run's")
    await members.store(f"{run}/out", source, workflow_of("alice", run))
    source.write_text("evil")
    for key in (f"{run}/out", f"/{run}/new", f"./{run}/out", f"//{run}//out", run):
        with pytest.raises(ArtifactError):
            await members.store(key, source)
        with pytest.raises(ArtifactError):
            await members.artifacts.delete(members.alice, {"s3": {"key": key}})
    assert await members.read(f"{run}/out") == b"the run's"


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


# The server's own credentials.

OWN = {"name": "own", "key": "value"}
STORES: dict[str, dict[str, Any]] = {
    "s3": {"endpoint": "s3.example.com", "bucket": "b", "key": "k", "accessKeySecret": OWN, "secretKeySecret": OWN},
    "oss": {"endpoint": "oss.example.com", "bucket": "b", "key": "k", "accessKeySecret": OWN, "secretKeySecret": OWN},
    "gcs": {"bucket": "b", "key": "k", "serviceAccountKeySecret": OWN},
    "azure": {"endpoint": "https://a.blob.core.windows.net", "container": "c", "blob": "k", "accountKeySecret": OWN},
    "artifactory": {"url": "https://example.com/a", "usernameSecret": OWN, "passwordSecret": OWN},
}


def bad_stores() -> list[Any]:
    found = []
    for kind, settings in STORES.items():
        fields = [field for field in settings if field.endswith("Secret")]
        values: dict[str, Any] = {"null": None, "empty": {}, "a name without a key": {"name": "own"}, "text": "own"}
        for what, value in values.items():
            given = {**settings, **dict.fromkeys(fields, value)}
            found.append(pytest.param({kind: given}, id=f"{kind} with Secrets that are {what}"))
        left = {field: value for field, value in settings.items() if field not in fields}
        found.append(pytest.param({kind: left}, id=f"{kind} without Secrets"))
        if len(fields) > 1:
            found.append(pytest.param({kind: {**settings, fields[1]: None}}, id=f"{kind} with one Secret of two"))
    s3 = STORES["s3"]
    return [
        *found,
        pytest.param({"s3": {**s3, "useSDKCreds": True}}, id="s3 with the credentials of the server's SDK"),
        pytest.param({"s3": {**s3, "roleARN": "arn:aws:iam::1:role/r"}}, id="s3 with a role of the server"),
        pytest.param({"azure": {**STORES["azure"], "useSDKCreds": True}}, id="azure with the server's identity"),
        pytest.param({"plugin": {"name": "p", "configuration": "c", "key": "run-1/out"}}, id="a plugin"),
        pytest.param({"hdfs": {"addresses": ["h:1"], "path": "/run-1/out"}}, id="hdfs"),
    ]


@pytest.mark.parametrize("location", bad_stores())
async def test_a_member_uses_a_store_with_the_servers_credentials(
    members: Members, location: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member uses a store with the server's credentials"""

    async def started(*_: Any) -> None:
        raise AssertionError("the store is used")

    monkeypatch.setattr("muster.workflows.artifacts.member_jobs.ConfinedWork.use_store", started)
    await members.put_secret("alice", "own", value="x")
    with pytest.raises(ArtifactError):
        await members.fetch(location)
    with suppress(ArtifactError):  # without its Secrets, artifactory's key is one of the member's own repository
        await members.artifacts.delete(members.alice, location)
    with suppress(ArtifactError):
        await members.artifacts.save(members.alice, {"name": "o", "path": "/o", **location}, members.output(), SCOPE)


@pytest.mark.parametrize("location", bad_stores())
def test_a_manifest_names_a_store_with_the_servers_credentials(location: dict[str, Any]) -> None:
    """A manifest of a member names a store with the server's credentials"""
    artifact = {"name": "in", "path": "/in", **location}
    template = {"name": "a", "inputs": {"artifacts": [artifact]}, "container": {"image": "busybox"}}
    workflow = workflow_of("alice", entrypoint="a", templates=[template])
    assert check_workflow_policy(workflow, PodGrants(secrets=frozenset(["own"]), only_listed=True))


async def test_a_member_names_a_repository_with_the_servers_credentials(members: Members) -> None:
    """A member's own ConfigMap, or the status of a Workflow, names a repository with the server's credentials"""
    bucket = {"s3": {"endpoint": "s3.example.com", "bucket": "everybody"}}
    annotations = {"workflows.argoproj.io/default-artifact-repository": "mine"}
    metadata = {"name": "artifact-repositories", "namespace": "alice", "annotations": annotations}
    fixed = {**members.alice, "status": {"artifactRepositoryRef": {"artifactRepository": bucket}}}
    with pytest.raises(ArtifactError, match="accessKeySecret is missing"):
        await members.fetch({"s3": {"key": "run-1/out"}}, fixed)
    await members.cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mine": json.dumps(bucket)}}
    )
    with pytest.raises(ArtifactError, match="accessKeySecret is missing"):
        await members.fetch({"s3": {"key": "run-1/out"}})


SHARED_KEYS = [
    pytest.param("bob/out", "alice/bob/out", id="a key of another member"),
    pytest.param("/bob/out", "alice/bob/out", id="an absolute key"),
    pytest.param("alice/out", "alice/out", id="a key of their own"),
    pytest.param("alice-2/out", "alice/alice-2/out", id="a namespace that begins alike"),
    *[
        pytest.param(key, "", id=f"the key {key}")
        for key in ("../bob/out", "alice/../bob/out", "alice//out", "a/%2e%2e/b", "a\\..\\b", "a\nb", "", "./bob", ".")
    ],
]


@pytest.mark.parametrize(("key", "stored"), SHARED_KEYS)
def test_a_member_leaves_their_prefix_in_a_bucket_that_all_share(key: str, stored: str) -> None:
    """A member leaves the prefix of their namespace in a bucket that all members share"""
    try:
        found = prefixed_key(key, "alice")
    except ValueError:
        found = ""
    assert found == stored


# What the server connects to.


class Recorder:
    """An HTTP server that keeps what it is asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.port = 0
        self.redirect = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path, dict(request.headers)))
        if self.redirect and request.path == "/redirect":
            raise web.HTTPFound(self.redirect)
        return web.Response(text="content")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Recorder]:
        async with serve_http(self.handle) as self.port:
            yield self


@pytest.fixture
async def recorder() -> AsyncIterator[Recorder]:
    async with Recorder().serving() as found:
        yield found


@pytest.fixture
def server_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server in a cloud has in its environment and home."""
    home = tmp_path / "server-home"
    for name, text in {
        ".netrc": "machine 127.0.0.1 login server password LEAKED\ndefault login server password LEAKED\n",
        ".aws/credentials": "[default]\naws_access_key_id = LEAKED\naws_secret_access_key = LEAKED\n",
        ".git-credentials": "http://server:LEAKED@127.0.0.1\n",
        ".gitconfig": "[credential]\n\thelper = store\n[http]\n\textraHeader = Authorization: LEAKED\n",
        ".config/gcloud/application_default_credentials.json": '{"type": "authorized_user", "refresh_token": "LEAKED"}',
    }.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("HOME", str(home))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.setenv(name, "LEAKED")
    monkeypatch.setenv("NETRC", str(home / ".netrc"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "http.extraHeader")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "Authorization: LEAKED")


@pytest.mark.parametrize("kind", ["http", "git", "s3"])
async def test_the_servers_credentials_are_sent_to_a_members_store(
    members: Members, recorder: Recorder, server_credentials: None, kind: str
) -> None:
    """The server's credentials (environment, .netrc, .aws, git's helper) are sent to a member's own store"""
    members.allow(f"127.0.0.1:{recorder.port}")
    await members.put_secret("alice", "own", value="mine")
    url = f"http://127.0.0.1:{recorder.port}"
    locations: dict[str, dict[str, Any]] = {
        "http": {"url": f"{url}/file"},
        "git": {"repo": f"{url}/repository.git"},
        "s3": {
            "endpoint": f"127.0.0.1:{recorder.port}", "insecure": True, "bucket": "b", "key": "k",
            "accessKeySecret": OWN, "secretKeySecret": OWN,
        },
    }  # fmt: skip
    with suppress(ArtifactError):
        await members.fetch({kind: locations[kind]})
    assert recorder.requests
    assert "LEAKED" not in str(recorder.requests)
    if kind != "s3":
        assert not any("authorization" in map(str.lower, headers) for _, _, headers in recorder.requests)


TARGETS = {
    "the server itself": "127.0.0.1",
    "the server itself, by name": "localhost",
    "the server itself, as a number": "2130706433",
    "the server itself, in short": "127.1",
    "the server itself, by IPv6": "[::1]",
    "the server itself, as IPv4 in IPv6": "[::ffff:127.0.0.1]",
    "any address": "0.0.0.0",
}


@pytest.mark.parametrize(
    ("kind", "host"),
    [
        *[pytest.param("http", host, id=f"http, {what}") for what, host in TARGETS.items()],
        *[pytest.param(kind, "127.0.0.1", id=f"{kind}, the server itself") for kind in ("git", "s3", "artifactory")],
    ],
)
async def test_a_member_lets_the_server_ask_itself(members: Members, recorder: Recorder, kind: str, host: str) -> None:
    """A member lets the server send a request to a service of the server's own machine"""
    await members.put_secret("alice", "own", value="mine")
    url = f"http://{host}:{recorder.port}"
    locations: dict[str, dict[str, Any]] = {
        "http": {"url": f"{url}/file"},
        "git": {"repo": f"{url}/repository.git"},
        "s3": {**STORES["s3"], "endpoint": f"{host}:{recorder.port}", "insecure": True},
        "artifactory": {**STORES["artifactory"], "url": f"{url}/file"},
    }
    with pytest.raises(ArtifactError):
        await members.fetch({kind: locations[kind]})
    assert recorder.requests == []


async def test_a_redirect_leads_to_the_server_itself(members: Members, recorder: Recorder) -> None:
    """A member's server redirects the download to a service of the server's own machine"""
    async with Recorder().serving() as inside:
        recorder.redirect = f"http://127.0.0.1:{inside.port}/secret"
        members.allow(f"127.0.0.1:{recorder.port}")
        with pytest.raises(ArtifactError, match="memberAddresses"):
            await members.fetch({"http": {"url": f"http://127.0.0.1:{recorder.port}/redirect"}})
        assert len(recorder.requests) == 1
        assert inside.requests == []


async def send_request(members: Members, url: str, *allowed: str) -> Outcome:
    """Runs an http template of a member."""
    outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
    executor = HttpExecutor(members.cluster, lambda _key, _node, outcome: outcomes.put_nowait(outcome), allowed)
    template = {"http": {"url": url, "timeoutSeconds": 20}}
    await executor.launch(members.alice, {}, replace(launch(template), kind="http"), begun=False)
    while (outcome := await outcomes.get()).phase == "Running":
        pass
    return outcome


async def test_an_http_template_asks_the_server_itself(members: Members, recorder: Recorder) -> None:
    """A member's http template sends a request to a service of the server's own machine"""
    outcome = await send_request(members, f"http://127.0.0.1:{recorder.port}/admin")
    assert outcome.phase == "Failed"
    assert "memberAddresses" in (outcome.message or "")
    assert recorder.requests == []


async def test_an_http_template_gets_the_servers_credentials(
    members: Members, recorder: Recorder, server_credentials: None
) -> None:
    """A member's http template is sent with the password in the server's .netrc"""
    address = f"127.0.0.1:{recorder.port}"
    outcome = await send_request(members, f"http://{address}/x", address)
    assert outcome.phase == "Succeeded"
    assert [path for _, path, _ in recorder.requests] == ["/x"]
    assert "LEAKED" not in str(recorder.requests)
    assert "Authorization" not in recorder.requests[0][2]


ADDRESSES = {
    "127.0.0.53": "loopback", "::1": "loopback", "0.0.0.0": "any address", "::": "any IPv6 address",
    "169.254.169.254": "the metadata service", "fe80::1%eth0": "a link-local address",
    "fd00:ec2::254": "the metadata service by IPv6",
    "100.100.100.200": "the metadata service of Alibaba Cloud", "168.63.129.16": "the wire server of Azure",
    "192.0.0.192": "the metadata service of Oracle Cloud", "::ffff:169.254.169.254": "metadata as IPv4 in IPv6",
    "64:ff9b::a9fe:a9fe": "metadata through NAT64", "2002:7f00:1::": "loopback through 6to4",
    "::7f00:1": "loopback in the old form of IPv4 in IPv6",
    "224.0.0.1": "a multicast address", "255.255.255.255": "broadcast", "0.1.2.3": "this network",
}  # fmt: skip


@pytest.mark.parametrize("address", [pytest.param(address, id=what) for address, what in ADDRESSES.items()])
async def test_a_name_that_resolves_to_an_address_of_the_server(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member's host name resolves to an address that only the server should reach"""

    async def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(2, 1, 6, "", ("93.184.216.34", 80)), (2, 1, 6, "", (address, 80))]

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    with pytest.raises(EgressRefused):
        await Egress().connect("attacker.example.com", 80)


@pytest.mark.parametrize("address", ["93.184.216.34", "10.1.2.3", "192.168.1.5", "2001:db8::1"])
def test_other_addresses_are_allowed(address: str) -> None:
    assert address_problem(address) == ""


# git.

REPOSITORIES = {
    "a folder of the server": {"repo": "/srv/git"},
    "a file URL": {"repo": "file:///srv/git"},
    "a file URL in capitals": {"repo": "FILE:///srv/git"},
    "a relative path": {"repo": "../../identity"},
    "a remote helper that runs a program": {"repo": "ext::sh -c touch% /tmp/evil"},
    "an option in place of the repository": {"repo": "--upload-pack=touch /tmp/evil"},
    "an option in place of the host": {"repo": "ssh://-oProxyCommand=touch%20evil/x"},
    "an option in place of the host, in short": {"repo": "git@-oProxyCommand=touch evil:x"},
    "a shell command in the host": {"repo": "ssh://git@`touch evil`/x"},
    "an option in place of the user": {"repo": "ssh://-l@host/x"},
    "an option in place of the revision": {"repo": "https://example.com/x", "revision": "--help"},
    "an option in place of the branch": {"repo": "https://example.com/x", "branch": "-b", "singleBranch": True},
    "an option in place of a ref": {"repo": "https://example.com/x", "fetch": ["--upload-pack=evil"]},
    "an option after a ref": {"repo": "https://example.com/x", "fetch": ["a:--upload-pack=evil"]},
    "a URL with a line break": {"repo": "https://example.com/x\n[core]"},
}


@pytest.mark.parametrize("settings", [pytest.param(each, id=what) for what, each in REPOSITORIES.items()])
async def test_a_git_artifact_is_more_than_a_repository(members: Members, settings: dict[str, Any]) -> None:
    """A member's git artifact runs a program of the server, or reads its files"""
    with pytest.raises(ArtifactError) as refused:
        await members.fetch({"git": settings})
    assert "Could not resolve" not in str(refused.value)
    assert not Path("/tmp/evil").exists()


@pytest.fixture
async def repository(members: Members) -> AsyncIterator[GitServer]:
    async with GitServer(members.home / "git").serving() as found:
        members.allow(f"127.0.0.1:{found.port}")
        yield found


async def test_a_members_repository_is_cloned(members: Members, repository: GitServer) -> None:
    """(for comparison) a member's repository is cloned by the confined process"""
    repository.commit(file="text")
    fetched = await members.fetch({"git": {"repo": repository.url}})
    assert (fetched / "file").read_text() == "text"


async def connect(address: tuple[str, int], *allowed: str) -> tuple[bytes, bytes]:
    """Runs the program that connects ssh and git://. Returns what it wrote to stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", egress.__file__, address[0], str(address[1]), *allowed,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    return await process.communicate(b"hello")


async def test_ssh_and_git_lead_to_the_server_itself() -> None:
    """A member's ssh:// or git:// repository leads to a service of the server's own machine"""
    asked: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read())
        writer.write(b"world")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        address = server.sockets[0].getsockname()
        said, told = await connect(address)
        assert (said, asked) == (b"", [])
        assert b"memberAddresses" in told
        assert (await connect(address, f"127.0.0.1:{address[1]}"))[0] == b"world"
        assert asked == [b"hello"]


async def test_a_submodule_leads_to_a_repository_of_the_server(members: Members, repository: GitServer) -> None:
    """A member's repository has a submodule over file:// that is a repository of the server"""
    secret = GitServer(members.home / "secret-repository")
    secret.commit(file=SECRET)
    repository.commit(file="text")
    repository.add_submodule("sub", f"file://{secret.folder}", secret.head())
    with pytest.raises(ArtifactError):
        await members.fetch({"git": {"repo": repository.url}})


async def test_a_repository_brings_hooks_filters_and_links(members: Members, repository: GitServer) -> None:
    """A member's repository brings filters, attributes and links to the server's files"""
    repository.commit(
        **{
            ".gitattributes": "* filter=evil diff=evil\n",
            ".gitconfig": f'[filter "evil"]\n\tsmudge = touch {members.home}/evil\n',
            ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1/\n",
            "file": "text",
        }
    )
    repository.link("token", members.secret)
    fetched = await members.fetch({"git": {"repo": repository.url}})
    assert not (members.home / "evil").exists()
    assert (fetched / "token").is_symlink()


async def test_a_confined_process_reads_the_data_directory(members: Members) -> None:
    """Code that a member brings into a process of artifact work reads and writes the data directory"""
    if not landlock_version():
        pytest.skip("this kernel has no Landlock")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from muster.workflows.artifacts.landlock import Confinement, confine\n"
        "confine(Confinement((sys.argv[2],)))\n"
        "import subprocess\n"
        "open(sys.argv[2] + '/own', 'w').write('x')\n"
        "for work in (lambda: open(sys.argv[3]), lambda: open(sys.argv[3], 'w'), lambda: open('/etc/shadow')):\n"
        "    try: work(); print('reached')\n"
        "    except PermissionError: print('refused')\n"
        "print(subprocess.run(['cat', sys.argv[3]], capture_output=True, text=True).stdout or 'refused')\n"
    )
    folder = members.home / "own"
    folder.mkdir()
    sources = str(Path(muster.__file__).parent.parent)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", program, sources, str(folder), str(members.secret),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert said.decode().split() == ["refused"] * 4
    assert members.secret.read_text() == SECRET


async def test_a_bomb_fills_the_memory(members: Members) -> None:
    """A member's archive needs more memory or disk than it has bytes"""
    members.artifacts = ArtifactClient(
        members.cluster, members.home / "workflows", members=MemberAccess(Budgets(output_megabytes=8, output_files=50))
    )
    for content in (a_tar(("zeros", tarfile.REGTYPE, ""), data=bytes(9 << 20)), a_tar(*[
        (f"f{number}", tarfile.REGTYPE, "") for number in range(60)
    ])):  # fmt: skip
        source = members.home / "bomb"
        source.write_bytes(content)
        await members.store("bomb", source)
        with pytest.raises(ArtifactError):
            await members.fetch({"s3": {"key": "bomb"}, "archive": {"tar": {}}})


# Modules.


async def module_source(members: Members, url: str, **guest: tuple[str, ...]) -> str:
    """Fetches the source of a member's module. Returns the commit, or why there is none."""
    work = members.home / "build"
    work.mkdir()
    log = BuildLog(work / "log")
    deadline = asyncio.get_running_loop().time() + 60
    here = BuildContext("v1", log, deadline, work, 10_000_000, GuestAccess(**guest))
    try:
        return await fetch_module(read_repository(url), "main", "", work / "repository", here)
    except BuildFailed as error:
        return str(error)
    finally:
        log.close()


async def test_a_module_comes_from_the_server_itself(members: Members, repository: GitServer) -> None:
    """A member's module comes from a service of the server's own machine"""
    repository.commit(file="text")
    assert "memberAddresses" in await module_source(members, repository.url)


async def test_a_module_is_fetched_by_a_confined_git(members: Members, repository: GitServer) -> None:
    """(for comparison) an address that the settings allow is used, by a confined git"""
    repository.commit(file="text")
    address = f"127.0.0.1:{repository.port}"
    assert await module_source(members, repository.url, addresses=(address,)) == repository.head()
    assert (members.home / "build/repository/file").read_text() == "text"


def test_an_exception_of_the_servers_proxy_leads_to_the_server_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member's module comes from the server itself, because NO_PROXY names it"""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    env = git_environment(read_repository("http://127.0.0.1/x.git"), upstream_proxy())
    assert (env["NO_PROXY"], env["no_proxy"]) == ("", "")
    assert "http://proxy.example.com:3128" in env.values()


async def test_a_module_is_fetched_with_the_servers_ssh_key(members: Members) -> None:
    """A member's module comes from a repository that only the server's ssh key opens"""
    assert "modules.sshHosts" in await module_source(members, "git@git.example.com:secret.git")


async def test_a_member_fills_the_disk_with_artifacts(members: Members) -> None:
    """A member fills the server's disk with artifacts"""
    budgets = Budgets(member_artifact_megabytes=1, member_artifact_files=4)
    members.artifacts = ArtifactClient(members.cluster, members.home / "workflows", members=MemberAccess(budgets))
    source = members.home / "large"
    for number in range(2):
        source.write_bytes(os.urandom(400_000))
        await members.store(f"large-{number}", source)
    with pytest.raises(ArtifactError, match="memberArtifactMegabytes"):
        source.write_bytes(os.urandom(400_000))
        await members.store("one-too-many", source)
    await members.store("b", source, members.bob)
    with pytest.raises(ArtifactError, match="memberArtifactFiles"):
        await members.store("many", members.output(a="", b="", c=""))


async def test_a_member_lists_more_keys_than_a_workflow_can_hold(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member lets the server list more keys than a workflow can hold"""
    monkeypatch.setattr("muster.workflows.artifacts.stores.MOST_KEYS", 2)
    await members.store("many", members.output(a="", b="", c=""))
    with pytest.raises(ArtifactError, match="longer prefix"):
        await members.artifacts.keys(members.alice, {"s3": {"key": "many"}})


def test_a_deleted_artifact_makes_room(tmp_path: Path) -> None:
    now = 0.0
    (tmp_path / "alice").mkdir()
    (tmp_path / "alice/old").write_bytes(bytes(1 << 20))
    new = tmp_path / "new"
    new.write_bytes(b"x")
    quota = ArtifactQuota(tmp_path, Budgets(member_artifact_megabytes=1), lambda: now)
    with pytest.raises(ArtifactError):
        quota.take("alice", new)
    (tmp_path / "alice/old").unlink()
    now = 60.0
    quota.take("alice", new)


# Downloads.

NAMES = {
    "a line break and another header": "x\r\nSet-Cookie: a=b",
    "quotes": 'x"; filename="evil.exe',
    "a path": "../../etc/cron.d/evil",
    "a backslash": "..\\..\\evil.exe",
    "a NUL": "x\0.txt",
    "letters of another language": "模型.tgz",
    "half a character": "\ud800",
    "a text direction that hides the ending": "x\u202egpj.exe",
    "a name that is too long": "x" * 10_000,
    "no name": "",
}


@pytest.mark.parametrize("name", [pytest.param(name, id=what) for what, name in NAMES.items()])
def test_the_name_of_a_file_is_more_than_a_name(name: str) -> None:
    """The name of a member's file adds headers to a download, or a path"""
    value = content_disposition(name)
    assert value.isascii()
    assert value.isprintable()
    assert len(value) < 3000
    assert value.startswith('attachment; filename="')
    plain, _, encoded = value.removeprefix('attachment; filename="').partition('"')
    assert not set(plain) & set('/\\"%;')
    assert "%2F" not in encoded.upper()
    assert "%5C" not in encoded.upper()
    assert "%E2%80%AE" not in encoded.upper()
