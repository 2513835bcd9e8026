"""What Kubernetes fills into a Pod, and into the Pod template of any other kind.

All functions answer the same object when nothing was missing, so running them twice costs little and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from muster.kube.objects import Object
from muster.kube.quantity import QuantityError, canonical

DEFAULT_GRACE_SECONDS = 30

_SPEC = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP_GET = {"path": "/", "scheme": "HTTP"}
_MODE = {"defaultMode": 0o644}
_WITH_MODE = ("configMap", "secret", "downwardAPI", "projected")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_A_SOURCE = frozenset({"name"})


def default_pod(pod: Object) -> Object:
    """A Pod with all defaults: its spec's, a limit as the request where there is none, and the phase Pending."""
    spec = pod.get("spec")
    filled = pod
    if spec is not None:
        new = default_pod_spec(spec)
        for field in ("containers", "initContainers"):
            new = _each(new, field, _request_limits)
        if new.get("hostNetwork"):
            for field in ("containers", "initContainers"):
                new = _each(new, field, _host_ports)
        if new.get("enableServiceLinks") is None:
            new = {**new, "enableServiceLinks": True}
        filled = with_field(filled, "spec", new)
    status = filled.get("status") or {}
    return filled if status.get("phase") else {**filled, "status": {**status, "phase": "Pending"}}


def default_pod_template(template: Object) -> Object:
    """A `{metadata, spec}` template with its spec filled in."""
    spec = template.get("spec")
    return template if spec is None else with_field(template, "spec", default_pod_spec(spec))


def default_pod_spec(spec: Object) -> Object:
    """The defaults of a Pod template's spec. Those that only a Pod itself gets are added by `default_pod`."""
    filled = fill(spec, _SPEC)
    if filled.get("securityContext") is None or filled.get("terminationGracePeriodSeconds") is None:
        context, grace = filled.get("securityContext"), filled.get("terminationGracePeriodSeconds")
        filled = {
            **filled,
            "securityContext": {} if context is None else context,
            "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS if grace is None else grace,
        }
    if filled["terminationGracePeriodSeconds"] < 0:  # Kubernetes takes it, and means: as soon as possible
        filled = {**filled, "terminationGracePeriodSeconds": 1}
    account = filled.get("serviceAccountName") or filled.get("serviceAccount")
    if account:
        filled = fill(filled, {"serviceAccountName": account, "serviceAccount": account})
    for field in ("containers", "initContainers", "ephemeralContainers"):
        filled = _each(filled, field, _default_container)
    filled = _each(filled, "volumes", _default_volume)
    if "overhead" in filled:
        filled = with_field(filled, "overhead", plain_resources(filled["overhead"]))
    return _in(filled, "resources", _default_resources)


def fill(value: Object, defaults: Mapping[str, Any]) -> Object:
    """The value with these fields where it has none, or an empty one (which Kubernetes does not tell from none)."""
    missing = {key: default for key, default in defaults.items() if not value.get(key)}
    return {**value, **missing} if missing else value


def with_field(value: Object, field: str, new: Any) -> Object:
    return value if value.get(field) is new else {**value, field: new}


def plain_resources(resources: Any) -> Any:
    """Quantities in the one form that Kubernetes stores: `0.5` -> `500m`, the number 2 -> `"2"`."""
    if not isinstance(resources, dict):
        return resources
    plain = {name: _plain_quantity(value) for name, value in resources.items()}
    return resources if plain == resources and all(type(v) is str for v in resources.values()) else plain


def _plain_quantity(value: Any) -> Any:
    return _canonical(str(value)) if type(value) in (str, int, float) else value


@lru_cache(maxsize=16384)
def _canonical(text: str) -> str:
    try:
        return canonical(text)
    except QuantityError:  # the schema's check says so with the field's path
        return text


def _each(value: Object, field: str, change: Callable[[Object], Object]) -> Object:
    items = value.get(field)
    if not items:
        return value
    changed = [change(item) for item in items]
    return value if all(new is old for new, old in zip(changed, items, strict=True)) else {**value, field: changed}


def _in(value: Object, field: str, change: Callable[[Object], Object]) -> Object:
    inner = value.get(field)
    return value if inner is None else with_field(value, field, change(inner))


