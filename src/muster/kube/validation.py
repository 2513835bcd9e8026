"""The rules of the built-in kinds other than Pods and Jobs that their schemas cannot say.

Each rule is given the new object, which fits its schema, and the old one or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from itertools import pairwise
from typing import TypeAlias

from muster.kube.causes import duplicate, forbidden, invalid, not_supported, required
from muster.kube.container_validation import port_number, port_reference
from muster.kube.errors import Cause
from muster.kube.kinds import Rule
from muster.kube.names import (
    FILE_KEY_RULE,
    LABEL_VALUE_RULE,
    QUALIFIED_RULE,
    dns_label,
    dns_name,
    is_file_key,
    is_label_value,
    is_qualified,
    labels,
)
from muster.kube.objects import Object, name_of, namespace_of, owners_of, spec_of, uid_of
from muster.kube.pod_validation import validate_pod, validate_pod_template
from muster.kube.quantity import parse_quantity

LARGEST_DATA = 1 << 20
HIGHEST_PRIORITY = 1_000_000_000

Checks: TypeAlias = Callable[[Object, Object | None], Iterator[Cause]]

_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_IMMUTABLE = "field is immutable"


def rule(checks: Checks) -> Rule:
    """A rule written as a generator. What holds for objects of every kind is added."""

    @wraps(checks)
    def answer(obj: Object, old: Object | None) -> list[Cause]:
        return [*own_rule(obj, old), *checks(obj, old)]

    return answer


def own_rule(obj: Object, old: Object | None) -> list[Cause]:
    """No object owns itself: it would never be collected."""
    uid = uid_of(obj)
    return [
        invalid(f"metadata.ownerReferences[{number}].uid", uid, "an object cannot own itself")
        for number, reference in enumerate(owners_of(obj))
        if uid and reference.get("uid") == uid
    ]


def unchanged(obj: Object, old: Object | None, fields: tuple[str, ...], path: str = "") -> Iterator[Cause]:
    """The fields that differ from those of the old object, which they may not."""
    if old is None:
        return
    for field in fields:
        if obj.get(field) != old.get(field):
            yield invalid(f"{path}{field}", obj.get(field), _IMMUTABLE)


@rule
def pod_rule(pod: Object, old: Object | None) -> Iterator[Cause]:
    yield from validate_pod(pod, old)


@rule
def node_rule(node: Object, old: Object | None) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(spec_of(node).get("taints") or ()):
        at = f"spec.taints[{number}]"
        if not is_qualified(taint["key"]):
            yield invalid(f"{at}.key", taint["key"], QUALIFIED_RULE)
        if not is_label_value(taint.get("value") or ""):
            yield invalid(f"{at}.value", taint["value"], LABEL_VALUE_RULE)
        identity = (taint["key"], taint["effect"])
        if identity in seen:
            yield duplicate(at, f"{taint['key']}:{taint['effect']}")
        seen.add(identity)


@rule
def pod_template_rule(template: Object, old: Object | None) -> Iterator[Cause]:
    if template.get("template") is None:
        yield required("template")
    elif old is None or template["template"] != old.get("template"):
        yield from validate_pod_template(template["template"], "template")


@rule
def service_rule(service: Object, old: Object | None) -> Iterator[Cause]:
    spec, before = spec_of(service), spec_of(old or {})
    if old is not None and spec is before:
        return
    ports, kind = spec.get("ports") or [], spec.get("type") or "ClusterIP"
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports", "a Service has at least one port, unless it is headless (clusterIP: None)")
    if kind == "ExternalName":
        yield from dns_name("spec.externalName", spec.get("externalName") or "")
    yield from labels("spec.selector", spec.get("selector"))
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at = f"spec.ports[{index}]"
        name, identity = port.get("name") or "", (port.get("protocol") or "TCP", port["port"])
        if name or len(ports) > 1:
            yield from dns_label(f"{at}.name", name)
            if name in names:
                yield duplicate(f"{at}.name", name)
        names.add(name)
        yield from port_number(f"{at}.port", port["port"])
        if identity in numbers:
            yield duplicate(at, {"port": port["port"], "protocol": identity[0]})
        numbers.add(identity)
        if port.get("targetPort") is not None:
            yield from port_reference(f"{at}.targetPort", port["targetPort"])
        if port.get("nodePort"):
            yield from port_number(f"{at}.nodePort", port["nodePort"])
            if kind == "ClusterIP":
                yield forbidden(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
    if before.get("clusterIP") and before.get("type") != "ExternalName" and kind != "ExternalName":
        yield from unchanged(spec, before, ("clusterIP",), "spec.")


@rule
def config_map_rule(config_map: Object, old: Object | None) -> Iterator[Cause]:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    yield from _keys(data, "data")
    yield from _keys(binary, "binaryData")
    for key in data.keys() & binary.keys():
        yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    yield from _size(sum(map(len, data.values())) + sum(map(len, binary.values())) * 3 // 4)
    yield from _frozen(config_map, old, ("data", "binaryData"))


@rule
def secret_rule(secret: Object, old: Object | None) -> Iterator[Cause]:
    data, kind = secret.get("data") or {}, secret.get("type") or "Opaque"
    yield from _keys(data, "data")
    yield from _size(sum(map(len, data.values())) * 3 // 4)
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]", f"a Secret of type {kind} has this key")
    if kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        yield required("data[username]", f"a Secret of type {kind} has a username or a password")
    yield from unchanged(secret, old, ("type",))
    yield from _frozen(secret, old, ("data",))


def _keys(data: Object, path: str) -> Iterator[Cause]:
    for key in data:
        if not is_file_key(key):
            yield invalid(f"{path}[{key}]", key, FILE_KEY_RULE)


def _size(size: int) -> Iterator[Cause]:
    if size > LARGEST_DATA:
        yield Cause("", f"Too long: may not be more than {LARGEST_DATA} bytes, has {size}", "FieldValueTooLong")


def _frozen(obj: Object, old: Object | None, fields: tuple[str, ...]) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    for field in ("immutable", *fields):
        if obj.get(field) != old.get(field):
            yield forbidden(field, "field is immutable when `immutable` is set; delete the object and create it anew")


@rule
def event_rule(event: Object, old: Object | None) -> Iterator[Cause]:
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    if about and about != namespace_of(event):
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")


@rule
def role_rule(role: Object, old: Object | None) -> Iterator[Cause]:
    for number, entry in enumerate(role.get("rules") or ()):
        at = f"rules[{number}]"
        if not entry["verbs"]:
            yield required(f"{at}.verbs", "verbs must contain at least one value")
        if entry.get("nonResourceURLs"):
            if role.get("kind") == "Role":
                yield invalid(f"{at}.nonResourceURLs", entry["nonResourceURLs"], "only a ClusterRole can have them")
            continue
        if not entry.get("apiGroups"):
            yield required(f"{at}.apiGroups", 'resource rules must supply at least one api group; the core group is ""')
        if not entry.get("resources"):
            yield required(f"{at}.resources", "resource rules must supply at least one resource")


@rule
def role_binding_rule(binding: Object, old: Object | None) -> Iterator[Cause]:
    reference = binding["roleRef"]
    if not reference["name"]:
        yield required("roleRef.name")
    if binding.get("kind") == "ClusterRoleBinding" and reference["kind"] != "ClusterRole":
        yield not_supported("roleRef.kind", reference["kind"], ["ClusterRole"])
    for number, subject in enumerate(binding.get("subjects") or ()):
        at = f"subjects[{number}]"
        if not subject["name"]:
            yield required(f"{at}.name")
        if subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
            yield required(f"{at}.namespace", "say in which namespace the ServiceAccount is")
    if old is not None and reference != old.get("roleRef"):
        yield invalid("roleRef", reference, "cannot change roleRef; delete the binding and create it anew")


@rule
def priority_class_rule(priority: Object, old: Object | None) -> Iterator[Cause]:
    name = name_of(priority)
    if name.startswith("system-") and name not in ("system-cluster-critical", "system-node-critical"):
        yield forbidden("metadata.name", "priority class names with 'system-' prefix are reserved for system use only")
    if not name.startswith("system-") and priority["value"] > HIGHEST_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}"
        yield forbidden("value", why)
    if old is not None:
        for field in ("value", "preemptionPolicy"):
            if priority.get(field) != old.get(field):
                yield forbidden(field, "may not be changed in an update.")


@rule
def storage_class_rule(storage: Object, old: Object | None) -> Iterator[Cause]:
    if not storage["provisioner"]:
        yield required("provisioner")
    if old is not None:
        for field in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
            if storage.get(field) != old.get(field):
                yield forbidden(field, f"updates to {field} are forbidden.")


@rule
def lease_rule(lease: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(lease)
    for field, minimum in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        if spec.get(field) is not None and spec[field] < minimum:
            yield invalid(f"spec.{field}", spec[field], f"must be greater than or equal to {minimum}")


@rule
def pod_group_rule(group: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(group)
    yield from _not_negative(spec.get("minResources"), "spec.minResources")
    for task, count in (spec.get("minTaskMember") or {}).items():
        if count < 0:
            yield invalid(f"spec.minTaskMember[{task}]", count, "must be greater than or equal to 0")


@rule
def queue_rule(queue: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(queue)
    guarantee = (spec.get("guarantee") or {}).get("resource") or {}
    shares = (("spec.guarantee.resource", guarantee), *((f"spec.{f}", spec.get(f)) for f in ("deserved", "capability")))
    for path, amounts in shares:
        yield from _not_negative(amounts, path)
    for (lower, low), (upper, high) in pairwise(shares):
        for name in (low or {}).keys() & (high or {}).keys():
            if parse_quantity((low or {})[name]) > parse_quantity((high or {})[name]):
                why = f"must be at most {upper}[{name}], which is {(high or {})[name]}"
                yield invalid(f"{lower}[{name}]", (low or {})[name], why)
    if spec.get("parent") and spec["parent"] == name_of(queue):
        yield invalid("spec.parent", spec["parent"], "a queue cannot be its own parent")


def _not_negative(resources: Object | None, path: str) -> Iterator[Cause]:
    for name, amount in (resources or {}).items():
        if parse_quantity(amount) < 0:
            yield invalid(f"{path}[{name}]", amount, "must be greater than or equal to 0")
