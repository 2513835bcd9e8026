from __future__ import annotations

import copy
from typing import Any

import pytest

from muster.platform.graphs.document import canonical, content_hash
from muster.platform.graphs.model import read
from tests.platform.graphs.samples import graph, node, seed_example, training

WORDY = graph(
    node("a", kind="plain", retries=0, env=[], task={"type": "monitor"}, inputs=None, description=""),
    training("t", "JAXJob", ("Worker", 1), position={"x": 1, "y": 2}),
    parameters=[{"name": "p", "required": False, "default": "", "description": ""}],
    type="graph",
)
TERSE: dict[str, Any] = {
    "format": 1,
    "parameters": [{"name": "p", "default": ""}],
    "nodes": [
        {"name": "a", "image": "busybox", "command": "true"},
        {
            "name": "t", "image": "busybox", "command": "true", "kind": "training", "position": {"x": 1, "y": 2},
            "training": {"kind": "JAXJob", "roles": [{"name": "Worker"}]},
        },
    ],
}  # fmt: skip


def test_what_goes_without_saying_is_not_said() -> None:
    before = copy.deepcopy(WORDY)
    assert canonical(WORDY) == TERSE
    assert canonical(TERSE) == TERSE
    assert before == WORDY


def test_it_still_means_the_same() -> None:
    assert read(canonical(WORDY)) == read(WORDY)
    assert read(canonical(seed_example())) == read(seed_example())


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda d: d["nodes"][1].update(position={"x": 9, "y": 9}), True),
        (lambda d: d["nodes"].reverse(), True),
        (lambda d: d["nodes"][0].update(retries=0), True),
        (lambda d: d["nodes"][0].update(command="false"), False),
        (lambda d: d["nodes"][1]["training"]["roles"][0].update(replicas=2), False),
        (lambda d: d.update(edges=[{"from": "a", "to": "t"}]), False),
        (lambda d: d["parameters"][0].update(default="1"), False),
    ],
)
def test_the_hash_is_that_of_what_runs(change: Any, same: bool) -> None:
    document = copy.deepcopy(TERSE)
    change(document)
    assert (content_hash(document) == content_hash(TERSE)) is same
