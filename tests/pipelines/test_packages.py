"""Pipeline packages that users upload: every form that Kubeflow Pipelines takes, and hostile ones."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from typing import Any

import pytest
import yaml

from muster.pipelines.packages import LARGEST, check_spec, read_package, read_upload, read_uploaded
from muster.platform.errors import BadRequestProblem, Problem

SPEC: dict[str, Any] = {
    "pipelineInfo": {"name": "hello"},
    "schemaVersion": "2.1.0",
    "sdkVersion": "kfp-2.17.0",
    "root": {"dag": {"tasks": {"say": {"componentRef": {"name": "comp-say"}, "taskInfo": {"name": "say"}}}}},
    "components": {"comp-say": {"executorLabel": "exec-say"}},
    "deploymentSpec": {
        "executors": {"exec-say": {"container": {"image": "python:3.11", "command": ["echo", "hello"]}}}
    },
}
PLATFORM = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-say": {"imagePullPolicy": "Always"}}}}}}
YAML = yaml.safe_dump(SPEC).encode()
BOTH = yaml.safe_dump_all([SPEC, PLATFORM]).encode()


def zipped(**files: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "."), data)
    return target.getvalue()


def tarred(*members: tuple[str, bytes | None]) -> bytes:
    """A member without data is a link to /etc/passwd."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            else:
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data or b""))
    return target.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("p.yaml", YAML),
        ("p.json", json.dumps(SPEC).encode()),
        ("p.zip", zipped(pipeline__yaml=YAML, notes__txt=b"x")),
        ("p.zip", zipped(anything__yaml=YAML)),
        ("p.tar.gz", tarred(("pipeline.yaml", YAML))),
        ("p.tgz", tarred(("./pipeline.yaml", YAML), ("README", b""))),
        ("", YAML),
        ("wrong-name.zip", YAML),
        ("p.yaml", b"\xef\xbb\xbf" + YAML),
    ],
)
def test_every_form_of_a_package_is_read(name: str, data: bytes) -> None:
    assert read_package(name, data) == SPEC


def test_parameters_that_are_called_y_and_n_are_texts() -> None:
    """PyYAML, with which kfp writes files, does not quote them."""
    task = {"componentRef": {"name": "comp-say"}, "inputs": {"parameters": {"n": {"componentInputParameter": "y"}}}}
    root = {"inputDefinitions": {"parameters": {"y": {"parameterType": "STRING"}}}, "dag": {"tasks": {"say": task}}}
    say = {"executorLabel": "exec-say", "inputDefinitions": {"parameters": {"n": {"parameterType": "STRING"}}}}
    spec = {**SPEC, "root": root, "components": {"comp-say": say}}
    text = yaml.safe_dump(spec).replace("'y'", "y").replace("'n'", "n")  # other libraries teach PyYAML to quote them
    assert "componentInputParameter: y\n" in text
    assert read_package("p.yaml", text.encode()) == spec


def test_a_platform_spec_is_kept() -> None:
    assert read_package("p.yaml", BOTH) == {"pipeline_spec": SPEC, "platform_spec": PLATFORM}


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"", 400, "empty"),
        (b"\x00\xff\xfe binary", 422, "neither UTF-8 text nor"),
        (b"a: [1", 400, "p"),
        (b"- 1", 400, ""),
        (yaml.safe_dump({**SPEC, "schemaVersion": "9.9.9"}).encode(), 400, "9.9.9"),
        (yaml.safe_dump({**SPEC, "surprise": 1}).encode(), 400, "surprise"),
        (yaml.safe_dump({**SPEC, "components": {}}).encode(), 400, "comp-say"),
        (b"apiVersion: argoproj.io/v1alpha1\nkind: Workflow\n", 400, "Kubernetes object"),
        (b"x" * (LARGEST + 1), 413, "32 MB"),
        (zipped(big__yaml=b"0" * (LARGEST + 1)), 413, "32 MB"),
        (gzip.compress(b"0" * (LARGEST + 1)), 413, "32 MB"),
        (zipped(), 422, "it has nothing"),
        (zipped(a__yaml=YAML, b__yaml=YAML), 422, "a.yaml, b.yaml"),
        (zipped(**{"../../etc/evil.yaml": YAML}), 422, "outside of the archive"),
        (b"PK\x03\x04 not really", 422, "damaged"),
        (b"\x1f\x8b not really", 422, "damaged"),
        (tarred(("../pipeline.yaml", YAML)), 422, "outside of the archive"),
        (tarred(("/etc/pipeline.yaml", YAML)), 422, "outside of the archive"),
        (tarred(("pipeline.yaml", None)), 422, "not a plain file"),
        (tarred(("pipeline.yaml", YAML))[:-40], 422, "archive"),
        (tarred(*((f"{number}.txt", b"") for number in range(1001))), 422, "more than 1000 files"),
        (b"a: &a [x, x]\nb: &b [*a, *a]\n" + b"c: [*b, *b]\n", 400, ""),
    ],
    ids=lambda value: "data" if isinstance(value, bytes) else str(value),
)
def test_a_bad_package_gets_a_clear_error(data: bytes, status: int, message: str) -> None:
    with pytest.raises(Problem) as refused:
        read_package("p", data)
    assert refused.value.status == status, refused.value.detail
    assert message in refused.value.detail


def form(*parts: tuple[str, bytes], boundary: str = "sep") -> bytes:
    body = b"".join(f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n" for head, data in parts)
    return body + f"--{boundary}--\r\n".encode()


def test_the_file_of_a_form_is_found() -> None:
    data = b"a\r\n\r\nb--sep\r\n"
    body = form(
        ('Content-Disposition: form-data; name="other"', b"x"),
        ('Content-Disposition: form-data; name="uploadfile"; filename="p.yaml"\r\nContent-Type: text/yaml', data),
    )
    assert read_upload('multipart/form-data; boundary="sep"', body) == ("p.yaml", data)
    whole = form(('content-disposition: form-data; name="uploadfile"; filename="é.yaml"', YAML))
    assert read_uploaded("multipart/form-data; boundary=sep", whole) == ("é.yaml", SPEC)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=sep", b""),
        ("multipart/form-data; boundary=sep", form(('Content-Disposition: form-data; name="file"', b"x"))),
        ("multipart/form-data; boundary=sep", b"--sep\r\nno end"),
    ],
)
def test_a_form_without_the_file_is_refused(content_type: str, body: bytes) -> None:
    with pytest.raises(Problem, match="uploadfile"):
        read_upload(content_type, body)


def test_a_component_may_name_a_character_that_a_text_must_not_have() -> None:
    spec = {**SPEC, "pipelineInfo": {**SPEC["pipelineInfo"], "description": 'text.replace("\\u0000", "")'}}
    assert check_spec(spec)["pipelineInfo"]["description"] == 'text.replace("\\u0000", "")'
    spec["pipelineInfo"]["description"] = "a\0"
    with pytest.raises(BadRequestProblem, match="NUL"):
        check_spec(spec)
