"""Validates containers and volumes beyond their schema. Everything checked here already fits its schema."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from muster.kube.errors import (
    ENV_NAME_RULE,
    FILE_KEY_RULE,
    PORT_NAME_RULE,
    QUALIFIED_RULE,
    Cause,
    check_dns_label,
    duplicate,
    forbidden,
    invalid,
    is_env_name,
    is_file_key,
    is_port_name,
    is_qualified_name,
    not_found,
    not_supported,
    required,
)
from muster.kube.objects import Object
from muster.kube.quantity import parse_quantity

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels['<key>']", "metadata.annotations['<key>']",
    "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip

_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_RESOURCE_FIELD = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)")
_PLAIN_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_PROBE_MINIMA = {
    "initialDelaySeconds": 0,
    "timeoutSeconds": 1,
    "periodSeconds": 1,
    "successThreshold": 1,
    "failureThreshold": 1,
    "terminationGracePeriodSeconds": 1,
}


def validate_container(
    container: Object, path: str, volumes: Collection[str], *, is_init: bool = False
) -> Iterator[Cause]:
    """`volumes` are the names that it may mount."""
    yield from check_dns_label(f"{path}.name", container["name"])
    image = container.get("image")
    if not image:
        yield required(f"{path}.image", "say which image the container runs")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have spaces at either end")
    if container.get("ports"):
        yield from _validate_ports(container["ports"], f"{path}.ports")
    for number, env in enumerate(container.get("env") or ()):
        yield from _validate_env(env, f"{path}.env[{number}]")
    for number, source in enumerate(container.get("envFrom") or ()):
        yield from _validate_env_from(source, f"{path}.envFrom[{number}]")
    if container.get("volumeMounts"):
        yield from _validate_mounts(container["volumeMounts"], f"{path}.volumeMounts", volumes)
    for number, device in enumerate(container.get("volumeDevices") or ()):
        if device["name"] not in volumes:
            yield not_found(f"{path}.volumeDevices[{number}].name", device["name"], volumes, "volumes of the Pod")
    if container.get("resources"):
        yield from validate_resources(container["resources"], f"{path}.resources")
    yield from _validate_probes(container, path, is_init=is_init)
    if container.get("securityContext"):
        yield from _validate_security_context(container["securityContext"], f"{path}.securityContext")


def _validate_ports(ports: list[Object], path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for number, port in enumerate(ports):
        at = f"{path}[{number}]"
        yield from check_port(f"{at}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            yield from check_port(f"{at}.hostPort", port["hostPort"])
        name = port.get("name")
        if not name:
            continue
        if not is_port_name(name):
            yield invalid(f"{at}.name", name, PORT_NAME_RULE)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)


def check_port(field: str, number: int) -> Iterator[Cause]:
    if not 1 <= number <= 65535:
        yield invalid(field, number, "must be between 1 and 65535, inclusive")


def check_port_reference(field: str, port: Any) -> Iterator[Cause]:
    """Checks a port number, or the name of one of the container's ports."""
    if isinstance(port, int):
        yield from check_port(field, port)
    elif not is_port_name(port):
        yield invalid(field, port, f"a port is a number or a port's name: {PORT_NAME_RULE}")


def _validate_env(env: Object, path: str) -> Iterator[Cause]:
    name, source = env["name"], env.get("valueFrom")
    if not name:
        yield required(f"{path}.name")
    elif not is_env_name(name):
        yield invalid(f"{path}.name", name, ENV_NAME_RULE)
    if source is None:
        return
    at = f"{path}.valueFrom"
    if env.get("value"):
        yield invalid(at, source, "may not be specified when `value` is not empty")
    given = [key for key in _ENV_SOURCES if source.get(key) is not None]
    if len(given) != 1:
        yield invalid(at, source, f"must have exactly one of {', '.join(_ENV_SOURCES)}")
        return
    reference, at = source[given[0]], f"{at}.{given[0]}"
    match given[0]:
        case "fieldRef":
            yield from check_field_reference(f"{at}.fieldPath", reference["fieldPath"], ENV_FIELDS)
        case "resourceFieldRef":
            yield from check_resource_reference(f"{at}.resource", reference["resource"])
        case "configMapKeyRef" | "secretKeyRef":
            if not reference.get("name"):
                yield required(f"{at}.name")
            if not reference["key"]:
                yield required(f"{at}.key")
            elif not is_file_key(reference["key"]):
                yield invalid(f"{at}.key", reference["key"], FILE_KEY_RULE)


