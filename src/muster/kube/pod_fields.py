"""The fields of a Pod in a restricted namespace: an allow-list.

Every field of a Pod, container, volume, probe and hook is harmless, checked, or refused by name. A test compares the
tables with the schemas of Kubernetes, so that a new field cannot slip through. The same holds for claims, Services and
PodGroups.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from muster.kube.objects import Object, annotations_of
from muster.kube.pod_security import (
    PREFIX,
    QUEUE_ANNOTATION,
    PodGrants,
    Violation,
    as_mapping,
    check_queue,
    find_metadata_violations,
    is_below,
    is_kernel_path,
    is_run_secret,
)


def find_pod_violations(pod: Object, grants: PodGrants) -> list[Violation]:
    """Returns everything that a Pod of a restricted namespace must not have."""
    return [
        *find_metadata_violations(pod.get("metadata"), "metadata", grants),
        *find_spec_violations(pod.get("spec"), "spec", grants),
    ]


def find_spec_violations(spec: Any, path: str, grants: PodGrants) -> list[Violation]:
    """The same for the spec alone, which may also be invalid: the platform looks at templates before tags are
    replaced."""
    given = as_mapping(spec)
    scope = _Scope(grants, _read_only_volumes(given, grants))
    return list(_walk(POD_FIELDS, given, path, scope))


def find_claim_violations(claim: Object, holder: Mapping[str, Any]) -> list[Violation]:
    """Checks a PersistentVolumeClaim. `holder` is the claimRef of the volume that it names."""
    metadata = claim["metadata"]
    mine = (holder.get("namespace"), holder.get("name")) == (metadata.get("namespace"), metadata.get("name"))
    mine = mine and holder.get("uid") in (None, "", metadata.get("uid"))
    return list(_claim_spec(claim.get("spec"), "spec", reserved=mine))


def find_service_violations(service: Object) -> list[Violation]:
    spec = as_mapping(service.get("spec"))
    found = [
        Violation.of(f"spec.{name}", "service", field=name)
        for name in ("externalIPs", "externalName", "loadBalancerIP", "loadBalancerClass", "healthCheckNodePort")
        if spec.get(name)
    ]
    if spec.get("type") not in (None, "ClusterIP"):
        found.append(Violation.of("spec.type", "service", field=f"type {spec.get('type')}"))
    return found


def find_pod_group_violations(group: Object, grants: PodGrants) -> list[Violation]:
    spec = as_mapping(group.get("spec"))
    found = list(check_queue(spec.get("queue"), "spec.queue", grants))
    found += check_queue(
        annotations_of(group).get(QUEUE_ANNOTATION), f"metadata.annotations[{QUEUE_ANNOTATION}]", grants
    )
    found += _priority_class(spec.get("priorityClassName"), "spec.priorityClassName", _Scope(grants, {}))
    return found


class _Scope(NamedTuple):
    grants: PodGrants
    read_only: Mapping[str, str]
    """Volumes of the Pod that have to be mounted read-only, with the path or claim."""


Check: TypeAlias = Callable[[Any, str, _Scope], Iterator[Violation]]
Fields: TypeAlias = Mapping[str, Check | None]
"""Every field of a part of a Pod: a check, or None if it is harmless. A field that is not listed is refused."""


def _walk(fields: Fields, given: Mapping[str, Any], path: str, scope: _Scope) -> Iterator[Violation]:
    for name, value in given.items():
        check = fields.get(name, _unknown)
        if check is not None and value is not None:
            yield from check(value, f"{path}.{name}", scope)


def _unknown(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    yield Violation.of(path, "unknown", field=path.rpartition(".")[2])


def _within(fields: Fields) -> Check:
    """A check of the fields of a nested object."""

    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        yield from _walk(fields, as_mapping(value), path, scope)

    return check


def _each(fields: Fields) -> Check:
    """A check of the fields of every item of a list."""

    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        for at, item in enumerate(value if isinstance(value, list) else ()):
            yield from _walk(fields, as_mapping(item), f"{path}[{at}]", scope)

    return check


def _refused(rule: str) -> Check:
    """Refuses a field that is set."""

    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        if value not in (False, 0, "", [], {}):
            yield Violation.of(path, rule, field=path.rpartition(".")[2])

    return check


def _one_of(*allowed: str) -> Check:
    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        if value not in allowed:
            yield Violation.of(path, "setting", field=path.rpartition(".")[2])

    return check


def _account(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if value not in scope.grants.accounts:
        yield Violation.of(path, "account", name=str(value), field=path.rpartition(".")[2])


def _node(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if value:
        yield Violation.of(path, "node")


def _priority_class(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if str(value or "").startswith("system-"):
        yield Violation.of(path, "priority", name=str(value))


def _named(name: Any, path: str, kind: str, scope: _Scope) -> Iterator[Violation]:
    """A Secret or ConfigMap of the namespace. The Secret of a run is for its own Pods."""
    grants = scope.grants
    text = str(name or "")
    if grants.only_listed and text not in (grants.secrets if kind == "secret" else grants.config_maps):
        yield Violation.of(path, kind, name=text, label=f"{PREFIX}shared", value="everybody")
    elif kind == "secret" and is_run_secret(text) and text != f"run-{grants.run}":
        yield Violation.of(path, "run secret", name=text)


def _reference(kind: str, key: str = "name") -> Check:
    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        yield from _named(as_mapping(value).get(key), f"{path}.{key}", kind, scope)

    return check


def _pull_secrets(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    for at, secret in _items(value):
        yield from _named(secret.get("name"), f"{path}[{at}].name", "secret", scope)


def _profile(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    """A seccomp or AppArmor profile."""
    if as_mapping(value).get("type") not in (None, "RuntimeDefault"):
        yield Violation.of(f"{path}.type", "setting", field=path.rpartition(".")[2])


def _capabilities(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    added = as_mapping(value).get("add")
    if added:
        names = ", ".join(map(str, added)) if isinstance(added, list) else str(added)
        yield Violation.of(f"{path}.add", "capabilities", names=names)


def _privileged(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if value:
        yield Violation.of(path, "privileged")


def _affinity(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    """A rule about Pods of other namespaces keeps these away, too."""
    for kind in ("podAffinity", "podAntiAffinity"):
        for when, terms in as_mapping(as_mapping(value).get(kind)).items():
            for at, term in _items(terms):
                where = f"{path}.{kind}.{when}[{at}]"
                inner = as_mapping(term.get("podAffinityTerm"))
                for place, each in ((where, term), (f"{where}.podAffinityTerm", inner)):
                    for name in ("namespaces", "namespaceSelector"):
                        if each.get(name) is not None and each.get(name) != []:
                            yield Violation.of(f"{place}.{name}", "namespaces", field=name)


def _host_path(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    written, paths = str(as_mapping(value).get("path") or ""), scope.grants.paths
    if written not in paths:
        known = ", ".join(sorted(paths))
        if known:
            yield Violation.of(f"{path}.path", "path", path=written, known=known)
        else:
            yield Violation.of(f"{path}.path", "no path", path=written)


def _claim(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    name = str(as_mapping(value).get("claimName") or "")
    if scope.grants.only_listed and name not in scope.grants.claims:
        yield Violation.of(f"{path}.claimName", "claim", name=name)


def _ephemeral(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    template = as_mapping(as_mapping(value).get("volumeClaimTemplate"))
    where = f"{path}.volumeClaimTemplate"
    yield from find_metadata_violations(template.get("metadata"), f"{where}.metadata", scope.grants)
    yield from _claim_spec(template.get("spec"), f"{where}.spec", reserved=False)


def _claim_spec(spec: Any, path: str, *, reserved: bool) -> Iterator[Violation]:
    for name, value in as_mapping(spec).items():
        if name == "volumeName" and value and not reserved:
            yield Violation.of(f"{path}.volumeName", "volume name", name=str(value))
        elif name in ("dataSource", "dataSourceRef", "volumeAttributesClassName") and value:
            yield Violation.of(f"{path}.{name}", "setting", field=name)
        elif name not in CLAIM_FIELDS:
            yield Violation.of(f"{path}.{name}", "unknown", field=name)


def _token(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    yield Violation.of(path, "token")


def _volume_type(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    yield Violation.of(path, "volume", type=path.rpartition(".")[2])


def _mounts(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    for at, mount in _items(value):
        where = f"{path}[{at}]"
        yield from _walk(MOUNT_FIELDS, mount, where, scope)
        if mount.get("name") in scope.read_only and mount.get("readOnly") is not True:
            yield Violation.of(where, "read only", name=scope.read_only[mount["name"]])


def _devices(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    for at, device in _items(value):
        if device.get("name") in scope.read_only:
            yield Violation.of(f"{path}[{at}]", "read only", name=scope.read_only[device["name"]])


def _mount_path(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    written = str(value)
    place = posixpath.normpath(written)
    odd = not written.startswith("/") or ".." in written.split("/") or not _PLAIN_PATH.fullmatch(written)
    if place == "/" or odd or (is_kernel_path(place) and not is_below(place, "/dev/shm")):  # noqa: S108
        yield Violation.of(path, "mount path", path=written)


def _sub_path(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if str(value).startswith("/") or ".." in str(value).split("/"):
        yield Violation.of(path, "sub path", path=str(value))


def _message_path(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    place = posixpath.normpath(str(value))
    if is_kernel_path(place) and place != "/dev/termination-log":
        yield Violation.of(path, "value", field=path.rpartition(".")[2])


def _ports(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    for at, port in _items(value):
        for name in port:
            if name in ("hostPort", "hostIP") and port[name]:
                yield Violation.of(f"{path}[{at}].{name}", "port")
            elif name not in PORT_FIELDS:
                yield Violation.of(f"{path}[{at}].{name}", "unknown", field=name)


_PLAIN_PATH = re.compile(r'[^\x00-\x1f\x7f",:\\]+')
_HTTP: Final[Fields] = {"host": _refused("probe"), "httpHeaders": None, "path": None, "port": None, "scheme": None}
_TCP: Final[Fields] = {"host": _refused("probe"), "port": None}
PROBE_FIELDS: Final[Fields] = {
    "exec": _within({"command": None}),
    "failureThreshold": None,
    "grpc": _within({"port": None, "service": None}),
    "httpGet": _within(_HTTP),
    "initialDelaySeconds": None,
    "periodSeconds": None,
    "successThreshold": None,
    "tcpSocket": _within(_TCP),
    "terminationGracePeriodSeconds": None,
    "timeoutSeconds": None,
}
HOOK_FIELDS: Final[Fields] = {
    "exec": _within({"command": None}),
    "httpGet": _within(_HTTP),
    "sleep": None,
    "tcpSocket": _within(_TCP),
}
ENV_SOURCES: Final[Fields] = {
    "configMapKeyRef": _reference("config map"),
    "fieldRef": None,
    "resourceFieldRef": None,
    "secretKeyRef": _reference("secret"),
}
MOUNT_FIELDS: Final[Fields] = {
    "mountPath": _mount_path,
    "mountPropagation": _one_of("None"),
    "name": None,
    "readOnly": None,
    "recursiveReadOnly": None,
    "subPath": _sub_path,
    "subPathExpr": _sub_path,
}
PORT_FIELDS: Final = frozenset({"containerPort", "hostIP", "hostPort", "name", "protocol"})
_SHARED_SECURITY: Final[Fields] = {
    "appArmorProfile": _profile,
    "runAsGroup": None,
    "runAsNonRoot": None,
    "runAsUser": None,
    "seLinuxOptions": _refused("setting"),
    "seccompProfile": _profile,
    "windowsOptions": _refused("setting"),
}
CONTAINER_SECURITY_FIELDS: Final[Fields] = {
    **_SHARED_SECURITY,
    "allowPrivilegeEscalation": None,
    "capabilities": _capabilities,
    "privileged": _privileged,
    "procMount": _one_of("", "Default"),
    "readOnlyRootFilesystem": None,
}
POD_SECURITY_FIELDS: Final[Fields] = {
    **_SHARED_SECURITY,
    "fsGroup": None,
    "fsGroupChangePolicy": None,
    "seLinuxChangePolicy": None,
    "supplementalGroups": _refused("setting"),
    "supplementalGroupsPolicy": None,
    "sysctls": _refused("setting"),
}
CONTAINER_FIELDS: Final[Fields] = {
    "args": None,
    "command": None,
    "env": _each({"name": None, "value": None, "valueFrom": _within(ENV_SOURCES)}),
    "envFrom": _each({"configMapRef": _reference("config map"), "prefix": None, "secretRef": _reference("secret")}),
    "image": None,
    "imagePullPolicy": None,
    "lifecycle": _within({"postStart": _within(HOOK_FIELDS), "preStop": _within(HOOK_FIELDS), "stopSignal": None}),
    "livenessProbe": _within(PROBE_FIELDS),
    "name": None,
    "ports": _ports,
    "readinessProbe": _within(PROBE_FIELDS),
    "resizePolicy": None,
    "resources": _within({"claims": _refused("setting"), "limits": None, "requests": None}),
    "restartPolicy": None,
    "restartPolicyRules": None,
    "securityContext": _within(CONTAINER_SECURITY_FIELDS),
    "startupProbe": _within(PROBE_FIELDS),
    "stdin": None,
    "stdinOnce": None,
    "targetContainerName": None,
    "terminationMessagePath": _message_path,
    "terminationMessagePolicy": None,
    "tty": None,
    "volumeDevices": _devices,
    "volumeMounts": _mounts,
    "workingDir": None,
}
PROJECTED_FIELDS: Final[Fields] = {
    "configMap": _reference("config map"),
    "downwardAPI": None,
    "secret": _reference("secret"),
    "serviceAccountToken": _token,
    "clusterTrustBundle": _volume_type,
    "podCertificate": _volume_type,
}
VOLUME_FIELDS: Final[Fields] = {
    "name": None,
    "configMap": _reference("config map"),
    "downwardAPI": None,
    "emptyDir": None,
    "ephemeral": _ephemeral,
    "hostPath": _host_path,
    "image": None,
    "persistentVolumeClaim": _claim,
    "projected": _within({"defaultMode": None, "sources": _each(PROJECTED_FIELDS)}),
    "secret": _reference("secret", "secretName"),
    **dict.fromkeys(
        (
            "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker",
            "gcePersistentDisk", "gitRepo", "glusterfs", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume",
            "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
        ),
        _volume_type,
    ),
}  # fmt: skip
CLAIM_FIELDS: Final = frozenset({
    "accessModes", "dataSource", "dataSourceRef", "resources", "selector", "storageClassName",
    "volumeAttributesClassName", "volumeMode", "volumeName",
})  # fmt: skip
POD_FIELDS: Final[Fields] = {
    "activeDeadlineSeconds": None,
    "affinity": _affinity,
    "automountServiceAccountToken": None,
    "containers": _each(CONTAINER_FIELDS),
    "dnsConfig": None,
    "dnsPolicy": None,
    "enableServiceLinks": None,
    "ephemeralContainers": _each(CONTAINER_FIELDS),
    "hostAliases": None,
    "hostIPC": _refused("host"),
    "hostNetwork": _refused("host"),
    "hostPID": _refused("host"),
    "hostUsers": None,
    "hostname": None,
    "hostnameOverride": None,
    "imagePullSecrets": _pull_secrets,
    "initContainers": _each(CONTAINER_FIELDS),
    "nodeName": _node,
    "nodeSelector": None,
    "os": None,
    "overhead": _refused("setting"),
    "preemptionPolicy": None,
    "priority": _refused("setting"),
    "priorityClassName": _priority_class,
    "readinessGates": None,
    "resourceClaims": _refused("setting"),
    "resources": _within({"claims": _refused("setting"), "limits": None, "requests": None}),
    "restartPolicy": None,
    "runtimeClassName": _refused("setting"),
    "schedulerName": None,
    "schedulingGates": None,
    "securityContext": _within(POD_SECURITY_FIELDS),
    "serviceAccount": _account,
    "serviceAccountName": _account,
    "setHostnameAsFQDN": None,
    "shareProcessNamespace": None,
    "subdomain": None,
    "terminationGracePeriodSeconds": None,
    "tolerations": None,
    "topologySpreadConstraints": None,
    "volumes": _each(VOLUME_FIELDS),
    "workloadRef": _refused("setting"),
}


def _read_only_volumes(spec: Mapping[str, Any], grants: PodGrants) -> Mapping[str, str]:
    found = {}
    for _, volume in _items(spec.get("volumes")):
        path = str(as_mapping(volume.get("hostPath")).get("path") or "")
        claim = as_mapping(volume.get("persistentVolumeClaim"))
        name = str(claim.get("claimName") or "")
        if grants.paths.get(path):
            found[str(volume.get("name"))] = path
        if grants.claims.get(name) and not claim.get("readOnly"):
            found[str(volume.get("name"))] = name
    return found


def _items(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for at, item in enumerate(value if isinstance(value, list) else ()):
        yield at, as_mapping(item)
