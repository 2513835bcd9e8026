from __future__ import annotations

from muster.cli.lint import check, without_effect
from muster.kube.manifests import load

WORKFLOW = """apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: a-}
spec:
  entrypoint: main
  retryStrategy:
    affinity: {nodeAntiAffinity: {}}
  templates:
  - name: main
    container:
      image: busybox
      args: ["{{inputs.parameters.mesage}}"]
    inputs:
      parameters: [{name: message, value: hello}]
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n"


def test_a_mistake_has_its_line() -> None:
    assert check(load(f"{POD}---\n{WORKFLOW}", "a.yaml")) == (
        1,
        [
            "a.yaml:17 spec.templates[0].container.args[0]: failed to resolve {{inputs.parameters.mesage}}; "
            "did you mean {{inputs.parameters.message}}?"
        ],
    )


def test_so_has_what_is_without_effect() -> None:
    assert without_effect(load(f"{POD}---\n{WORKFLOW}", "a.yaml")) == [
        "a.yaml:12 spec.retryStrategy.affinity: has no effect: everything runs on this machine"
    ]


def test_an_unknown_field_is_told_first() -> None:
    _, (line,) = check(load(WORKFLOW.replace("entrypoint", "entrypiont"), "a.yaml"))
    assert line == 'a.yaml:5 spec.entrypiont: unknown field "entrypiont"; did you mean "entrypoint"?'
