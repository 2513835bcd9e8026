from __future__ import annotations

from typing import Any

import pytest

from muster.kube.jsonpath import JsonPathError, all_values, first_value, render

OBJ: dict[str, Any] = {
    "metadata": {"name": "x", "labels": {"app.kubernetes.io/name": "web", "a b": "c"}},
    "spec": {"replicas": 3, "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}], "on": False},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Other", "status": "False", "n": 2},
        ]
    },
}
LIST = {"items": [{"metadata": {"name": n}, "status": {"phase": p}} for n, p in (("a", "Running"), ("b", "Failed"))]}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".metadata.name", ["x"]),
        ("{.metadata.name}", ["x"]),
        ("metadata.name", ["x"]),
        ("$.metadata.name", ["x"]),
        (".metadata.labels.app\\.kubernetes\\.io/name", ["web"]),
        (".metadata.labels['app.kubernetes.io/name']", ["web"]),
        ('.metadata.labels["a b"]', ["c"]),
        (".metadata['name','labels']['a b']", ["c"]),
        (".spec.replicas", [3]),
        (".spec.on", [False]),
        (".spec.ports[0].name", ["http"]),
        (".spec.ports[-1].name", ["https"]),
        (".spec.ports[0,1].port", [80, 443]),
        (".spec.ports[9].name", []),
        (".spec.ports[*].port", [80, 443]),
        (".spec.ports.*.port", [80, 443]),
        (".spec.ports[0:1].port", [80]),
        (".spec.ports[-1:].port", [443]),
        (".spec.ports[::2].port", [80]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?(@.type != "Ready")].status', ["False"]),
        (".status.conditions[?(@.n > 1)].type", ["Other"]),
        (".status.conditions[?(@.n<=1)].type", ["Ready"]),
        (".status.conditions[?(@.missing)].type", []),
        (".status.conditions[?(@.missing == 1)].type", []),
        ('.status.conditions[?(@.type > 1)].type', []),
        (".status.conditions[-1:].type", ["Other"]),
        ("..port", [80, 443]),
        (".spec..name", ["http", "https"]),
        (".missing.deep[0]", []),
        (".metadata.name.deeper", []),
    ],
)  # fmt: skip
def test_paths(path: str, values: list[Any]) -> None:
    assert all_values(OBJ, path) == values
    assert first_value(OBJ, path) == (values[0] if values else None)


def test_the_whole() -> None:
    assert first_value(OBJ, ".") is OBJ
    assert first_value(OBJ, "$") is OBJ
    assert first_value([1, 2], ".[1]") == 2


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0].metadata.name}{'\\n'}", "a\n"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.phase}{"\\n"}{end}', "a\tRunning\nb\tFailed\n"),
        ("names: {.items[*].metadata.name}.", "names: a b."),
        ("{.items[0].metadata}", '{"name":"a"}'),
        ("{.items[?(@.status.phase=='Failed')].metadata.name}", "b"),
        ("{range .items[*]}{$.items[0].metadata.name}{end}", "aa"),
        (".items[0].metadata.name", "a"),
        ("{'{'}x{'}'}", "{x}"),
    ],
)
def test_templates(template: str, text: str) -> None:
    assert render(LIST, template) == text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".a[0", '"[" in .a[0 is not closed'),
        (".a[x]", "[x] in .a[x]: write an index, a slice, ['a key'], [*] or [?(@.x==1)]"),
        (".a[1:x]", "[1:x] in .a[1:x] is not a slice such as [0:2] or [-1:]"),
        (".a..", "a field name is missing in .a.."),
        (".a['b]", '"[" in .a[\'b] is not closed'),
        (".a[?(@.b==c)]", "cannot read c in the filter of .a[?(@.b==c)]; quote strings"),
        (".a[0]b", 'unexpected "b" in .a[0]b; write a field as .name and an item as [0]'),
    ],
)
def test_paths_that_cannot_be_read(path: str, message: str) -> None:
    with pytest.raises(JsonPathError) as caught:
        all_values({}, path)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{.a", '"{" at character 1 is not closed'),
        ("{range .a}x", "a {range ...} has no {end}"),
        ("x{end}", "{end} without a {range ...} before it"),
    ],
)
def test_templates_that_cannot_be_read(template: str, message: str) -> None:
    with pytest.raises(JsonPathError) as caught:
        render({}, template)
    assert str(caught.value) == message
