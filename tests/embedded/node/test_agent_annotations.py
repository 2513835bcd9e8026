"""The annotations of the node agent, with real processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.pod_context import output_folder
from muster.embedded.node.supervisor.contract import Isolation
from muster.embedded.node.supervisor.output_files import PROBLEM_FILE
from muster.embedded.settings import ImageSettings
from muster.kube.builtin import POD
from muster.kube.cluster import CONTAINERS_ANNOTATION, KEEP_FILES_ANNOTATION, STOP_ANNOTATION
from muster.kube.objects import Object, status_of, uid_of
from tests.embedded.node.harness import Node

ISOLATION, WHY = probe_isolation()
pytestmark = pytest.mark.skipif(ISOLATION == "none", reason=WHY)


def asking(**annotations: Any) -> dict[str, Any]:
    names = {"keep": KEEP_FILES_ANNOTATION, "containers": CONTAINERS_ANNOTATION, "stop": STOP_ANNOTATION}
    return {"annotations": {names[k]: json.dumps(v) for k, v in annotations.items()}}


def kept(node: Node, pod: Object, container: str = "main") -> Path:
    return output_folder(node.settings.pods, uid_of(pod), container)


def exits(pod: Object) -> dict[str, int | None]:
    return {
        s["name"]: (s["state"].get("terminated") or {}).get("exitCode")
        for s in status_of(pod).get("containerStatuses") or ()
    }


async def run(node: Node, name: str, script: str, paths: list[str], **more: Any) -> Path:
    await node.create(name, "sh", "-ec", script, metadata=asking(keep={"main": paths}), **more)
    return kept(node, await node.ended(name))


async def test_what_a_container_wrote_is_there_after_it_has_ended(node: Node) -> None:
    folder = await run(
        node,
        "writer",
        "echo hi > /tmp/out.txt; mkdir -p /tmp/model/deep; echo w > /tmp/model/deep/w; chmod 750 /tmp/model/deep/w;"
        "ln -s deep/w /tmp/model/link; ln -s /etc/passwd /tmp/model/out; mkfifo /tmp/model/pipe",
        ["/tmp/out.txt", "/tmp/model", "/tmp/none"],
    )
    assert (folder / "0").read_text() == "hi\n"
    assert (folder / "1/deep/w").stat().st_mode & 0o777 == 0o750
    assert (folder / "1/link").readlink() == Path("deep/w")
    assert (folder / "1/out").is_symlink()
    assert sorted(p.name for p in (folder / "1").iterdir()) == ["deep", "link", "out"]
    assert sorted(p.name for p in folder.iterdir()) == ["0", "1"]


async def test_the_whole_of_tmp_is_what_the_container_wrote_there(
    new_node: Callable[..., Node], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A program that is under /tmp on this machine, such as a checkout with its environment, does not belong to it."""
    programs = tmp_path_factory.mktemp("environment") / "bin"
    assert programs.is_relative_to("/tmp"), "this test needs a folder below /tmp"
    programs.mkdir()
    (programs / "mine").write_text("#!/bin/sh\nmkdir -p /tmp/out; echo hi > /tmp/out/file; mkdir /tmp/empty\n")
    (programs / "mine").chmod(0o755)
    node = new_node(images={"img": ImageSettings(path=(str(programs),))})
    await node.start()
    await node.create("writer", "mine", metadata=asking(keep={"main": ["/tmp"]}))
    folder = kept(node, await node.ended("writer")) / "0"
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == ["empty", "out", "out/file"]


@pytest.mark.parametrize(
    ("script", "path", "content"),
    [
        ("echo x > /result.txt", "/result.txt", "x\n"),
        ("mkdir /mnt/muster-out; echo x > /mnt/muster-out/part", "/mnt/muster-out", ""),
        ("mkdir -p /muster/deep; echo x > /muster/deep/f", "/muster/deep/f", "x\n"),
        ("echo x > /usr/local/muster.txt", "/usr/local/muster.txt", "x\n"),
        ("echo x > /var/run/muster.txt", "/var/run/muster.txt", "x\n"),
    ],
)
async def test_paths_outside_of_tmp_are_private_and_leave_nothing_on_the_machine(
    node: Node, script: str, path: str, content: str
) -> None:
    folder = await run(node, "writer", script, [path])
    assert (folder / "0").exists()
    assert not content or (folder / "0").read_text() == content
    assert not Path(path).exists()
    again = await run(node, "other", f"test ! -e {path}; {script}", [path])
    assert (again / "0").exists()


