from __future__ import annotations

import copy
from base64 import b64decode
from typing import Any

from muster.platform.graphs.compile import compile_run, secret_for
from muster.platform.graphs.diff import diff
from muster.platform.graphs.exporting import to_yaml
from muster.platform.graphs.secrecy import has_secrets, masked, unmasked
from tests.platform.graphs.samples import CONTEXT, RUN, graph, node

OPEN = {"name": "MODE", "value": "fast"}
HIDDEN = {"name": "KEY", "value": "hunter2", "secret": True}
DOCUMENT = graph(node("a", env=[OPEN, HIDDEN]), node("b"))


def changed(**value: Any) -> Any:
    new = copy.deepcopy(DOCUMENT)
    new["nodes"][0]["env"][1] |= value
    return new


def test_others_get_the_document_without_the_values_of_secrets() -> None:
    assert masked(DOCUMENT)["nodes"][0]["env"] == [OPEN, {"name": "KEY", "secret": True}]
    assert "hunter2" in str(DOCUMENT)
    assert has_secrets(DOCUMENT)
    assert not has_secrets(graph(node("b")))


def test_a_copy_keeps_the_secrets_that_were_not_touched() -> None:
    assert unmasked(masked(DOCUMENT), DOCUMENT) == DOCUMENT
    assert unmasked(changed(value="new"), DOCUMENT) == changed(value="new")
    renamed = masked(DOCUMENT)
    renamed["nodes"][0]["name"] = "other"
    assert "value" not in unmasked(renamed, DOCUMENT)["nodes"][0]["env"][1]
    exposed = copy.deepcopy(masked(DOCUMENT))
    del exposed["nodes"][0]["env"][1]["secret"]
    assert "hunter2" not in str(unmasked(exposed, DOCUMENT))


def test_no_workflow_holds_a_secret() -> None:
    workflow = compile_run(DOCUMENT, RUN, CONTEXT)
    assert "hunter2" not in str(workflow)
    assert b"hunter2" in {b64decode(value) for value in secret_for(DOCUMENT, RUN, CONTEXT, "t")["data"].values()}


def test_no_export_holds_a_secret() -> None:
    text = to_yaml(DOCUMENT, CONTEXT)
    assert "hunter2" not in text
    assert "# AI_HUB_TOKEN, KEY is read from the Secret ai-hub" in text


def test_a_diff_says_that_a_secret_changed_but_not_how() -> None:
    (change,) = diff(DOCUMENT, changed(value="other"))
    assert str(change) == "variable KEY of a changed"
    assert "hunter2" not in str(change.to_json())
    assert "other" not in str(change.to_json())
    assert "hunter2" not in str([each.to_json() for each in diff(graph(node("b")), DOCUMENT)])
