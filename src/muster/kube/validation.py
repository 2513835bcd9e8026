"""Validates the built-in kinds other than Pods and CustomResourceDefinitions beyond their schemas.

Each rule gets the new object, which fits its schema, and the old one or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from itertools import pairwise
from typing import TypeAlias

from muster.kube.container_validation import check_port, check_port_reference
from muster.kube.errors import (
    FILE_KEY_RULE,
    LABEL_VALUE_RULE,
    QUALIFIED_RULE,
    Cause,
    check_dns_label,
    check_dns_name,
    check_labels,
    duplicate,
    forbidden,
    invalid,
    is_file_key,
    is_label_value,
    is_qualified_name,
    not_supported,
    required,
)
from muster.kube.kinds import Rule
from muster.kube.objects import Object, labels_of, name_of, namespace_of, owners_of, spec_of, uid_of
from muster.kube.pod_validation import (
    validate_label_selector,
    validate_node_selector,
    validate_pod,
    validate_pod_template,
)
from muster.kube.quantity import parse_quantity
from muster.kube.schema import upstream_schema

MAX_DATA_BYTES = 1 << 20
MOST_ENDPOINTS = 1000
"""Of an EndpointSlice."""
HIGHEST_PRIORITY = 1_000_000_000

Checks: TypeAlias = Callable[[Object, Object | None], Iterator[Cause]]

_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_IMMUTABLE = "field is immutable"


def validator(checks: Checks) -> Rule:
    """Turns a generator of causes into a rule, and adds the checks for every kind."""

    @wraps(checks)
    def answer(obj: Object, old: Object | None) -> list[Cause]:
        return [*validate_metadata(obj, old), *checks(obj, old)]

    return answer


def validate_metadata(obj: Object, old: Object | None) -> list[Cause]:
    """No object may own itself: it would never be garbage collected."""
    uid = uid_of(obj)
    return [
        invalid(f"metadata.ownerReferences[{number}].uid", uid, "an object cannot own itself")
        for number, reference in enumerate(owners_of(obj))
        if uid and reference.get("uid") == uid
    ]


def check_unchanged(obj: Object, old: Object | None, fields: tuple[str, ...], path: str = "") -> Iterator[Cause]:
    """Yields the fields that differ from the old object, though they must not."""
    if old is None:
        return
    for field in fields:
        if obj.get(field) != old.get(field):
            yield invalid(f"{path}{field}", obj.get(field), _IMMUTABLE)


@validator
def validate_pod_object(pod: Object, old: Object | None) -> Iterator[Cause]:
    yield from validate_pod(pod, old)


@validator
def validate_node(node: Object, old: Object | None) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(spec_of(node).get("taints") or ()):
        at = f"spec.taints[{number}]"
        if not is_qualified_name(taint["key"]):
            yield invalid(f"{at}.key", taint["key"], QUALIFIED_RULE)
        if not is_label_value(taint.get("value") or ""):
            yield invalid(f"{at}.value", taint["value"], LABEL_VALUE_RULE)
        identity = (taint["key"], taint["effect"])
        if identity in seen:
            yield duplicate(at, f"{taint['key']}:{taint['effect']}")
        seen.add(identity)


@validator
def validate_pod_template_object(template: Object, old: Object | None) -> Iterator[Cause]:
    if template.get("template") is None:
        yield required("template")
    elif old is None or template["template"] != old.get("template"):
        yield from validate_pod_template(template["template"], "template")


@validator
def validate_service(service: Object, old: Object | None) -> Iterator[Cause]:
    spec, before = spec_of(service), spec_of(old or {})
    if old is not None and spec is before:
        return
    ports, kind = spec.get("ports") or [], spec.get("type") or "ClusterIP"
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports", "a Service has at least one port, unless it is headless (clusterIP: None)")
    if kind == "ExternalName":
        yield from check_dns_name("spec.externalName", spec.get("externalName") or "")
    yield from check_labels("spec.selector", spec.get("selector"))
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at = f"spec.ports[{index}]"
        name, identity = port.get("name") or "", (port.get("protocol") or "TCP", port["port"])
        if name or len(ports) > 1:
            yield from check_dns_label(f"{at}.name", name)
            if name in names:
                yield duplicate(f"{at}.name", name)
        names.add(name)
        yield from check_port(f"{at}.port", port["port"])
        if identity in numbers:
            yield duplicate(at, {"port": port["port"], "protocol": identity[0]})
        numbers.add(identity)
        if port.get("targetPort") is not None:
            yield from check_port_reference(f"{at}.targetPort", port["targetPort"])
        if port.get("nodePort"):
            yield from check_port(f"{at}.nodePort", port["nodePort"])
            if kind == "ClusterIP":
                yield forbidden(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
    if before.get("clusterIP") and before.get("type") != "ExternalName" and kind != "ExternalName":
        yield from check_unchanged(spec, before, ("clusterIP",), "spec.")


@validator
def validate_endpoints(endpoints: Object, old: Object | None) -> Iterator[Cause]:
    for number, subset in enumerate(endpoints.get("subsets") or ()):
        at = f"subsets[{number}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(at, "must specify `addresses` or `notReadyAddresses`")
        for index, port in enumerate(subset.get("ports") or ()):
            yield from check_port(f"{at}.ports[{index}].port", port["port"])


@validator
def validate_endpoint_slice(endpoint_slice: Object, old: Object | None) -> Iterator[Cause]:
    yield from check_unchanged(endpoint_slice, old, ("addressType",))
    endpoints = endpoint_slice.get("endpoints") or []
    if len(endpoints) > MOST_ENDPOINTS:
        yield invalid("endpoints", len(endpoints), f"must have at most {MOST_ENDPOINTS} items")
    for number, endpoint in enumerate(endpoints):
        if not endpoint["addresses"]:
            yield required(f"endpoints[{number}].addresses", "must contain at least 1 address")
    names: set[str] = set()
    for number, port in enumerate(endpoint_slice.get("ports") or ()):
        if port.get("port") is not None:
            yield from check_port(f"ports[{number}].port", port["port"])
        if port.get("name") in names:
            yield duplicate(f"ports[{number}].name", port["name"])
        names.add(port.get("name") or "")


@validator
def validate_config_map(config_map: Object, old: Object | None) -> Iterator[Cause]:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    yield from _validate_keys(data, "data")
    yield from _validate_keys(binary, "binaryData")
    for key in data.keys() & binary.keys():
        yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    yield from _check_size(sum(map(len, data.values())) + sum(map(len, binary.values())) * 3 // 4)
    yield from _check_immutable(config_map, old, ("data", "binaryData"))


@validator
def validate_secret(secret: Object, old: Object | None) -> Iterator[Cause]:
    data, kind = secret.get("data") or {}, secret.get("type") or "Opaque"
    yield from _validate_keys(data, "data")
    yield from _check_size(sum(map(len, data.values())) * 3 // 4)
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]", f"a Secret of type {kind} has this key")
    if kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        yield required("data[username]", f"a Secret of type {kind} has a username or a password")
    yield from check_unchanged(secret, old, ("type",))
    yield from _check_immutable(secret, old, ("data",))


def _validate_keys(data: Object, path: str) -> Iterator[Cause]:
    for key in data:
        if not is_file_key(key):
            yield invalid(f"{path}[{key}]", key, FILE_KEY_RULE)


def _check_size(size: int) -> Iterator[Cause]:
    if size > MAX_DATA_BYTES:
        yield Cause("", f"Too long: may not be more than {MAX_DATA_BYTES} bytes, has {size}", "FieldValueTooLong")


def _check_immutable(obj: Object, old: Object | None, fields: tuple[str, ...]) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    for field in ("immutable", *fields):
        if obj.get(field) != old.get(field):
            yield forbidden(field, "field is immutable when `immutable` is set; delete the object and create it again")


@validator
def validate_event(event: Object, old: Object | None) -> Iterator[Cause]:
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    if about and about != namespace_of(event):
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")


@validator
def validate_role(role: Object, old: Object | None) -> Iterator[Cause]:
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


@validator
def validate_role_binding(binding: Object, old: Object | None) -> Iterator[Cause]:
    reference = binding["roleRef"]
    if not reference["name"]:
        yield required("roleRef.name")
    if binding.get("kind") == "ClusterRoleBinding" and reference["kind"] != "ClusterRole":
        yield not_supported("roleRef.kind", reference["kind"], ["ClusterRole"])
    for number, subject in enumerate(binding.get("subjects") or ()):
        at = f"subjects[{number}]"
        if not subject["name"]:
            yield required(f"{at}.name")
        # In a RoleBinding, the binding's own namespace is meant.
        is_cluster_wide = binding.get("kind") == "ClusterRoleBinding"
        if is_cluster_wide and subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
            yield required(f"{at}.namespace", "say in which namespace the ServiceAccount is")
    if old is not None and reference != old.get("roleRef"):
        yield invalid("roleRef", reference, "cannot change roleRef; delete the binding and create it again")


@validator
def validate_priority_class(priority: Object, old: Object | None) -> Iterator[Cause]:
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


@validator
def validate_storage_class(storage: Object, old: Object | None) -> Iterator[Cause]:
    if not storage.get("provisioner"):
        yield required("provisioner")
    if old is not None:
        for field in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
            if storage.get(field) != old.get(field):
                yield forbidden(field, f"updates to {field} are forbidden.")


@validator
def validate_lease(lease: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(lease)
    for field, minimum in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        if spec.get(field) is not None and spec[field] < minimum:
            yield invalid(f"spec.{field}", spec[field], f"must be greater than or equal to {minimum}")


@validator
def validate_pod_group(group: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(group)
    yield from _check_not_negative(spec.get("minResources"), "spec.minResources")
    for task, count in (spec.get("minTaskMember") or {}).items():
        if count < 0:
            yield invalid(f"spec.minTaskMember[{task}]", count, "must be greater than or equal to 0")


@validator
def validate_queue(queue: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(queue)
    guarantee = (spec.get("guarantee") or {}).get("resource") or {}
    shares = (("spec.guarantee.resource", guarantee), *((f"spec.{f}", spec.get(f)) for f in ("deserved", "capability")))
    for path, amounts in shares:
        yield from _check_not_negative(amounts, path)
    for (lower, low), (upper, high) in pairwise(shares):
        for name in (low or {}).keys() & (high or {}).keys():
            if parse_quantity((low or {})[name]) > parse_quantity((high or {})[name]):
                why = f"must be at most {upper}[{name}], which is {(high or {})[name]}"
                yield invalid(f"{lower}[{name}]", (low or {})[name], why)
    if spec.get("parent") and spec["parent"] == name_of(queue):
        yield invalid("spec.parent", spec["parent"], "a queue cannot be its own parent")


def _check_not_negative(resources: Object | None, path: str) -> Iterator[Cause]:
    for name, amount in (resources or {}).items():
        if parse_quantity(amount) < 0:
            yield invalid(f"{path}[{name}]", amount, "must be greater than or equal to 0")


# Jobs.


_COUNTS = (
    "parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)  # fmt: skip
_IMMUTABLE_FIELDS = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_SCHEDULING = frozenset({"nodeSelector", "affinity", "tolerations", "schedulingGates"})


@validator
def validate_job(job: Object, old: Object | None) -> Iterator[Cause]:
    spec, before = spec_of(job), spec_of(old or {})
    if old is None:
        yield from check_dns_label("metadata.name", name_of(job))
    elif spec is before:
        return
    if "template" not in spec:
        yield required("spec.template")
        return
    for field in _COUNTS:
        if spec.get(field) is not None and spec[field] < 0:
            yield invalid(f"spec.{field}", spec[field], "must be greater than or equal to 0")
    yield from _validate_indexes(spec)
    yield from _validate_failure_policy(spec)
    if old is None or spec.get("template") != before.get("template"):
        yield from _validate_template(spec)
    if spec.get("selector"):
        yield from validate_label_selector(spec["selector"], "spec.selector")
        yield from _validate_selector(spec)
    if old is not None:
        yield from check_unchanged(spec, before, _IMMUTABLE_FIELDS, "spec.")
        yield from _validate_template_update(spec, before)
        elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
        if not elastic:
            yield from check_unchanged(spec, before, ("completions",), "spec.")


def _validate_indexes(spec: Object) -> Iterator[Cause]:
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and spec.get("completions") is None:
        yield required("spec.completions", "when completion mode is Indexed")
    for field in ("backoffLimitPerIndex", "successPolicy"):
        if spec.get(field) is not None and not indexed:
            yield invalid(f"spec.{field}", spec[field], "requires indexed completion mode")
    if spec.get("maxFailedIndexes") is not None:
        if spec.get("backoffLimitPerIndex") is None:
            yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
        if spec.get("completions") is not None and spec["maxFailedIndexes"] > spec["completions"]:
            yield invalid(
                "spec.maxFailedIndexes", spec["maxFailedIndexes"], "must be less than or equal to completions"
            )


def _validate_failure_policy(spec: Object) -> Iterator[Cause]:
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    restart = spec_of(spec.get("template") or {}).get("restartPolicy")
    if restart != "Never":
        yield invalid(
            "spec.template.spec.restartPolicy", restart, "only 'Never' is supported when podFailurePolicy is set"
        )
    for number, entry in enumerate(policy["rules"]):
        at = f"spec.podFailurePolicy.rules[{number}]"
        codes, conditions = entry.get("onExitCodes"), entry.get("onPodConditions")
        if bool(codes) == bool(conditions):
            yield invalid(at, entry, "specifying one of OnExitCodes and OnPodConditions is required, and not both")
        if codes and not codes["values"]:
            yield invalid(f"{at}.onExitCodes.values", [], "at least one value is required")
        if codes and codes["operator"] == "In" and 0 in codes["values"]:
            yield invalid(f"{at}.onExitCodes.values", 0, "must not be 0 for the In operator")
        if entry["action"] == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield invalid(f"{at}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")


def _validate_template(spec: Object) -> Iterator[Cause]:
    template = spec["template"]
    yield from validate_pod_template(template, "spec.template")
    restart = spec_of(template).get("restartPolicy")
    if restart not in ("OnFailure", "Never") and template.get("spec") is not None:
        yield not_supported("spec.template.spec.restartPolicy", restart or "", ["OnFailure", "Never"])


def _validate_selector(spec: Object) -> Iterator[Cause]:
    wanted = spec["selector"].get("matchLabels") or {}
    labels = labels_of(spec["template"])
    if any(labels.get(key) != value for key, value in wanted.items()):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _validate_template_update(spec: Object, before: Object) -> Iterator[Cause]:
    """The template is immutable, except for where the Pods of a suspended Job may run."""
    new, was = spec.get("template") or {}, before.get("template") or {}
    if new == was:
        return
    if before.get("suspend") and _without(new) == _without(was):
        return
    yield invalid("spec.template", name_of(new), "field is immutable; delete the Job and create it again")


def _without(template: Object) -> Object:
    spec = {key: value for key, value in spec_of(template).items() if key not in _SCHEDULING}
    return {**template, "metadata": None, "spec": spec}


# PersistentVolumes and PersistentVolumeClaims.


_NOT_A_SOURCE = frozenset({
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
})  # fmt: skip
_SOURCES = tuple(sorted(upstream_schema("core.v1.PersistentVolumeSpec")["properties"].keys() - _NOT_A_SOURCE))
_CLAIM_IMMUTABLE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


@validator
def validate_persistent_volume(volume: Object, old: Object | None) -> Iterator[Cause]:
    spec, before = spec_of(volume), spec_of(old or {})
    if old is not None and spec is before:
        return
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "such as [ReadWriteOnce]")
    yield from _validate_storage((spec.get("capacity") or {}).get("storage"), "spec.capacity[storage]")
    sources = [source for source in _SOURCES if spec.get(source) is not None]
    if not sources:
        yield required("spec", "must specify a volume type, such as hostPath")
    for extra in sources[1:]:
        yield forbidden(f"spec.{extra}", f"may not specify more than 1 volume type: there is {sources[0]} already")
    if spec.get("hostPath") and not spec["hostPath"]["path"]:
        yield required("spec.hostPath.path")
    elif spec.get("hostPath") and ".." in spec["hostPath"]["path"].split("/"):
        yield invalid("spec.hostPath.path", spec["hostPath"]["path"], "must not contain '..'")
    affinity = (spec.get("nodeAffinity") or {}).get("required")
    if affinity is not None:
        yield from validate_node_selector(affinity, "spec.nodeAffinity.required")
    elif spec.get("local"):
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
    if spec.get("storageClassName"):
        yield from check_dns_name("spec.storageClassName", spec["storageClassName"])
    if old is not None:
        for source in _SOURCES:
            if spec.get(source) != before.get(source):
                yield forbidden(f"spec.{source}", "spec.persistentvolumesource is immutable after creation")


@validator
def validate_persistent_volume_claim(claim: Object, old: Object | None) -> Iterator[Cause]:
    spec, before = spec_of(claim), spec_of(old or {})
    if old is not None and spec is before:
        return
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required, such as [ReadWriteOnce]")
    elif "ReadWriteOncePod" in spec["accessModes"] and len(spec["accessModes"]) > 1:
        why = "may not use ReadWriteOncePod with other access modes"
        yield forbidden("spec.accessModes", why)
    wanted = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    yield from _validate_storage(wanted, "spec.resources.requests[storage]")
    if spec.get("storageClassName"):
        yield from check_dns_name("spec.storageClassName", spec["storageClassName"])
    if old is not None:
        yield from _validate_claim_update(spec, before)


def _validate_storage(amount: str | None, field: str) -> Iterator[Cause]:
    if amount is None:
        yield required(field, "say how much, such as 1Gi")
    elif parse_quantity(amount) <= 0:
        yield invalid(field, amount, "must be greater than zero")


def _validate_claim_update(spec: Object, before: Object) -> Iterator[Cause]:
    for field in sorted({*spec, *before}):
        new, was = spec.get(field), before.get(field)
        if new == was or field == "volumeAttributesClassName":
            continue
        # This is how a claim is bound, or gets the default class.
        if field in ("volumeName", "storageClassName") and not was:
            continue
        if field != "resources":
            yield forbidden(f"spec.{field}", _CLAIM_IMMUTABLE)
            continue
        asked = parse_quantity(((new or {}).get("requests") or {}).get("storage") or 0)
        had = parse_quantity(((was or {}).get("requests") or {}).get("storage") or 0)
        if asked < had:
            yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
        elif not before.get("volumeName"):
            yield forbidden("spec.resources", _CLAIM_IMMUTABLE)
