"""Our CRDs on a real API server, in place of training-operator's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.kube.builtin import CUSTOM_RESOURCE_DEFINITION
from muster.kube.errors import ApiError
from muster.kube.manifests import load_manifest_files
from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.kube.remote.client import RemoteCluster
from muster.operator.install_manifests import build_crds
from tests.training.test_conformance import FILES, REFUSED, ROOT
from tools.cluster.build import manifest
from tools.cluster.sources import TRAINING_OPERATOR

pytestmark = [pytest.mark.cluster, pytest.mark.smoke]

OURS = {name_of(crd): crd for crd in build_crds()}
FOLDER = manifest(TRAINING_OPERATOR, "manifests") / "base" / "crds"
"""Upstream's CRDs, stored when its operator was built."""

THEIRS = sorted(FOLDER.glob("kubeflow.org_*.yaml"))
with_theirs = pytest.mark.parametrize("file", THEIRS, ids=lambda file: file.stem)

WIDER: dict[str, Callable[[Any, Any], bool]] = {
    "enum": lambda theirs, ours: ours is None or set(theirs or ours) <= set(ours),
    "required": lambda theirs, ours: set(ours or ()) <= set(theirs or ()),
    "type": lambda theirs, ours: theirs == ours,
    "format": lambda theirs, ours: ours in (None, theirs),
    "x-kubernetes-int-or-string": lambda theirs, ours: theirs == ours,
    "x-kubernetes-preserve-unknown-fields": lambda theirs, ours: theirs == ours,
    "minimum": lambda theirs, ours: ours is None,
    "maximum": lambda theirs, ours: ours is None,
    "x-kubernetes-validations": lambda theirs, ours: ours is None,
}
"""Parts of a schema that may differ without rejecting anything that upstream has stored."""


@pytest.fixture
async def defined(remote: RemoteCluster) -> RemoteCluster:
    """A cluster with our CRDs, which replace any others."""
    for crd in OURS.values():
        await remote.patch(CUSTOM_RESOURCE_DEFINITION, name_of(crd), "", crd, type="apply", force=True)
    async with asyncio.timeout(60):
        while not all(is_served(crd) for crd in await current(remote)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await remote.discover(again=True)
    return remote


async def current(remote: RemoteCluster) -> list[Object]:
    return [crd for crd in (await remote.list(CUSTOM_RESOURCE_DEFINITION)).items if name_of(crd) in OURS]


def is_served(crd: Object) -> bool:
    return any(c["type"] == "Established" and c["status"] == "True" for c in status_of(crd).get("conditions") or ())


async def test_the_api_server_accepts_them(defined: RemoteCluster) -> None:
    found = await current(defined)
    assert sorted(map(name_of, found)) == sorted(OURS)
    for crd in found:
        conditions = {c["type"]: c["status"] for c in status_of(crd)["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}, name_of(crd)


@with_theirs
def test_their_names_and_columns_are_upstreams(file: Path) -> None:
    theirs = read(file)
    ours = OURS[name_of(theirs)]
    for field in ("group", "scope", "names"):
        assert spec_of(ours)[field] == spec_of(theirs)[field]
    versions = {version["name"]: version for version in spec_of(ours)["versions"]}
    for version in spec_of(theirs)["versions"]:
        mine = versions[version["name"]]
        for field in ("served", "storage", "subresources", "additionalPrinterColumns"):
            assert mine.get(field) == version.get(field), field


@with_theirs
def test_they_accept_and_keep_all_fields_of_upstreams(file: Path) -> None:
    theirs = read(file)
    ours = {version["name"]: version["schema"] for version in spec_of(OURS[name_of(theirs)])["versions"]}
    for version in spec_of(theirs)["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        assert list(narrower(schema, ours[version["name"]]["openAPIV3Schema"], "")) == []


@pytest.mark.skipif(not FILES, reason="the conformance manifests are not here (set MUSTER_CONFORMANCE)")
async def test_manifests_of_other_projects_are_accepted_completely(defined: RemoteCluster, namespace: str) -> None:
    """With strict validation, a field that would be dropped is an error."""
    refused: dict[str, Any] = {}
    for file in FILES:
        for document in load_manifest_files([file]):
            obj = document.object
            placed = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
            try:
                made = await defined.create(placed, dry_run=True)
                dropped = list(lost(obj.get("spec"), made.get("spec"), "spec"))
            except ApiError as error:
                dropped = [cause.field for cause in error.causes]
            if dropped:
                refused[str(file.relative_to(ROOT))] = dropped
    assert refused.keys() == REFUSED.keys()


def read(file: Path) -> Object:
    found: Object = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    return found


def narrower(theirs: dict[str, Any], ours: dict[str, Any], path: str) -> Iterator[str]:
    for keyword, is_wider in WIDER.items():
        if not is_wider(theirs.get(keyword), ours.get(keyword)):
            yield f"{path}: {keyword} {theirs.get(keyword)} -> {ours.get(keyword)}"
    mine = ours.get("properties") or {}
    for name, inner in (theirs.get("properties") or {}).items():
        if name not in mine:
            yield f"{path}.{name} is missing"
        else:
            yield from narrower(inner, mine[name], f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        inner = theirs.get(keyword)
        if isinstance(inner, dict):
            yield from narrower(inner, ours.get(keyword) or {}, f"{path}[]")


def lost(written: Any, stored: Any, path: str) -> Iterator[str]:
    """Returns the fields that were written and are missing. Numbers in place of strings are not compared."""
    if isinstance(written, dict):
        for key, value in written.items():
            if key not in (stored or {}):
                yield f"{path}.{key}"
            else:
                yield from lost(value, stored[key], f"{path}.{key}")
    elif isinstance(written, list):
        for number, (one, other) in enumerate(zip(written, stored, strict=True)):
            yield from lost(one, other, f"{path}[{number}]")
