"""Generates src/muster/kube/openapi.json, the schemas of the built-in kinds: `python -m tools.schemas`.

The sources are upstream's own documents, taken from the Go modules that the test cluster is built from: Kubernetes'
OpenAPI v3 documents (and, for allowed values, the Go code they are made from) and the CRDs of Volcano and the
scheduler plugins. `--check` only compares, and fails if the file is out of date.

The file holds what the built-in kinds use, without descriptions. Where a schema is a string, it names another
definition: "string", "core.v1.Container". `muster.kube.schema.upstream_schema` resolves the names.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from muster.kube.schema import CONSTANTS, OPENAPI
from tools.cluster.sources import KUBERNETES, SCHEDULER_PLUGINS, VOLCANO, Source

ROOTS: Final = (
    "core.v1.Namespace", "core.v1.Node", "core.v1.Pod", "core.v1.PodTemplate", "core.v1.Service", "core.v1.ConfigMap",
    "core.v1.Secret", "core.v1.PersistentVolume", "core.v1.PersistentVolumeClaim", "core.v1.ServiceAccount",
    "core.v1.Event", "rbac.v1.Role", "rbac.v1.RoleBinding", "rbac.v1.ClusterRole", "rbac.v1.ClusterRoleBinding",
    "scheduling.v1.PriorityClass", "storage.v1.StorageClass", "batch.v1.Job", "batch.v1.CronJob",
    "coordination.v1.Lease", "core.v1.ResourceQuota", "core.v1.LimitRange", "core.v1.Endpoints",
    "discovery.v1.EndpointSlice", "events.v1.Event",
    "apiextensions.v1.CustomResourceDefinition", "autoscaling.v2.MetricSpec",
)  # fmt: skip
"""The definitions to keep, with everything they refer to. The MetricSpec is a part of elastic training jobs."""

CRDS: Final = {
    "volcano.v1beta1.PodGroup": (VOLCANO, "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml"),
    "volcano.v1beta1.Queue": (VOLCANO, "config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml"),
    "scheduler-plugins.v1alpha1.PodGroup": (SCHEDULER_PLUGINS, "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"),
}

ENUMS: Final[Mapping[str, tuple[str, ...] | None]] = {
    # Values that Kubernetes' validation allows, but its Go types do not list.
    "meta.v1.LabelSelectorRequirement.operator": ("In", "NotIn", "Exists", "DoesNotExist"),
    "core.v1.Container.restartPolicy": ("Always", "Never", "OnFailure"),
    "core.v1.ContainerResizePolicy.restartPolicy": ("NotRequired", "RestartContainer"),
    "core.v1.ContainerRestartRule.action": ("Restart", "RestartAllContainers"),
    "core.v1.ContainerRestartRuleOnExitCodes.operator": ("In", "NotIn"),
    "core.v1.VolumeMount.recursiveReadOnly": ("Disabled", "IfPossible", "Enabled"),
    "core.v1.PodOS.name": ("linux", "windows"),
    "core.v1.PodSecurityContext.seLinuxChangePolicy": ("Recursive", "MountOption"),
    "rbac.v1.RoleRef.kind": ("Role", "ClusterRole"),
    "rbac.v1.Subject.kind": ("User", "Group", "ServiceAccount"),
    "apiextensions.v1.CustomResourceDefinitionSpec.scope": ("Namespaced", "Cluster"),
    # An empty value counts as left out, or may not be written at all.
    "core.v1.Toleration.effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", ""),
    "core.v1.Toleration.operator": ("Exists", "Equal", "Lt", "Gt", ""),
    "core.v1.ServiceSpec.ipFamilies": ("IPv4", "IPv6"),
    # Recycle is for PersistentVolumes only.
    "storage.v1.StorageClass.reclaimPolicy": ("Delete", "Retain"),
    # Values that Kubernetes does not check, or that only it writes.
    "core.v1.Lifecycle.stopSignal": None,
    "core.v1.ContainerStatus.stopSignal": None,
    "core.v1.AzureDiskVolumeSource.cachingMode": None,
    "core.v1.AzureDiskVolumeSource.kind": None,
    "core.v1.ImageVolumeSource.pullPolicy": None,
    "core.v1.NodeStatus.phase": None,
    "core.v1.PodStatus.qosClass": None,
    "core.v1.PortStatus.protocol": None,
    "core.v1.PersistentVolumeClaimStatus.accessModes": None,
    "core.v1.PersistentVolumeClaimStatus.allocatedResourceStatuses": None,
    "core.v1.ModifyVolumeStatus.status": None,
}
"""Allowed values in place of those that the Go types list; None allows any."""

DUPLICATES: Final = frozenset({
    "core.v1.Container.env", "core.v1.Container.ports", "core.v1.EphemeralContainer.env",
    "core.v1.EphemeralContainer.ports", "core.v1.PodSpec.hostAliases", "core.v1.PodSpec.imagePullSecrets",
    "core.v1.PodStatus.podIPs", "core.v1.ServiceSpec.ports", "core.v1.ServiceAccount.secrets",
})  # fmt: skip
"""Lists whose items are identified by keys, and in which Kubernetes accepts two items with the same keys."""

NOT_REQUIRED: Final = frozenset({
    "core.v1.NamespaceCondition", "core.v1.NodeAddress", "core.v1.NodeCondition", "core.v1.NodeSystemInfo",
    "core.v1.AttachedVolume", "core.v1.PodCondition", "core.v1.ResourceStatus", "core.v1.ContainerStateTerminated",
    "core.v1.LinuxContainerUser", "core.v1.VolumeMountStatus", "core.v1.ContainerStatus",
    "core.v1.PodExtendedResourceClaimStatus", "core.v1.HostIP", "core.v1.PodIP", "core.v1.PodResourceClaimStatus",
    "core.v1.PortStatus", "core.v1.PersistentVolumeClaimCondition", "core.v1.ModifyVolumeStatus", "core.v1.Event",
    "events.v1.Event",
    "batch.v1.JobCondition", "apiextensions.v1.CustomResourceDefinitionCondition", "meta.v1.Condition",
})  # fmt: skip
"""Definitions whose required fields may be missing. An API server fills in Go's zero values when it decodes them."""

