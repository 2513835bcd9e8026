"""What `muster lint` reports, with file and line, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.errors import CommandError
from muster.cli.lint import check_documents, find_nameless, lint, read_documents
from muster.kube.manifests import load_manifests

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
    found, complaints = check_documents(load_manifests(text, "wf.yaml"))
    assert found == checked
    assert [any(line.startswith(start) for line in complaints) for start in told] == [True] * len(told), complaints
    assert bool(complaints) is bool(told), complaints


def test_an_unreadable_file_does_not_hide_others(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.yaml").write_text("kind: [")
    (tmp_path / "below" / "b.yaml").write_text(GOOD.replace("entrypoint: main", "entrypoint: mian"))
    (tmp_path / "c.yaml").write_text(GOOD)
    documents, unreadable = read_documents([str(tmp_path)])
    assert [line.split(":")[0] for line in unreadable] == [str(tmp_path / "a.yaml")]
    checked, complaints = check_documents(documents)
    assert (checked, len(complaints)) == (2, 1)


def test_a_folder_may_have_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    other = tmp_path / "params.json"
    other.write_text('{"image": "busybox", "wait": true}')
    (tmp_path / "half.yaml").write_text("kind: Workflow\n")
    documents, unreadable = read_documents([str(tmp_path)])
    assert len(documents) == 1
    (line,) = unreadable
    assert "half.yaml:1:1: apiVersion is missing" in line
    assert f"Warning: {other}: skipped, because it has neither apiVersion nor kind" in capsys.readouterr().err
    _, unreadable = read_documents([str(other)])
    assert "apiVersion is missing" in unreadable[0], "it was named"


def test_a_workflow_needs_no_name(tmp_path: Path) -> None:
    file = tmp_path / "wf.yaml"
    file.write_text(GOOD.replace("{generateName: a-}", "{labels: {a: b}}"))
    documents, unreadable = read_documents([str(file)])
    assert (unreadable, check_documents(documents)) == ([], (1, []))
    assert find_nameless(documents) == [f"{file}:3 metadata.name: is missing; submit the workflow with --name"]


def test_a_file_without_workflows_says_what_it_contains(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    with pytest.raises(CommandError, match=r"no workflows, .* in .*pod\.yaml, but Pod; check and run them"):
        lint([str(tmp_path / "pod.yaml")], offline=True)


def test_a_misspelt_kind_is_suggested(tmp_path: Path) -> None:
    file = tmp_path / "wf.yaml"
    file.write_text(GOOD.replace("kind: Workflow", "kind: Workfow"))
    with pytest.raises(CommandError, match=r'wf\.yaml:2 kind: unknown kind "Workfow"; did you mean "Workflow"'):
        lint([str(file)], offline=True)


def test_referenced_templates_are_found() -> None:
    known = [document.object for document in load_manifests(LIBRARY, "library.yaml")]
    assert check_documents(load_manifests(USER, "wf.yaml"), known) == (1, [])
    _, complaints = check_documents(load_manifests(USER.replace("template: say", "template: shout"), "wf.yaml"), known)
    assert len(complaints) == 1
    assert "shout" in complaints[0]
