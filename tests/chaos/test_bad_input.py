"""Bad input gets a clear error, loses nothing, and the cluster continues to serve."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.kube.builtin import CONFIG_MAP, EVENT, POD
from muster.kube.cluster import LogQuery, PatchType, Propagation
from muster.kube.errors import AlreadyExists, ApiError, Invalid, NotFound
from muster.kube.objects import Object, name_of, status_of, uid_of
from muster.kube.remote.client import RemoteCluster
from tests.chaos.real_server import RealServer, has_ended, phase_of, until_pods
from tests.chaos.simple_objects import config_map, shell_pod
from tests.chaos.wrong_types import rich_objects, spoiled

NewServer = Callable[..., RealServer]

POD_START = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: bad\nspec:\n"
OWN_NAMESPACE = "default"


@pytest.fixture
async def server(shared_server: RealServer) -> AsyncIterator[RealServer]:
    """The shared server. After the test, it must still work and have kept its data."""
    async with shared_server.client() as cluster:
        try:
            kept = await cluster.create(config_map("kept", "from the beginning"))
        except AlreadyExists:
            kept = await cluster.get(CONFIG_MAP, "kept", "default")
    yield shared_server
    async with shared_server.client() as cluster:
        assert await cluster.get(CONFIG_MAP, "kept", "default") == kept
        name = f"still-works-{random.randrange(10**9)}"
        await cluster.create(shell_pod(name, "echo yes"))
        pods = await until_pods(cluster, lambda pods: has_ended(pods[name]))
        assert phase_of(pods[name]) == "Succeeded"
        assert b"".join([part async for part in cluster.logs(name, "default")]) == b"yes\n"
    assert "Traceback" not in shared_server.log()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x\nspec:\n", "bad.yaml:4:5: ',' or '}' is missing"),
        (b"\x00\x01\xff\xfe\x80", "bad.yaml: this is not UTF-8 text"),
        ("- 1\n- 2\n", "bad.yaml:1:1: expected an object with apiVersion, kind and metadata, got a list"),
        ("[" * 100_000, "bad.yaml:1:201: this lies in more than 200 lists and mappings"),
        ("a: &a [*a]\n", "bad.yaml:1:4: this alias contains itself"),
        (f"{POD_START}  containers: hello\n", "bad.yaml:6 spec.containers: expected a list"),
        (f"{POD_START}  containers:\n  - name: a\n    image: 7\n", "bad.yaml:8 spec.containers[0].image: expected"),
        (
            f"{POD_START}  containers:\n  - name: a\n    image: b\n    comand: [x]\n",
            'bad.yaml:9 spec.containers[0].comand: unknown field "comand"; did you mean "command"?',
        ),
        ("apiVersion: v9\nkind: Pood\nmetadata:\n  name: x\n", 'bad.yaml:2 kind: this cluster has no kind "Pood"'),
        (
            f"{POD_START}  volumes: [{{name: v, emptyDir: {{}}}}]\n  containers:\n  - name: a\n    image: b\n"
            "    volumeMounts:\n    - {name: v, mountPath: /m, subPath: ../../etc}\n",
            "bad.yaml:11 spec.containers[0].volumeMounts[0].subPath: Invalid value",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: huge\ndata:\n  x: " + "y" * 1_100_000,
            "Too long: may not be more than 1048576 bytes",
        ),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: huge\ndata:\n  x: " + "y" * 4_000_000, "larger than"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) and value.startswith(("bad", "Too", "larger")) else "",
)  # fmt: skip
async def test_files_that_cannot_be_applied(server: RealServer, text: str | bytes, said: str) -> None:
    file = server.home.parent / "bad.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = server.muster("apply", "-f", "bad.yaml")
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 2000


async def test_every_field_with_values_of_every_other_type(server: RealServer) -> None:
    seed = random.Random(3)
    bodies = [(obj, body) for obj in rich_objects() for body in some(seed, list(spoiled(obj)), 100)]
    async with server.client() as cluster:
        await cluster.discover()
        refused = await outcomes([post(cluster, obj, body) for obj, body in bodies])
    assert {type(error) for error in refused if error is not None and error.code >= 500} == set()
    assert len([error for error in refused if error is not None]) > len(bodies) // 2


@pytest.mark.parametrize("type_", ["merge", "strategic", "apply"])
async def test_patches_with_values_of_every_other_type(server: RealServer, type_: PatchType) -> None:
    seed = random.Random(4)
    async with server.client() as cluster:
        await cluster.discover()
        asked = []
        for obj in rich_objects():
            if obj["kind"] not in ("Pod", "Job", "ConfigMap", "PyTorchJob", "PodGroup"):
                continue
            kind = cluster.catalogue.of_object(obj)
            bodies = some(seed, list(spoiled(obj)), 80)
            bodies += [
                {key: value} for key in ("$patch", "$retainKeys", "metadata", "spec") for value in (7, ["x"], None)
            ]
            asked += [
                cluster.patch(kind, obj["metadata"]["name"], "default", body, type=type_, force=True, dry_run=True)
                for body in bodies
            ]
        refused = await outcomes(asked)
    assert {str(error) for error in refused if error is not None and error.code >= 500} == set()


@pytest.mark.parametrize(
    "operations",
    [
        [7],
        [{"op": "fly"}],
        [{"op": "add", "path": 7, "value": 1}],
        [{"op": "add", "path": "/data/~2", "value": "x"}],
        [{"op": "remove", "path": "/metadata"}],
        [{"op": "replace", "path": "", "value": [1]}],
        [{"op": "move", "from": "/data", "path": "/data/inside"}],
        [{"op": "test", "path": "/data/step", "value": "something else"}],
        [{"op": "add", "path": "/data/-", "value": {"deep": []}}],
    ],
)
async def test_json_patches_that_make_no_sense(server: RealServer, operations: list[Any]) -> None:
    async with server.client() as cluster:
        with pytest.raises(ApiError) as caught:
            await cluster.patch(CONFIG_MAP, "kept", "default", operations, type="json")
    assert caught.value.code in (400, 422)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("length", [2, 5])
async def test_owners_that_own_each_other(server: RealServer, propagation: Propagation, length: int) -> None:
    """Patches can create such a cycle. It must be removed when one of the objects is deleted."""
    names = [f"cycle-{propagation.lower()}-{length}-{number}" for number in range(length)]
    async with server.client() as cluster:
        made = [await cluster.create(config_map(name, "x")) for name in names]
        for name, owner in zip(names, [*made[1:], made[0]], strict=True):
            reference = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": name_of(owner),
                "uid": uid_of(owner),
                "blockOwnerDeletion": True,
            }
            await cluster.patch(CONFIG_MAP, name, "default", {"metadata": {"ownerReferences": [reference]}})
        await cluster.delete(CONFIG_MAP, names[0], "default", propagation=propagation)
        left = set(names[1:]) if propagation == "Orphan" else set()

        await until_left(cluster, set(names), left)
        for name in left:
            with suppress(NotFound):  # may already be deleted as a dependent of another
                await cluster.delete(CONFIG_MAP, name, "default")


async def test_nothing_owns_itself(server: RealServer) -> None:
    async with server.client() as cluster:
        kept = await cluster.get(CONFIG_MAP, "kept", "default")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kept", "uid": uid_of(kept)}
        with pytest.raises(Invalid, match="an object cannot own itself"):
            await cluster.patch(CONFIG_MAP, "kept", "default", {"metadata": {"ownerReferences": [reference]}})


@pytest.mark.parametrize("link", ["../outside", "ABSOLUTE", "inside/../../outside", "loop"])
@pytest.mark.parametrize("planted", ["before", "by the Pod itself"])
async def test_a_link_in_a_volume_does_not_lead_out_of_it(
    server: RealServer, tmp_path: Path, link: str, planted: str
) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    for folder in (volume / "inside", outside):
        folder.mkdir(parents=True)
    (outside / "file").write_text("not for Pods")
    target = str(outside) if link == "ABSOLUTE" else "link" if link == "loop" else link
    name = f"link-{random.randrange(10**9)}"
    pod = shell_pod(name, "cat /m/file; ls /m; touch /m/written")
    pod["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": str(volume)}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/m", "subPath": "link"}]
    if planted == "before":
        (volume / "link").symlink_to(target)
    else:
        planter = {
            **shell_pod("", f"rmdir /v/link; ln -s {target} /v/link")["spec"]["containers"][0],
            "name": "planter",
        }
        planter["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
        pod["spec"]["initContainers"] = [planter]
    async with server.client() as cluster:
        await cluster.create(pod)
        said = await warning_about(cluster, name)
        container = status_of(await cluster.get(POD, name, "default"))["containerStatuses"][0]
        assert "link" in said
        assert "running" not in container["state"]
        await cluster.delete(POD, name, "default", grace_seconds=0)
    assert sorted(path.name for path in outside.iterdir()) == ["file"]


async def test_a_name_from_the_environment_does_not_lead_out_of_a_volume(server: RealServer, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "file").write_text("not for Pods")
    name = f"expression-{random.randrange(10**9)}"
    pod = shell_pod(name, "cat /m/file")
    pod["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": str(tmp_path / "volume")}}]
    pod["spec"]["containers"][0]["env"] = [{"name": "WHERE", "value": ".."}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/m", "subPathExpr": "$(WHERE)"}]
    async with server.client() as cluster:
        await cluster.create(pod)
        said = await warning_about(cluster, name)
        pod = await cluster.get(POD, name, "default")
        waiting = status_of(pod)["containerStatuses"][0]["state"]["waiting"]
        assert phase_of(pod) == "Pending"
        assert ".." in said
        assert ".." in waiting["message"]
        await cluster.delete(POD, name, "default")


async def test_an_unreadable_node_folder(server: RealServer) -> None:
    """An error of the operating system is reported to the client; the connection stays open."""
    # A Pod that prints nothing leaves no folder.
    name = f"spoiled-{random.randrange(10**9)}"
    async with server.client() as cluster:
        await cluster.create(shell_pod(name, "echo said"))
        await until_pods(cluster, lambda pods: has_ended(pods[name]))
        folder = server.home / "logs" / "default" / name
        shutil.rmtree(folder)
        folder.write_text("not a folder")
        with pytest.raises(ApiError, match="Not a directory"):
            _ = [part async for part in cluster.logs(name, "default", LogQuery(follow=True))]
        folder.unlink()


async def post(cluster: RemoteCluster, obj: Object, body: Any) -> Object:
    """Sends `body` to the path of `obj`, even if it is no such object."""
    kind = cluster.catalogue.of_object(obj)
    where = f"/apis/{kind.group}" if kind.group else "/api"
    scope = f"/{kind.version}/namespaces/default" if kind.namespaced else f"/{kind.version}"
    path = f"{where}{scope}/{kind.plural}"
    answer = await cluster._transport.request("POST", path, [("dryRun", "All")], body=body)
    return dict(orjson.loads(answer))


def some(seed: random.Random, bodies: list[Any], count: int) -> list[Any]:
    return seed.sample(bodies, k=min(count, len(bodies)))


async def outcomes(asked: Sequence[Any]) -> list[ApiError | None]:
    """Returns the error of each request, or None."""
    gate = asyncio.Semaphore(8)

    async def one(request: Any) -> ApiError | None:
        async with gate:
            try:
                await request
            except ApiError as error:
                return error
        return None

    return await asyncio.gather(*map(one, asked))


async def warning_about(cluster: RemoteCluster, pod: str) -> str:
    async with asyncio.timeout(60):
        async for event in cluster.watch(EVENT, "default"):
            said = event.object
            if said["involvedObject"]["name"] == pod and said["type"] == "Warning":
                return str(said["message"])
    raise AssertionError("the watch ended")


async def until_left(cluster: RemoteCluster, of: set[str], left: set[str]) -> None:
    """Waits until only these ConfigMaps are left."""
    there = await cluster.list(CONFIG_MAP, "default")
    found = {name_of(one) for one in there.items}
    async with asyncio.timeout(60):
        if found & of == left:
            return
        async for event in cluster.watch(CONFIG_MAP, "default", resource_version=there.resource_version):
            if event.type == "DELETED":
                found.discard(name_of(event.object))
            if found & of == left:
                return