async def test_files_of_the_machine_stay_as_they_are(node: Node, tmp_path: Path) -> None:
    shared = Path("/var/tmp") / f"muster-{tmp_path.name}-{uid_suffix(tmp_path)}"
    shared.mkdir()
    try:
        (shared / "old.txt").write_text("mine")
        folder = await run(
            node, "file", f"test ! -e {shared}/old.txt; echo new > {shared}/old.txt", [f"{shared}/old.txt"]
        )
        assert (folder / "0").read_text() == "new\n"
        folder = await run(
            node, "folder", f"cat {shared}/old.txt; echo n > {shared}/n; ! echo x > {shared}/old.txt", [str(shared)]
        )
        assert {p.name: p.read_text() for p in (folder / "0").iterdir()} == {"old.txt": "mine", "n": "n\n"}
        assert {p.name: p.read_text() for p in shared.iterdir()} == {"old.txt": "mine"}
    finally:
        for path in shared.iterdir():
            path.unlink()
        shared.rmdir()


async def test_files_in_volumes_are_kept_as_the_container_sees_them(node: Node) -> None:
    volumes = {
        "volumes": [{"name": "work", "emptyDir": {}}],
        "container": {"volumeMounts": [{"name": "work", "mountPath": "/muster-work"}]},
    }
    folder = await run(node, "writer", "echo x > /muster-work/f", ["/muster-work/f", "/muster-work"], **volumes)
    assert (folder / "0").read_text() == "x\n"
    assert (folder / "1/f").read_text() == "x\n"


