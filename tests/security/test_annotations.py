"""Annotations by which a Pod asks the node for something, with values that nobody honest writes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from muster.embedded.node.nodes import SIMULATED_SECONDS_ANNOTATION, simulated_status
from muster.embedded.node.pod_context import requested_stop_grace
from muster.embedded.settings import RUNTIME_ANNOTATION
from muster.kube.builtin import POD
from muster.kube.cluster import CONTAINERS_ANNOTATION, KEEP_FILES_ANNOTATION, STOP_ANNOTATION
from muster.kube.objects import Object, name_of, status_of
from tests.embedded.node.harness import Node
from tests.embedded.waiting import wait_for

MEMBER = "member-ada"
_NUMBERS = count()
on_node = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def unchecked() -> Iterator[None]:
    """The node knows that the namespace is restricted, but the store has not checked its Pods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.embedded.node.agent.is_restricted", lambda namespace: name_of(namespace) == MEMBER)
        yield


async def start(home: Path, **settings: Any) -> Node:
    node = Node(home, **settings)
    await node.start()
    await node.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MEMBER}})
    return node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory, unchecked: None) -> AsyncIterator[Node]:
    """Shared by all tests: every Pod has a name of its own."""
    found = await start(tmp_path_factory.mktemp("node"))
    yield found
    await found.clean_up()


@pytest.fixture
def name() -> str:
    return f"pod-{next(_NUMBERS)}"


async def ended(node: Node, name: str, namespace: str = MEMBER) -> Object:
    return await wait_for(
        node.cluster, POD, name, lambda pod: status_of(pod).get("phase") in ("Succeeded", "Failed"), namespace
    )


@on_node
@pytest.mark.parametrize(
    "runtime",
    ["podman", "docker", "host", "sandbox; rm -rf /", "x" * 200_000],
    ids=["podman", "docker", "the host", "a command", "a text of 200,000 characters"],
)
async def test_a_member_chooses_the_runtime_of_a_pod(node: Node, name: str, runtime: str) -> None:
    """A Pod of a member leaves the runtime that the admin has chosen through `muster.dev/runtime`."""
    await node.create(name, "true", metadata={"namespace": MEMBER, "annotations": {RUNTIME_ANNOTATION: runtime}})
    status = status_of(await ended(node, name))
    assert (status["phase"], status["reason"]) == ("Failed", "InvalidAnnotation")
    assert RUNTIME_ANNOTATION in status["message"]
    assert len(status["message"]) < 500


@on_node
async def test_a_member_leaves_podman_for_the_sandbox(tmp_path: Path, unchecked: None) -> None:
    """A member leaves podman for the host with `muster.dev/runtime: sandbox`"""
    node = await start(tmp_path, runtime="podman")
    try:
        marker = tmp_path / "ran"
        annotations = {RUNTIME_ANNOTATION: "sandbox"}
        await node.create("p", "touch", str(marker), metadata={"namespace": MEMBER, "annotations": annotations})
        status = status_of(await ended(node, "p"))
    finally:
        await node.stop()
    assert (status["phase"], status["reason"]) == ("Failed", "InvalidAnnotation")
    assert not marker.exists()


@on_node
async def test_the_owner_of_the_machine_may_choose_the_runtime(node: Node, name: str) -> None:
    """Kept working: Pods of an unrestricted namespace choose their runtime"""
    await node.create(name, "true", metadata={"annotations": {RUNTIME_ANNOTATION: "sandbox"}})
    assert status_of(await node.ended(name))["phase"] == "Succeeded"


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


