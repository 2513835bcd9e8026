"""The built-in kinds: those of every cluster, and the gang-scheduling kinds of Volcano and the scheduler plugins."""

from __future__ import annotations

from typing import Final

from muster.kube import columns, defaults, resource_quota, validation
from muster.kube.columns import POD_COLUMNS
from muster.kube.crd import validate_crd
from muster.kube.defaults import default_pod, default_pod_spec, default_pod_template
from muster.kube.event_versions import from_core_event, newer_column, to_core_event, validate_newer_event
from muster.kube.kinds import Catalogue, Conversion, Kind
from muster.kube.pod_validation import validate_pod_spec, validate_pod_template
from muster.kube.schema import upstream_schema
from muster.kube.selectors import SelectableField
from muster.kube.tables import AGE, CREATED_AT
from muster.kube.validation import validate_job, validate_persistent_volume, validate_persistent_volume_claim

__all__ = [
    "POD_SPEC_SCHEMA", "POD_TEMPLATE_SCHEMA", "builtin_kinds", "default_pod_spec", "default_pod_template",
    "new_catalogue", "validate_pod_spec", "validate_pod_template",
]  # fmt: skip

_RBAC = "rbac.authorization.k8s.io"
_VOLCANO = "scheduling.volcano.sh"

POD_SPEC_SCHEMA: Final = upstream_schema("core.v1.PodSpec")
POD_TEMPLATE_SCHEMA: Final = upstream_schema("core.v1.PodTemplateSpec")


def _fields(*paths: str, **named: SelectableField) -> dict[str, SelectableField]:
    return {path: SelectableField(path) for path in paths} | named


