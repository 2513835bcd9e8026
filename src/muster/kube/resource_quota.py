"""ResourceQuota and LimitRange: what objects use of a namespace's quota, and what a LimitRange fills in and forbids.

Pure functions. The embedded cluster calls them inside the transaction of a write (`embedded/store/quotas.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, TypeAlias

from muster.kube.container_validation import validate_resources
from muster.kube.defaults import plain_resources, qos_class
from muster.kube.errors import Cause, invalid, is_qualified_name, not_supported, required
from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.kube.quantity import format_quantity, parse_quantity
from muster.kube.validation import validator

Usage: TypeAlias = dict[str, Fraction]
"""Amounts by the names that `spec.hard` of a quota may have."""

EXCEEDED: Final = "exceeded quota"
"""In the message of the error about a quota that is used up. Clients, such as Argo, look for it and try again."""

PODS: Final = "pods"
CLAIMS: Final = "persistentvolumeclaims"
SERVICES: Final = "services"

COUNTED: Final = frozenset({
    PODS, SERVICES, CLAIMS, "configmaps", "secrets", "resourcequotas", "replicationcontrollers",
})  # fmt: skip
"""Resources with a plain name in a quota. All others, and these too, can be written as `count/jobs.batch`."""
_COMPUTE = frozenset({"cpu", "memory", "ephemeral-storage"})
_ENDED = ("Succeeded", "Failed")
_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
_SCOPES_WITHOUT_VALUES = frozenset({"Terminating", "NotTerminating", "BestEffort", "NotBestEffort"})
_LIMIT_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


# What a quota covers.


def usage_of(resource: str, obj: Object) -> Usage:
    """Returns what one object uses. `resource` is `Kind.resource`: `pods`, `jobs.batch`."""
    used: Usage = {f"count/{resource}": Fraction(1)}
    match resource:
        case "pods":
            used |= _pod_usage(obj)
        case "services":
            used |= {SERVICES: Fraction(1), **_service_usage(spec_of(obj))}
        case "persistentvolumeclaims":
            used |= _claim_usage(spec_of(obj))
        case _ if resource in COUNTED:
            used[resource] = Fraction(1)
    return used


def covers(quota: Object, resource: str, obj: Object) -> bool:
    """Whether the scopes of a quota match an object. A quota with scopes covers Pods alone."""
    rules = (spec_of(quota).get("scopeSelector") or {}).get("matchExpressions") or ()
    wanted = [
        *((scope, "Exists", ()) for scope in spec_of(quota).get("scopes") or ()),
        *((rule["scopeName"], rule["operator"], tuple(rule.get("values") or ())) for rule in rules),
    ]
    if not wanted:
        return True
    return resource == PODS and all(_in_scope(spec_of(obj), *scope) for scope in wanted)


def total_usage(quota: Object, objects: Iterable[tuple[str, Object]]) -> dict[str, str]:
    """Returns `status.used`: what all these objects, each with its resource, use of what the quota limits."""
    hard: Mapping[str, Any] = spec_of(quota).get("hard") or {}
    total = dict.fromkeys(hard, Fraction(0))
    for resource, obj in objects:
        if covers(quota, resource, obj):
            for name, amount in usage_of(resource, obj).items():
                if name in total:
                    total[name] += amount
    return {name: format_quantity(amount, str(hard[name])) for name, amount in total.items()}


def resources_limited_by(quota: Object) -> set[str]:
    """Returns the resources whose objects count for a quota: `pods`, `jobs.batch`."""
    found = set()
    for name in spec_of(quota).get("hard") or {}:
        if name.startswith("count/"):
            found.add(name.removeprefix("count/"))
        elif name in COUNTED:
            found.add(name)
        elif name.startswith("services."):
            found.add(SERVICES)
        elif name == "requests.storage" or _STORAGE_CLASS in name:
            found.add(CLAIMS)
        else:
            found.add(PODS)
    return found


def charge(quota: Object, resource: str, old: Object | None, new: Object) -> tuple[dict[str, str] | None, str]:
    """Returns the new `status.used` of a quota if `new` is stored (None if it stays), or why that is not allowed."""
    hard: Mapping[str, Any] = spec_of(quota).get("hard") or {}
    if not covers(quota, resource, new):
        return None, ""
    wanted = {name: amount for name, amount in usage_of(resource, new).items() if name in hard}
    if old is not None and covers(quota, resource, old):
        for name, amount in usage_of(resource, old).items():
            if name in wanted:
                wanted[name] -= amount
    elif resource == PODS and (missing := _unspecified(hard, spec_of(new))):
        return None, f"failed quota: {name_of(quota)}: {missing}"
    used = {name: parse_quantity(text) for name, text in (status_of(quota).get("used") or {}).items()}
    after = {name: used.get(name, Fraction(0)) + amount for name, amount in wanted.items() if amount}
    exceeded = [name for name in sorted(after) if wanted[name] > 0 and after[name] > parse_quantity(hard[name])]
    if exceeded:
        told = (
            f"{word}: "
            + ",".join(
                f"{name}={format_quantity(amounts.get(name, Fraction(0)), str(hard[name]))}" for name in exceeded
            )
            for word, amounts in (("requested", wanted), ("used", used))
        )
        limited = "limited: " + ",".join(f"{name}={hard[name]}" for name in exceeded)
        return None, f"{EXCEEDED}: {name_of(quota)}, {', '.join((*told, limited))}"
    if not after:
        return None, ""
    return {
        **(status_of(quota).get("used") or {}),
        **{name: format_quantity(amount, str(hard[name])) for name, amount in after.items()},
    }, ""


def _pod_usage(pod: Object) -> Usage:
    """A Pod that has ended uses nothing but its place among all Pods."""
    if status_of(pod).get("phase") in _ENDED:
        return {}
    used: Usage = {PODS: Fraction(1)}
    for side in ("requests", "limits"):
        for name, amount in pod_resources(spec_of(pod), side).items():
            if side == "requests":
                if name in _COMPUTE:
                    used[name] = amount
                used[f"requests.{name}"] = amount
            elif name in _COMPUTE or name.startswith("hugepages-"):
                used[f"limits.{name}"] = amount
    return used


def pod_resources(spec: Object, side: str) -> Usage:
    """Returns the sum over the containers, or the largest init container if that needs more; plus the overhead."""
    total: Usage = {}
    starting: Usage = {}
    for container in spec.get("containers") or ():
        _add(total, _side_of(container, side))
    sidecars: Usage = {}
    for container in spec.get("initContainers") or ():
        own = _side_of(container, side)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            own = sidecars
        else:
            own = dict(own)
            _add(own, sidecars)
        for name, amount in own.items():
            starting[name] = max(starting.get(name, Fraction(0)), amount)
    _add(total, sidecars)
    for name, amount in starting.items():
        total[name] = max(total.get(name, Fraction(0)), amount)
    total |= _side_of(spec, side)  # resources of the Pod as a whole replace those of its containers
    _add(total, {name: parse_quantity(text) for name, text in (spec.get("overhead") or {}).items()})
    return total


def _side_of(container: Object, side: str) -> Usage:
    given = (container.get("resources") or {}).get(side) or {}
    return {name: parse_quantity(text) for name, text in given.items()}


def _add(total: Usage, more: Usage) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _service_usage(spec: Object) -> Usage:
    kind, ports = spec.get("type") or "ClusterIP", len(spec.get("ports") or ())
    if kind == "NodePort":
        return {"services.nodeports": Fraction(ports)}
    if kind == "LoadBalancer":
        node_ports = ports if spec.get("allocateLoadBalancerNodePorts") is not False else 0
        return {"services.loadbalancers": Fraction(1), "services.nodeports": Fraction(node_ports)}
    return {}


def _claim_usage(spec: Object) -> Usage:
    used: Usage = {CLAIMS: Fraction(1)}
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    amount = parse_quantity(storage) if storage is not None else Fraction(0)
    used["requests.storage"] = amount
    if storage_class := spec.get("storageClassName"):
        used[f"{storage_class}{_STORAGE_CLASS}{CLAIMS}"] = Fraction(1)
        used[f"{storage_class}{_STORAGE_CLASS}requests.storage"] = amount
    return used


def _in_scope(spec: Object, scope: str, operator: str, values: tuple[str, ...]) -> bool:
    match scope:
        case "Terminating" | "NotTerminating":
            return (spec.get("activeDeadlineSeconds") is not None) == (scope == "Terminating")
        case "BestEffort" | "NotBestEffort":
            return (qos_class(spec) == "BestEffort") == (scope == "BestEffort")
        case "PriorityClass":
            name = spec.get("priorityClassName")
            match operator:
                case "In":
                    return name in values
                case "NotIn":
                    return name not in values
                case "Exists":
                    return bool(name)
            return not name
        case "CrossNamespacePodAffinity":
            return _reaches_other_namespaces(spec.get("affinity") or {}) == (operator == "Exists")
    return False


def _reaches_other_namespaces(affinity: Object) -> bool:
    for side in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(side) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [rule.get("podAffinityTerm") or {} for rule in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def _unspecified(hard: Mapping[str, Any], spec: Object) -> str:
    """Names the containers that leave out what the quota limits: without it, the quota could not be kept."""
    missing: dict[str, list[str]] = {}
    for name in sorted(hard):
        side, _, resource = (
            name.rpartition(".") if name.startswith(("requests.", "limits.")) else ("requests", "", name)
        )
        if resource not in ("cpu", "memory"):
            continue
        if resource in ((spec.get("resources") or {}).get(side) or {}):
            continue
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            if resource not in ((container.get("resources") or {}).get(side) or {}):
                missing.setdefault(container["name"], []).append(name)
    by_names: dict[str, list[str]] = {}
    for container, names in missing.items():
        by_names.setdefault(",".join(names), []).append(container)
    return "; ".join(f"must specify {names} for: {','.join(found)}" for names, found in by_names.items())


@validator
def validate_resource_quota(quota: Object, old: Object | None) -> Iterator[Cause]:
    for field in ("spec", "status"):
        for side, amounts in (quota.get(field) or {}).items():
            if side in ("hard", "used"):
                for name, amount in amounts.items():
                    at = f"{field}.{side}[{name}]"
                    if not is_qualified_name(name) and not is_qualified_name(name.removeprefix("count/")):
                        yield invalid(at, name, "must be the name of a resource, such as pods or requests.cpu")
                    elif parse_quantity(amount) < 0:
                        yield invalid(at, amount, "must be greater than or equal to 0")
    spec = spec_of(quota)
    if old is not None and (spec.get("scopes") or []) != (spec_of(old).get("scopes") or []):
        yield invalid("spec.scopes", spec.get("scopes"), "field is immutable")
    for number, rule in enumerate((spec.get("scopeSelector") or {}).get("matchExpressions") or ()):
        at = f"spec.scopeSelector.matchExpressions[{number}]"
        if rule["scopeName"] in _SCOPES_WITHOUT_VALUES and rule["operator"] != "Exists":
            yield invalid(f"{at}.operator", rule["operator"], f'must be "Exists" for the scope {rule["scopeName"]}')
        if rule["operator"] in ("In", "NotIn") and not rule.get("values"):
            yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")


def default_resource_quota(quota: Object) -> Object:
    hard = plain_resources(spec_of(quota).get("hard"))
    if hard is None or hard is spec_of(quota).get("hard"):
        return quota
    return {**quota, "spec": {**quota["spec"], "hard": hard}}


# LimitRanges.


def default_limit_range(limit_range: Object) -> Object:
    """For containers, a missing default limit is the maximum; a missing default request is the default limit, or the
    minimum."""
    limits = spec_of(limit_range).get("limits")
    if not isinstance(limits, list):
        return limit_range
    return {**limit_range, "spec": {**limit_range["spec"], "limits": [_default_limits(item) for item in limits]}}


def _default_limits(item: Object) -> Object:
    filled = {name: plain_resources(value) for name, value in item.items()}
    if item.get("type") != "Container":
        return filled
    default = {**(filled.get("max") or {}), **(filled.get("default") or {})}
    requests = {**(filled.get("min") or {}), **default, **(filled.get("defaultRequest") or {})}
    return filled | ({"default": default} if default else {}) | ({"defaultRequest": requests} if requests else {})


@validator
def validate_limit_range(limit_range: Object, old: Object | None) -> Iterator[Cause]:
    seen: set[str] = set()
    for number, item in enumerate(spec_of(limit_range).get("limits") or ()):
        at, kind = f"spec.limits[{number}]", item["type"]
        if kind in seen:
            yield Cause(f"{at}.type", f'Duplicate value: "{kind}"', "FieldValueDuplicate")
        seen.add(kind)
        if kind not in _LIMIT_TYPES and "/" not in kind:
            yield not_supported(f"{at}.type", kind, _LIMIT_TYPES)
        if kind == "Pod":
            for field in ("default", "defaultRequest"):
                if item.get(field):
                    yield Cause(
                        f"{at}.{field}", "Forbidden: may not be specified when `type` is 'Pod'", "FieldValueForbidden"
                    )
        if kind == "PersistentVolumeClaim" and not {**(item.get("min") or {}), **(item.get("max") or {})}.get(
            "storage"
        ):
            yield required(
                f"{at}.limits", "either minimum or maximum storage value is required, but neither was provided"
            )
        yield from _validate_limits(item, at)


def _validate_limits(item: Object, at: str) -> Iterator[Cause]:
    order = ("min", "defaultRequest", "default", "max")
    given = {field: item.get(field) or {} for field in order}
    for name in sorted({name for amounts in given.values() for name in amounts}):
        values = [(field, parse_quantity(given[field][name])) for field in order if name in given[field]]
        for (lower, low), (upper, high) in pairwise(values):
            if low > high:
                written = given[lower][name]
                yield invalid(
                    f"{at}.{lower}[{name}]",
                    written,
                    f"{lower} value {written} is greater than {upper} value {given[upper][name]}",
                )
    for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        if parse_quantity(ratio) < 1:
            yield invalid(f"{at}.maxLimitRequestRatio[{name}]", ratio, "ratio is less than 1")


def with_limit_defaults(limit_ranges: Iterable[Object], pod: Object) -> Object:
    """Returns a Pod with the default requests and limits of its namespace, and its class of service."""
    items = [item for each in limit_ranges for item in spec_of(each).get("limits") or () if item["type"] == "Container"]
    if not items:
        return pod
    spec = spec_of(pod)
    filled = {
        field: [_with_defaults(container, items) for container in spec[field]]
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    if all(filled[field] == spec[field] for field in filled):
        return pod
    spec = {**spec, **filled}
    return {**pod, "spec": spec, "status": {**status_of(pod), "qosClass": qos_class(spec)}}


def _with_defaults(container: Object, items: Iterable[Object]) -> Object:
    resources = container.get("resources") or {}
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    for item in items:
        for name, amount in (item.get("default") or {}).items():
            limits.setdefault(name, amount)
        for name, amount in (item.get("defaultRequest") or {}).items():
            requests.setdefault(name, amount)
    sides = {side: amounts for side, amounts in (("limits", limits), ("requests", requests)) if amounts}
    return {**container, "resources": {**resources, **sides}} if sides else container


def find_limit_violations(limit_ranges: Iterable[Object], resource: str, obj: Object) -> list[str]:
    """Returns what of a new Pod or claim the LimitRanges of its namespace forbid."""
    found: list[str] = []
    for each in limit_ranges:
        for item in spec_of(each).get("limits") or ():
            if resource == PODS and item["type"] == "Container":
                for field in ("initContainers", "containers"):
                    for container in spec_of(obj).get(field) or ():
                        found += _violations(item, _side_of(container, "requests"), _side_of(container, "limits"))
            elif resource == PODS and item["type"] == "Pod":
                found += _violations(
                    item, pod_resources(spec_of(obj), "requests"), pod_resources(spec_of(obj), "limits")
                )
            elif resource == CLAIMS and item["type"] == "PersistentVolumeClaim":
                found += _violations(item, _side_of(spec_of(obj), "requests"), _side_of(spec_of(obj), "requests"))
    return found


def _violations(item: Object, requests: Usage, limits: Usage) -> Iterator[str]:
    what = item["type"]
    for name, text in (item.get("min") or {}).items():
        if name not in requests:
            yield f"minimum {name} usage per {what} is {text}.  No request is specified"
        elif requests[name] < parse_quantity(text):
            yield f"minimum {name} usage per {what} is {text}, but request is {format_quantity(requests[name], text)}"
    for name, text in (item.get("max") or {}).items():
        most = parse_quantity(text)
        if name not in limits and name in requests and requests[name] > most:
            yield f"maximum {name} usage per {what} is {text}, but request is {format_quantity(requests[name], text)}"
        elif name not in limits:
            yield f"maximum {name} usage per {what} is {text}.  No limit is specified"
        elif limits[name] > most:
            yield f"maximum {name} usage per {what} is {text}, but limit is {format_quantity(limits[name], text)}"
    for name, text in (item.get("maxLimitRequestRatio") or {}).items():
        request, limit = requests.get(name), limits.get(name)
        if not request or not limit:
            yield f"{name} max limit to request ratio per {what} is {text}, but no request or limit is specified"
        elif limit / request > parse_quantity(text):
            shown = format_quantity(Fraction(int(limit / request * 1000), 1000))
            yield f"{name} max limit to request ratio per {what} is {text}, but provided ratio is {shown}"


def check_filled_resources(pod: Object) -> list[Cause]:
    """Returns what is wrong with the resources of a Pod whose defaults were filled in: a default limit may be below a
    request that the Pod has itself."""
    return [
        cause
        for field in ("initContainers", "containers")
        for number, container in enumerate(spec_of(pod).get(field) or ())
        for cause in validate_resources(container.get("resources") or {}, f"spec.{field}[{number}].resources")
    ]