def check_field_reference(field: str, given: str, allowed: tuple[str, ...]) -> Iterator[Cause]:
    subscript = _SUBSCRIPT.fullmatch(given)
    if subscript is None:
        if given not in allowed:
            yield not_supported(field, given, allowed)
    elif not is_qualified_name(subscript[2]):
        yield invalid(field, subscript[2], QUALIFIED_RULE)


def check_resource_reference(field: str, given: str) -> Iterator[Cause]:
    if not _RESOURCE_FIELD.fullmatch(given):
        plain = sorted(f"{side}.{name}" for side in ("limits", "requests") for name in _PLAIN_RESOURCES)
        yield not_supported(field, given, plain)


def _validate_env_from(source: Object, path: str) -> Iterator[Cause]:
    prefix = source.get("prefix")
    if prefix and not is_env_name(prefix):
        yield invalid(f"{path}.prefix", prefix, ENV_NAME_RULE)
    given = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
    if len(given) != 1:
        yield invalid(path, source, "must have exactly one of configMapRef, secretRef")
    elif not source[given[0]].get("name"):
        yield required(f"{path}.{given[0]}.name")


def _validate_mounts(mounts: list[Object], path: str, volumes: Collection[str]) -> Iterator[Cause]:
    paths: set[str] = set()
    for number, mount in enumerate(mounts):
        at = f"{path}[{number}]"
        name, where = mount["name"], mount["mountPath"]
        if not name:
            yield required(f"{at}.name")
        elif name not in volumes:
            yield not_found(f"{at}.name", name, volumes, "volumes of the Pod")
        if not where:
            yield required(f"{at}.mountPath")
        elif where in paths:
            yield invalid(f"{at}.mountPath", where, "must be unique")
        paths.add(where)
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                yield from check_inner_path(f"{at}.{field}", mount[field])
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield invalid(f"{at}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive")


def check_inner_path(field: str, path: str) -> Iterator[Cause]:
    """Checks a path that must stay inside a volume."""
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path, without '/' at its beginning")
    if ".." in path.split("/"):
        yield invalid(field, path, "must not contain '..': it has to stay inside the volume")


