from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.cli.errors import CommandError
from muster.cli.platform import read_version_file

WORKFLOW = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec: {}\n"


@pytest.mark.parametrize(
    ("text", "content"), [("format: 1\nnodes: []\n", {"format": 1, "nodes": []}), (WORKFLOW, WORKFLOW)]
)
def test_a_version_is_a_graph_or_an_argo_workflow(tmp_path: Path, text: str, content: Any) -> None:
    (tmp_path / "one.yaml").write_text(text)
    assert read_version_file(str(tmp_path / "one.yaml")) == content


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            b"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n",
            "error: one.yaml contains a Pod (v1), neither a graph document nor an Argo Workflow; "
            "run it with `muster run one.yaml`, or create it with `muster apply -f one.yaml`",
        ),
        (
            b"pipelineInfo: {name: p}\ndeploymentSpec: {}\n",
            "one.yaml:1:1: this is a Kubeflow pipeline compiled by kfp 2",
        ),
        (b"\xff\xfe\x00", "error: one.yaml: the file is not UTF-8 text"),
        (b"a: 1\n---\nb: 1\n", "error: one.yaml must contain exactly one graph document or one Argo Workflow"),
        (b"", "error: one.yaml must contain exactly one graph document or one Argo Workflow"),
    ],
)
def test_the_error_names_the_kind_of_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.yaml").write_bytes(data)
    with pytest.raises(CommandError) as failure:
        read_version_file("one.yaml")
    assert failure.value.message.startswith(told)
