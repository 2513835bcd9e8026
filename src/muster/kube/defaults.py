"""What Kubernetes fills into the built-in kinds other than Pods."""

from __future__ import annotations

from base64 import b64encode

from muster.kube.objects import Object, labels_of, meta, name_of, uid_of
from muster.kube.pod_defaults import default_pod_template, fill, plain_resources, with_field
from muster.kube.schema import apply_defaults
from muster.kube.schemas_gangs import POD_GROUP_SCHEMA, QUEUE_SCHEMA

_RBAC_GROUP = "rbac.authorization.k8s.io"
_EXTERNAL = ("NodePort", "LoadBalancer")
_MOST_RETRIES = 2**31 - 1


def default_namespace(namespace: Object) -> Object:
    name = name_of(namespace)
    labels = labels_of(namespace)
    if name and labels.get("kubernetes.io/metadata.name") != name:
        labels = {**labels, "kubernetes.io/metadata.name": name}
        namespace = {**namespace, "metadata": {**meta(namespace), "labels": labels}}
    return _with_phase(namespace, "Active")


def default_node(node: Object) -> Object:
    status = node.get("status") or {}
    if status.get("allocatable") is None and status.get("capacity"):
        status = {**status, "allocatable": status["capacity"]}
        return {**node, "status": status}
    return node


def default_pod_template_object(template: Object) -> Object:
    inner = template.get("template")
    return template if inner is None else with_field(template, "template", default_pod_template(inner))


def default_service(service: Object) -> Object:
    spec = fill(service.get("spec") or {}, {"type": "ClusterIP", "sessionAffinity": "None"})
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec = {**spec, "clusterIPs": [spec["clusterIP"]]}
    if spec["type"] != "ExternalName":
        spec = fill(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] in _EXTERNAL or spec.get("externalIPs"):
        spec = fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        spec = {**spec, "allocateLoadBalancerNodePorts": True}
    if spec["sessionAffinity"] == "ClientIP" and not spec.get("sessionAffinityConfig"):
        spec = {**spec, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}
    ports = spec.get("ports") or []
    filled = [fill(port, {"protocol": "TCP", "targetPort": port.get("port")}) for port in ports]
    if any(new is not old for new, old in zip(filled, ports, strict=True)):
        spec = {**spec, "ports": filled}
    return with_field(service, "spec", spec)


def default_secret(secret: Object) -> Object:
    """`stringData` becomes part of `data`, where it wins."""
    filled = fill(secret, {"type": "Opaque"})
    if "stringData" not in filled:
        return filled
    plain = filled["stringData"] or {}
    encoded = {key: b64encode(text.encode()).decode() for key, text in plain.items()}
    filled = {key: value for key, value in filled.items() if key != "stringData"}
    return {**filled, "data": {**(filled.get("data") or {}), **encoded}} if encoded else filled


def default_persistent_volume(volume: Object) -> Object:
    spec = fill(volume.get("spec") or {}, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    if spec.get("capacity"):
        spec = with_field(spec, "capacity", plain_resources(spec["capacity"]))
    return _with_phase(with_field(volume, "spec", spec), "Pending")


def default_persistent_volume_claim(claim: Object) -> Object:
    spec = fill(claim.get("spec") or {}, {"volumeMode": "Filesystem"})
    resources = spec.get("resources")
    if resources and resources.get("requests"):
        spec = with_field(spec, "resources", with_field(resources, "requests", plain_resources(resources["requests"])))
    return _with_phase(with_field(claim, "spec", spec), "Pending")


def default_role_binding(binding: Object) -> Object:
    reference = binding.get("roleRef")
    if reference is not None:
        binding = with_field(binding, "roleRef", fill(reference, {"apiGroup": _RBAC_GROUP}))
    subjects = binding.get("subjects") or []
    filled = [s if s.get("kind") == "ServiceAccount" else fill(s, {"apiGroup": _RBAC_GROUP}) for s in subjects]
    if any(new is not old for new, old in zip(filled, subjects, strict=True)):
        binding = {**binding, "subjects": filled}
    return binding


def default_priority_class(priority: Object) -> Object:
    return fill(priority, {"preemptionPolicy": "PreemptLowerPriority"})


def default_storage_class(storage: Object) -> Object:
    return fill(storage, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def default_job(job: Object) -> Object:
    """Counts and policies, the template, and, once the Job has a uid, the selector that finds its own Pods."""
    spec = job.get("spec")
    if spec is None:
        return job
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec = {**spec, "completions": 1}
    failure_policy = spec.get("podFailurePolicy")
    missing = {
        "parallelism": 1,
        "backoffLimit": 6 if spec.get("backoffLimitPerIndex") is None else _MOST_RETRIES,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed" if failure_policy is None else "Failed",
    }
    missing = {key: value for key, value in missing.items() if spec.get(key) is None}
    if missing:
        spec = {**spec, **missing}
    template = spec.get("template")
    if template is not None:
        spec = with_field(spec, "template", default_pod_template(template))
        if not labels_of(job) and labels_of(template):
            job = {**job, "metadata": {**meta(job), "labels": labels_of(template)}}
    return with_field(job, "spec", _with_selector(spec, job))


def _with_selector(spec: Object, job: Object) -> Object:
    uid, template = uid_of(job), spec.get("template")
    if not uid or template is None or spec.get("selector") or spec.get("manualSelector"):
        return spec
    identity = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name_of(job),
        "controller-uid": uid,
        "job-name": name_of(job),
    }
    labels = {**labels_of(template), **identity}
    return {
        **spec,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "template": {**template, "metadata": {**meta(template), "labels": labels}},
    }


def default_pod_group(group: Object) -> Object:
    filled: Object = apply_defaults(group if group.get("spec") else {**group, "spec": {}}, POD_GROUP_SCHEMA)
    return filled


def default_queue(queue: Object) -> Object:
    filled: Object = apply_defaults(queue if queue.get("spec") else {**queue, "spec": {}}, QUEUE_SCHEMA)
    spec = filled["spec"]
    return filled if spec.get("reclaimable") is not None else {**filled, "spec": {**spec, "reclaimable": True}}


def default_custom_resource_definition(crd: Object) -> Object:
    spec = crd.get("spec")
    if spec is None:
        return crd
    names = spec.get("names")
    if names is not None and names.get("kind"):
        kind = names["kind"]
        spec = with_field(spec, "names", fill(names, {"singular": kind.lower(), "listKind": f"{kind}List"}))
    if not spec.get("conversion"):
        spec = {**spec, "conversion": {"strategy": "None"}}
    return with_field(crd, "spec", spec)


def _with_phase(obj: Object, phase: str) -> Object:
    status = obj.get("status") or {}
    return obj if status.get("phase") else {**obj, "status": {**status, "phase": phase}}
