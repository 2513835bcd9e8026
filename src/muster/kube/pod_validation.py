"""The rules of Pods and Pod templates that their schema cannot say. What is checked here fits its schema already."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from muster.kube.causes import duplicate, forbidden, invalid, required
from muster.kube.container_validation import user_ids, validate_container, validate_resources
from muster.kube.errors import Cause
from muster.kube.names import dns_label, dns_name, labels
from muster.kube.objects import Object
from muster.kube.placement_validation import validate_placement
from muster.kube.volume_validation import validate_volume

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_LONGEST_DEADLINE = 2**31 - 1
_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
    "`spec.activeDeadlineSeconds`, `spec.terminationGracePeriodSeconds` (only to 1 if it was negative), "
    "`spec.tolerations` (only additions) and `spec.schedulingGates` (only removals); delete the Pod and create it anew"
)


def validate_pod(pod: Object, old: Object | None) -> list[Cause]:
    """A new Pod, or a change of `old`, of which little may change."""
    spec = pod.get("spec")
    if spec is None:
        return [required("spec", "a Pod needs at least one container")]
    if old is None:
        return validate_pod_spec(spec, "spec")
    before = old.get("spec") or {}
    if spec is before or spec == before:
        return []
    return [*validate_pod_spec(spec, "spec"), *_spec_changes(spec, before)]


def validate_pod_template(template: Object, path: str) -> list[Cause]:
    """A `{metadata, spec}` inside another kind."""
    metadata = template.get("metadata") or {}
    causes = list(labels(f"{path}.metadata.labels", metadata.get("labels")))
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
    yield from _host_ports(spec, path)
    yield from _plain_fields(spec, path)
    yield from validate_placement(spec, path)


def _host_ports(spec: Object, path: str) -> Iterator[Cause]:
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


def _plain_fields(spec: Object, path: str) -> Iterator[Cause]:
    for field, check in (("hostname", dns_label), ("subdomain", dns_label), ("serviceAccountName", dns_name),
                         ("nodeName", dns_name), ("priorityClassName", dns_name)):  # fmt: skip
        if spec.get(field):
            yield from check(f"{path}.{field}", spec[field])
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST_DEADLINE:
        yield invalid(
            f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        )
    for number, alias in enumerate(spec.get("hostAliases") or ()):
        yield from _host_alias(alias, f"{path}.hostAliases[{number}]")
    if spec.get("securityContext"):
        yield from user_ids(spec["securityContext"], f"{path}.securityContext")
    if spec.get("resources"):
        yield from validate_resources(spec["resources"], f"{path}.resources")
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        yield required(
            f"{path}.dnsConfig.nameservers", 'must provide at least one DNS nameserver when `dnsPolicy` is "None"'
        )
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield invalid(f"{path}.shareProcessNamespace", True, "ShareProcessNamespace and HostPID cannot both be enabled")


def _host_alias(alias: Object, path: str) -> Iterator[Cause]:
    try:
        ip_address(alias["ip"])
    except ValueError:
        yield invalid(f"{path}.ip", alias["ip"], "must be an IP address, such as 10.9.8.7")
    for number, hostname in enumerate(alias.get("hostnames") or ()):
        yield from dns_name(f"{path}.hostnames[{number}]", hostname)


def _spec_changes(spec: Object, before: Object) -> Iterator[Cause]:
    """What an update changes that it may not."""
    for field in sorted({*spec, *before}):
        new, old = spec.get(field), before.get(field)
        if new == old or (not new and not old):
            continue
        at = f"spec.{field}"
        match field:
            case "containers" | "initContainers":
                yield from _container_changes(new or [], old or [], at)
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
                    yield forbidden(at, _MAY_CHANGE)
            case "nodeName" if not old:  # how the scheduler binds a Pod
                continue
            case "nodeSelector" | "affinity" if before.get("schedulingGates"):  # not yet ready to be placed
                continue
            case _:
                yield forbidden(at, _MAY_CHANGE)


def _container_changes(new: list[Object], old: list[Object], path: str) -> Iterator[Cause]:
    if [c["name"] for c in new] != [c["name"] for c in old]:
        yield forbidden(path, f"pod updates may not add, remove or reorder containers; {_MAY_CHANGE}")
        return
    for number, (container, before) in enumerate(zip(new, old, strict=True)):
        for field in sorted({*container, *before}):
            if field != "image" and container.get(field) != before.get(field):
                yield forbidden(f"{path}[{number}].{field}", _MAY_CHANGE)
