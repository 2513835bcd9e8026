from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from muster.kube import manifests
from muster.kube.manifests import ManifestError, load_manifest_files, load_manifests, parse_mapping
from muster.kube.objects import name_of

POD = """\
# a comment
apiVersion: v1
kind: Pod
metadata:
  name: train
  labels:
    app.kubernetes.io/name: x
spec:
  containers:
  - name: main
    image: busybox
    env:
      - name: A
        value: "1"
  - {name: side, image: busybox}
"""


def test_an_object_is_plain_data() -> None:
    (document,) = load_manifests(POD, "train.yaml")
    assert document.object == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "labels": {"app.kubernetes.io/name": "x"}},
        "spec": {
            "containers": [
                {"name": "main", "image": "busybox", "env": [{"name": "A", "value": "1"}]},
                {"name": "side", "image": "busybox"},
            ]
        },
    }


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 2),
        ("kind", 3),
        ("metadata.name", 5),
        ("metadata.labels[app.kubernetes.io/name]", 7),
        ("spec.containers", 9),
        ("spec.containers[0]", 10),
        ("spec.containers[0].image", 11),
        ("spec.containers[0].env[0].value", 14),
        ("spec.containers[1].image", 15),
        ("spec.containers[0].command", 10),
        ("spec.containers[7].image", 9),
        ("spec.volumes[0].name", 8),
        ("status.phase", 2),
    ],
)
def test_every_field_has_its_line_and_a_missing_one_its_parents(path: str, line: int) -> None:
    (document,) = load_manifests(POD, "train.yaml")
    assert document.where(path) == f"train.yaml:{line}"


def test_documents_lists_and_empty_ones() -> None:
    text = """\
---
# nothing
---
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: b
---
kind: PodList
apiVersion: v1
items:
- {apiVersion: v1, kind: Pod, metadata: {generateName: c-}}
...
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}}
"""
    documents = load_manifests(text, "x.yaml")
    assert [name_of(d.object) for d in documents] == ["a", "b", "", "d"]
    assert [d.where("metadata.name") for d in documents] == ["x.yaml:7", "x.yaml:11", "x.yaml:16", "x.yaml:19"]


def test_an_empty_file_has_no_objects() -> None:
    assert (
        load_manifests("", "x.yaml")
        == load_manifests("# only a comment\n", "x.yaml")
        == load_manifests("---\n---\n", "x.yaml")
        == []
    )


def test_anchors_and_merges() -> None:
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
base: &base
  a: 1
  b: 2
more: &more {c: 3}
one:
  <<: *base
  b: 9
both:
  <<: [*base, *more]
