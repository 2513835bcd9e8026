from __future__ import annotations

import copy
from typing import Any

import pytest

from muster.platform.graphs.diff import diff
from tests.platform.graphs.samples import graph, node, seed_example

OLD = graph(
    node("a", outputs=[{"name": "o", "path": "/o"}]),
    node("b", env=[{"name": "X", "value": "1"}], storage=[{"root": "nfs"}]),
    edges="a>b",
    parameters=[{"name": "lr", "default": "0.1"}],
)


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (lambda d: None, []),
        (lambda d: d["nodes"][0].update(position={"x": 1, "y": 1}), []),
        (lambda d: d["nodes"][0].update(retries=0), []),
        (lambda d: d["nodes"].append(node("c")), ["node c added"]),
        (lambda d: d["nodes"].pop(1), ["node b removed"]),
        (lambda d: d["nodes"][0].update(image="alpine"), ['image of a changed from "busybox" to "alpine"']),
        (lambda d: d["nodes"][0].update(retries=3), ["retries of a changed from nothing to 3"]),
        (
            lambda d: d["nodes"][0].update(task={"type": "compute", "cluster": "gpu", "skus": 2}),
            ['task of a changed from nothing to {type: "compute", cluster: "gpu", skus: 2}'],
        ),
        (lambda d: d["edges"].clear(), ["edge a -> b removed"]),
        (lambda d: d["edges"].append({"from": "b", "to": "a"}), ["edge b -> a added"]),
        (lambda d: d["parameters"].append({"name": "epochs"}), ["parameter epochs added"]),
        (
            lambda d: d["parameters"][0].update(default="0.2"),
            ['parameter lr changed from {name: "lr", default: "0.1"} to {name: "lr", default: "0.2"}'],
        ),
        (
            lambda d: d["nodes"][1].update(env=[{"name": "Y", "value": "1"}]),
            ["variable Y of b added", "variable X of b removed"],
        ),
        (lambda d: d["nodes"][1].update(storage=[]), ["storage root nfs of b removed"]),
        (lambda d: d["nodes"][0]["outputs"][0].update(type="file"), [
            'output o of a changed from {name: "o", path: "/o"} to {name: "o", path: "/o", type: "file"}'
        ]),
        (lambda d: d["nodes"][0].update(command="true\nfalse"), [
            "command of a changed:\n  @@ -1 +1,2 @@\n   true\n  +false"
        ]),
    ],
)  # fmt: skip
def test_says_what_has_changed(change: Any, texts: list[str]) -> None:
    new = copy.deepcopy(OLD)
    change(new)
    assert [str(each) for each in diff(OLD, new)] == texts


def test_nothing_is_compared_across_types() -> None:
    changes = diff(OLD, {"format": 1, "type": "yaml", "manifest": "x"})
    assert [str(change) for change in changes] == ['type changed from "graph" to "yaml"']


def test_a_change_has_a_path_by_names() -> None:
    new = copy.deepcopy(seed_example())
    new["nodes"][1]["inputs"].pop()
    (change,) = diff(seed_example(), new)
    assert change.to_json() == {
        "action": "removed",
        "what": "input",
        "name": "step1param3 of step2",
        "path": "nodes[step2].inputs[step1param3]",
        "before": {"name": "step1param3", "from": {"node": "step1", "output": "output_param3"}},
        "after": None,
        "text": "input step1param3 of step2 removed",
    }
