"""Small graphs for the tests, and the objects they refer to."""

from __future__ import annotations

from typing import Any

from muster.platform.graphs.context import AvailableCluster, AvailableModule, AvailableRoot, Context, RunInfo
from muster.platform.graphs.model import Document, Output, Variable

GPU = AvailableCluster(
    "RTX2080x8",
    {"nvidia.com/gpu": "1", "cpu": "10", "memory": "80G"},
    {"pool": "rtx2080"},
    queue="rtx",
    tolerations=["gpu:NoSchedule"],
)
CONTEXT = Context(
    clusters={
        "RTX2080x8": GPU,
        "cpu-only": AvailableCluster("cpu-only", {"cpu": "500m", "memory": "1.5Gi"}),
        "theirs": AvailableCluster("theirs", {"cpu": "1"}, usable=False),
    },
    roots={
        "nfs": AvailableRoot("nfs", "/nfs/data"),
        "models": AvailableRoot("models", "/models", claim="models-claim", read_only=True),
        "华为盘": AvailableRoot("华为盘", "/hw", host_path="/mnt/hw"),
        "secret": AvailableRoot("secret", "/secret", usable=False),
    },
    modules={
        ("hash-file", "1"): AvailableModule(
            "hash-file", "1", "modules/hash-file:1", ("python", "main.py"), ("input_file",),
            (Output("digest", "/tmp/workflow_space/digest"), Output("copy", "/tmp/workflow_space/copy", "file")),
            (Variable("MODE", "fast"),),
        ),
        ("hash-file", "2"): AvailableModule(
            "hash-file", "2", "modules/hash-file:2", (), ("input_file",), deprecated=True
        ),
        ("local", "1"): AvailableModule(
            "local", "1", "modules/local:1", ("python", "main.py"), ("text",), folder="/srv/local"
        ),
        ("old", "1"): AvailableModule("old", "1", "modules/old:1", deprecated=True, retired=True),
        ("draft", "1"): AvailableModule("draft", "1", "modules/draft:1", usable=False),
    },
)  # fmt: skip
RUN = RunInfo("r1", "run-1", "u1", "run-1-secret", namespace="default")


def node(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox", "command": "true", **more}


def graph(*nodes: dict[str, Any], edges: str = "", **more: Any) -> Document:
    """`edges` as in "a>b b>c"."""
    pairs = [pair.split(">") for pair in (edges.split() if edges.count(">") > 1 else [edges] if edges else [])]
    return {"format": 1, "nodes": list(nodes), "edges": [{"from": a, "to": b} for a, b in pairs], **more}


def training(name: str, kind: str, *roles: tuple[str, int], **more: Any) -> dict[str, Any]:
    job = {"kind": kind, "roles": [{"name": role, "replicas": count} for role, count in roles]}
    return node(name, kind="training", training=job, **more)


def seed_example() -> Document:
    """The example of the chapter about parameter types in seed 003, word for word."""
    return graph(
        node(
            "step1",
            command='echo "outpraram1" >  /tmp/outpraram1.txt\n'
            'echo "outpraram2" >  /tmp/outpraram2.txt\n'
            "mkdir /tmp/outpraram3\n"
            "touch /tmp/outpraram3/file1\n",
            outputs=[
                {"name": "output_param1", "path": "/tmp/outpraram1.txt", "type": "text"},
                {"name": "output_param2", "path": "/tmp/outpraram2.txt", "type": "file"},
                {"name": "output_param3", "path": "/tmp/outpraram3", "type": "file"},
            ],
        ),
        node(
            "step2",
            command="echo $step1param1\necho $step1param2\necho $step1param3\ncat $step1param2\nls $step1param3\n",
            inputs=[
                {"name": f"step1param{n}", "from": {"node": "step1", "output": f"output_param{n}"}} for n in (1, 2, 3)
            ],
        ),
        edges="step1>step2",
    )


SEED_LOG = ["outpraram1", "/tmp/outpraram2.txt", "/tmp/outpraram3", "outpraram2", "file1"]
"""The output of step2."""
