from __future__ import annotations

from typing import Any

import pytest

from muster.platform.graphs.compile import compile_run
from muster.platform.graphs.model import read
from muster.platform.runs.node_detail import describe_execution, inputs_of
from tests.platform.graphs.samples import CONTEXT, RUN, graph, node


@pytest.mark.parametrize("items", [["red", "green"], ["{{red}}", "green"]])
def test_the_item_of_a_loop_is_an_input_and_no_secret(items: list[str]) -> None:
    """An item that Argo would change is in the Secret of the run. It is shown all the same."""
    document = graph(node("train", loop={"items": items, "variable": "colour"}, env=[{"name": "A", "value": "b"}]))
    workflow: dict[str, Any] = compile_run(document, RUN, CONTEXT)
    drawn = read(document).nodes[0]
    env = {each["name"]: each for each in describe_execution(drawn, workflow, "train")["env"]}
    assert "colour" not in env
    assert env["A"] == {"name": "A", "value": "b", "secret": False}
    shown = inputs_of(drawn, read(document), workflow, "train(1:green)", {})
    assert [(each["name"], each["value"]) for each in shown] == [("colour", "green")]
