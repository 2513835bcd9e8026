"""The same workflows on the real Argo controller and on the embedded cluster: same phases and outputs, node by node."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists
from muster.kube.manifests import load_manifest_files
from muster.kube.objects import Object, labels_of, meta, name_of, status_of
from muster.kube.remote.client import RemoteCluster
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from tests.cluster.conftest import Needs
from tools.cluster import addons, images
from tools.conformance import NO_TEST, SUBSTITUTES, default_folder, images_in, substitute_images

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent
PYTHON, ARGOSAY = "muster-differential-python:1", "muster-differential-argosay:1"
RUN = uuid.uuid4().hex[:4]
"""Part of the names of the workflows, so that objects of an earlier run do not collide."""
PATIENCE = 300.0
AT_ONCE = 8
NEEDS_MORE = (
    "'artifacts'", "'resource'", "'http'", "'plugin'", "'data'", "'sidecars'", "'daemon'", "persistentVolumeClaim",
    "volumeClaimTemplates", "random", "apk ", "curl", "argosay:v1",
)  # fmt: skip
"""Needs something that the test cluster does not have, or has a different result each time."""
LOCAL_IMAGES = {"busybox": images.BUSYBOX, "alpine": images.BUSYBOX, "python": PYTHON, "debian": PYTHON}
LOCAL_IMAGES |= {"argoproj/argosay": ARGOSAY, "docker/whalesay": images.BUSYBOX}
ENDS = ("Succeeded", "Failed", "Error")


def candidates() -> list[tuple[str, Object]]:
    """Argo's own examples, if they are available, and ours."""
    folder = default_folder()
    found = [("differential.yaml", document.object) for document in load_manifest_files([HERE / "differential.yaml"])]
    for file in sorted(folder.rglob("*.yaml")) if folder.is_dir() else ():
        for document in load_manifest_files([file], named=False):
            label = labels_of(document.object).get(NO_TEST)
            if document.object.get("kind") == "Workflow" and label not in ("environment", "duration"):
                found.append((str(file.relative_to(folder)), document.object))
    return [(file, workflow) for file, workflow in found if is_comparable(workflow)]


def is_comparable(workflow: Object) -> bool:
    text = str(workflow)
    return not any(word in text for word in NEEDS_MORE) and all(local(image) for image in images_in(workflow))


def referenced_objects() -> list[Object]:
    """The templates and other objects that Argo's examples refer to."""
    folder = default_folder()
    return [
        document.object
        for file in (sorted(folder.rglob("*.yaml")) if folder.is_dir() else ())
        for document in load_manifest_files([file], named=False)
        if document.object.get("kind") in ("WorkflowTemplate", "ClusterWorkflowTemplate", "ConfigMap")
    ]


async def test_every_workflow_ends_the_same_on_both(needs: Needs, remote: RemoteCluster, tmp_path: Path) -> None:
    layout = needs("node", "argo").layout
    argosay = SUBSTITUTES.parent / "programs/argosay/argosay"
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nexec python3 "$@"\n')
    python.chmod(0o755)
    images.load(images.with_files(images.python(), PYTHON, {"/usr/local/bin/python": python}), layout)
    said = images.with_files(images.busybox(), ARGOSAY, {"/argosay": argosay})
    images.load(images.Image(said.name, said.layers, ("sh", "/argosay")), layout)
    chosen = candidates()
    node = {"capacity": {"cpu": "1000", "memory": "1Ti"}}
    settings = read_settings(tmp_path / "home", {"node": node, "images": substitute_images()})
    async with run_server(settings) as box:
        for thing in referenced_objects():
            await _put(box.cluster, thing)
            await _put(remote, _for_argo(thing))
        gate = asyncio.Semaphore(AT_ONCE)
        pairs = await asyncio.gather(
            *(_pair(gate, remote, box.cluster, workflow, number) for number, (_, workflow) in enumerate(chosen))
        )
    differences = [
        f"{file} {name_of(workflow)}: {difference}"
        for (file, workflow), (theirs, ours) in zip(chosen, pairs, strict=True)
        for difference in differing(essence(theirs), essence(ours))
    ]
    assert not differences, f"{len(differences)} differences:\n" + "\n".join(differences)
    assert len(chosen) >= 14