HOSTILE = {
    "keep-files: not JSON": (KEEP_FILES_ANNOTATION, "{"),
    "keep-files: a list": (KEEP_FILES_ANNOTATION, "[]"),
    "keep-files: nested 100,000 deep": (KEEP_FILES_ANNOTATION, deep(100_000)),
    "keep-files: a number instead of a list": (KEEP_FILES_ANNOTATION, '{"main": 5}'),
    "keep-files: an object instead of a path": (KEEP_FILES_ANNOTATION, '{"main": [{"path": "/x"}]}'),
    "keep-files: a relative path": (KEEP_FILES_ANNOTATION, '{"main": ["../../etc/shadow"]}'),
    "keep-files: a NUL in a path": (KEEP_FILES_ANNOTATION, '{"main": ["/tmp/a\\u0000b"]}'),
    "keep-files: a path that is too long": (KEEP_FILES_ANNOTATION, json.dumps({"main": ["/" + "x" * 5000]})),
    "keep-files: 10,000 paths": (KEEP_FILES_ANNOTATION, json.dumps({"main": ["/tmp/x"] * 10_000})),
    "keep-files: the environment of the supervisor": (KEEP_FILES_ANNOTATION, '{"main": ["/proc/1/environ"]}'),
    "keep-files: the same with two slashes": (KEEP_FILES_ANNOTATION, '{"main": ["//proc/1/environ"]}'),
    "keep-files: the same through ..": (KEEP_FILES_ANNOTATION, '{"main": ["/tmp/../proc/1/environ"]}'),
    "keep-files: the kernel's settings": (KEEP_FILES_ANNOTATION, '{"main": ["/sys"]}'),
    "keep-files: the memory of the machine": (KEEP_FILES_ANNOTATION, '{"main": ["/dev/mem"]}'),
    "containers: not JSON": (CONTAINERS_ANNOTATION, "nope"),
    "containers: a text instead of names": (CONTAINERS_ANNOTATION, '{"leading": "main"}'),
    "containers: lists instead of names": (CONTAINERS_ANNOTATION, '{"leading": [["main"]]}'),
    "containers: an unknown container": (CONTAINERS_ANNOTATION, '{"leading": ["other"]}'),
    "containers: a number for after": (CONTAINERS_ANNOTATION, '{"leading": ["main"], "after": 7}'),
    "containers: a number for the awaited ones": (CONTAINERS_ANNOTATION, '{"leading": ["main"], "after": {"main": 7}}'),
    "containers: one that waits for itself": (
        CONTAINERS_ANNOTATION, '{"leading": ["main"], "after": {"main": ["main"]}}'
    ),
    "containers: retries without end": (CONTAINERS_ANNOTATION, '{"leading": ["main"], "retries": 1e300}'),
    "containers: retries that are no number": (CONTAINERS_ANNOTATION, '{"leading": ["main"], "retries": "x"}'),
    "containers: a negative pause": (CONTAINERS_ANNOTATION, '{"leading": ["main"], "retrySeconds": -5}'),
    "containers: a list as the pause": (CONTAINERS_ANNOTATION, '{"leading": ["main"], "retrySeconds": [1]}'),
}  # fmt: skip


@on_node
@pytest.mark.parametrize(("annotation", "value"), HOSTILE.values(), ids=list(HOSTILE))
async def test_an_annotation_that_cannot_be_honoured_fails_the_pod(
    node: Node, name: str, annotation: str, value: str
) -> None:
    """A hostile annotation raises in the node agent, or reads what it must not"""
    await node.create(name, "true", metadata={"namespace": MEMBER, "annotations": {annotation: value}})
    status = status_of(await ended(node, name))
    assert (status["phase"], status["reason"]) == ("Failed", "InvalidAnnotation")
    assert annotation in status["message"]
    assert len(status["message"]) < 1000


@pytest.mark.parametrize(
    "text",
    ["nan", "inf", "1e400", "-inf", "9" * 400, "now", ""],
    ids=["nan", "inf", "1e400", "-inf", "400 digits", "a word", "nothing"],
)
def test_a_grace_period_that_never_ends(text: str) -> None:
    """A member asks for a grace period that no timer can wait for"""
    pod: Object = {"metadata": {"annotations": {STOP_ANNOTATION: text}}}
    grace = requested_stop_grace(pod)
    assert grace is not None and 0 <= grace <= 366 * 86400


@pytest.mark.parametrize(
    "text", ["nan", "inf", "1e400", "-inf", "9" * 400], ids=["nan", "inf", "1e400", "-inf", "400 digits"]
)
def test_a_simulated_pod_that_no_timer_can_wait_for(text: str) -> None:
    """A member asks for a simulated run that no timer can wait for"""
    metadata: dict[str, Any] = {"name": "p", "namespace": "n", "uid": "u"}
    metadata["annotations"] = {SIMULATED_SECONDS_ANNOTATION: text}
    _, again = simulated_status({"metadata": metadata, "spec": {"containers": [{"name": "c"}]}}, 1000.0)
    assert again is None or again <= 366 * 86400