def validate_resources(resources: Object, path: str) -> Iterator[Cause]:
    """Validates the resources of a container or a Pod: known names, nothing negative, requests within limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _validate_resource(f"{path}.{side}[{name}]", name, amount)
    names = {*limits, *requests}
    if not names & {"cpu", "memory"} and any(name.startswith("hugepages-") for name in names):
        yield forbidden(path, "HugePages require cpu or memory")
    for name, amount in requests.items():
        limit = limits.get(name)
        if not _can_overcommit(name):
            if limit is None:
                yield required(
                    f"{path}.limits[{name}]", f"{name} cannot be overcommitted: set a limit equal to the request"
                )
            elif limit != amount and parse_quantity(limit) != parse_quantity(amount):
                why = f"must be equal to the {name} limit of {limit}"
                yield invalid(f"{path}.requests[{name}]", amount, why)
        elif limit is not None and limit != amount and parse_quantity(amount) > parse_quantity(limit):
            why = f"must be less than or equal to {name} limit of {limit}"
            yield invalid(f"{path}.requests[{name}]", amount, why)


def _validate_resource(field: str, name: str, amount: Any) -> Iterator[Cause]:
    if name not in _PLAIN_RESOURCES:
        if not is_qualified_name(name):
            yield invalid(field, name, "must be a resource's name, such as cpu, memory or example.com/device")
            return
        if "/" not in name and not name.startswith("hugepages-"):
            why = "must be cpu, memory, ephemeral-storage, hugepages-<size>, or a name with a domain"
            yield invalid(field, name, f"{why}, such as nvidia.com/{name if name.isalpha() else 'gpu'}")
    value = parse_quantity(amount)
    if value < 0:
        yield invalid(field, amount, "must be greater than or equal to 0")
    elif name.startswith("hugepages-"):
        page = name.removeprefix("hugepages-")
        if value and value % parse_quantity(page):
            yield invalid(field, amount, f"must be a multiple of the page size, {page}")
    elif not _can_overcommit(name) and value.denominator != 1:
        yield invalid(field, amount, f"must be an integer: {name} cannot be divided")


def _can_overcommit(name: str) -> bool:
    return name in _PLAIN_RESOURCES or ("/" not in name and not name.startswith("hugepages-"))


def _validate_probes(container: Object, path: str, *, is_init: bool) -> Iterator[Cause]:
    plain_init = is_init and container.get("restartPolicy") != "Always"
    for field in PROBES:
        probe = container.get(field)
        if probe is None:
            continue
        at = f"{path}.{field}"
        if plain_init:
            yield forbidden(at, "may not be set for init containers without restartPolicy=Always")
            continue
        yield from _validate_handler(probe, at, _PROBE_HANDLERS)
        for name, minimum in _PROBE_MINIMA.items():
            if probe.get(name) is not None and probe[name] < minimum:
                yield invalid(f"{at}.{name}", probe[name], f"must be greater than or equal to {minimum}")
        if field == "readinessProbe":
            if probe.get("terminationGracePeriodSeconds") is not None:
                yield invalid(
                    f"{at}.terminationGracePeriodSeconds", probe["terminationGracePeriodSeconds"],
                    "must not be set for readinessProbes",
                )  # fmt: skip
        elif probe.get("successThreshold", 1) != 1:
            yield invalid(f"{at}.successThreshold", probe["successThreshold"], "must be 1")
    lifecycle = container.get("lifecycle")
    if lifecycle is None:
        return
    if plain_init:
        yield forbidden(f"{path}.lifecycle", "may not be set for init containers without restartPolicy=Always")
        return
    for field in ("postStart", "preStop"):
        if lifecycle.get(field) is not None:
            yield from _validate_handler(lifecycle[field], f"{path}.lifecycle.{field}", _HOOK_HANDLERS)


def _validate_handler(handler: Object, path: str, allowed: tuple[str, ...]) -> Iterator[Cause]:
    given = [key for key in allowed if handler.get(key) is not None]
    if not given:
        yield required(path, f"must specify a handler type: one of {', '.join(allowed)}")
    for extra in given[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    if len(given) != 1:
        return
    action, at = handler[given[0]], f"{path}.{given[0]}"
    match given[0]:
        case "exec":
            if not action.get("command"):
                yield required(f"{at}.command")
        case "sleep":
            if action["seconds"] < 0:
                yield invalid(f"{at}.seconds", action["seconds"], "must be greater than or equal to 0")
        case _:
            yield from check_port_reference(f"{at}.port", action["port"])


def _validate_security_context(context: Object, path: str) -> Iterator[Cause]:
    yield from check_user_ids(context, path)
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        yield invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")


def check_user_ids(context: Object, path: str) -> Iterator[Cause]:
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        number = context.get(field)
        if number is not None and not 0 <= number < 2**31:
            yield invalid(f"{path}.{field}", number, "must be between 0 and 2147483647, inclusive")


# Volumes.


FILE_FIELDS = (
    *(field for field in ENV_FIELDS if field.startswith("metadata.")),
    "metadata.labels",
    "metadata.annotations",
)

_REQUIRED = {"configMap": "name", "secret": "secretName", "persistentVolumeClaim": "claimName", "hostPath": "path"}
_PROJECTIONS = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")


def validate_volume(volume: Object, path: str) -> Iterator[Cause]:
    yield from check_dns_label(f"{path}.name", volume["name"])
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    if not sources:
        yield required(path, "must specify a volume type, such as emptyDir: {}")
    for extra in sources[1:]:
        yield forbidden(f"{path}.{extra}", f"may not specify more than 1 volume type: there is {sources[0]} already")
    for kind in sources:
        yield from _validate_source(kind, volume[kind], f"{path}.{kind}")


def _validate_source(kind: str, source: Object, path: str) -> Iterator[Cause]:
    name = _REQUIRED.get(kind)
    if name is not None and not source.get(name):
        yield required(f"{path}.{name}")
    yield from _check_mode(source.get("defaultMode"), f"{path}.defaultMode")
    match kind:
        case "hostPath":
            if ".." in source["path"].split("/"):
                yield invalid(f"{path}.path", source["path"], "must not contain '..'")
        case "emptyDir":
            if source.get("sizeLimit") is not None and parse_quantity(source["sizeLimit"]) < 0:
                yield invalid(f"{path}.sizeLimit", source["sizeLimit"], "must be greater than or equal to 0")
        case "configMap" | "secret":
            yield from _validate_items(source, path)
        case "downwardAPI":
            yield from _validate_downward_api(source, path)
        case "projected":
            for number, part in enumerate(source.get("sources") or ()):
                yield from _validate_projection(part, f"{path}.sources[{number}]")


def _validate_items(source: Object, path: str) -> Iterator[Cause]:
    for number, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{number}]"
        if not item["key"]:
            yield required(f"{at}.key")
        yield from _check_item_path(item, at)


def _check_item_path(item: Object, path: str) -> Iterator[Cause]:
    if not item["path"]:
        yield required(f"{path}.path")
    else:
        yield from check_inner_path(f"{path}.path", item["path"])
        if item["path"].startswith("..") and not item["path"].startswith("../"):
            yield invalid(f"{path}.path", item["path"], "must not start with '..'")
    yield from _check_mode(item.get("mode"), f"{path}.mode")


def _validate_downward_api(source: Object, path: str) -> Iterator[Cause]:
    for number, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{number}]"
        yield from _check_item_path(item, at)
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if (field is None) == (resource is None):
            yield required(at, "must have exactly one of fieldRef and resourceFieldRef")
        elif field is not None:
            yield from check_field_reference(f"{at}.fieldRef.fieldPath", field["fieldPath"], FILE_FIELDS)
        elif resource is not None:
            if not resource.get("containerName"):
                yield required(f"{at}.resourceFieldRef.containerName", "say which container's resources are meant")
            yield from check_resource_reference(f"{at}.resourceFieldRef.resource", resource["resource"])


def _validate_projection(part: Object, path: str) -> Iterator[Cause]:
    given = [kind for kind in _PROJECTIONS if part.get(kind) is not None]
    for extra in given[1:]:
        yield forbidden(f"{path}.{extra}", f"may not specify more than 1 volume type: there is {given[0]} already")
    for kind in given:
        source, at = part[kind], f"{path}.{kind}"
        if kind in ("secret", "configMap"):
            if not source.get("name"):
                yield required(f"{at}.name")
            yield from _validate_items(source, at)
        elif kind == "downwardAPI":
            yield from _validate_downward_api(source, at)
        elif kind == "serviceAccountToken":
            if source["path"]:
                yield from check_inner_path(f"{at}.path", source["path"])
            else:
                yield required(f"{at}.path")


def _check_mode(mode: int | None, field: str) -> Iterator[Cause]:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(field, mode, "must be a number between 0 and 0777 (octal), both inclusive")
