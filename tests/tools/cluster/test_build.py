from __future__ import annotations

from typing import Any

import pytest

from tools.cluster.build import module_file
from tools.cluster.sources import SOURCES, Source


def source(**more: Any) -> Source:
    return Source("thing", "x.dev/thing", "v1.2.3", {"thing": "cmd/thing"}, **more)


def replaced(old: str, new: str, version: str = "") -> dict[str, Any]:
    target = {"Path": new, **({"Version": version} if version else {})}
    return {"Go": "1.25.0", "Replace": [{"Old": {"Path": old}, "New": target}]}


@pytest.mark.parametrize(
    ("upstream", "staged", "line"),
    [
        (replaced("a.dev/x", "a.dev/x", "v0.1.0"), {}, "replace a.dev/x => a.dev/x v0.1.0"),
        (replaced("a.dev/x", "b.dev/fork", "v0.1.0"), {}, "replace a.dev/x => b.dev/fork v0.1.0"),
        (replaced("k8s.io/api", "./staging/api"), {"k8s.io/": "v0.35.4"}, "replace k8s.io/api => k8s.io/api v0.35.4"),
        (replaced("v.sh/apis", "./staging/apis"), {"v.sh/apis": "v1.0.0"}, "replace v.sh/apis => v.sh/apis v1.0.0"),
    ],
)
def test_what_upstream_replaces_is_replaced_by_something_published(
    upstream: dict[str, Any], staged: dict[str, str], line: str
) -> None:
    lines = module_file(source(staged=staged), upstream).splitlines()
    assert "require x.dev/thing v1.2.3" in lines
    assert "go 1.25.0" in lines
    assert [found for found in lines if found.startswith("replace")] == [line]


def test_a_folder_without_a_published_version_is_left_to_the_requirements() -> None:
    text = module_file(source(), replaced("go.etcd.io/etcd", "./FORBIDDEN_DEPENDENCY"))
    assert "replace" not in text


def test_a_module_in_another_version_than_upstreams() -> None:
    upstream = replaced("a.dev/x", "a.dev/x", "v0.1.7")
    upstream["Replace"] += replaced("a.dev/y", "b.dev/fork", "v0.1.7")["Replace"]
    text = module_file(source(instead={"a.dev/": "v0.1.8", "a.dev/y": "v1.1.8", "c.dev/z": "v2.0.1"}), upstream)
    assert [line for line in text.splitlines() if line.startswith("replace")] == [
        "replace a.dev/x => a.dev/x v0.1.8",
        "replace a.dev/y => a.dev/y v1.1.8",
        "replace c.dev/z => c.dev/z v2.0.1",
    ]


def test_a_fork_is_required_by_the_path_that_it_declares() -> None:
    lines = module_file(source(fork_of="a.dev/original"), {"Go": "1.25.0"}).splitlines()
    assert "require a.dev/original v1.2.3" in lines
    assert "replace a.dev/original => x.dev/thing v1.2.3" in lines


def test_every_program_has_one_place() -> None:
    places = [(source.key, name) for source in SOURCES for name in source.programs]
    assert len(places) == len(set(places))
