"""Fields of a Pod that only a kubelet with a container runtime can honour.

They are valid, so nobody refuses them; but a node that runs containers as sandboxed processes warns about each by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.kube.causes import NOT_SUPPORTED
from muster.kube.errors import Cause
from muster.kube.objects import Object

_POD = {
    "dnsConfig": "names are resolved by /etc/hosts and this machine",
    "ephemeralContainers": "use exec to look into a running container",
    "hostIPC": "the sandbox decides what is shared with this machine",
    "hostPID": "the sandbox decides what is shared with this machine",
    "hostUsers": "there are no user namespaces",
    "hostnameOverride": "write hostname instead",
    "os": "containers run on this machine's Linux",
    "resourceClaims": "there are no resource drivers; ask for devices by resources.limits",
    "resources": "limits are kept per container; write them there",
    "runtimeClassName": "there is one runtime for all Pods",
    "setHostnameAsFQDN": "the host name stays the Pod's",
    "shareProcessNamespace": "containers do not see each other's processes",
    "workloadRef": "write a PodGroup to place Pods together",
}
_SECURITY = {
    "appArmorProfile": "no AppArmor profile is loaded",
    "procMount": "/proc is the sandbox's",
    "seLinuxOptions": "no SELinux label is set",
    "seccompProfile": "no seccomp profile is loaded",
    "windowsOptions": "this is not Windows",
}
_POD_SECURITY = {
    **_SECURITY,
    "fsGroupChangePolicy": "fsGroup is applied the same way always",
    "seLinuxChangePolicy": "no SELinux label is set",
    "supplementalGroupsPolicy": "there is no image whose groups could be merged",
    "sysctls": "kernel parameters are this machine's",
}
_CONTAINER_SECURITY = {
    **_SECURITY,
    "capabilities": "a sandboxed process keeps those of its user",
    "privileged": "a sandboxed process keeps the rights of its user",
}
_CONTAINER = {
    "resizePolicy": "resources are fixed once a Pod runs",
    "restartPolicyRules": "containers restart by the Pod's restartPolicy",
    "stdin": "nobody is attached to a container's input",
    "stdinOnce": "nobody is attached to a container's input",
    "tty": "output goes to a log file, not a terminal",
    "volumeDevices": "there are no block devices; mount the volume with volumeMounts",
}
_MOUNT = {
    "mountPropagation": "mounts inside a container stay there",
    "recursiveReadOnly": "write readOnly instead",
}
_VOLUMES = frozenset({
    "configMap", "downwardAPI", "emptyDir", "hostPath", "name", "persistentVolumeClaim", "projected", "secret",
})  # fmt: skip
_PROJECTIONS = {
    "clusterTrustBundle": "there are no trust bundles",
    "podCertificate": "no certificates are issued to Pods",
}
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "mountPropagation": ("None",),
    "recursiveReadOnly": ("Disabled",),
    "procMount": ("Default",),
    "os": ({"name": "linux"},),
    "seccompProfile": ({"type": "Unconfined"},),
    "appArmorProfile": ({"type": "Unconfined"},),
}


def unsupported(spec: Object, path: str = "spec") -> list[Cause]:
    """The fields of a Pod's spec that will have no effect, each with what happens instead."""
    return list(_find(spec, path))


def _find(spec: Object, path: str) -> Iterator[Cause]:
    yield from _named(spec, _POD, path)
    if spec.get("securityContext"):
        yield from _named(spec["securityContext"], _POD_SECURITY, f"{path}.securityContext")
    for number, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume(volume, f"{path}.volumes[{number}]")
    for field in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(field) or ()):
            yield from _container(container, f"{path}.{field}[{number}]", is_init=field == "initContainers")


def _container(container: Object, path: str, *, is_init: bool) -> Iterator[Cause]:
    yield from _named(container, _CONTAINER, path)
    if container.get("restartPolicy") and not is_init:
        yield _cause(f"{path}.restartPolicy", "containers restart by the Pod's restartPolicy")
    if container.get("securityContext"):
        yield from _named(container["securityContext"], _CONTAINER_SECURITY, f"{path}.securityContext")
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        yield from _named(mount, _MOUNT, f"{path}.volumeMounts[{number}]")
    resources = container.get("resources") or {}
    if resources.get("claims"):
        yield _cause(f"{path}.resources.claims", "there are no resource drivers; ask for devices by limits")
    if (resources.get("limits") or {}).get("ephemeral-storage"):
        yield _cause(f"{path}.resources.limits[ephemeral-storage]", "disk use is not limited")
    for number, env in enumerate(container.get("env") or ()):
        if (env.get("valueFrom") or {}).get("fileKeyRef"):
            yield _cause(f"{path}.env[{number}].valueFrom.fileKeyRef", "use configMapKeyRef or secretKeyRef")


def _volume(volume: Object, path: str) -> Iterator[Cause]:
    for kind in volume:
        if kind not in _VOLUMES:
            why = "the volume cannot be mounted; use emptyDir, hostPath or persistentVolumeClaim"
            yield _cause(f"{path}.{kind}", why)
    for number, part in enumerate((volume.get("projected") or {}).get("sources") or ()):
        yield from _named(part, _PROJECTIONS, f"{path}.projected.sources[{number}]")
    medium = (volume.get("emptyDir") or {}).get("medium") or ""
    if medium.startswith("HugePages"):
        yield _cause(f"{path}.emptyDir.medium", "huge pages are not handed out; the medium Memory is")


def _named(values: Mapping[str, Any], fields: Mapping[str, str], path: str) -> Iterator[Cause]:
    for field, why in fields.items():
        if field in values and _asks(field, values[field]):
            yield _cause(f"{path}.{field}", why)


def _asks(field: str, value: Any) -> bool:
    """Whether the value asks for anything but what happens anyway."""
    if field == "hostUsers":
        return value is False
    return bool(value) and value not in _HARMLESS.get(field, ())


def _cause(field: str, why: str) -> Cause:
    return Cause(field, f"has no effect here: {why}", NOT_SUPPORTED)
