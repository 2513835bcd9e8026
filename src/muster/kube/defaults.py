"""The defaults that Kubernetes fills into Pods, Pod templates and the other built-in kinds.

All functions return the same object if nothing was missing, so calling them twice is cheap and changes nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from muster.kube.objects import Object, labels_of, meta, name_of, uid_of
from muster.kube.quantity import QuantityError, canonical_quantity, parse_quantity
from muster.kube.schema import apply_defaults, upstream_schema

DEFAULT_GRACE_SECONDS = 30

_SPEC = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP_GET = {"path": "/", "scheme": "HTTP"}
_MODE = {"defaultMode": 0o644}
_WITH_MODE = ("configMap", "secret", "downwardAPI", "projected")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_A_SOURCE = frozenset({"name"})


def default_pod(pod: Object) -> Object:
    """Returns a Pod with all defaults: those of its spec, a request equal to the limit where there is none, and the
    phase Pending."""
    spec = pod.get("spec")
    filled = pod
    if spec is not None:
        new = default_pod_spec(spec)
        for field in ("containers", "initContainers"):
            new = _map_items(new, field, _request_limits)
        if new.get("hostNetwork"):
            for field in ("containers", "initContainers"):
                new = _map_items(new, field, _host_ports)
        if new.get("enableServiceLinks") is None or not new.get("serviceAccountName"):
            new = {"enableServiceLinks": True, "serviceAccountName": "default", "serviceAccount": "default", **new}
        filled = with_field(filled, "spec", new)
    status = filled.get("status") or {}
    if status.get("phase"):
        return filled
    return {**filled, "status": {**status, "phase": "Pending", "qosClass": qos_class(filled.get("spec") or {})}}


def qos_class(spec: Mapping[str, Any]) -> str:
    """Returns the quality-of-service class: Guaranteed, Burstable or BestEffort."""
    requests, guaranteed = False, True
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        limits, requested = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit, request = _amount(limits.get(name)), _amount(requested.get(name))
            requests = requests or bool(limit or request)
            guaranteed = guaranteed and bool(limit) and request in (0, limit)
    if not requests:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(quantity: Any) -> float:
    try:
        return float(parse_quantity(quantity)) if quantity else 0.0
    except QuantityError:  # the schema validation reports it
        return 0.0


API_ACCESS_VOLUME = "kube-api-access-token"
API_ACCESS_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
API_ACCESS = {
    "name": API_ACCESS_VOLUME,
    "projected": {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
            ]}},
        ],
    },
}  # fmt: skip
_API_ACCESS_MOUNT = {"name": API_ACCESS_VOLUME, "readOnly": True, "mountPath": API_ACCESS_FOLDER}


def add_api_access(spec: Object) -> Object:
    """Adds the volume with the token of the Pod's service account to the containers that mount nothing in its place.
    Kubernetes gives it a random name. Here it always has the same, so that all Pods share it in memory."""
    if spec.get("automountServiceAccountToken") is False:
        return spec
    if any(volume["name"] == API_ACCESS_VOLUME for volume in spec.get("volumes") or ()):
        return spec
    filled = spec
    for field in ("containers", "initContainers"):
        if field in spec:
            filled = _map_items(filled, field, _mount_api_access)
    return filled if filled is spec else {**filled, "volumes": [*(spec.get("volumes") or ()), API_ACCESS]}


def remove_api_access(spec: Object) -> Object:
    """Undoes `add_api_access`: a Pod may be created from a copy of another one."""
    volumes = spec.get("volumes")
    if not isinstance(volumes, list) or API_ACCESS not in volumes:
        return spec
    removed = {**spec, "volumes": [volume for volume in volumes if volume != API_ACCESS]}
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            removed[field] = [_without_api_access(container) for container in spec[field]]
    return removed


def _mount_api_access(container: Object) -> Object:
    mounts = container.get("volumeMounts") or ()
    if any(mount.get("mountPath") == API_ACCESS_FOLDER for mount in mounts):
        return container
    return {**container, "volumeMounts": [*mounts, _API_ACCESS_MOUNT]}


def _without_api_access(container: Any) -> Any:
    mounts = container.get("volumeMounts") if isinstance(container, dict) else None
    if not isinstance(mounts, list) or _API_ACCESS_MOUNT not in mounts:
        return container
    return {**container, "volumeMounts": [mount for mount in mounts if mount != _API_ACCESS_MOUNT]}


def default_pod_template(template: Object) -> Object:
    """Fills in the spec of a `{metadata, spec}` template."""
    spec = template.get("spec")
    return template if spec is None else with_field(template, "spec", default_pod_spec(spec))


def default_pod_spec(spec: Object) -> Object:
    """Fills in the spec of a Pod template. `default_pod` adds the defaults that only a Pod itself has."""
    filled = fill(spec, _SPEC)
    if filled.get("securityContext") is None or filled.get("terminationGracePeriodSeconds") is None:
        context, grace = filled.get("securityContext"), filled.get("terminationGracePeriodSeconds")
        filled = {
            **filled,
            "securityContext": {} if context is None else context,
            "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS if grace is None else grace,
        }
    if filled["terminationGracePeriodSeconds"] < 0:  # accepted by Kubernetes, and means as soon as possible
        filled = {**filled, "terminationGracePeriodSeconds": 1}
    account = filled.get("serviceAccountName") or filled.get("serviceAccount")
    if account:
        filled = fill(filled, {"serviceAccountName": account, "serviceAccount": account})
    for field in ("containers", "initContainers", "ephemeralContainers"):
        filled = _map_items(filled, field, _default_container)
    filled = _map_items(filled, "volumes", _default_volume)
    if "overhead" in filled:
        filled = with_field(filled, "overhead", plain_resources(filled["overhead"]))
    return _map_field(filled, "resources", _default_resources)


def fill(value: Object, defaults: Mapping[str, Any]) -> Object:
    """Adds these fields where they are missing or empty, which Kubernetes does not distinguish."""
    missing = {key: default for key, default in defaults.items() if not value.get(key)}
    return {**value, **missing} if missing else value


def with_field(value: Object, field: str, new: Any) -> Object:
    return value if value.get(field) is new else {**value, field: new}


def plain_resources(resources: Any) -> Any:
    """Returns quantities in the form that Kubernetes stores: `0.5` -> `500m`, the number 2 -> `"2"`."""
    if not isinstance(resources, dict):
        return resources
    plain = {name: _plain_quantity(value) for name, value in resources.items()}
    return resources if plain == resources and all(type(v) is str for v in resources.values()) else plain


def _plain_quantity(value: Any) -> Any:
    return _canonical(str(value)) if type(value) in (str, int, float) else value


@lru_cache(maxsize=16384)
def _canonical(text: str) -> str:
    try:
        return canonical_quantity(text)
    except QuantityError:  # the schema validation reports it, with the field's path
        return text


def _map_items(value: Object, field: str, change: Callable[[Object], Object]) -> Object:
    items = value.get(field)
    if not items:
        return value
    changed = [change(item) for item in items]
    return value if all(new is old for new, old in zip(changed, items, strict=True)) else {**value, field: changed}


def _map_field(value: Object, field: str, change: Callable[[Object], Object]) -> Object:
    inner = value.get(field)
    return value if inner is None else with_field(value, field, change(inner))


def _default_resources(resources: Object) -> Object:
    for field in ("limits", "requests"):
        if resources.get(field):
            resources = with_field(resources, field, plain_resources(resources[field]))
    return resources


def _default_container(container: Object) -> Object:
    filled = fill(container, _CONTAINER)
    if not filled.get("imagePullPolicy"):
        filled = {**filled, "imagePullPolicy": pull_policy(str(filled.get("image") or ""))}
    filled = _map_field(filled, "resources", _default_resources)
    filled = _map_items(filled, "ports", _default_port)
    filled = _map_items(filled, "env", _default_env)
    for field in _PROBES:
        filled = _map_field(filled, field, _default_probe)
    return _map_field(filled, "lifecycle", _default_lifecycle)


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """Returns Always for `:latest` or no tag, otherwise IfNotPresent."""
    name, digest, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _default_port(port: Object) -> Object:
    return port if port.get("protocol") else {**port, "protocol": "TCP"}


def _default_env(env: Object) -> Object:
    return _map_field(env, "valueFrom", _default_references)


def _default_references(source: Object) -> Object:
    """Fills in the references of an environment variable, or of a file of the downward API."""
    return _map_field(_map_field(source, "fieldRef", _default_field_ref), "resourceFieldRef", _default_resource_ref)


def _default_field_ref(reference: Object) -> Object:
    return reference if reference.get("apiVersion") else {"apiVersion": "v1", **reference}


def _default_resource_ref(reference: Object) -> Object:
    divisor = reference.get("divisor")
    return with_field(reference, "divisor", "0" if divisor is None else _plain_quantity(divisor))


def _default_probe(probe: Object) -> Object:
    return _default_handler(fill(probe, _PROBE))


def _default_handler(handler: Object) -> Object:
    handler = _map_field(handler, "httpGet", lambda action: fill(action, _HTTP_GET))
    return _map_field(handler, "grpc", lambda action: action if "service" in action else {**action, "service": ""})


def _default_lifecycle(lifecycle: Object) -> Object:
    for field in ("postStart", "preStop"):
        lifecycle = _map_field(lifecycle, field, _default_handler)
    return lifecycle


def _default_volume(volume: Object) -> Object:
    if volume.keys() <= _NOT_A_SOURCE:
        return {**volume, "emptyDir": {}}
    for field in _WITH_MODE:
        source = volume.get(field)
        if source is not None and source.get("defaultMode") is None:
            volume = {**volume, field: {**source, **_MODE}}
    volume = _map_field(volume, "downwardAPI", _default_downward)
    volume = _map_field(volume, "projected", lambda source: _map_items(source, "sources", _default_projection))
    volume = _map_field(volume, "emptyDir", _default_empty_dir)
    volume = _map_field(volume, "ephemeral", lambda source: _map_field(source, "volumeClaimTemplate", _default_claim))
    host_path = volume.get("hostPath")
    if host_path is not None and host_path.get("type") is None:
        volume = {**volume, "hostPath": {**host_path, "type": ""}}
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        volume = {**volume, "image": {**image, "pullPolicy": pull_policy(str(image.get("reference") or ""))}}
    return volume


def _default_empty_dir(source: Object) -> Object:
    limit = source.get("sizeLimit")
    return source if limit is None else with_field(source, "sizeLimit", _plain_quantity(limit))


def _default_claim(template: Object) -> Object:
    return _map_field(template, "spec", lambda spec: fill(spec, {"volumeMode": "Filesystem"}))


def _default_downward(source: Object) -> Object:
    return _map_items(source, "items", _default_references)


def _default_projection(source: Object) -> Object:
    source = _map_field(source, "downwardAPI", _default_downward)
    return _map_field(source, "serviceAccountToken", lambda token: fill(token, {"expirationSeconds": 3600}))


def _request_limits(container: Object) -> Object:
    resources: Object = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return container
    requests = resources.get("requests") or {}
    missing = {name: value for name, value in limits.items() if name not in requests}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**requests, **missing}}}


def _host_ports(container: Object) -> Object:
    def default(port: Object) -> Object:
        return port if port.get("hostPort") else {**port, "hostPort": port.get("containerPort")}

    return _map_items(container, "ports", default)


# The other built-in kinds.


_RBAC_GROUP = "rbac.authorization.k8s.io"
_EXTERNAL = ("NodePort", "LoadBalancer")
_MAX_RETRIES = 2**31 - 1


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


def default_endpoints(endpoints: Object) -> Object:
    return _map_items(endpoints, "subsets", lambda subset: _map_items(subset, "ports", _default_protocol))


def default_endpoint_slice(endpoint_slice: Object) -> Object:
    """A missing name of a port is the empty one, and an endpoint that does not say so is ready."""
    return _map_items(endpoint_slice, "ports", lambda port: _default_protocol({"name": "", **port}))


def _default_protocol(port: Object) -> Object:
    return fill(port, {"protocol": "TCP"})


def default_secret(secret: Object) -> Object:
    """Merges `stringData` into `data`, where it takes precedence."""
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
    """Fills in counts and policies, the template and, once the Job has a uid, the selector of its Pods."""
    spec = job.get("spec")
    if spec is None:
        return job
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec = {**spec, "completions": 1}
    failure_policy = spec.get("podFailurePolicy")
    missing = {
        "parallelism": 1,
        "backoffLimit": 6 if spec.get("backoffLimitPerIndex") is None else _MAX_RETRIES,
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
    filled: Object = apply_defaults(
        group if group.get("spec") else {**group, "spec": {}}, upstream_schema("volcano.v1beta1.PodGroup")
    )
    return filled


def default_queue(queue: Object) -> Object:
    filled: Object = apply_defaults(
        queue if queue.get("spec") else {**queue, "spec": {}}, upstream_schema("volcano.v1beta1.Queue")
    )
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
