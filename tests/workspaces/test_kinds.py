"""What Notebooks and Tensorboards may say."""

from __future__ import annotations

import pytest

from muster.kube.schema_validation import validate
from muster.workspaces.kinds import NOTEBOOK, TENSORBOARD, parse_log_path, read_logs, workspace_kinds
from tests.workspaces.sample_workspaces import notebook, tensorboard


def test_notebooks_are_served_in_all_versions_that_kubeflow_has() -> None:
    assert [(kind.api_version, kind.plural) for kind in workspace_kinds()] == [
        ("kubeflow.org/v1", "notebooks"),
        ("kubeflow.org/v1beta1", "notebooks"),
        ("kubeflow.org/v1alpha1", "notebooks"),
        ("tensorboard.kubeflow.org/v1alpha1", "tensorboards"),
    ]


@pytest.mark.parametrize(
    ("path", "scheme", "root", "inner"),
    [
        ("pvc://logs/run-1/tb", "pvc", "logs", "run-1/tb"),
        ("pvc://logs", "pvc", "logs", ""),
        ("logs", "pvc", "logs", ""),
        ("/nfs/data/logs/", "path", "", "/nfs/data/logs"),
        ("s3://bucket/logs", "s3", "", "s3://bucket/logs"),
        ("gs://bucket/logs", "gs", "", "gs://bucket/logs"),
    ],
)
def test_a_log_path_names_a_claim_a_folder_or_an_object_store(path: str, scheme: str, root: str, inner: str) -> None:
    assert parse_log_path(path) == ("", scheme, root, inner)


@pytest.mark.parametrize("path", ["", "/", "/data/../etc", "pvc://a/../b", "pvc://A_B/x", "http://host/x", "s3://"])
def test_other_log_paths_are_refused_with_the_field(path: str) -> None:
    assert TENSORBOARD.validate is not None
    (cause,) = TENSORBOARD.validate(tensorboard(logs=[{"name": "a", "path": path}], logspath=""), None)
    assert cause.field == "spec.logs[0].path"


def test_a_tensorboard_shows_one_path_or_several_with_names() -> None:
    assert [source.name for source in read_logs(tensorboard("pvc://a/b"))] == [""]
    several = tensorboard("", logs=[{"name": "first", "path": "pvc://a"}, {"name": "second", "path": "/data/x"}])
    assert [(source.name, source.scheme) for source in read_logs(several)] == [("first", "pvc"), ("second", "path")]
    assert TENSORBOARD.validate is not None
    assert [cause.field for cause in TENSORBOARD.validate(tensorboard(""), None)] == ["spec.logspath"]


def test_what_the_cluster_would_refuse_in_the_pod_is_refused_in_the_notebook() -> None:
    assert NOTEBOOK.validate is not None
    assert NOTEBOOK.validate(notebook(), None) == []
    assert not validate(notebook(), NOTEBOOK.schema)
    broken = notebook(volumeMounts=[{"name": "missing", "mountPath": "/data"}])
    assert [cause.field for cause in NOTEBOOK.validate(broken, None)] == [
        "spec.template.spec.containers[0].volumeMounts[0].name"
    ]
    empty = {**notebook(), "spec": {"template": {"spec": {"containers": []}}}}
    assert [cause.field for cause in NOTEBOOK.validate(empty, None)] == ["spec.template.spec.containers"]
    assert [cause.field for cause in NOTEBOOK.validate(notebook("n" * 53), None)] == ["metadata.name"]
