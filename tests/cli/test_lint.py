"""What `muster lint` finds, with file and line, without a cluster."""

from __future__ import annotations

import pytest

from muster.cli.lint import check
from muster.kube.manifests import load

GOOD = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: a-}
spec:
  entrypoint: main
  templates:
  - name: main
    container: {image: busybox, command: [echo]}
"""
USER = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: a-}
spec:
  entrypoint: main
  templates:
  - name: main
    steps:
    - - name: shared
        templateRef: {name: library, template: say}
"""
LIBRARY = """\
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: library}
spec:
  templates:
  - name: say
    container: {image: busybox, command: [echo]}
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"


@pytest.mark.parametrize(
    ("text", "checked", "told"),
    [
        pytest.param(GOOD, 1, [], id="nothing is wrong"),
        pytest.param(POD, 0, [], id="nothing to look at"),
        pytest.param(f"{GOOD}---\n{POD}---\n{LIBRARY}", 2, [], id="others are passed over"),
        pytest.param(
            GOOD.replace("entrypoint: main", "entrypoint: mian"), 1, ["wf.yaml:5 spec.entrypoint: "], id="a name"
        ),
        pytest.param(
            GOOD.replace("image: busybox", "imgae: busybox"),
            1,
            ["wf.yaml:8 spec.templates[0].container.imgae: "],
            id="a field",
        ),
        pytest.param(USER, 1, [], id="what may be in the cluster is taken to be there"),
        pytest.param(f"{USER}---\n{LIBRARY}", 2, [], id="a template in the same files"),
    ],
)
def test_lint(text: str, checked: int, told: list[str]) -> None:
    found, complaints = check(load(text, "wf.yaml"))
    assert found == checked
    assert [any(line.startswith(start) for line in complaints) for start in told] == [True] * len(told), complaints
    assert bool(complaints) is bool(told), complaints


def test_templates_that_are_known_count() -> None:
    known = [document.object for document in load(LIBRARY, "library.yaml")]
    assert check(load(USER, "wf.yaml"), known) == (1, [])
    _, complaints = check(load(USER.replace("template: say", "template: shout"), "wf.yaml"), known)
    assert len(complaints) == 1
    assert "shout" in complaints[0]
