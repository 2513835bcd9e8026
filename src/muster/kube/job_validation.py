"""The rules of Jobs that their schema cannot say."""

from __future__ import annotations

from collections.abc import Iterator

from muster.kube.causes import invalid, not_supported, required
from muster.kube.errors import Cause
from muster.kube.names import dns_label
from muster.kube.objects import Object, labels_of, name_of, spec_of
from muster.kube.placement_validation import validate_label_selector
from muster.kube.pod_validation import validate_pod_template
from muster.kube.validation import rule, unchanged

_COUNTS = (
    "parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)  # fmt: skip
_FIXED = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SCHEDULING = frozenset({"nodeSelector", "affinity", "tolerations", "schedulingGates"})


@rule
def job_rule(job: Object, old: Object | None) -> Iterator[Cause]:
    spec, before = spec_of(job), spec_of(old or {})
    if old is None:
        yield from dns_label("metadata.name", name_of(job))
    elif spec is before:
        return
    if "template" not in spec:
        yield required("spec.template")
        return
    for field in _COUNTS:
        if spec.get(field) is not None and spec[field] < 0:
            yield invalid(f"spec.{field}", spec[field], "must be greater than or equal to 0")
    yield from _indexes(spec)
    yield from _failure_policy(spec)
    if old is None or spec.get("template") != before.get("template"):
        yield from _template(spec)
    if spec.get("selector"):
        yield from validate_label_selector(spec["selector"], "spec.selector")
        yield from _own_pods(spec)
    if old is not None:
        yield from unchanged(spec, before, _FIXED, "spec.")
        yield from _template_changes(spec, before)
        elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
        if not elastic:
            yield from unchanged(spec, before, ("completions",), "spec.")


def _indexes(spec: Object) -> Iterator[Cause]:
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


def _failure_policy(spec: Object) -> Iterator[Cause]:
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


def _template(spec: Object) -> Iterator[Cause]:
    template = spec["template"]
    yield from validate_pod_template(template, "spec.template")
    restart = spec_of(template).get("restartPolicy")
    if restart not in ("OnFailure", "Never") and template.get("spec") is not None:
        yield not_supported("spec.template.spec.restartPolicy", restart or "", ["OnFailure", "Never"])


def _own_pods(spec: Object) -> Iterator[Cause]:
    wanted = spec["selector"].get("matchLabels") or {}
    labels = labels_of(spec["template"])
    if any(labels.get(key) != value for key, value in wanted.items()):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _template_changes(spec: Object, before: Object) -> Iterator[Cause]:
    """Fixed, but for where a suspended Job's Pods may run."""
    new, was = spec.get("template") or {}, before.get("template") or {}
    if new == was:
        return
    if before.get("suspend") and _without(new) == _without(was):
        return
    yield invalid("spec.template", name_of(new), "field is immutable; delete the Job and create it anew")


def _without(template: Object) -> Object:
    spec = {key: value for key, value in spec_of(template).items() if key not in _SCHEDULING}
    return {**template, "metadata": None, "spec": spec}
