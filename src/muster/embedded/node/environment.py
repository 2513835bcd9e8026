"""A container's environment variables and the `$(VAR)` references in its command, as Kubernetes resolves them. Pure."""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.embedded.node.pod_context import ConfigError, ContainerError, PodContext, secret_data
from muster.embedded.node.service_proxy import needs_proxy
from muster.kube.objects import Object, annotations_of, labels_of, meta, name_of, namespace_of, spec_of, uid_of
from muster.kube.quantity import parse_quantity

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['([^']*)'\]$")


MAX_EXPANDED = 6 * 1024 * 1024
"""Characters of all variables of a container together, and of its command with their values. Linux starts no program
with more. Each of a few variables can contain the one before ten times."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` by its value and `$$` by `$`. An unknown name stays as it is. Raises ContainerError if the
    result is longer than MAX_EXPANDED."""
    if "$" not in text:
        return text
    size = 0

    def replacement(found: re.Match[str]) -> str:
        nonlocal size
        value = "$" if found[1] is None else variables.get(found[1], found[0])
        size = add_size(size, value)
        return value

    return _REFERENCE.sub(replacement, text)


def expand_all(words: Iterable[str], variables: Mapping[str, str]) -> list[str]:
    """Raises ContainerError if the results are longer than MAX_EXPANDED together."""
    expanded, size = list[str](), 0
    for word in words:
        expanded.append(expand(word, variables))
        size = add_size(size, expanded[-1])
    return expanded


def add_size(size: int, *texts: str) -> int:
    """Raises ContainerError beyond MAX_EXPANDED."""
    size += sum(map(len, texts))
    if size > MAX_EXPANDED:
        raise ContainerError(
            f"the variables of a container, or its command with their values, have more than {MAX_EXPANDED:,} "
            "characters; write large texts to a file or a ConfigMap volume"
        )
    return size


