"""Paths inside volumes, whose content a Pod controls, while the agent and the supervisor walk them with more rights."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.pod_context import ConfigError
from muster.embedded.node.volumes import EmptyDir, container_mounts, sub_path
from muster.kube.objects import status_of
from tests.embedded.node.harness import Node

ISOLATION, WHY = probe_isolation()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    if ISOLATION == "none":
        pytest.skip(WHY)
    found = Node(tmp_path)
    await found.start()
    yield found
    await found.clean_up()


def volume(path: Path) -> list[dict[str, Any]]:
    return [{"name": "v", "hostPath": {"path": str(path)}}]


LINKS = {
    "a link to the root of the machine": "/",
    "a link to a secret folder": "{secret}",
    "a link upwards": "../secret",
    "a link through the supervisor": "/proc/1/root{secret}",
}


@pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
async def test_an_init_container_replaces_a_sub_path_by(node: Node, tmp_path: Path, link: str) -> None:
    """An init container replaces a subPath, between check and mount, by"""
    secret, shared = tmp_path / "secret", tmp_path / "shared"
    for folder in (secret, shared):
        folder.mkdir()
    (secret / "token").write_text("hunter2")
    target = link.format(secret=secret)
    mounts = [{"name": "v", "mountPath": "/v"}]
    swap = {
        "name": "swap", "image": "i", "volumeMounts": mounts,
        "command": ["sh", "-c", f"rm -rf /v/sub && ln -s {target} /v/sub"],
    }  # fmt: skip
    inside = [{"name": "v", "mountPath": "/mine", "subPath": "sub"}]
    script = "ls -R /mine; cat /mine/token; touch /mine/planted; true"
    await node.create(
        "p", "sh", "-c", script,
        initContainers=[swap], volumes=volume(shared), container={"volumeMounts": inside},
    )  # fmt: skip
    await node.ended("p")
    has_run = status_of(await node.get("p"))["phase"] == "Succeeded"
    text = await node.logs("p", container="main") if has_run else ""
    assert "hunter2" not in text
    assert not (secret / "planted").exists()
    assert not Path("/planted").exists()


async def test_a_working_directory_leads_out_of_the_volume(node: Node, tmp_path: Path) -> None:
    """The agent creates the working directory of a container, as root, through a link that another Pod has made."""
    outside, shared = tmp_path / "outside", tmp_path / "shared"
    for folder in (outside, shared):
        folder.mkdir()
    (shared / "link").symlink_to(outside)
    container = {"workingDir": "/v/link/made", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    await node.create("p", "true", volumes=volume(shared), container=container)
    await node.until("p", lambda pod: status_of(pod).get("phase") in ("Succeeded", "Failed", "Pending"))
    await node.delete("p", grace=0)
    assert list(outside.iterdir()) == []


PATHS = {
    "upwards": "../secret",
    "upwards in the middle": "a/../../secret",
    "an absolute path": "/etc",
    "a link": "link/made",
    "a link to a link": "chain/made",
}


@pytest.mark.parametrize("inside", PATHS.values(), ids=list(PATHS))
def test_a_sub_path_leads_out_of_the_volume(tmp_path: Path, inside: str) -> None:
    """A subPath leads out of its volume"""
    (tmp_path / "secret").mkdir()
    (tmp_path / "v").mkdir()
    (tmp_path / "v/link").symlink_to(tmp_path / "secret")
    (tmp_path / "v/chain").symlink_to("link")
    with pytest.raises(ConfigError):
        sub_path("v", EmptyDir(str(tmp_path / "v")), inside, "c")
    assert list((tmp_path / "secret").iterdir()) == []


def test_a_variable_leads_a_sub_path_out_of_the_volume(tmp_path: Path) -> None:
    """A variable leads a subPathExpr out of its volume"""
    (tmp_path / "v").mkdir()
    wanted = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/x", "subPathExpr": "$(NAME)"}]}
    for value in ("../secret", "/etc", "a/../../b"):
        with pytest.raises(ConfigError):
            container_mounts(wanted, {"v": EmptyDir(str(tmp_path / "v"))}, {"NAME": value})


def test_a_link_changes_its_target_while_folders_are_created(tmp_path: Path) -> None:
    """A container changes where a link leads, as fast as it can, while the agent creates folders below."""
    outside, root = tmp_path / "outside", tmp_path / "v"
    for folder in (outside, root, root / "inside"):
        folder.mkdir()
    (root / "a").symlink_to("inside")
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for target in (outside, Path("inside")):
                (tmp_path / "next").symlink_to(target)
                (tmp_path / "next").rename(root / "a")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(300):
            with suppress(OSError, ConfigError):
                sub_path("v", EmptyDir(str(root)), f"a/{number}/deep", "c")
    finally:
        ended.set()
        swapping.join()
    assert list(outside.iterdir()) == []