_PREFIXES = {
    # The prefix of a definition in the OpenAPI documents, and of its function in the generated Go code.
    "io.k8s.api.": "k8sio_api_",
    "io.k8s.apimachinery.pkg.apis.": "pkg_apis_",
    "io.k8s.apiextensions-apiserver.pkg.apis.": "pkg_apis_",
}
_SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps": "any",  # muster.kube.crd checks it
}
_KEPT = frozenset({
    "type", "format", "required", "pattern", "minimum", "maximum", "minLength", "maxLength", "enum", "default",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy", "x-kubernetes-preserve-unknown-fields",
})  # fmt: skip
_DROPPED = frozenset({
    "description", "properties", "items", "additionalProperties", "x-kubernetes-group-version-kind",
    "x-kubernetes-unions", "x-kubernetes-validations",
})  # fmt: skip

Definition = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare; exit with 1 if the file is out of date")
    options = parser.parse_args()
    text = generate()
    if not options.check:
        OPENAPI.write_text(text)
        return 0
    if OPENAPI.read_text() == text:
        return 0
    print(f"{OPENAPI} is out of date: run `python -m tools.schemas`", file=sys.stderr)
    return 1


def generate() -> str:
    """The content of the data file: one definition a line, sorted, so that a change reads well in a diff."""
    definitions = {**_kubernetes(module_folder(KUBERNETES)), **dict(_custom_kinds())}
    lines = [
        f"{json.dumps(name)}:{json.dumps(_compact(definition), separators=(',', ':'))}"
        for name, definition in sorted(definitions.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def module_folder(source: Source) -> Path:
    """Downloads a Go module unless it is in Go's cache."""
    command = ["go", "mod", "download", "-json", f"{source.module}@{source.version}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    answer = json.loads(done.stdout or "{}")
    if done.returncode or answer.get("Error"):
        raise SystemExit(f"cannot download {source.module}@{source.version}: {answer.get('Error') or done.stderr}")
    return Path(answer["Dir"])


def _kubernetes(folder: Path) -> dict[str, Definition]:
    documents: dict[str, Any] = {}
    for file in sorted((folder / "api/openapi-spec/v3").glob("*_openapi.json")):
        documents |= json.loads(file.read_text()).get("components", {}).get("schemas", {})
    by_name = {_our_name(name): name for name in documents}
    enums = read_enums((folder / "pkg/generated/openapi/zz_generated.openapi.go").read_text())
    found: dict[str, Definition] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in found and name not in CONSTANTS:
            upstream = by_name[name]
            found[name] = _definition(name, documents[upstream], enums.get(_go_name(upstream), {}))
            waiting += _references(found[name])
    _drop_defaults(found)
    return found


def read_enums(code: str) -> dict[str, dict[str, list[str]]]:
    """The allowed values in Kubernetes' generated Go code, by function and property. The published documents lack
    them."""
    found: dict[str, dict[str, list[str]]] = {}
    function = prop = ""
    for line in code.splitlines():
        if match := re.match(r"func schema_(\w+)\(", line):
            function = match[1]
        elif match := re.match(r'\t{5}"([^"]+)": \{$', line):
            prop = match[1]
        elif match := re.search(r"Enum:\s+\[\]interface\{\}\{(.*)\},$", line):
            found.setdefault(function, {})[prop] = re.findall(r'"([^"]*)"', match[1])
    return found


def _custom_kinds() -> Iterator[tuple[str, Definition]]:
    for name, (source, path) in CRDS.items():
        crd = yaml.safe_load((module_folder(source) / path).read_text())
        version = next(v for v in crd["spec"]["versions"] if v["name"] == name.split(".")[1])
        schema = version["schema"]["openAPIV3Schema"]
        definition = _converted(schema)
        definition["properties"]["metadata"] = {"$ref": "meta.v1.ObjectMeta"}
        yield name, definition


def _definition(name: str, schema: Definition, enums: Mapping[str, list[str]]) -> Definition:
    converted = _converted(schema)
    if name in NOT_REQUIRED:
        converted.pop("required", None)
    properties = converted.get("properties", {})
    for field, prop in properties.items():
        path = f"{name}.{field}"
        values = ENUMS.get(path, enums.get(field))
        if values is not None:
            target = prop.get("items") or prop.get("additionalProperties") or prop
            target["enum"] = list(values)
        if path in DUPLICATES:
            prop["x-muster-duplicates"] = True
    return converted


def _converted(schema: Definition) -> Definition:
    """The schema in our form, with names for references."""
    if "$ref" in schema:
        upstream = schema["$ref"].rsplit("/", 1)[1]
        return {"$ref": _SCALARS.get(upstream) or _our_name(upstream)}
    if "allOf" in schema:
        (only,) = schema["allOf"]
        return _converted(only)
    if schema.get("x-kubernetes-int-or-string"):
        return {"$ref": "quantity" if "pattern" in schema else "int-or-string"}
    unknown = schema.keys() - _KEPT - _DROPPED
    if unknown:
        raise SystemExit(f"the schema has {', '.join(sorted(unknown))}, which this program does not know")
    kept = {key: value for key, value in schema.items() if key in _KEPT}
    if "properties" in schema:
        kept["properties"] = {name: _field(name, prop) for name, prop in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            kept[key] = _converted(schema[key])
    if kept.get("type") == "array":
        kept.setdefault("x-kubernetes-list-type", "atomic")
    return kept


def _field(name: str, schema: Definition) -> Definition:
    if name == "labelSelector" and "properties" in schema:
        return {"$ref": "meta.v1.LabelSelector"}  # CRDs have no references
    return _converted(schema)


def _drop_defaults(definitions: Mapping[str, Definition]) -> None:
    """Keeps the defaults of fields that identify an item of a list, unless they are Go's zero values.
    muster.kube.defaults fills in the others."""
    keys = {
        (prop["items"].get("$ref"), key)
        for definition in definitions.values()
        for prop in definition.get("properties", {}).values()
        for key in prop.get("x-kubernetes-list-map-keys", ())
    }
    for name, definition in definitions.items():
        for field, prop in definition.get("properties", {}).items():
            if (name, field) not in keys or not prop.get("default"):
                for part in (prop, prop.get("items", {}), prop.get("additionalProperties", {})):
                    part.pop("default", None)


def _references(schema: Definition) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"]
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if inner:
            yield from _references(inner)


def _our_name(upstream: str) -> str:
    """io.k8s.api.core.v1.Pod -> core.v1.Pod"""
    prefix = next((prefix for prefix in _PREFIXES if upstream.startswith(prefix)), "")
    return upstream.removeprefix(prefix)


def _go_name(upstream: str) -> str:
    """io.k8s.api.core.v1.Pod -> k8sio_api_core_v1_Pod"""
    prefix = next((prefix for prefix in _PREFIXES if upstream.startswith(prefix)), "")
    return (_PREFIXES.get(prefix, "") + upstream.removeprefix(prefix)).replace(".", "_")


def _compact(schema: Mapping[str, Any]) -> Any:
    """The schema with a name in place of every part that has one."""
    if "$ref" in schema:
        return schema["$ref"]
    compact = dict(schema)
    if "properties" in compact:
        compact["properties"] = {name: _compact(prop) for name, prop in compact["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in compact:
            compact[key] = _compact(compact[key])
    return next((name for name, constant in _NAMED.items() if constant == compact), compact)


_NAMED: dict[str, Any] = {}
for _name, _constant in CONSTANTS.items():
    _NAMED[_name] = _compact(_constant)


if __name__ == "__main__":
    sys.exit(main())
