from __future__ import annotations

import pytest

from muster.kube.errors import BadRequest
from muster.workflows.model import Node
from muster.workflows.operations.control import NodeSelector

NODE = Node(
    id="wf-1",
    name="wf[0].train",
    displayName="train",
    phase="Failed",
    templateName="work",
    inputs={"parameters": [{"name": "size", "value": 3}]},
)
ELSEWHERE = Node(id="wf-2", name="wf.b", displayName="b", templateRef={"name": "shared", "template": "inner"})


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("displayName=train", True),
        ("displayName==train,phase=Failed", True),
        ("displayName=train,phase=Succeeded", False),
        ("phase!=Succeeded", True),
        ("name=wf[0].train", True),
        ("id=wf-1", True),
        ("templateName=work", True),
        ("inputs.parameters.size.value=3", True),
        ("inputs.parameters.size.value=4", False),
        ("inputs.parameters.other.value=", True),
        ("templateRef.name=shared", False),
        ("finishedAt=", True),
    ],
)
def test_nodes_are_chosen_by_their_fields(selector: str, expected: bool) -> None:
    assert NodeSelector(selector).matches(NODE) is expected


@pytest.mark.parametrize("selector", ["templateRef.name=shared", "templateRef.template=inner", "templateName=inner"])
def test_the_template_may_be_another_objects(selector: str) -> None:
    assert NodeSelector(selector).matches(ELSEWHERE)


def test_a_text_that_is_no_selector() -> None:
    with pytest.raises(BadRequest):
        NodeSelector("train")