def container_environment(
    pod: Object, container: Mapping[str, Any], context: PodContext, *, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns all variables of a container: `base` (the image's own), then those of Services, envFrom and env; later
    ones win. Raises ConfigError if a ConfigMap, Secret or key is missing and not optional, and ContainerError if they
    are too long."""
    name = str(container.get("name") or "")
    services = service_variables(pod, context)
    variables: dict[str, str] = {}
    known = ChainMap(variables, services)
    size = 0
    for source in container.get("envFrom") or ():
        found = _from_source(pod, source, context, name)
        size = add_size(size, *found, *found.values())
        variables.update(found)
    for variable in container.get("env") or ():
        value = _variable_value(pod, container, variable, known, context)
        if value is not None:
            size = add_size(size, value)
            variables[variable["name"]] = value
    return {**(base or {}), **services, **variables}


def service_variables(pod: Object, context: PodContext) -> dict[str, str]:
    """Returns NAME_SERVICE_HOST and NAME_SERVICE_PORT of the namespace's Services, unless enableServiceLinks is false,
    and always the address of the API."""
    variables: dict[str, str] = {}
    if spec_of(pod).get("enableServiceLinks", True):
        for service in context.services(namespace_of(pod)):
            variables.update(_service_links(service, context.restricted))
    if context.api is not None:
        variables["KUBERNETES_SERVICE_HOST"] = context.api.host
        variables["KUBERNETES_SERVICE_PORT"] = variables["KUBERNETES_SERVICE_PORT_HTTPS"] = str(context.api.port)
    return variables


def field_value(pod: Object, path: str, context: PodContext) -> str:
    """Returns the value of a fieldRef. Raises ConfigError for a path that Kubernetes does not support."""
    subscript = _SUBSCRIPT.match(path)
    if subscript is not None:
        values = labels_of(pod) if subscript[1] == "labels" else annotations_of(pod)
        return values.get(subscript[2], "")
    match path:
        case "metadata.name":
            return name_of(pod)
        case "metadata.namespace":
            return namespace_of(pod)
        case "metadata.uid":
            return uid_of(pod)
        case "metadata.labels" | "metadata.annotations":
            return _format_map(meta(pod).get(path.removeprefix("metadata.")) or {})
        case "spec.nodeName":
            return str(spec_of(pod).get("nodeName") or "")
        case "spec.serviceAccountName":
            return str(spec_of(pod).get("serviceAccountName") or "default")
        case "status.podIP" | "status.podIPs":
            return context.pod_ip
        case "status.hostIP" | "status.hostIPs":
            return context.host_ip
    raise ConfigError(
        f'fieldRef.fieldPath "{path}" is not supported: write one of metadata.name, metadata.namespace, metadata.uid, '
        "metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, "
        "status.podIP, status.hostIP"
    )


def resource_value(container: Mapping[str, Any], reference: Mapping[str, Any], context: PodContext) -> str:
    """Returns the value of a resourceFieldRef, rounded up to whole divisors. An unset limit is the node's capacity."""
    path = str(reference.get("resource") or "")
    kind, _, resource = path.partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise ConfigError(f'resourceFieldRef.resource "{path}" is not supported: write limits.NAME or requests.NAME')
    resources = container.get("resources") or {}
    amount = (resources.get(kind) or {}).get(resource)
    if amount is None and kind == "requests":
        amount = (resources.get("limits") or {}).get(resource)
    if amount is None and kind == "limits":
        amount = context.allocatable.get(resource)
    divisor = parse_quantity(reference.get("divisor") or "1") or parse_quantity("1")
    return str(math.ceil(parse_quantity(amount if amount is not None else "0") / divisor))


def _from_source(pod: Object, source: Mapping[str, Any], context: PodContext, container: str) -> dict[str, str]:
    prefix = str(source.get("prefix") or "")
    if "configMapRef" in source:
        found = _find_source(pod, source["configMapRef"], "configmap", context, container)
        values = dict(found.get("data") or {}) if found is not None else {}
    elif "secretRef" in source:
        found = _find_source(pod, source["secretRef"], "secret", context, container)
        values = {k: _decode(v) for k, v in secret_data(found).items()} if found is not None else {}
    else:
        raise ConfigError("envFrom has neither a configMapRef nor a secretRef", container)
    return {prefix + key: str(value) for key, value in values.items() if _is_variable(prefix + key)}


def _variable_value(
    pod: Object, container: Mapping[str, Any], variable: Mapping[str, Any], known: Mapping[str, str],
    context: PodContext,
) -> str | None:  # fmt: skip
    source = variable.get("valueFrom")
    if not source:
        return expand(str(variable.get("value") or ""), known)
    name = str(container.get("name") or "")
    try:
        if "fieldRef" in source:
            return field_value(pod, source["fieldRef"].get("fieldPath", ""), context)
        if "resourceFieldRef" in source:
            reference = source["resourceFieldRef"]
            return resource_value(_referenced_container(pod, container, reference), reference, context)
    except ConfigError as error:
        raise ConfigError(f"env {variable['name']}: {error.message}", name) from None
    if "configMapKeyRef" in source:
        return _key_value(pod, source["configMapKeyRef"], "configmap", context, name)
    if "secretKeyRef" in source:
        return _key_value(pod, source["secretKeyRef"], "secret", context, name)
    known_sources = "fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef"
    raise ConfigError(f"env {variable['name']}: valueFrom has none of {known_sources}", name)


def _referenced_container(pod: Object, container: Mapping[str, Any], reference: Mapping[str, Any]) -> Mapping[str, Any]:
    other = reference.get("containerName")
    if not other or other == container.get("name"):
        return container
    spec = spec_of(pod)
    for candidate in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if candidate.get("name") == other:
            found: Mapping[str, Any] = candidate
            return found
    raise ConfigError(f'resourceFieldRef.containerName "{other}" is not a container of this Pod')


def _find_source(
    pod: Object, reference: Mapping[str, Any], kind: str, context: PodContext, container: str
) -> Object | None:
    name = str(reference.get("name") or "")
    find = context.config_map if kind == "configmap" else context.secret
    found = find(namespace_of(pod), name)
    if found is None and not reference.get("optional"):
        raise ConfigError(f'{kind} "{name}" not found', container)
    return found


def _key_value(pod: Object, reference: Mapping[str, Any], kind: str, context: PodContext, container: str) -> str | None:
    found = _find_source(pod, reference, kind, context, container)
    key = str(reference.get("key") or "")
    values: Mapping[str, Any] = {}
    if found is not None:
        values = (found.get("data") or {}) if kind == "configmap" else secret_data(found)
    if key in values:
        value = values[key]
        return _decode(value) if isinstance(value, bytes) else str(value)
    if reference.get("optional"):
        return None
    title = "ConfigMap" if kind == "configmap" else "Secret"
    have = f" (it has {', '.join(sorted(values))})" if values else ""
    raise ConfigError(
        f"couldn't find key {key} in {title} {namespace_of(pod)}/{reference.get('name', '')}{have}", container
    )


def _service_links(service: Object, restricted: bool) -> dict[str, str]:
    spec = spec_of(service)
    address = str(spec.get("clusterIP") or "")
    ports: Sequence[Mapping[str, Any]] = spec.get("ports") or ()
    if address == "None" or not ports:
        return {}
    # Without a cluster address the name leads to the Pods, unless their ports have to be forwarded.
    host = address or f"{name_of(service)}.{namespace_of(service)}.svc.cluster.local"
    prefix = name_of(service).upper().replace("-", "_")
    is_forwarded = bool(address) or needs_proxy(service, restricted=restricted)
    variables = {f"{prefix}_SERVICE_HOST": host, f"{prefix}_SERVICE_PORT": _port(ports[0], is_forwarded)}
    for port in ports:
        number, protocol = _port(port, is_forwarded), str(port.get("protocol") or "TCP")
        if port.get("name"):
            variables[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = number
        stem, url = f"{prefix}_PORT_{number}_{protocol}", f"{protocol.lower()}://{host}:{number}"
        variables.setdefault(f"{prefix}_PORT", url)
        variables.update({stem: url, f"{stem}_PROTO": protocol.lower(), f"{stem}_PORT": number, f"{stem}_ADDR": host})
    return variables


def _port(port: Mapping[str, Any], is_forwarded: bool) -> str:
    target = port.get("targetPort")
    return str(target if not is_forwarded and isinstance(target, int) and target else port.get("port"))


def _format_map(values: Mapping[str, str]) -> str:
    """Formats a map as the downward API does: one key="escaped value" per line, sorted."""
    return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted(values.items()))


def _escape(value: str) -> str:
    return (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )


def _is_variable(name: str) -> bool:
    return bool(name) and "=" not in name and "\0" not in name


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
