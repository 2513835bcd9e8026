from __future__ import annotations

import base64
from typing import Any

import pytest

from muster.embedded.node.environment import container_environment, expand, field_value, resource_value
from muster.embedded.node.pod_context import ConfigError, PodContext
from muster.embedded.settings import ApiAccess
from muster.kube.objects import Object


def pod(**spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "team",
            "uid": "u-1",
            "labels": {"app": "web", "odd": 'a"b'},
            "annotations": {"note": "x"},
        },
        "spec": {"nodeName": "node-1", "serviceAccountName": "robot", **spec},
    }


def around(**more: Any) -> PodContext:
    config_maps = {("team", "settings"): {"data": {"mode": "fast", "bad=name": "x"}, "binaryData": {"raw": "AAE="}}}
    secrets = {("team", "keys"): {"data": {"token": base64.b64encode(b"s3cret").decode()}}}
    return PodContext(
        pod_ip="127.1.0.5",
        host_ip="127.0.0.1",
        config_map=lambda ns, name: config_maps.get((ns, name)),
        secret=lambda ns, name: secrets.get((ns, name)),
        allocatable={"cpu": "8", "memory": "16Gi"},
        **more,
    )


def environment(*env: dict[str, Any], env_from: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, str]:
    container = {"name": "c", "env": list(env), "envFrom": env_from or []}
    return container_environment(pod(), container, around(**more))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1ytwoz"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$(A)$(A)", "11"),
    ],
)
def test_expand(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "two"}) == expected


def test_a_value_sees_only_the_variables_before_it() -> None:
    env = environment(
        {"name": "EARLY", "value": "$(LATE)"},
        {"name": "LATE", "value": "2"},
        {"name": "BOTH", "value": "$(EARLY)-$(LATE)"},
    )
    assert env == {"EARLY": "$(LATE)", "LATE": "2", "BOTH": "$(LATE)-2"}


def test_env_wins_over_env_from_which_wins_over_the_image() -> None:
    container = {
        "name": "c",
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"prefix": "K_", "secretRef": {"name": "keys"}}],
        "env": [{"name": "mode", "value": "$(mode)er"}],
    }
    env = container_environment(pod(), container, around(), base={"mode": "image", "PATH": "/bin"})
    # A key that is not a variable name, and binary data, are skipped.
    assert env == {"PATH": "/bin", "mode": "faster", "K_token": "s3cret"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "team"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['note']", "x"),
        ("metadata.labels", 'app="web"\nodd="a\\"b"'),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "127.1.0.5"),
        ("status.podIPs", "127.1.0.5"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_field_value(path: str, expected: str) -> None:
    assert field_value(pod(), path, around()) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "250"),
        ({"resource": "limits.memory"}, str(100 * 1024**2)),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "100"),
        ({"resource": "limits.memory", "divisor": "1Gi"}, "1"),
        ({"resource": "requests.memory"}, str(100 * 1024**2)),
        ({"resource": "limits.nvidia.com/gpu"}, "2"),
        ({"resource": "limits.ephemeral-storage"}, "0"),
    ],
)
def test_resource_value(reference: dict[str, str], expected: str) -> None:
    container = {
        "resources": {
            "limits": {"cpu": "1.5", "memory": "100Mi", "nvidia.com/gpu": "2"},
            "requests": {"cpu": "250m"},
        }
    }
    assert resource_value(container, reference, around()) == expected


def test_a_limit_that_is_not_set_is_what_the_node_has() -> None:
    assert resource_value({}, {"resource": "limits.cpu"}, around()) == "8"
    assert resource_value({}, {"resource": "requests.cpu"}, around()) == "0"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "nope", "key": "k"}}, 'configmap "nope" not found'),
        (
            {"configMapKeyRef": {"name": "settings", "key": "k"}},
            "couldn't find key k in ConfigMap team/settings (it has bad=name, mode)",
        ),
        ({"secretKeyRef": {"name": "nope", "key": "k"}}, 'secret "nope" not found'),
        ({"secretKeyRef": {"name": "keys", "key": "k"}}, "couldn't find key k in Secret team/keys (it has token)"),
        ({"fieldRef": {"fieldPath": "spec.nope"}}, 'env V: fieldRef.fieldPath "spec.nope" is not supported'),
        ({"resourceFieldRef": {"resource": "cpu"}}, 'env V: resourceFieldRef.resource "cpu" is not supported'),
        (
            {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "x"}},
            'env V: resourceFieldRef.containerName "x" is not a container of this Pod',
        ),
        ({"fileKeyRef": {}}, "env V: valueFrom has none of"),
    ],
)
def test_what_is_missing_is_named(source: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        environment({"name": "V", "valueFrom": source})
    assert caught.value.message.startswith(message)
    assert caught.value.container == "c"


@pytest.mark.parametrize("kind", ["configMapKeyRef", "secretKeyRef"])
@pytest.mark.parametrize("name", ["nope", "settings", "keys"])
def test_what_is_optional_may_be_missing(kind: str, name: str) -> None:
    assert environment({"name": "V", "valueFrom": {kind: {"name": name, "key": "none", "optional": True}}}) == {}


def test_env_from_what_is_missing() -> None:
    with pytest.raises(ConfigError, match='configmap "nope" not found'):
        environment(env_from=[{"configMapRef": {"name": "nope"}}])
    assert environment(env_from=[{"configMapRef": {"name": "nope", "optional": True}}]) == {}


def service(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


def test_services_are_announced() -> None:
    ports = [{"name": "http-web", "port": 80, "targetPort": 8080}, {"name": "raw", "port": 81, "protocol": "UDP"}]
    services = [service("my-db", ports=ports), service("headless", clusterIP="None", ports=ports)]
    env = environment({"name": "URL", "value": "$(MY_DB_SERVICE_HOST)"}, services=lambda _ns: services)
    # Nothing forwards port 80 to 8080 here, so the port is the one on which the Pods listen.
    assert env["MY_DB_SERVICE_HOST"] == env["URL"] == "my-db.team.svc.cluster.local"
    assert env["MY_DB_SERVICE_PORT"] == env["MY_DB_SERVICE_PORT_HTTP_WEB"] == "8080"
    assert env["MY_DB_SERVICE_PORT_RAW"] == "81"
    assert env["MY_DB_PORT"] == env["MY_DB_PORT_8080_TCP"] == "tcp://my-db.team.svc.cluster.local:8080"
    assert env["MY_DB_PORT_81_UDP_PROTO"] == "udp"
    assert not [name for name in env if name.startswith("HEADLESS")]


def test_a_service_with_an_address_keeps_its_port() -> None:
    services = [service("db", clusterIP="10.0.0.1", ports=[{"port": 80, "targetPort": 8080}])]
    env = environment(services=lambda _ns: services)
    assert (env["DB_SERVICE_HOST"], env["DB_SERVICE_PORT"]) == ("10.0.0.1", "80")


def test_service_links_can_be_turned_off_but_the_api_is_always_announced() -> None:
    api = ApiAccess("127.0.0.1", 6443, "", lambda _pod, _audience, _seconds: "")
    surroundings = around(services=lambda _ns: [service("db", ports=[{"port": 1}])], api=api)
    env = container_environment(pod(enableServiceLinks=False), {"name": "c"}, surroundings)
    assert env == {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "6443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "6443",
    }
