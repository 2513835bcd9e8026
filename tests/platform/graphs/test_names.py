from __future__ import annotations

import re

import pytest

from muster.platform.graphs.context import with_modules
from muster.platform.graphs.model import read
from muster.platform.graphs.names import nodes_by_task, tasks_of
from tests.platform.graphs.samples import CONTEXT, graph, node, training


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("step1", "step1"),
        ("Train Model", "train-model"),
        ("train_model", "train-model"),
        ("1st", "node-1st"),
        ("main", "main-dbfb92"),
        ("数据准备", "node-0b4a5d"),
        ("训练 v2", "v2"),
        ("--", "node-cc63b4"),
    ],
)
def test_a_node_gets_a_name_that_a_workflow_allows(name: str, task: str) -> None:
    found = tasks_of(read(graph(node(name))))[name].main
    assert re.fullmatch(r"[a-z][-a-z0-9]*", found)
    assert re.sub(r"-[0-9a-f]{6}$", "", found) == re.sub(r"-[0-9a-f]{6}$", "", task)


def test_names_that_are_fine_stay_and_others_give_way() -> None:
    names = ["Train", "train", "TRAIN", "训练", "评估"]
    tasks = tasks_of(read(graph(*map(node, names))))
    assert tasks["train"].main == "train"
    assert len({each.main for each in tasks.values()}) == len(names)
    assert tasks == tasks_of(read(graph(*map(node, reversed(names)))))


def test_a_training_node_with_files_has_tasks_around_it() -> None:
    file = {"name": "f", "path": "/tmp/f", "type": "file"}
    result = {"name": "r", "path": "/tmp/workflow_space/r"}
    taken = [{"name": "x", "from": {"node": "a", "output": "f"}}]
    document = graph(
        node("a", outputs=[file]),
        training("train", "JAXJob", ("Worker", 2), inputs=taken, outputs=[result]),
        training("alone", "JAXJob", ("Worker", 2)),
        node("train-inputs"),
    )
    tasks = tasks_of(with_modules(read(document), CONTEXT))
    assert tasks["alone"] == ("alone", "", "")
    assert (tasks["train"].main, tasks["train"].last) == ("train", "train-outputs")
    assert tasks["train-inputs"].main == "train-inputs"
    assert tasks["train"].inputs.startswith("train-inputs-")
    assert nodes_by_task(tasks)[tasks["train"].inputs] == "train"
