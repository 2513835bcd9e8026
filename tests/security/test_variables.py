"""Variables and files of containers that grow in the memory and on the disk of the server, which prepares all Pods."""

from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.node.environment import MAX_EXPANDED, container_environment, expand, expand_all
from muster.embedded.node.pod_context import ContainerError, MountError, PodContext
from muster.embedded.node.volumes import plan_volumes
from muster.kube.objects import Object

POD: Object = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"enableServiceLinks": False}}


def _config_map(*_: Any) -> Object:
    return {"data": {f"KEY{number}": "x" * 90 for number in range(10_000)}}


VARIABLES: dict[str, dict[str, Any]] = {
    "each has the one before ten times": {
        "env": [
            {"name": "V0", "value": "x" * 100},
            *({"name": f"V{number}", "value": f"$(V{number - 1})" * 10} for number in range(1, 12)),
        ]
    },
    "ten thousand have a large one": {
        "env": [
            {"name": "V", "value": "x" * 100_000},
            *({"name": f"V{number}", "value": "$(V)"} for number in range(10_000)),
        ]
    },
    "one ConfigMap with ten thousand prefixes": {
        "envFrom": [{"prefix": f"P{number}_", "configMapRef": {"name": "c"}} for number in range(10_000)]
    },
}


@pytest.mark.parametrize("container", VARIABLES.values(), ids=list(VARIABLES))
def test_variables_that_grow(container: dict[str, Any]) -> None:
    """The variables of a Pod of a few kilobytes have terabytes of text"""
    with pytest.raises(ContainerError, match="more than"):
        container_environment(POD, {"name": "c", **container}, PodContext(config_map=_config_map))


@pytest.mark.parametrize("words", [["$(V)"] * 10_000, ["$(V)" * 10_000]], ids=["many words", "one word"])
def test_a_command_that_grows(words: list[str]) -> None:
    """The command of a container names a large variable thousands of times"""
    with pytest.raises(ContainerError, match="more than"):
        expand_all(words, {"V": "x" * 100_000})


def test_what_linux_starts() -> None:
    """(for comparison) variables of the greatest size that Linux takes are passed on"""
    value = "x" * (MAX_EXPANDED // 2)
    assert expand("$(V)$(V)", {"V": value}) == value + value


LARGE = {"name": "c", "items": [{"key": "KEY", "path": f"p{number}"} for number in range(1000)]}
VOLUMES: dict[str, list[dict[str, Any]]] = {
    "a key under a thousand paths": [{"name": "v", "configMap": LARGE}],
    "the same in a projected volume": [{"name": "v", "projected": {"sources": [{"configMap": LARGE}]}}],
    "a thousand sources": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}] * 1000}}],
    "a thousand volumes": [{"name": f"v{number}", "configMap": {"name": "c"}} for number in range(1000)],
    "an annotation under many paths": [
        {
            "name": "v",
            "downwardAPI": {
                "items": [
                    {"path": f"p{number}", "fieldRef": {"fieldPath": "metadata.annotations['a']"}}
                    for number in range(1000)
                ]
            },
        }
    ],
}


@pytest.mark.parametrize("volumes", VOLUMES.values(), ids=list(VOLUMES))
def test_files_that_grow(volumes: list[dict[str, Any]]) -> None:
    """The files of a Pod of a megabyte, from one ConfigMap or field, fill the disk of the server"""
    metadata = {**POD["metadata"], "annotations": {"a": "x" * 200_000}}
    pod: Object = {"metadata": metadata, "spec": {"volumes": volumes, "automountServiceAccountToken": False}}
    with pytest.raises(MountError, match="64 MiB"):
        plan_volumes(pod, PodContext(config_map=lambda *_: {"data": {"KEY": "x" * 500_000}}), "/nowhere", {})