_POD_FIELDS = {
    **_fields("spec.nodeName", "spec.restartPolicy", "spec.schedulerName"),
    **_fields("status.phase", "status.podIP", "status.nominatedNodeName"),
    "spec.serviceAccountName": SelectableField("spec.serviceAccountName", "default"),
    "spec.hostNetwork": SelectableField("spec.hostNetwork", "false"),
}
_EVENT_FIELDS = _fields(
    *(f"involvedObject.{name}" for name in
      ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")),
    "reason", "reportingComponent", "type", source=SelectableField("source.component", instead="reportingComponent"),
)  # fmt: skip


def _newer(field: str) -> str:
    """Returns the name of a field of Events in events.k8s.io/v1."""
    return field.replace("involvedObject.", "regarding.").replace("reportingComponent", "reportingController")


NAMESPACE: Final = Kind(
    "", "v1", "Namespace", "namespaces", namespaced=False, short_names=("ns",),
    schema=upstream_schema("core.v1.Namespace"), columns=columns.NAMESPACE_COLUMNS,
    default=defaults.default_namespace, validate=validation.validate_metadata,
    selectable_fields=_fields("status.phase"),
)  # fmt: skip
NODE: Final = Kind(
    "", "v1", "Node", "nodes", namespaced=False, short_names=("no",),
    schema=upstream_schema("core.v1.Node"), columns=columns.NODE_COLUMNS,
    default=defaults.default_node, validate=validation.validate_node,
    selectable_fields={"spec.unschedulable": SelectableField("spec.unschedulable", "false")},
)  # fmt: skip
POD: Final = Kind(
    "", "v1", "Pod", "pods", short_names=("po",), categories=("all",),
    schema=upstream_schema("core.v1.Pod"), columns=POD_COLUMNS,
    default=default_pod, validate=validation.validate_pod_object,
    selectable_fields=_POD_FIELDS,
)  # fmt: skip
POD_TEMPLATE: Final = Kind(
    "", "v1", "PodTemplate", "podtemplates",
    schema=upstream_schema("core.v1.PodTemplate"), columns=columns.POD_TEMPLATE_COLUMNS, has_status=False,
    default=defaults.default_pod_template_object, validate=validation.validate_pod_template_object,
)  # fmt: skip
SERVICE: Final = Kind(
    "", "v1", "Service", "services", short_names=("svc",), categories=("all",),
    schema=upstream_schema("core.v1.Service"), columns=columns.SERVICE_COLUMNS,
    default=defaults.default_service, validate=validation.validate_service,
    selectable_fields=_fields("spec.clusterIP", "spec.type"),
)  # fmt: skip
CONFIG_MAP: Final = Kind(
    "", "v1", "ConfigMap", "configmaps", short_names=("cm",),
    schema=upstream_schema("core.v1.ConfigMap"), columns=columns.CONFIG_MAP_COLUMNS, has_status=False,
    validate=validation.validate_config_map,
)  # fmt: skip
SECRET: Final = Kind(
    "", "v1", "Secret", "secrets",
    schema=upstream_schema("core.v1.Secret"), columns=columns.SECRET_COLUMNS, has_status=False,
    default=defaults.default_secret, validate=validation.validate_secret,
    selectable_fields=_fields("type"),
)  # fmt: skip
PERSISTENT_VOLUME: Final = Kind(
    "", "v1", "PersistentVolume", "persistentvolumes", namespaced=False, short_names=("pv",),
    schema=upstream_schema("core.v1.PersistentVolume"), columns=columns.PERSISTENT_VOLUME_COLUMNS,
    default=defaults.default_persistent_volume, validate=validate_persistent_volume,
)  # fmt: skip
PERSISTENT_VOLUME_CLAIM: Final = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", short_names=("pvc",),
    schema=upstream_schema("core.v1.PersistentVolumeClaim"), columns=columns.PERSISTENT_VOLUME_CLAIM_COLUMNS,
    default=defaults.default_persistent_volume_claim, validate=validate_persistent_volume_claim,
)  # fmt: skip
SERVICE_ACCOUNT: Final = Kind(
    "", "v1", "ServiceAccount", "serviceaccounts", short_names=("sa",),
    schema=upstream_schema("core.v1.ServiceAccount"), columns=(AGE,), has_status=False,
    validate=validation.validate_metadata,
)  # fmt: skip
EVENT: Final = Kind(
    "", "v1", "Event", "events", short_names=("ev",),
    schema=upstream_schema("core.v1.Event"), columns=columns.EVENT_COLUMNS, has_status=False,
    validate=validation.validate_event, selectable_fields=_EVENT_FIELDS,
)  # fmt: skip
NEWER_EVENT: Final = Kind(
    "events.k8s.io", "v1", "Event", "events", short_names=("ev",),
    schema=upstream_schema("events.v1.Event"), columns=tuple(map(newer_column, columns.EVENT_COLUMNS)),
    has_status=False, validate=validate_newer_event,
    selectable_fields={
        _newer(field): selectable for field, selectable in _EVENT_FIELDS.items() if field != "source"
    },
    conversion=Conversion(EVENT, to_core_event, from_core_event),
)  # fmt: skip
ROLE: Final = Kind(
    _RBAC, "v1", "Role", "roles", schema=upstream_schema("rbac.v1.Role"), columns=(CREATED_AT,), has_status=False,
    validate=validation.validate_role,
)  # fmt: skip
ROLE_BINDING: Final = Kind(
    _RBAC, "v1", "RoleBinding", "rolebindings",
    schema=upstream_schema("rbac.v1.RoleBinding"), columns=columns.ROLE_BINDING_COLUMNS, has_status=False,
    default=defaults.default_role_binding, validate=validation.validate_role_binding,
)  # fmt: skip
CLUSTER_ROLE: Final = Kind(
    _RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False,
    schema=upstream_schema("rbac.v1.ClusterRole"), columns=(CREATED_AT,), has_status=False,
    validate=validation.validate_role,
)  # fmt: skip
CLUSTER_ROLE_BINDING: Final = Kind(
    _RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False,
    schema=upstream_schema("rbac.v1.ClusterRoleBinding"), columns=columns.ROLE_BINDING_COLUMNS, has_status=False,
    default=defaults.default_role_binding, validate=validation.validate_role_binding,
)  # fmt: skip
PRIORITY_CLASS: Final = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, short_names=("pc",),
    schema=upstream_schema("scheduling.v1.PriorityClass"), columns=columns.PRIORITY_CLASS_COLUMNS, has_status=False,
    default=defaults.default_priority_class, validate=validation.validate_priority_class,
)  # fmt: skip
STORAGE_CLASS: Final = Kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, short_names=("sc",),
    schema=upstream_schema("storage.v1.StorageClass"), columns=columns.STORAGE_CLASS_COLUMNS, has_status=False,
    default=defaults.default_storage_class, validate=validation.validate_storage_class,
)  # fmt: skip
JOB: Final = Kind(
    "batch", "v1", "Job", "jobs", categories=("all",),
    schema=upstream_schema("batch.v1.Job"), columns=columns.JOB_COLUMNS,
    default=defaults.default_job, validate=validate_job,
    selectable_fields={"status.successful": SelectableField("status.succeeded", "0")},
)  # fmt: skip
LEASE: Final = Kind(
    "coordination.k8s.io", "v1", "Lease", "leases",
    schema=upstream_schema("coordination.v1.Lease"), columns=columns.LEASE_COLUMNS, has_status=False,
    validate=validation.validate_lease,
)  # fmt: skip
ENDPOINTS: Final = Kind(
    "", "v1", "Endpoints", "endpoints", short_names=("ep",),
    schema=upstream_schema("core.v1.Endpoints"), columns=columns.ENDPOINTS_COLUMNS, has_status=False,
    default=defaults.default_endpoints, validate=validation.validate_endpoints,
)  # fmt: skip
ENDPOINT_SLICE: Final = Kind(
    "discovery.k8s.io", "v1", "EndpointSlice", "endpointslices",
    schema=upstream_schema("discovery.v1.EndpointSlice"), columns=columns.ENDPOINT_SLICE_COLUMNS, has_status=False,
    default=defaults.default_endpoint_slice, validate=validation.validate_endpoint_slice,
)  # fmt: skip
RESOURCE_QUOTA: Final = Kind(
    "", "v1", "ResourceQuota", "resourcequotas", short_names=("quota",),
    schema=upstream_schema("core.v1.ResourceQuota"), columns=columns.RESOURCE_QUOTA_COLUMNS,
    default=resource_quota.default_resource_quota, validate=resource_quota.validate_resource_quota,
)  # fmt: skip
LIMIT_RANGE: Final = Kind(
    "", "v1", "LimitRange", "limitranges", short_names=("limits",),
    schema=upstream_schema("core.v1.LimitRange"), columns=(CREATED_AT,), has_status=False,
    default=resource_quota.default_limit_range, validate=resource_quota.validate_limit_range,
)  # fmt: skip
POD_GROUP: Final = Kind(
    _VOLCANO, "v1beta1", "PodGroup", "podgroups", short_names=("pg", "podgroup-v1beta1"),
    schema=upstream_schema("volcano.v1beta1.PodGroup"), columns=columns.POD_GROUP_COLUMNS,
    default=defaults.default_pod_group, validate=validation.validate_pod_group,
)  # fmt: skip
QUEUE: Final = Kind(
    _VOLCANO, "v1beta1", "Queue", "queues", namespaced=False, short_names=("q", "queue-v1beta1"),
    schema=upstream_schema("volcano.v1beta1.Queue"), columns=columns.QUEUE_COLUMNS,
    default=defaults.default_queue, validate=validation.validate_queue,
)  # fmt: skip
PLUGIN_POD_GROUP: Final = Kind(
    "scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", short_names=("pg", "pgs"),
    schema=upstream_schema("scheduler-plugins.v1alpha1.PodGroup"), columns=columns.PLUGIN_POD_GROUP_COLUMNS,
    validate=validation.validate_pod_group,
)  # fmt: skip
CUSTOM_RESOURCE_DEFINITION: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False,
    short_names=("crd", "crds"), categories=("api-extensions",),
    schema=upstream_schema("apiextensions.v1.CustomResourceDefinition"), columns=(CREATED_AT,),
    default=defaults.default_custom_resource_definition, validate=validate_crd,
)  # fmt: skip

_ALL = (
    NAMESPACE, NODE, POD, POD_TEMPLATE, SERVICE, CONFIG_MAP, SECRET, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM,
    SERVICE_ACCOUNT, EVENT, NEWER_EVENT, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, PRIORITY_CLASS,
    STORAGE_CLASS, JOB, LEASE, ENDPOINTS, ENDPOINT_SLICE, RESOURCE_QUOTA, LIMIT_RANGE, POD_GROUP, QUEUE,
    PLUGIN_POD_GROUP, CUSTOM_RESOURCE_DEFINITION,
)  # fmt: skip


def builtin_kinds() -> tuple[Kind, ...]:
    return _ALL


def new_catalogue() -> Catalogue:
    """Returns a catalogue with the built-in kinds, to which packages add their own."""
    return Catalogue(_ALL)