def essence(workflow: Object) -> dict[str, Any]:
    """The fields that must be equal, with names that do not depend on the workflow's name."""
    name = name_of(workflow)
    found: dict[str, Any] = {"workflow": (status_of(workflow).get("phase"), _outputs(status_of(workflow)))}
    for node in (status_of(workflow).get("nodes") or {}).values():
        where = node["name"].replace(name, "WORKFLOW")
        inputs = [(p["name"], p.get("value")) for p in (node.get("inputs") or {}).get("parameters") or ()]
        told = (node["type"], node["phase"], sorted(inputs), _outputs(node))
        found[where] = str(told).replace(name, "WORKFLOW")
    return found


def differing(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    for where in sorted(theirs.keys() | ours.keys()):
        if theirs.get(where) != ours.get(where):
            yield f"{where}: Argo has {theirs.get(where)}, we have {ours.get(where)}"


def local(image: str) -> str:
    return LOCAL_IMAGES.get(image.partition(":")[0], "")


def _outputs(holder: Object) -> tuple[Any, ...]:
    outputs = holder.get("outputs") or {}
    parameters = sorted((p["name"], p.get("value")) for p in outputs.get("parameters") or ())
    return (parameters, outputs.get("result"), "ended by force" if _by_force(outputs) else outputs.get("exitCode"))


def _by_force(outputs: Object) -> bool:
    """Argo's executor reports exit code 64 for a container that it killed; ours reports the signal."""
    return outputs.get("exitCode") in ("64", "137", "143")


def _for_argo(obj: Object) -> Object:
    """The same workflow with images that the node has."""

    def mapped(value: Any) -> Any:
        if isinstance(value, list):
            return [mapped(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        made = {key: mapped(inner) for key, inner in value.items()}
        if isinstance(value.get("image"), str):
            made |= {"image": local(value["image"]) or value["image"], "imagePullPolicy": "Never"}
            if made["image"] == ARGOSAY:  # Argo would ask a registry for the command of the image
                made.setdefault("command", ["sh", "/argosay"])
        return made

    made: Object = mapped(obj)
    namespace = {} if obj.get("kind") == "ClusterWorkflowTemplate" else {"namespace": addons.WORKFLOWS}
    return {**made, "metadata": {**meta(obj), **namespace}}


async def _put(cluster: Cluster, obj: Object) -> None:
    try:
        await cluster.create(obj)
    except AlreadyExists:
        return


async def _pair(
    gate: asyncio.Semaphore, remote: RemoteCluster, box: Cluster, workflow: Object, number: int
) -> tuple[Object, Object]:
    named = {**workflow, "metadata": {**meta(workflow), "name": f"case-{RUN}-{number}"}}
    named["metadata"].pop("generateName", None)
    async with gate:
        theirs, ours = await asyncio.gather(_ended(remote, _for_argo(named)), _ended(box, named))
    return theirs, ours


async def _ended(cluster: Cluster, workflow: Object) -> Object:
    kind = cluster.catalogue.of_object(workflow)
    namespace = str(meta(workflow).get("namespace") or "default")
    await cluster.create({**workflow, "metadata": {**meta(workflow), "namespace": namespace}})
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while asyncio.get_running_loop().time() < deadline:
        found = await cluster.get(kind, name_of(workflow), namespace)
        if status_of(found).get("phase") in ENDS:
            if isinstance(cluster, EmbeddedCluster):
                return cluster.with_status_rows(found, kind)
            await cluster.delete(kind, name_of(workflow), namespace)
            return found
        await asyncio.sleep(0.5)
    return found
