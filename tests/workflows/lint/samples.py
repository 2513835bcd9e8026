"""The tables of bad and good workflows, expanded to objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from muster.kube.objects import Object

HERE = Path(__file__).parent
API_VERSION = "argoproj.io/v1alpha1"


class Sample(NamedTuple):
    """A workflow of the tables. A `template` is called main and gets some helper templates; a `spec` and an `object`
    are complete. `field` and `message` are the expected finding of a bad one; `upstream` says whether Argo's own lint
    rejects it as well: what it accepts fails later, when it runs."""

    name: str
    object: Object
    field: str = ""
    message: str = ""
    upstream: bool = True


def samples(folder: str) -> Iterator[Sample]:
    for file in sorted((HERE / folder).glob("*.yaml")):
        for entry in yaml.safe_load(file.read_text()):
            yield Sample(
                f"{file.stem}: {entry['what']}",
                _object(entry),
                entry.get("field", ""),
                entry.get("message", ""),
                entry.get("upstream", True),
            )


HELPERS: list[dict[str, Any]] = yaml.safe_load((HERE / "helpers.yaml").read_text())
SHARED: list[Object] = [
    {"apiVersion": API_VERSION, **obj} for obj in yaml.safe_load((HERE / "shared.yaml").read_text())
]
"""Templates that others may refer to."""


def lookup(name: str, cluster_scope: bool) -> Object | None:
    kind = "ClusterWorkflowTemplate" if cluster_scope else "WorkflowTemplate"
    return next((obj for obj in SHARED if (obj["kind"], obj["metadata"]["name"]) == (kind, name)), None)


def _object(entry: dict[str, Any]) -> Object:
    common = {"apiVersion": API_VERSION, "kind": "Workflow", "metadata": {"generateName": "sample-"}}
    if "object" in entry:
        return {**common, **entry["object"]}
    if "spec" in entry:
        return {**common, "spec": entry["spec"]}
    return {
        **common,
        "spec": {"entrypoint": "main", "templates": [{"name": "main", **entry["template"]}, *HELPERS]},
    }
