"""Graphs without problems, made up by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from muster.platform.graphs.model import Document

NAMES = st.sampled_from(
    ["train", "Train", "step 1", "step-1", "step_1", "main", "训练", "评估", "a.b", "1", "-", "x" * 60]
)
TEXTS = st.text(alphabet="ab$(){}'\"\\= \n中", max_size=12)
JOBS: list[tuple[str, str, list[tuple[str, int]]]] = [
    ("PyTorchJob", "", [("Master", 1), ("Worker", 2)]),
    ("TFJob", "kubeflow.org/v1", [("PS", 1), ("Worker", 2)]),
    ("XGBoostJob", "", [("Master", 1), ("Worker", 1)]),
    ("MPIJob", "", [("Launcher", 1), ("Worker", 2)]),
    ("MPIJob", "kubeflow.org/v2beta1", [("Launcher", 1), ("Worker", 2)]),
    ("PaddleJob", "", [("Worker", 2)]),
    ("PaddleJob", "batch.paddlepaddle.org/v1", [("ps", 1), ("worker", 2)]),
    ("JAXJob", "", [("Worker", 2)]),
]


@st.composite
def graphs(draw: st.DrawFn, *, plain: bool = False) -> Document:
    """Any number of nodes of any kind; with `plain`, what an exported manifest can be read back from."""
    texts = st.text(alphabet="ab$(){'\"\\= \n中", max_size=12).filter(lambda t: "{{" not in t) if plain else TEXTS
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    parameters = draw(st.lists(st.sampled_from(["lr", "epochs", "p-1"]), max_size=3, unique=True))
    document: dict[str, Any] = {
        "format": 1,
        "parameters": [_parameter(draw, name, texts) for name in parameters],
        "nodes": [],
        "edges": [],
    }
    before: dict[str, set[str]] = {}
    outputs: dict[str, list[dict[str, Any]]] = {}
    for number, name in enumerate(names):
        parents = draw(st.lists(st.sampled_from(names[:number]), unique=True, max_size=3)) if number else []
        document["edges"] += [{"from": parent, "to": name} for parent in parents]
        before[name] = set(parents).union(*(before[parent] for parent in parents))
        kind = "plain" if plain else draw(st.sampled_from(["plain", "plain", "module", "training"]))
        node = _node(draw, name, kind, number, texts)
        outputs[name] = _module_outputs() if kind == "module" else node.get("outputs") or []
        wanted = ["input_file"] if kind == "module" else draw(st.sampled_from([[], ["x"], ["x", "y_1"]]))
        paths: set[str] = set()
        sources = [{"parameter": p} for p in parameters]
        sources += [{"node": other, "output": o["name"]} for other in sorted(before[name]) for o in outputs[other]]
        node["inputs"] = []
        for each in wanted:
            node["inputs"].append({"name": each, **_source(draw, sources, outputs, paths, texts)})
        document["nodes"].append(node)
    return document


def _parameter(draw: st.DrawFn, name: str, texts: st.SearchStrategy[str]) -> dict[str, Any]:
    return {"name": name, "default": draw(texts), "description": draw(st.sampled_from(["", "how fast"]))}


def _node(draw: st.DrawFn, name: str, kind: str, number: int, texts: st.SearchStrategy[str]) -> dict[str, Any]:
    task = draw(
        st.sampled_from([{}, {"type": "monitor"}, {"type": "compute", "cluster": "RTX2080x8", "skus": 2},
                         {"type": "compute", "cluster": "cpu-only", "skus": 3}])
    )  # fmt: skip
    storage = draw(st.sampled_from([[], [{"root": "nfs"}, {"root": "models", "readOnly": True, "path": "/m"}]]))
    node: dict[str, Any] = {"name": name, "kind": kind, "task": task, "storage": storage}
    node["retries"] = draw(st.integers(0, 3))
    node["env"] = [{"name": "MODE", "value": draw(texts)}]
    if kind == "module":
        return {**node, "module": {"name": "hash-file", "version": "1"}}
    node |= {"image": "busybox", "command": f"echo x y_1 {draw(texts)}"}
    folder = f"/tmp/workflow_space/{number}" if kind == "training" else f"/tmp/out/{number}"
    kinds = draw(st.lists(st.sampled_from(["text", "file"]), max_size=2))
    node["outputs"] = [{"name": f"o{i}", "path": f"{folder}/o{i}", "type": type} for i, type in enumerate(kinds)]
    if kind == "training":
        name, api, roles = draw(st.sampled_from(JOBS))
        members = [{"name": role, "replicas": count} for role, count in roles]
        node["training"] = {"kind": name, "roles": members, **({"apiVersion": api} if api else {})}
    return node


def _module_outputs() -> list[dict[str, Any]]:
    return [
        {"name": "digest", "path": "/tmp/workflow_space/digest", "type": "text"},
        {"name": "copy", "path": "/tmp/workflow_space/copy", "type": "file"},
    ]


def _source(
    draw: st.DrawFn, sources: list[dict[str, Any]], outputs: dict[str, list[dict[str, Any]]], paths: set[str],
    texts: st.SearchStrategy[str],
) -> dict[str, Any]:  # fmt: skip
    if not sources or draw(st.integers(0, 2)) == 0:
        return {"value": draw(texts)}
    source = draw(st.sampled_from(sources))
    if "node" in source:
        output = next(o for o in outputs[source["node"]] if o["name"] == source["output"])
        if output["type"] == "file" and output["path"] in paths:
            return {"value": "again"}
        paths.add(output["path"])
    return {"from": source}