def _default_resources(resources: Object) -> Object:
    for field in ("limits", "requests"):
        if resources.get(field):
            resources = with_field(resources, field, plain_resources(resources[field]))
    return resources


def _default_container(container: Object) -> Object:
    filled = fill(container, _CONTAINER)
    if not filled.get("imagePullPolicy"):
        filled = {**filled, "imagePullPolicy": pull_policy(str(filled.get("image") or ""))}
    filled = _in(filled, "resources", _default_resources)
    filled = _each(filled, "ports", _default_port)
    filled = _each(filled, "env", _default_env)
    for field in _PROBES:
        filled = _in(filled, field, _default_probe)
    return _in(filled, "lifecycle", _default_lifecycle)


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """Always for `:latest` or no tag at all, else IfNotPresent."""
    name, digest, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _default_port(port: Object) -> Object:
    return port if port.get("protocol") else {**port, "protocol": "TCP"}


def _default_env(env: Object) -> Object:
    return _in(env, "valueFrom", _default_references)


def _default_references(source: Object) -> Object:
    """Of an environment variable, or of a file of the downward API."""
    return _in(_in(source, "fieldRef", _default_field_ref), "resourceFieldRef", _default_resource_ref)


def _default_field_ref(reference: Object) -> Object:
    return reference if reference.get("apiVersion") else {"apiVersion": "v1", **reference}


def _default_resource_ref(reference: Object) -> Object:
    divisor = reference.get("divisor")
    return with_field(reference, "divisor", "0" if divisor is None else _plain_quantity(divisor))


def _default_probe(probe: Object) -> Object:
    return _default_handler(fill(probe, _PROBE))


def _default_handler(handler: Object) -> Object:
    handler = _in(handler, "httpGet", lambda action: fill(action, _HTTP_GET))
    return _in(handler, "grpc", lambda action: action if "service" in action else {**action, "service": ""})


def _default_lifecycle(lifecycle: Object) -> Object:
    for field in ("postStart", "preStop"):
        lifecycle = _in(lifecycle, field, _default_handler)
    return lifecycle


def _default_volume(volume: Object) -> Object:
    if volume.keys() <= _NOT_A_SOURCE:
        return {**volume, "emptyDir": {}}
    for field in _WITH_MODE:
        source = volume.get(field)
        if source is not None and source.get("defaultMode") is None:
            volume = {**volume, field: {**source, **_MODE}}
    volume = _in(volume, "downwardAPI", _default_downward)
    volume = _in(volume, "projected", lambda source: _each(source, "sources", _default_projection))
    volume = _in(volume, "emptyDir", _default_empty_dir)
    volume = _in(volume, "ephemeral", lambda source: _in(source, "volumeClaimTemplate", _default_claim))
    host_path = volume.get("hostPath")
    if host_path is not None and host_path.get("type") is None:
        volume = {**volume, "hostPath": {**host_path, "type": ""}}
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        volume = {**volume, "image": {**image, "pullPolicy": pull_policy(str(image.get("reference") or ""))}}
    return volume


def _default_empty_dir(source: Object) -> Object:
    limit = source.get("sizeLimit")
    return source if limit is None else with_field(source, "sizeLimit", _plain_quantity(limit))


def _default_claim(template: Object) -> Object:
    return _in(template, "spec", lambda spec: fill(spec, {"volumeMode": "Filesystem"}))


def _default_downward(source: Object) -> Object:
    return _each(source, "items", _default_references)


def _default_projection(source: Object) -> Object:
    source = _in(source, "downwardAPI", _default_downward)
    return _in(source, "serviceAccountToken", lambda token: fill(token, {"expirationSeconds": 3600}))


def _request_limits(container: Object) -> Object:
    resources: Object = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return container
    requests = resources.get("requests") or {}
    missing = {name: value for name, value in limits.items() if name not in requests}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**requests, **missing}}}


def _host_ports(container: Object) -> Object:
    def default(port: Object) -> Object:
        return port if port.get("hostPort") else {**port, "hostPort": port.get("containerPort")}

    return _each(container, "ports", default)
