from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.kube.manifests import NotJsonError, dump, load_manifests, parse_key, parse_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("abc", "abc"),
        ("true", True), ("True", True), ("yes", True), ("on", True), ("y", True), ("Y", True),
        ("false", False), ("no", False), ("OFF", False), ("n", False),
        ("nope", "nope"), ("yesterday", "yesterday"), ("tRue", "tRue"),
        ("", None), ("~", None), ("null", None), ("Null", None), ("nil", "nil"),
        ("0", 0), ("12", 12), ("-7", -7), ("+7", 7), ("1_000", 1000),
        ("0644", 420), ("0o17", 15), ("0x1F", 31), ("0b101", 5), ("08", 8), ("-0644", -420),
        ("1.5", 1.5), (".5", 0.5), ("3.0", 3), ("1e3", 1000), ("1.", 1), ("-1.5e-3", -0.0015),
        ("18446744073709551615", 2**64 - 1), ("18446744073709551616", 2**64), ("1e30", 1e30),
        ("2001-01-01", "2001-01-01"), ("2025-01-31T09:30:00Z", "2025-01-31T09:30:00Z"),
        ("1:30", "1:30"), ("10:20:30", "10:20:30"), ("500m", "500m"), ("1Gi", "1Gi"), ("1.2.3", "1.2.3"),
        ("10.0.0.1", "10.0.0.1"), ("-", "-"), ("+", "+"), (".", "."), ("..", ".."), ("-x", "-x"), ("0x", "0x"),
    ],
)  # fmt: skip
def test_scalars_are_read_as_kubernetes_reads_them(text: str, value: Any) -> None:
    assert parse_scalar(text) == value
    assert type(parse_scalar(text)) is type(value)


@pytest.mark.parametrize("text", [".nan", ".inf", "-.Inf", "+.INF", "1e999"])
def test_numbers_that_json_does_not_have(text: str) -> None:
    with pytest.raises(NotJsonError):
        parse_scalar(text)


@pytest.mark.parametrize(("value", "text"), [("a", "a"), (True, "true"), (False, "false"), (1, "1"), (None, "null")])
def test_keys_become_text(value: Any, text: str) -> None:
    assert parse_key(value) == text


def test_an_object_is_written_as_kubectl_writes_it() -> None:
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "x", "creationTimestamp": "2025-01-31T09:30:00Z", "labels": {"on": "true", "n": "1e3"}},
        "spec": {"containers": [{"name": "a", "args": ["one\ntwo\n", "x: y", ""], "command": []}], "priority": 0},
    }
    assert (
        dump(pod)
        == """\
apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: "2025-01-31T09:30:00Z"
  labels:
    "n": "1e3"
    "on": "true"
  name: x
spec:
  containers:
  - args:
    - |
      one
      two
    - 'x: y'
    - ""
    command: []
    name: a
  priority: 0
"""
    )


STRINGS = [
    "y", "off", "~", "null", "012", "0x1", "1e5", "1_0", ".5", "2001-01-01", "1:30", "<<", "=", "- a", "*a", "&a", "!x",
    "{x}", "a: b", "a #b", " lead", "trail ", "\ttab", "multi\nline", "trailing \nspace", "\n", "中文", "😀", "%x",
    "@x", "`x", "'", '"', "\\", "\x07", "x" * 500,
]  # fmt: skip


@pytest.mark.parametrize("text", STRINGS)
def test_what_is_written_is_read_back(text: str) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": text, f"k{text}": "v"}}
    assert load_manifests(dump(obj), "x.yaml")[0].object == obj
    assert yaml.safe_load(dump(obj)) == obj


def test_nothing_is_written_as_an_alias() -> None:
    shared = {"a": 1}
    assert dump({"b": shared, "c": shared}) == "b:\n  a: 1\nc:\n  a: 1\n"
