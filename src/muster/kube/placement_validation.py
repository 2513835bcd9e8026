"""The rules for where a Pod may run: node selectors, affinity, tolerations, spreading, scheduling gates."""

from __future__ import annotations

from collections.abc import Iterator

from muster.kube.causes import duplicate, forbidden, invalid, not_supported, required
from muster.kube.errors import Cause
from muster.kube.names import LABEL_VALUE_RULE, QUALIFIED_RULE, is_label_value, is_qualified, labels
from muster.kube.objects import Object

_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def validate_placement(spec: Object, path: str) -> Iterator[Cause]:
    if spec.get("nodeSelector"):
        yield from labels(f"{path}.nodeSelector", spec["nodeSelector"])
    for number, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{number}]")
    if spec.get("affinity"):
        yield from _affinity(spec["affinity"], f"{path}.affinity")
    for number, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _spread(constraint, f"{path}.topologySpreadConstraints[{number}]")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")
    names: set[str] = set()
    for number, gate in enumerate(spec.get("schedulingGates") or ()):
        at = f"{path}.schedulingGates[{number}].name"
        if not is_qualified(gate["name"]):
            yield invalid(at, gate["name"], QUALIFIED_RULE)
        if gate["name"] in names:
            yield duplicate(at, gate["name"])
        names.add(gate["name"])


def validate_label_selector(selector: Object | None, path: str) -> Iterator[Cause]:
    """matchLabels and matchExpressions."""
    if not selector:
        return
    yield from labels(f"{path}.matchLabels", selector.get("matchLabels"))
    for number, rule in enumerate(selector.get("matchExpressions") or ()):
        yield from _requirement(rule, f"{path}.matchExpressions[{number}]")


def _requirement(rule: Object, path: str, *, any_value: bool = False) -> Iterator[Cause]:
    operator, values = rule["operator"], rule.get("values") or []
    if not is_qualified(rule["key"]):
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


def _toleration(toleration: Object, path: str) -> Iterator[Cause]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if key and not is_qualified(key):
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


def _affinity(affinity: Object, path: str) -> Iterator[Cause]:
    node = affinity.get("nodeAffinity") or {}
    if node.get(_REQUIRED) is not None:
        yield from validate_node_selector(node[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for number, term in enumerate(node.get(_PREFERRED) or ()):
        at = f"{path}.nodeAffinity.{_PREFERRED}[{number}]"
        yield from _weight(term, at)
        yield from _node_term(term["preference"], f"{at}.preference", any_value=True)
    for side in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(side) or {}
        for number, term in enumerate(pods.get(_REQUIRED) or ()):
            yield from _pod_term(term, f"{path}.{side}.{_REQUIRED}[{number}]")
        for number, term in enumerate(pods.get(_PREFERRED) or ()):
            at = f"{path}.{side}.{_PREFERRED}[{number}]"
            yield from _weight(term, at)
            yield from _pod_term(term["podAffinityTerm"], f"{at}.podAffinityTerm")


def validate_node_selector(selector: Object, path: str) -> Iterator[Cause]:
    if not selector["nodeSelectorTerms"]:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for number, term in enumerate(selector["nodeSelectorTerms"]):
        yield from _node_term(term, f"{path}.nodeSelectorTerms[{number}]")


def _weight(term: Object, path: str) -> Iterator[Cause]:
    if not 1 <= term["weight"] <= 100:
        yield invalid(f"{path}.weight", term["weight"], "must be in the range 1-100")


def _node_term(term: Object, path: str, *, any_value: bool = False) -> Iterator[Cause]:
    """`any_value`: a preference that no label can meet is taken all the same, as Kubernetes does."""
    for field in ("matchExpressions", "matchFields"):
        for number, rule in enumerate(term.get(field) or ()):
            at = f"{path}.{field}[{number}]"
            yield from _requirement(rule, at, any_value=any_value)
            if field == "matchFields":
                yield from _field_requirement(rule, at)


def _field_requirement(rule: Object, path: str) -> Iterator[Cause]:
    if rule["key"] != "metadata.name":
        yield invalid(f"{path}.key", rule["key"], "not a valid field selector key; only metadata.name is")
    if rule["operator"] not in ("In", "NotIn"):
        yield not_supported(f"{path}.operator", rule["operator"], ["In", "NotIn"])
    elif len(rule.get("values") or []) > 1:
        yield invalid(f"{path}.values", rule["values"], "must have exactly one value, the name of a node")


def _pod_term(term: Object, path: str) -> Iterator[Cause]:
    if not term["topologyKey"]:
        yield required(f"{path}.topologyKey", "can not be empty; kubernetes.io/hostname means one node")
    elif not is_qualified(term["topologyKey"]):
        yield invalid(f"{path}.topologyKey", term["topologyKey"], QUALIFIED_RULE)
    for field in ("labelSelector", "namespaceSelector"):
        yield from validate_label_selector(term.get(field), f"{path}.{field}")


def _spread(constraint: Object, path: str) -> Iterator[Cause]:
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
