from __future__ import annotations

import pytest

from muster.cli.errors import NO_CLUSTER, describe_error, format_document_error
from muster.kube.errors import Cause, Forbidden, Invalid, NotFound, Unavailable
from muster.kube.manifests import load_manifests

DOCUMENT = load_manifests(
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n    - name: a\n", "train.yaml"
)[0]


def test_every_invalid_field_has_its_own_line() -> None:
    refused = Invalid(
        'Pod "x" is invalid',
        causes=[
            Cause("spec.containers[0].image", "Required value"),
            Cause("spec.containers[0].name", 'Invalid value: "a"'),
        ],
    )
    assert format_document_error(refused, DOCUMENT).splitlines() == [
        "train.yaml:7 spec.containers[0].image: Required value",
        'train.yaml:7 spec.containers[0].name: Invalid value: "a"',
    ]


def test_an_error_without_fields_names_the_object() -> None:
    assert format_document_error(Forbidden("pods is forbidden"), DOCUMENT) == "train.yaml:1 pods is forbidden"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotFound('pods "x" not found'), 'Error from server (NotFound): pods "x" not found'),
        (Unavailable("cannot reach the API server"), "error: cannot reach the API server"),
        (ConnectionRefusedError(111, "refused"), NO_CLUSTER),
        (PermissionError(13, "Permission denied", "f"), "error: f: permission denied"),
        (
            OSError(28, "No space left on device"),
            "error: no space left on device; free some disk space; "
            "the data directory is /srv/muster; set MUSTER_HOME to use another one",
        ),
        (
            ExceptionGroup("", [NotFound("a"), NotFound("b")]),
            "Error from server (NotFound): a\nError from server (NotFound): b",
        ),
        (KeyError("x"), "error: KeyError: 'x'\nThis is a bug in muster; --debug shows the traceback."),
    ],
)
def test_errors_are_printed_without_a_traceback(error: Exception, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", "/srv/muster")
    assert describe_error(error) == text


def test_the_error_names_an_unusable_data_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", "/etc/passwd")
    error = NotADirectoryError(20, "Not a directory", "/etc/passwd/server.json")
    assert describe_error(error) == (
        "error: /etc/passwd/server.json: not a directory; "
        "the data directory is /etc/passwd; set MUSTER_HOME to use another one"
    )
