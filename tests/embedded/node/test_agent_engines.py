"""Real images, run by a real engine if there is one. The image is built here, without a registry."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node.image_engine import ImageEngine
from muster.embedded.node.pod_context import output_folder
from muster.embedded.settings import RUNTIME_ANNOTATION
from muster.kube.cluster import KEEP_FILES_ANNOTATION, LogQuery
from muster.kube.objects import Object, status_of
from tests.embedded.node.busybox_image import make_image, podman_here

IMAGE = "localhost/muster-test:1"


@pytest.fixture(scope="module")
def podman() -> ImageEngine:
    found = podman_here()
    make_image(found, IMAGE, 'ENTRYPOINT ["/bin/echo","entry"]', 'CMD ["default"]', "WORKDIR /work")
    return found


@pytest.fixture
async def engine_node(podman: ImageEngine, new_node: Callable[..., Any]) -> AsyncIterator[Any]:
    node = new_node(runtime="podman")
    await node.start()
    yield node
    await node.stop()


def container(pod: Object) -> dict[str, Any]:
    found: dict[str, Any] = status_of(pod)["containerStatuses"][0]
    return found


def waiting(pod: Object) -> dict[str, str]:
    statuses = status_of(pod).get("containerStatuses") or [{}]
    found: dict[str, str] = (statuses[0].get("state") or {}).get("waiting") or {}
    return found


@pytest.mark.smoke
@pytest.mark.slow
async def test_an_image_is_run_with_its_own_command(engine_node: Any) -> None:
    node = engine_node
    assert await node.output("a", container={"image": IMAGE, "command": None}) == "entry default\n"
    assert await node.output("b", container={"image": IMAGE, "command": None, "args": ["x"]}) == "entry x\n"
    assert await node.output("c", "pwd", container={"image": IMAGE}) == "/work\n"
    assert await node.output("d", "cat", "/etc/image", container={"image": IMAGE}) == "image"
    assert container(await node.get("d"))["containerID"].startswith("podman://")
    assert f'Pulled: Container image "{IMAGE}" already present on machine' in await node.events("a")


@pytest.mark.slow
async def test_what_the_pod_says_reaches_the_container(engine_node: Any, tmp_path: Path) -> None:
    node = engine_node
    await node.put("ConfigMap", "cm", data={"a": "A"})
    volumes = [
        {"name": "cm", "configMap": {"name": "cm"}},
        {"name": "host", "hostPath": {"path": str(tmp_path / "out"), "type": "DirectoryOrCreate"}},
        {"name": "m", "emptyDir": {"medium": "Memory"}},
    ]
    mounts = [
        {"name": "cm", "mountPath": "/cm"},
        {"name": "host", "mountPath": "/out"},
        {"name": "m", "mountPath": "/m"},
    ]
    env = [{"name": "LINES2", "value": "a\nb"}, {"name": "ODD", "value": "x=y # z"}]
    script = (
        'hostname; cat /cm/a; echo; echo "$LINES2"; echo "$ODD"; id -u; echo hi > /out/f; echo m > /m/f; '
        "echo why > /dev/termination-log; exit 4"
    )
    await node.create(
        "p", "sh", "-c", script, volumes=volumes, securityContext={"runAsUser": 1234},
        container={"image": IMAGE, "volumeMounts": mounts, "env": env},
    )  # fmt: skip
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out").chmod(0o777)
    ended = container(await node.ended("p"))["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (4, "why\n")
    assert await node.logs("p") == "p\nA\na\nb\nx=y # z\n1234\n"
    assert (tmp_path / "out" / "f").read_text() == "hi\n"


@pytest.mark.slow
async def test_exec_and_the_end_of_a_container(engine_node: Any, podman: ImageEngine) -> None:
    node = engine_node
    script = 'trap "echo bye; exit 0" TERM; echo up; while true; do sleep 0.1; done'
    pod = await node.create("p", "sh", "-c", script, container={"image": IMAGE})
    await node.phase("p", "Running")
    async for _ in node.cluster.logs("p", "default", LogQuery(follow=True)):
        break
    process = await node.cluster.exec("p", "default", ["cat", "/etc/image"])
    assert [data async for _, data in process.output()] == [b"image"]
    assert await process.wait() == 0
    await process.close()
    await node.delete("p", grace=10)
    await node.vanished("p")
    assert await node.logs("p") == "up\nbye\n"
    name = f"muster-{pod['metadata']['uid']}-main"
    listed = await asyncio.to_thread(
        subprocess.run, podman.command("ps", "-a", "--format", "{{.Names}}"), capture_output=True, text=True, check=True
    )
    assert name not in listed.stdout


@pytest.mark.slow
async def test_an_image_that_cannot_be_pulled(engine_node: Any) -> None:
    node = engine_node
    await node.create("never", "true", container={"image": "localhost/none:1", "imagePullPolicy": "Never"})
    await node.create("pull", "true", container={"image": "localhost/none:1"})
    for name, reason in (("never", "ErrImageNeverPull"), ("pull", "ImagePullBackOff")):
        pod = await node.until(name, lambda pod, expected=reason: waiting(pod).get("reason") == expected)
        assert "localhost/none:1" in waiting(pod)["message"]
        await node.delete(name, grace=0)


@pytest.mark.slow
async def test_one_pod_may_ask_for_an_engine(podman: ImageEngine, new_node: Callable[..., Any]) -> None:
    node = new_node()
    await node.start()
    metadata = {"annotations": {RUNTIME_ANNOTATION: "podman"}}
    assert await node.output("p", "cat", "/etc/image", container={"image": IMAGE}, metadata=metadata) == "image"
    await node.stop()


@pytest.mark.slow
async def test_files_are_kept_of_a_container_that_an_engine_has_run(engine_node: Any) -> None:
    node = engine_node
    wish = json.dumps({"main": ["/result.txt", "/work/model", "/out/f", "/none"]})
    script = "echo r > /result.txt; busybox mkdir model; echo m > model/w; echo v > /out/f"
    mounts = [{"name": "v", "mountPath": "/out"}]
    await node.create(
        "keeper", "sh", "-ec", script,
        container={"image": IMAGE, "volumeMounts": mounts}, volumes=[{"name": "v", "emptyDir": {}}],
        metadata={"annotations": {KEEP_FILES_ANNOTATION: wish}},
    )  # fmt: skip
    pod = await node.ended("keeper")
    assert status_of(pod)["phase"] == "Succeeded"
    kept = output_folder(node.settings.pods, pod["metadata"]["uid"], "main")
    assert (kept / "0").read_text() == "r\n"
    assert (kept / "1/w").read_text() == "m\n"
    assert (kept / "2").read_text() == "v\n"
    assert sorted(path.name for path in kept.iterdir()) == ["0", "1", "2"]
