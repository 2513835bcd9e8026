from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.node.pod_context import ContainerError
from muster.embedded.node.probes import hook_of, probe_of

PORTS = [{"name": "http", "containerPort": 8080}, {"containerPort": 9}]
TIMES = {
    "initialDelay": 0.0, "period": 10.0, "timeout": 1.0, "successThreshold": 1, "failureThreshold": 3, "grace": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (None, None),
        ({"exec": {"command": ["true"]}}, {**TIMES, "kind": "exec", "command": ["true"]}),
        (
            {"httpGet": {"port": "http"}},
            {**TIMES, "kind": "http", "scheme": "http", "host": "127.1.0.1", "port": 8080, "path": "/", "headers": []},
        ),
        (
            {
                "httpGet": {
                    "port": 1, "host": "h", "path": "/ok", "scheme": "HTTPS",
                    "httpHeaders": [{"name": "A", "value": "b"}],
                }
            },
            {
                **TIMES, "kind": "http", "scheme": "https", "host": "h", "port": 1, "path": "/ok",
                "headers": [("A", "b")],
            },
        ),
        ({"tcpSocket": {"port": "8"}}, {**TIMES, "kind": "tcp", "host": "127.1.0.1", "port": 8}),
        ({"grpc": {"port": 5}}, {**TIMES, "kind": "tcp", "host": "127.1.0.1", "port": 5}),
        (
            {
                "exec": {"command": []}, "initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 3,
                "successThreshold": 4, "failureThreshold": 5, "terminationGracePeriodSeconds": 0,
            },
            {
                "kind": "exec", "command": [], "initialDelay": 1.0, "period": 2.0, "timeout": 3.0,
                "successThreshold": 4, "failureThreshold": 5, "grace": 0.0,
            },
        ),
    ],
)  # fmt: skip
def test_probes(probe: dict[str, Any] | None, expected: dict[str, Any] | None) -> None:
    container = {"name": "c", "ports": PORTS, "livenessProbe": probe}
    assert probe_of(container, "livenessProbe", "127.1.0.1") == expected


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        (None, None),
        ({"exec": {"command": ["a", "b"]}}, {"kind": "exec", "command": ["a", "b"]}),
        (
            {"httpGet": {"port": 1, "path": "/bye"}},
            {"kind": "http", "scheme": "http", "host": "127.1.0.1", "port": 1, "path": "/bye", "headers": []},
        ),
        ({"tcpSocket": {"port": "http"}}, {"kind": "tcp", "host": "127.1.0.1", "port": 8080}),
        ({"sleep": {"seconds": 3}}, {"kind": "sleep", "seconds": 3.0}),
    ],
)
def test_hooks(hook: dict[str, Any] | None, expected: dict[str, Any] | None) -> None:
    assert hook_of({"name": "c", "ports": PORTS, "lifecycle": {"preStop": hook}}, "preStop", "127.1.0.1") == expected


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ({"httpGet": {"port": "nope"}}, r'readinessProbe.httpGet.port: no port "nope" \(the container has http\)'),
        ({"periodSeconds": 1}, "readinessProbe has none of exec, httpGet, tcpSocket, grpc"),
    ],
)
def test_what_cannot_be_checked_is_named(probe: dict[str, Any], message: str) -> None:
    with pytest.raises(ContainerError, match=message):
        probe_of({"name": "c", "ports": PORTS[:1], "readinessProbe": probe}, "readinessProbe", "127.1.0.1")


def test_a_hook_without_a_handler_is_refused() -> None:
    with pytest.raises(ContainerError, match=r"lifecycle\.postStart has none of"):
        hook_of({"name": "c", "lifecycle": {"postStart": {"nope": {}}}}, "postStart", "")
