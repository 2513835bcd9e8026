"""What differs between the engine of the embedded cluster and the Argo controller of a real one."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.errors import NotFound, TooLarge, Unavailable
from muster.kube.objects import Object, annotations_of, labels_of, spec_of, status_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import Access
from muster.workflows.backend import (
    OFFLOADED,
    ArgoBackend,
    ArgoOptions,
    archived_log_key,
    lacks_nodes,
    nodes_from_argo_server,
    pack_nodes,
    prepare_for_argo,
    stored_form,
    unpack_nodes,
    with_empty_times,
)
from muster.workflows.operations.retry import retry

NODES = {"w": {"id": "w", "name": "w", "type": "Pod", "phase": "Failed", "templateName": "main"}}


def workflow(**status: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w", "namespace": "team-a"},
        "spec": {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "busybox"}}]},
        "status": status,
    }


def packed(nodes: Any) -> str:
    return base64.b64encode(gzip.compress(orjson.dumps(nodes), mtime=0)).decode()


def backend(fetch_nodes: Any = None) -> ArgoBackend:
    return ArgoBackend(RemoteCluster(Access("https://nowhere.invalid")), fetch_nodes=fetch_nodes)


@pytest.mark.parametrize(
    ("options", "spec", "expected"),
    [
        (ArgoOptions(), {}, {"serviceAccountName": "muster-run"}),
        (ArgoOptions(archive_logs=True), {}, {"serviceAccountName": "muster-run", "archiveLogs": True}),
        (
            ArgoOptions(archive_logs=True),
            {"serviceAccountName": "own", "archiveLogs": False},
            {"serviceAccountName": "own", "archiveLogs": False},
        ),
    ],
)
def test_what_the_author_has_set_stays(options: ArgoOptions, spec: Object, expected: Object) -> None:
    given = {**workflow(), "spec": spec}
    made = prepare_for_argo(given, options)
    assert spec_of(made) == expected
    assert annotations_of(made)["muster.dev/retries"] == "0", "a part of the keys of artifacts"
    assert labels_of(made) == {}


def test_a_controller_with_an_instance_id_gets_its_label() -> None:
    made = prepare_for_argo(workflow(), ArgoOptions(instance_id="mine"))
    assert labels_of(made) == {"workflows.argoproj.io/controller-instanceid": "mine"}


async def test_nodes_are_found_wherever_argo_keeps_them() -> None:
    async def fetch(namespace: str, name: str) -> Mapping[str, Any]:
        assert (namespace, name) == ("team-a", "w")
        return NODES

    plain = workflow(nodes=NODES)
    assert await backend().with_nodes(plain) is plain
    assert status_of(await backend().with_nodes(workflow(compressedNodes=packed(NODES))))["nodes"] == NODES
    offloaded = workflow(offloadNodeStatusVersion="fnv:1", phase="Running")
    assert status_of(await backend(fetch).with_nodes(offloaded))["nodes"] == NODES


async def test_nodes_that_cannot_be_read_are_explained() -> None:
    async def fetch(namespace: str, name: str) -> Mapping[str, Any]:
        raise Unavailable("https://argo responded with status 403")

    offloaded = workflow(offloadNodeStatusVersion="fnv:1")
    assert status_of(await backend().with_nodes(offloaded))["message"] == OFFLOADED
    assert "status 403" in status_of(await backend(fetch).with_nodes(offloaded))["message"]
    own = workflow(offloadNodeStatusVersion="fnv:1", message="its own")
    assert status_of(await backend().with_nodes(own))["message"] == "its own"
    assert "compressedNodes" in status_of(await backend().with_nodes(workflow(compressedNodes="!")))["message"]


async def test_a_response_that_is_no_json_is_explained() -> None:
    """A proxy in front of the Argo server responds with a page."""

    async def request(path: str) -> bytes:
        return b"<html>"

    offloaded = workflow(offloadNodeStatusVersion="fnv:1")
    found = status_of(await backend(nodes_from_argo_server(request)).with_nodes(offloaded))
    assert found["message"].startswith("the Argo server does not return the nodes")


@pytest.mark.parametrize(
    ("status", "lacks"),
    [
        ({}, False),
        ({"nodes": NODES}, False),
        ({"offloadNodeStatusVersion": "fnv:1"}, True),
        ({"offloadNodeStatusVersion": "fnv:1", "nodes": None}, True),
        ({"offloadNodeStatusVersion": "fnv:1", "nodes": NODES}, False),
        ({"compressedNodes": "!"}, True),
        ({"compressedNodes": "!", "nodes": NODES}, False),
    ],
)
def test_lacks_nodes(status: dict[str, Any], lacks: bool) -> None:
    assert lacks_nodes(workflow(**status)) is lacks


@pytest.mark.parametrize(
    "text",
    ["!", base64.b64encode(b"not gzip").decode(), packed([1]), packed(NODES)[:-8]],
    ids=["not base64", "not gzip", "not a map", "incomplete"],
)
def test_broken_nodes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack_nodes(text)


async def test_the_argo_server_is_asked_for_nodes_only() -> None:
    async def request(path: str) -> bytes:
        assert path == "/api/v1/workflows/team-a/w?fields=status.nodes"
        return orjson.dumps({"status": {"nodes": NODES}})

    async def empty(path: str) -> bytes:
        return b"{}"

    assert await nodes_from_argo_server(request)("team-a", "w") == NODES
    with pytest.raises(NotFound):
        await nodes_from_argo_server(empty)("team-a", "w")


def test_large_workflows_are_written_as_argo_writes_them() -> None:
    many = {f"n{at}": {"name": f"n{at}", "message": "x" * 500} for at in range(4000)}
    stored = status_of(pack_nodes(workflow(nodes=many, phase="Running")))
    assert "nodes" not in stored
    assert unpack_nodes(stored["compressedNodes"]) == many
    small = status_of(pack_nodes(workflow(nodes=NODES, compressedNodes="old", offloadNodeStatusVersion="old")))
    assert small == {"nodes": NODES}
    with pytest.raises(TooLarge):
        pack_nodes({**workflow(), "spec": {"text": "x" * (1 << 20)}})


def test_a_retry_of_compressed_nodes_replaces_them() -> None:
    """The patch is made from what the cluster has, not from what was unpacked."""
    before = workflow(nodes=NODES, compressedNodes=packed(NODES), phase="Failed")
    assert "nodes" not in status_of(stored_form(before))
    after = pack_nodes(retry(before).workflow)
    assert status_of(after)["nodes"] == {} and "compressedNodes" not in status_of(after)


@given(st.lists(st.binary(max_size=6).map(lambda text: text.replace(b"\n", b"")), min_size=1), st.integers(1, 9))
def test_every_archived_line_gets_an_empty_time(lines: list[bytes], size: int) -> None:
    text = b"".join(line + b"\n" for line in lines)
    made, begins = b"", True
    for at in range(0, len(text), size):
        piece = text[at : at + size]
        made += with_empty_times(piece, begins)
        begins = piece.endswith(b"\n")
    assert made == b"".join(b" " + line + b"\n" for line in lines)


def test_the_log_of_every_round_has_its_own_key() -> None:
    keys = {archived_log_key("team-a", "run-1", round, "run-1-a-42") for round in (0, 1)}
    assert keys == {"team-a/run-1/0/run-1-a-42/main.log", "team-a/run-1/1/run-1-a-42/main.log"}