async def test_a_path_cannot_lead_out_of_the_container(node: Node, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    folder = await run(
        node, "thief", "ln -s ../../../../etc/hosts /tmp/a; echo x > /tmp/b", ["/tmp/a", "/tmp/../tmp/b"]
    )
    assert "thief" in (folder / "0").read_text()  # what is at that path in the container
    assert (folder / "1").read_text() == "x\n"


async def test_a_file_at_the_root_may_be_named_without_it(node: Node) -> None:
    folder = await run(node, "writer", "echo x > result.txt", ["/result.txt"])
    assert (folder / "0").read_text() == "x\n"
    folder = await run(node, "other", "pwd > /result.txt", ["/result.txt"], container={"workingDir": "/usr"})
    assert (folder / "0").read_text() == "/usr\n"


async def test_private_folders_and_mounts_may_be_anywhere_to_each_other(node: Node) -> None:
    mounts = ["/muster-staging", "/mnt/muster-in/deep", "/mnt/muster-out2/v"]
    volumes = {
        "volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(len(mounts))],
        "container": {"volumeMounts": [{"name": f"v{i}", "mountPath": path} for i, path in enumerate(mounts)]},
    }
    script = (
        "echo 1 > /muster-staging/f; echo 2 > /mnt/muster-in/deep/f; mkdir /mnt/muster-out; echo 3 > /mnt/muster-out/f;"
        "echo 4 > /mnt/muster-out2/f"
    )
    paths = ["/muster-staging/f", "/mnt/muster-in/deep/f", "/mnt/muster-out/f", "/mnt/muster-out2/f"]
    folder = await run(node, "a", f"{script}; echo 5 > /usr/local/muster-5", [*paths, "/usr/local/muster-5"], **volumes)
    assert [(folder / str(i)).read_text() for i in range(5)] == ["1\n", "2\n", "3\n", "4\n", "5\n"]
    folder = await run(node, "b", f"{script}; echo 6 > /muster-6", [*paths, "/muster-6"], **volumes)
    assert (folder / "4").read_text() == "6\n"
    assert (folder / "2").read_text() == "3\n"
    assert not [path for path in Path("/mnt").iterdir() if path.name.startswith("muster")]


async def test_the_last_attempt_wins(node: Node) -> None:
    script = "test -e /w/1 && { echo 2 > /result.txt; exit 0; }; echo 1 > /w/1; echo 1 > /other.txt; exit 1"
    folder = await run(
        node, "again", script, ["/result.txt", "/other.txt"],
        restartPolicy="OnFailure", volumes=[{"name": "w", "emptyDir": {}}],
        container={"volumeMounts": [{"name": "w", "mountPath": "/w"}]},
    )  # fmt: skip
    assert {p.name: p.read_text() for p in folder.iterdir()} == {"0": "2\n"}


async def test_large_outputs_do_not_block_the_supervisor(node: Node) -> None:
    script = "mkdir /tmp/d; for i in $(seq 150); do echo $i > /tmp/d/$i; done; head -c 6000000 /dev/zero > /tmp/d/big"
    folder = await run(node, "much", script, ["/tmp/d"])
    assert len(list((folder / "0").iterdir())) == 151
    assert (folder / "0/big").stat().st_size == 6_000_000
    assert not (folder / PROBLEM_FILE).exists()


async def test_kept_files_go_with_the_pod(node: Node) -> None:
    folder = await run(node, "writer", "echo hi > /tmp/out.txt", ["/tmp/out.txt"])
    await node.delete("writer")
    await node.vanished("writer")
    await node.wait_until(lambda: not folder.exists())


@pytest.mark.parametrize("isolation", ["user-namespaces", "none"])
async def test_without_privileges_too(new_node: Callable[..., Node], isolation: Isolation, tmp_path: Path) -> None:
    node = new_node(isolation=isolation)
    await node.start()
    try:
        place = "/tmp/out.txt" if isolation != "none" else str(tmp_path / "out.txt")
        folder = await run(node, "writer", f"echo hi > {place}", [place])
        assert (folder / "0").read_text() == "hi\n"
        if isolation != "none":
            folder = await run(node, "root", "echo hi > /result.txt", ["/result.txt"])
            assert (folder / "0").read_text() == "hi\n"
            assert not Path("/result.txt").exists()
    finally:
        await node.stop()


async def test_an_annotation_that_cannot_be_read_is_named_in_the_status(node: Node) -> None:
    await node.create("bad", "true", metadata={"annotations": {KEEP_FILES_ANNOTATION: "{"}})
    pod = await node.until("bad", lambda pod: "keep-files" in json.dumps(status_of(pod)))
    assert status_of(pod)["phase"] == "Failed"


def containers(**scripts: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": "i", "command": ["sh", "-c", script]} for name, script in scripts.items()]


async def arranged(node: Node, wish: dict[str, Any], **scripts: str) -> Object:
    metadata = asking(containers=wish)
    volumes = [{"name": "w", "emptyDir": {}}]
    mounted = [{**c, "volumeMounts": [{"name": "w", "mountPath": "/w"}]} for c in containers(**scripts)]
    await node.create("pod", metadata=metadata, containers=mounted, volumes=volumes)
    return await node.ended("pod")


async def test_containers_start_when_those_before_them_have_succeeded(node: Node) -> None:
    order = {"leading": ["a", "b", "c"], "after": {"b": ["a"], "c": ["a", "b"]}}
    pod = await arranged(node, order, c="cat /w/f; grep b /w/f", a="echo a > /w/f", b="grep a /w/f && echo b >> /w/f")
    assert status_of(pod)["phase"] == "Succeeded"
    assert await node.logs("pod", container="c") == "a\nb\nb\n"


async def test_a_failure_ends_the_pod_and_what_waits_never_starts(node: Node) -> None:
    order = {"leading": ["a", "b", "c"], "after": {"b": ["a"]}}
    pod = await arranged(node, order, a="exit 3", b="true", c="sleep 1000")
    assert status_of(pod)["phase"] == "Failed"
    assert exits(pod) == {"a": 3, "b": None, "c": 143}


async def test_helpers_are_stopped_when_the_leading_container_has_ended(node: Node) -> None:
    pod = await arranged(node, {"leading": ["main"]}, main="true", helper="sleep 1000")
    assert status_of(pod)["phase"] == "Succeeded"
    assert exits(pod)["main"] == 0


async def test_a_helper_that_fails_by_itself_fails_the_pod(node: Node) -> None:
    script = "while ! test -e /w/f; do sleep 0.02; done; sleep 0.2"
    pod = await arranged(node, {"leading": ["main"]}, main=script, helper="touch /w/f; exit 4")
    assert status_of(pod)["phase"] == "Failed"
    assert exits(pod) == {"main": 0, "helper": 4}


async def test_a_leading_container_is_tried_again(node: Node) -> None:
    wish = {"leading": ["main"], "retries": 2, "retrySeconds": 0.01}
    pod = await arranged(node, wish, main="echo x >> /w/f; test $(wc -l < /w/f) = 3")
    assert status_of(pod)["phase"] == "Succeeded"
    assert status_of(pod)["containerStatuses"][0]["restartCount"] == 2


@pytest.mark.parametrize(("grace", "code"), [("30", 7), ("0", 137)])
async def test_a_pod_can_be_stopped_and_stay(node: Node, grace: str, code: int) -> None:
    await node.create("pod", "sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done")
    await node.phase("pod", "Running")
    while "up" not in await node.logs("pod", follow=False):
        await node.wait_until(lambda: True)
    await node.cluster.patch(POD, "pod", "default", {"metadata": {"annotations": {STOP_ANNOTATION: grace}}})
    pod = await node.ended("pod")
    assert status_of(pod)["phase"] == "Failed"
    assert exits(pod) == {"main": code}


def uid_suffix(path: Path) -> str:
    return str(path.stat().st_ino)


@pytest.fixture(autouse=True)
async def nothing_left_on_the_machine() -> AsyncIterator[None]:
    before = set(Path("/").iterdir())
    yield
    assert set(Path("/").iterdir()) == before
