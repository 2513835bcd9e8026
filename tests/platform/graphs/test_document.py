""""""

from __future__ import annotations

import copy
from base64 import b64decode
from typing import Any

import pytest

from muster.platform.graphs.compile import compile_run, secret_for, to_yaml
from muster.platform.graphs.document import content_hash, diff, has_secrets, mask_secrets, restore_secrets, to_canonical
from muster.platform.graphs.model import read
from tests.platform.graphs.samples import CONTEXT, RUN, graph, node, seed_example, training

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


def test_defaults_are_omitted() -> None:
    before = copy.deepcopy(WORDY)
    assert to_canonical(WORDY) == TERSE
    assert to_canonical(TERSE) == TERSE
    assert before == WORDY


def test_the_normalized_document_is_equivalent() -> None:
    assert read(to_canonical(WORDY)) == read(WORDY)
    assert read(to_canonical(seed_example())) == read(seed_example())


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
def test_the_hash_covers_only_what_runs(change: Any, same: bool) -> None:
    document = copy.deepcopy(TERSE)
    change(document)
    assert (content_hash(document) == content_hash(TERSE)) is same


OPEN = {"name": "MODE", "value": "fast"}
HIDDEN = {"name": "KEY", "value": "hunter2", "secret": True}
DOCUMENT = graph(node("a", env=[OPEN, HIDDEN]), node("b"))


def changed(**value: Any) -> Any:
    new = copy.deepcopy(DOCUMENT)
    new["nodes"][0]["env"][1] |= value
    return new


def test_other_users_get_the_document_without_secret_values() -> None:
    assert mask_secrets(DOCUMENT)["nodes"][0]["env"] == [OPEN, {"name": "KEY", "secret": True}]
    assert "hunter2" in str(DOCUMENT)
    assert has_secrets(DOCUMENT)
    assert not has_secrets(graph(node("b")))


def test_a_copy_keeps_unchanged_secrets() -> None:
    assert restore_secrets(mask_secrets(DOCUMENT), DOCUMENT) == DOCUMENT
    assert restore_secrets(changed(value="new"), DOCUMENT) == changed(value="new")
    renamed = mask_secrets(DOCUMENT)
    renamed["nodes"][0]["name"] = "other"
    assert "value" not in restore_secrets(renamed, DOCUMENT)["nodes"][0]["env"][1]
    exposed = copy.deepcopy(mask_secrets(DOCUMENT))
    del exposed["nodes"][0]["env"][1]["secret"]
    assert "hunter2" not in str(restore_secrets(exposed, DOCUMENT))


def test_no_workflow_contains_a_secret() -> None:
    workflow = compile_run(DOCUMENT, RUN, CONTEXT)
    assert "hunter2" not in str(workflow)
    assert b"hunter2" in {b64decode(value) for value in secret_for(DOCUMENT, RUN, CONTEXT, "t")["data"].values()}


def test_no_export_contains_a_secret() -> None:
    text = to_yaml(DOCUMENT, CONTEXT)
    assert "hunter2" not in text
    assert "# AI_HUB_TOKEN, KEY is read from the Secret ai-hub" in text


def test_a_diff_shows_that_a_secret_changed_but_no_value() -> None:
    (change,) = diff(DOCUMENT, changed(value="other"))
    assert str(change) == "variable KEY of a changed"
    assert "hunter2" not in str(change.to_json())
    assert "other" not in str(change.to_json())
    assert "hunter2" not in str([each.to_json() for each in diff(graph(node("b")), DOCUMENT)])


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
def test_differences_between_documents(change: Any, texts: list[str]) -> None:
    new = copy.deepcopy(OLD)
    change(new)
    assert [str(each) for each in diff(OLD, new)] == texts


def test_documents_of_different_types_are_not_compared() -> None:
    changes = diff(OLD, {"format": 1, "type": "yaml", "manifest": "x"})
    assert [str(change) for change in changes] == ['type changed from "graph" to "yaml"']


def test_a_change_has_a_path_of_names() -> None:
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