"""
    (document,) = load_manifests(text, "x.yaml")
    assert document.object["one"] == {"a": 1, "b": 9}
    assert document.object["both"] == {"a": 1, "b": 2, "c": 3}
    assert document.where("one.a") == "x.yaml:5"
    assert document.where("both.c") == "x.yaml:7"


def test_json_may_be_indented_by_tabs() -> None:
    (document,) = load_manifests(
        '{\n\t"apiVersion": "v1",\n\t"kind": "Pod",\n\t"metadata": {"name": "a\\tb"}\n}', "x.json"
    )
    assert name_of(document.object) == "a\tb"
    assert document.where("kind") == "x.json:3"


def test_of_two_keys_that_are_the_same_the_last_counts_and_a_warning_names_both_lines() -> None:
    first, second = load_manifests(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  a: 1\n  b: 2\n  a: 3\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n",
        "t.yaml",
    )
    assert first.object["spec"] == {"a": 3, "b": 2}
    assert first.where("spec.a") == "t.yaml:7"
    assert first.warnings == ('t.yaml:7: "a" is already set in line 5; line 7 counts, keep one of the two',)
    assert second.warnings == ()


def test_settings_may_not_set_a_key_twice() -> None:
    with pytest.raises(ManifestError, match='"a" is already set in line 1; keep one of the two'):
        parse_mapping("a: 1\nb: 2\na: 3\n", "settings.yaml")


COLON = 'a ": " is not expected here; put the value in quotes if it has one, or look at the indentation above'
TEMPLATE = 'this looks like a template ("{{ ... }}") that has not been filled in; render it first, or quote it'
NO_VERSION = 'apiVersion is missing; every object has one, such as "apiVersion: v1"'
KFP = (
    "this is a Kubeflow pipeline compiled by kfp 2, not a manifest; run it with `muster run FILE`, or upload it with "
    "`muster pipelines create FILE`"
)
NO_LIST = (
    "expected an object with apiVersion, kind and metadata, got a list; "
    'put the objects under "items:" of a "kind: List", or "---" between them'
)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a: 1\n\tb: 2\n", 2, 1, "there is a tab in the indentation; YAML wants spaces"),
        ("spec:\n  a: 1\n \tb: 2\n", 3, 2, "there is a tab in the indentation; YAML wants spaces"),
        ("a:\n  b: 1\n c:\n", 3, 2, "this line does not fit the block that begins in line 1; look at the indentation"),
        ("a: b: c\n", 1, 5, COLON),
        ("l:\n- a\nc\nd: 1\n", 3, 1, 'a key without a ":" after it'),
        ("a: 'x\nb: 2\n", 1, 4, "this quote is never closed"),
        ("a: [\n", 2, 1, "a value is missing; look for a [ or { above that is not closed"),
        ("x: @foo\n", 1, 4, 'a value cannot begin with "@"; put it in quotes'),
        ("a: [1, 2\nb: 3\n", 2, 2, "',' or ']' is missing in what begins in line 1"),
        ("a: *b\n", 1, 4, "undefined alias; an anchor (&name) has to come before it"),
        ("a: \x01\n", 1, 4, "this character is not allowed in YAML"),
        ("image: {{ .Values.image }}\n", 1, 9, TEMPLATE),
        ("? [a]\n: 1\n", 1, 3, "a key must be plain text"),
        ("a: &a [*a]\n", 1, 4, "this alias contains itself"),
        ("a: .nan\n", 1, 4, ".nan cannot be stored: JSON has no such number"),
        ("a: !env HOME\n", 1, 4, "the tag !env means nothing in a manifest"),
        ("a: {<<: 1}\n", 1, 9, '"<<" takes a mapping, or a list of mappings'),
        ("- a\n- b\n", 1, 1, NO_LIST),
        ("just text\n", 1, 1, "expected an object with apiVersion, kind and metadata, got plain text"),
        ("# c\nkind: Pod\n", 2, 1, NO_VERSION),
        ("apiVersion: v1\n", 1, 1, 'kind is missing; every object has one, such as "kind: Pod"'),
        ("apiVersion: v1\nkind: 3\n", 2, 1, "kind must be a string"),
        ("apiVersion: v1\nkind: Pod\n", 1, 1, 'metadata is missing; give the Pod a name: "metadata: {name: ...}"'),
        ("apiVersion: v1\nkind: Pod\nmetadata: x\n", 3, 1, "metadata must be an object with a name"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  labels: {}\n", 3, 1, "metadata.name is missing; give the Pod a name"),
        ("kind: List\nitems:\n- kind: Pod\n", 3, 3, NO_VERSION),
        ("pipelineInfo: {}\ndeploymentSpec: {}\n", 1, 1, KFP),
    ],
)  # fmt: skip
def test_what_is_wrong_and_where(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_manifests(text, "t.yaml")
    error = caught.value
    assert (error.message, error.source, error.line, error.column) == (message, "t.yaml", line, column)
    shown = text.split("\n")[line - 1].replace("\x01", "?")
    place, offending, caret = str(error).split("\n")
    assert place == f"t.yaml:{line}:{column}: {message}"
    assert offending.endswith(f"{line} | {shown}")
    assert caret.index("^") - caret.index("|") == column + 1


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[" * 201 + "]" * 201, 1, 201),
        ("[" * 100_000 + "]" * 100_000, 1, 201),
        ("{a: " * 100_000, 1, 801),
        ("- " * 100_000 + "x", 1, 401),
        ("? " * 100_000 + "x", 1, 401),
        ("\n".join(" " * level + "a:" for level in range(6_000)), 201, 201),
    ],
)
def test_depth_cannot_break_the_stack(text: str, line: int, column: int) -> None:
    with pytest.raises(ManifestError, match="this lies in more than 200 lists and mappings") as caught:
        load_manifests(text, "deep.yaml")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "9" * 5000, "1e400"])
def test_numbers_are_those_of_json(number: str) -> None:
    with pytest.raises(ManifestError, match="1:4: this number is too large"):
        load_manifests(f"a: {number}\n", "t.yaml")


def test_aliases_cannot_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ManifestError, match="once its aliases are written out"):
        load_manifests("\n".join(lines), "bomb.yaml")


def test_files_directories_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(name: str, *names: str) -> None:
        text = "---\n".join(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {n}}}\n" for n in names)
        (tmp_path / name).write_text(text)

    write("b.yaml", "b1", "b2")
    write("a.yml", "a")
    write("notes.txt", "ignored")
    write("c.json", "c")
    (tmp_path / "single.yaml.d").mkdir()
    monkeypatch.setattr("sys.stdin", io.StringIO("apiVersion: v1\nkind: Pod\nmetadata: {name: piped}\n"))
    documents = load_manifest_files([tmp_path, "-", str(tmp_path / "notes.txt")])
    assert [name_of(d.object) for d in documents] == ["a", "b1", "b2", "c", "piped", "ignored"]
    assert documents[1].where("kind") == f"{tmp_path / 'b.yaml'}:2"
    assert documents[4].where("kind") == "<stdin>:2"


def test_a_pipe_is_read_like_a_file() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"apiVersion: v1\nkind: Pod\nmetadata: {name: piped}\n")
    os.close(writing)
    assert [name_of(d.object) for d in load_manifest_files([f"/dev/fd/{reading}"])] == ["piped"]
    os.close(reading)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").mkdir()
    cases: list[tuple[Path | str, str]] = [
        (tmp_path / "trian.yaml", f'no such file; did you mean "{tmp_path / "train.yaml"}"?'),
        (tmp_path / "no" / "such.yaml", "no such file"),
        (tmp_path / "train.yaml", "this is not UTF-8 text (byte 0)"),
        (tmp_path / "empty", "there is no manifest in this directory (*.yaml, *.yml, *.json)"),
        ("https://example.com/x.yaml", "a URL cannot be read here; download the file first"),
    ]
    for path, message in cases:
        with pytest.raises(ManifestError) as caught:
            load_manifest_files([path])
        assert str(caught.value) == f"{path}: {message}"


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "dos.yaml"
    file.write_bytes(b"\xef\xbb\xbfapiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  name: x\r\n")
    (document,) = load_manifest_files([file])
    assert document.object == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    assert document.line("metadata.name") == 4


def test_the_module_offers_dump_as_well() -> None:
    assert manifests.dump({"a": 1}) == "a: 1\n"
