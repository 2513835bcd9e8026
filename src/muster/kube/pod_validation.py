"""Validates Pods and Pod templates beyond their schema, including where a Pod may run. Everything checked here already
fits its schema.

Also: which fields of a Pod have no effect when its containers are processes of the node. The node agent names them in
an event, and lint in a warning, so that nothing relies on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from muster.kube.container_validation import check_user_ids, validate_container, validate_resources, validate_volume
from muster.kube.errors import (
    LABEL_VALUE_RULE,
    QUALIFIED_RULE,
    Cause,
    check_dns_label,
    check_dns_name,
    check_labels,
    duplicate,
    forbidden,
    invalid,
    is_label_value,
    is_qualified_name,
    not_supported,
    required,
)
from muster.kube.objects import Object, spec_of

_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_MAX_DEADLINE = 2**31 - 1
_MUTABLE_FIELDS = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
    "`spec.activeDeadlineSeconds`, `spec.terminationGracePeriodSeconds` (only to 1 if it was negative), "
    "`spec.tolerations` (only additions) and `spec.schedulingGates` (only removals); delete the Pod and create it again"
)


def validate_pod(pod: Object, old: Object | None) -> list[Cause]:
    """Validates a new Pod, or an update of `old`, in which little may change."""
    spec = pod.get("spec")
    if spec is None:
        return [required("spec", "a Pod needs at least one container")]
    if old is None:
        return validate_pod_spec(spec, "spec")
    before = old.get("spec") or {}
    if spec is before or spec == before:
        return []
    return [*validate_pod_spec(spec, "spec"), *_validate_spec_update(spec, before)]


def validate_pod_template(template: Object, path: str) -> list[Cause]:
    """Validates a `{metadata, spec}` template of another kind."""
    metadata = template.get("metadata") or {}
    causes = list(check_labels(f"{path}.metadata.labels", metadata.get("labels")))
    if template.get("spec") is None:
        return [*causes, required(f"{path}.spec", "the template needs at least one container")]
    return causes + validate_pod_spec(template["spec"], f"{path}.spec")


def validate_pod_spec(spec: Object, path: str) -> list[Cause]:
    return list(_validate_spec(spec, path))


def _validate_spec(spec: Object, path: str) -> Iterator[Cause]:
    volumes: set[str] = set()
    for number, volume in enumerate(spec.get("volumes") or ()):
        yield from validate_volume(volume, f"{path}.volumes[{number}]")
        if volume["name"] in volumes:
            yield duplicate(f"{path}.volumes[{number}].name", volume["name"])
        volumes.add(volume["name"])
    if not spec.get("containers"):
        yield required(f"{path}.containers", "a Pod needs at least one container")
    names: set[str] = set()
    for field in _CONTAINERS:
        for number, container in enumerate(spec.get(field) or ()):
            at = f"{path}.{field}[{number}]"
            yield from validate_container(container, at, volumes, is_init=field == "initContainers")
            if container["name"] in names:
                yield duplicate(f"{at}.name", container["name"])
            names.add(container["name"])
    yield from _validate_host_ports(spec, path)
    yield from _validate_scalar_fields(spec, path)
    yield from validate_placement(spec, path)


def _validate_host_ports(spec: Object, path: str) -> Iterator[Cause]:
    taken: set[tuple[Any, ...]] = set()
    on_host = spec.get("hostNetwork")
    for number, container in enumerate(spec.get("containers") or ()):
        for index, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort")
            if not host_port:
                continue
            at = f"{path}.containers[{number}].ports[{index}]"
            key = (host_port, port.get("protocol") or "TCP", port.get("hostIP") or "")
            if key in taken:
                yield duplicate(f"{at}.hostPort", host_port)
            taken.add(key)
            if on_host and host_port != port["containerPort"]:
                yield invalid(
                    f"{at}.containerPort", port["containerPort"], "must match `hostPort` when `hostNetwork` is true"
                )


def _validate_sysctls(sysctls: Sequence[Object], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for number, sysctl in enumerate(sysctls):
        name = str(sysctl.get("name") or "")
        if not name:
            yield required(f"{path}[{number}].name")
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            rule = f"must have at most 253 characters and match regex {_SYSCTL.pattern}"
            yield invalid(f"{path}[{number}].name", name, rule)
        elif name.replace("/", ".") in seen:
            yield duplicate(f"{path}[{number}].name", name)
        seen.add(name.replace("/", "."))


def _validate_scalar_fields(spec: Object, path: str) -> Iterator[Cause]:
    for field, check in (("hostname", check_dns_label), ("subdomain", check_dns_label),
                         ("serviceAccountName", check_dns_name), ("nodeName", check_dns_name),
                         ("priorityClassName", check_dns_name)):  # fmt: skip
        if spec.get(field):
            yield from check(f"{path}.{field}", spec[field])
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_MAX_DEADLINE}, inclusive")
    for number, alias in enumerate(spec.get("hostAliases") or ()):
        yield from _validate_host_alias(alias, f"{path}.hostAliases[{number}]")
    if spec.get("securityContext"):
        yield from check_user_ids(spec["securityContext"], f"{path}.securityContext")
        yield from _validate_sysctls(spec["securityContext"].get("sysctls") or (), f"{path}.securityContext.sysctls")
    if spec.get("resources"):
        yield from validate_resources(spec["resources"], f"{path}.resources")
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        yield required(
            f"{path}.dnsConfig.nameservers", 'must provide at least one DNS nameserver when `dnsPolicy` is "None"'
        )
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield invalid(f"{path}.shareProcessNamespace", True, "ShareProcessNamespace and HostPID cannot both be enabled")


def _validate_host_alias(alias: Object, path: str) -> Iterator[Cause]:
    try:
        ip_address(alias["ip"])
    except ValueError:
        yield invalid(f"{path}.ip", alias["ip"], "must be an IP address, such as 10.9.8.7")
    for number, hostname in enumerate(alias.get("hostnames") or ()):
        yield from check_dns_name(f"{path}.hostnames[{number}]", hostname)


def _validate_spec_update(spec: Object, before: Object) -> Iterator[Cause]:
    """Yields the changes that an update must not make."""
    for field in sorted({*spec, *before}):
        new, old = spec.get(field), before.get(field)
        if new == old or (not new and not old):
            continue
        at = f"spec.{field}"
        match field:
            case "containers" | "initContainers":
                yield from _validate_container_update(new or [], old or [], at)
            case "tolerations":
                if any(toleration not in (new or []) for toleration in old or []):
                    yield forbidden(at, "existing toleration can not be modified except its tolerationSeconds")
            case "schedulingGates":
                if any(gate not in (old or []) for gate in new or []):
                    yield forbidden(at, "only deletion is allowed")
            case "activeDeadlineSeconds":
                if new is None or (old is not None and new > old):
                    yield invalid(at, new, "must be less than or equal to previous value")
            case "terminationGracePeriodSeconds":
                if not (old is not None and old < 0 and new == 1):
                    yield forbidden(at, _MUTABLE_FIELDS)
            case "nodeName" if not old:  # the scheduler binds a Pod this way
                continue
            case "nodeSelector" | "affinity" if before.get("schedulingGates"):  # not yet ready to be scheduled
                continue
            case _:
                yield forbidden(at, _MUTABLE_FIELDS)


def _validate_container_update(new: list[Object], old: list[Object], path: str) -> Iterator[Cause]:
    if [c["name"] for c in new] != [c["name"] for c in old]:
        yield forbidden(path, f"pod updates may not add, remove or reorder containers; {_MUTABLE_FIELDS}")
        return
    for number, (container, before) in enumerate(zip(new, old, strict=True)):
        for field in sorted({*container, *before}):
            if field != "image" and container.get(field) != before.get(field):
                yield forbidden(f"{path}[{number}].{field}", _MUTABLE_FIELDS)


_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


# Where a Pod may run: node selectors, affinity, tolerations, spread constraints, scheduling gates.


def validate_placement(spec: Object, path: str) -> Iterator[Cause]:
    if spec.get("nodeSelector"):
        yield from check_labels(f"{path}.nodeSelector", spec["nodeSelector"])
    for number, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _validate_toleration(toleration, f"{path}.tolerations[{number}]")
    if spec.get("affinity"):
        yield from _validate_affinity(spec["affinity"], f"{path}.affinity")
    for number, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _validate_spread_constraint(constraint, f"{path}.topologySpreadConstraints[{number}]")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")
    names: set[str] = set()
    for number, gate in enumerate(spec.get("schedulingGates") or ()):
        at = f"{path}.schedulingGates[{number}].name"
        if not is_qualified_name(gate["name"]):
            yield invalid(at, gate["name"], QUALIFIED_RULE)
        if gate["name"] in names:
            yield duplicate(at, gate["name"])
        names.add(gate["name"])


def validate_label_selector(selector: Object | None, path: str) -> Iterator[Cause]:
    """Validates matchLabels and matchExpressions."""
    if not selector:
        return
    yield from check_labels(f"{path}.matchLabels", selector.get("matchLabels"))
    for number, rule in enumerate(selector.get("matchExpressions") or ()):
        yield from _validate_requirement(rule, f"{path}.matchExpressions[{number}]")


def _validate_requirement(rule: Object, path: str, *, any_value: bool = False) -> Iterator[Cause]:
    operator, values = rule["operator"], rule.get("values") or []
    if not is_qualified_name(rule["key"]):
        yield invalid(f"{path}.key", rule["key"], QUALIFIED_RULE)
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        for number, value in enumerate(values):
            if not any_value and not is_label_value(value):
                yield invalid(f"{path}.values[{number}]", value, LABEL_VALUE_RULE)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif len(values) != 1:
        yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif not any_value and not _is_integer(values[0]):
        yield invalid(f"{path}.values[0]", values[0], "must be an integer when `operator` is 'Lt' or 'Gt'")


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _validate_toleration(toleration: Object, path: str) -> Iterator[Cause]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if key and not is_qualified_name(key):
        yield invalid(f"{path}.key", key, QUALIFIED_RULE)
    if not key and operator != "Exists":
        yield invalid(
            f"{path}.operator", operator, "operator must be Exists when `key` is empty, which means all taints"
        )
    if operator == "Exists" and toleration.get("value"):
        yield invalid(f"{path}.value", toleration["value"], "value must be empty when `operator` is 'Exists'")
    if operator == "Equal" and not is_label_value(toleration.get("value") or ""):
        yield invalid(f"{path}.value", toleration["value"], LABEL_VALUE_RULE)
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{path}.effect", toleration.get("effect") or "", why)


def _validate_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    node = affinity.get("nodeAffinity") or {}
    if node.get(_REQUIRED) is not None:
        yield from validate_node_selector(node[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for number, term in enumerate(node.get(_PREFERRED) or ()):
        at = f"{path}.nodeAffinity.{_PREFERRED}[{number}]"
        yield from _check_weight(term, at)
        yield from _validate_node_term(term["preference"], f"{at}.preference", any_value=True)
    for side in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(side) or {}
        for number, term in enumerate(pods.get(_REQUIRED) or ()):
            yield from _validate_pod_term(term, f"{path}.{side}.{_REQUIRED}[{number}]")
        for number, term in enumerate(pods.get(_PREFERRED) or ()):
            at = f"{path}.{side}.{_PREFERRED}[{number}]"
            yield from _check_weight(term, at)
            yield from _validate_pod_term(term["podAffinityTerm"], f"{at}.podAffinityTerm")


def validate_node_selector(selector: Object, path: str) -> Iterator[Cause]:
    if not selector["nodeSelectorTerms"]:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for number, term in enumerate(selector["nodeSelectorTerms"]):
        yield from _validate_node_term(term, f"{path}.nodeSelectorTerms[{number}]")


def _check_weight(term: Object, path: str) -> Iterator[Cause]:
    if not 1 <= term["weight"] <= 100:
        yield invalid(f"{path}.weight", term["weight"], "must be in the range 1-100")


def _validate_node_term(term: Object, path: str, *, any_value: bool = False) -> Iterator[Cause]:
    """`any_value`: accept a preference that no label can match, as Kubernetes does."""
    for field in ("matchExpressions", "matchFields"):
        for number, rule in enumerate(term.get(field) or ()):
            at = f"{path}.{field}[{number}]"
            yield from _validate_requirement(rule, at, any_value=any_value)
            if field == "matchFields":
                yield from _validate_field_requirement(rule, at)


def _validate_field_requirement(rule: Object, path: str) -> Iterator[Cause]:
    if rule["key"] != "metadata.name":
        yield invalid(f"{path}.key", rule["key"], "not a valid field selector key; only metadata.name is")
    if rule["operator"] not in ("In", "NotIn"):
        yield not_supported(f"{path}.operator", rule["operator"], ["In", "NotIn"])
    elif len(rule.get("values") or []) > 1:
        yield invalid(f"{path}.values", rule["values"], "must have exactly one value, the name of a node")


def _validate_pod_term(term: Object, path: str) -> Iterator[Cause]:
    if not term["topologyKey"]:
        yield required(f"{path}.topologyKey", "can not be empty; kubernetes.io/hostname means one node")
    elif not is_qualified_name(term["topologyKey"]):
        yield invalid(f"{path}.topologyKey", term["topologyKey"], QUALIFIED_RULE)
    for field in ("labelSelector", "namespaceSelector"):
        yield from validate_label_selector(term.get(field), f"{path}.{field}")


def _validate_spread_constraint(constraint: Object, path: str) -> Iterator[Cause]:
    if constraint["maxSkew"] <= 0:
        yield invalid(f"{path}.maxSkew", constraint["maxSkew"], "must be greater than zero")
    if not constraint["topologyKey"]:
        yield required(f"{path}.topologyKey", "can not be empty")
    domains = constraint.get("minDomains")
    if domains is not None:
        if domains <= 0:
            yield invalid(f"{path}.minDomains", domains, "must be greater than zero")
        if constraint["whenUnsatisfiable"] != "DoNotSchedule":
            yield invalid(f"{path}.minDomains", domains, "can only use minDomains if whenUnsatisfiable=DoNotSchedule")
    yield from validate_label_selector(constraint.get("labelSelector"), f"{path}.labelSelector")


_POD = (
    "hostIPC",
    "hostPID",
    "ephemeralContainers",
    "shareProcessNamespace",
    "dnsConfig",
    "runtimeClassName",
    "setHostnameAsFQDN",
    "hostUsers",
)
_POD_SECURITY = ("seLinuxOptions", "seccompProfile", "windowsOptions", "appArmorProfile")
_CONTAINER = ("volumeDevices", "resizePolicy")
_CONTAINER_SECURITY = (
    "capabilities", "privileged", "procMount", "seLinuxOptions", "seccompProfile", "windowsOptions", "appArmorProfile",
)  # fmt: skip
_MOUNT = ("mountPropagation", "recursiveReadOnly")


def ignored_fields(
    pod: Object, isolation: str = "namespaces", *, by_engine: bool = False, limits_cpu: bool = True
) -> Iterator[str]:
    spec = spec_of(pod)
    yield from _set(spec, _POD, "spec")
    if by_engine and spec.get("imagePullSecrets"):
        yield "spec.imagePullSecrets"
    yield from _set(spec.get("securityContext") or {}, _POD_SECURITY, "spec.securityContext")
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from _of_volume(volume, f"spec.volumes[{index}]", by_engine)
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            path = f"spec.{group}[{index}]"
            yield from _of_container(container, path, isolation, by_engine)
            if not limits_cpu and "cpu" in ((container.get("resources") or {}).get("limits") or {}):
                yield f"{path}.resources.limits.cpu"


def _of_volume(volume: Mapping[str, Any], path: str, by_engine: bool) -> Iterator[str]:
    source = volume.get("emptyDir") or {}
    medium = source.get("medium") or ""
    if medium not in ("", "Memory"):
        yield f"{path}.emptyDir.medium"
    if source.get("sizeLimit") and (medium != "Memory" or by_engine):
        yield f"{path}.emptyDir.sizeLimit"


def _of_container(container: Mapping[str, Any], path: str, isolation: str, by_engine: bool) -> Iterator[str]:
    yield from _set(container, _CONTAINER, path)
    security = container.get("securityContext")
    if security and not by_engine:
        yield from _set(security, _CONTAINER_SECURITY, f"{path}.securityContext")
        if isolation == "none":
            yield from _set(security, ("readOnlyRootFilesystem",), f"{path}.securityContext")
    if "ephemeral-storage" in ((container.get("resources") or {}).get("limits") or {}):
        yield f"{path}.resources.limits.ephemeral-storage"
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        yield from _set(mount, _MOUNT, f"{path}.volumeMounts[{index}]")
    for index, port in enumerate(container.get("ports") or ()):
        wanted = port.get("hostPort")
        if wanted and wanted != port.get("containerPort"):
            yield f"{path}.ports[{index}].hostPort"
    for field in ("startupProbe", "livenessProbe", "readinessProbe"):
        if "grpc" in (container.get(field) or {}):
            yield f"{path}.{field}.grpc.service"
    if (
        isolation == "none"
        and not by_engine
        and container.get("terminationMessagePath") not in (None, _DEFAULT_MESSAGE)
    ):
        yield f"{path}.terminationMessagePath"


def _set(values: Mapping[str, Any], names: tuple[str, ...], path: str) -> Iterator[str]:
    for name in names:
        if values.get(name) and not (name == "mountPropagation" and values[name] == "None"):
            yield f"{path}.{name}"


_DEFAULT_MESSAGE = "/dev/termination-log"
