from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.embedded.agent.environment import expand
from muster.platform.graphs.verbatim import (
    Literals,
    escape_dollars,
    escape_tags,
    from_input,
    from_input_as_json,
)
from muster.workflows.expressions.tags import substitute

AWKWARD = st.text(alphabet="$(){}a'\"\\=\n 中")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("", ""),
        ("echo $name ${name}", "echo $name ${name}"),
        ("echo $(name)", "echo $$(name)"),
        ("echo $$", "echo $$$$"),
        ("$$(name)", "$$$$(name)"),
        ("$", "$"),
    ],
)
def test_only_what_kubernetes_would_read_is_escaped(text: str, escaped: str) -> None:
    assert escape_dollars(text) == escaped


@given(AWKWARD)
def test_kubernetes_gives_the_text_back(text: str) -> None:
    assert expand(escape_dollars(text), {"": "!", "a": "!"}) == text


@given(AWKWARD)
def test_an_input_arrives_as_it_is(text: str) -> None:
    filled = substitute(from_input("x"), {"inputs.parameters.x": text, "inputs.parameters": "[]"})
    assert expand(filled, {"": "!", "a": "!"}) == text


@given(AWKWARD)
def test_an_input_in_a_manifest_is_one_quoted_string(text: str) -> None:
    from muster.kube.manifests import values_in

    manifest = f"env:\n- value: {from_input_as_json('x')}\n  name: x\n"
    filled = substitute(manifest, {"inputs.parameters.x": text})
    assert [e["name"] for e in values_in(filled, "m")[0]["env"]] == ["x"]
    assert expand(values_in(filled, "m")[0]["env"][0]["value"], {"": "!", "a": "!"}) == text


def test_argo_gives_an_escaped_tag_back() -> None:
    assert substitute(escape_tags("a {{name}} {{=1+1}}"), {}, allow_unresolved=True) == "a {{name}} {{=1+1}}"


def test_a_value_that_argo_would_look_into_goes_into_the_secret() -> None:
    literals = Literals("mine")
    assert literals.variable("a", "1 $(x)") == {"name": "a", "value": "1 $$(x)"}
    hidden = literals.variable("b", "{{workflow.name}}")
    assert hidden["valueFrom"]["secretKeyRef"]["name"] == "mine"
    assert literals.stored == {hidden["valueFrom"]["secretKeyRef"]["key"]: "{{workflow.name}}"}
    assert Literals().variable("b", "{{x}}")["value"] == "{{='{{'}}x}}"
