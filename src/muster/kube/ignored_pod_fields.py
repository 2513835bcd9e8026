"""Which fields of a Pod have no effect when its containers are processes of the node. Pure.

The node agent names them in an event, and lint in a warning, so that nothing relies on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.kube.objects import Object, spec_of

_POD = (
    "hostIPC",
    "hostPID",
    "ephemeralContainers",
    "shareProcessNamespace",
    "dnsConfig",
    "runtimeClassName",
    "setHostnameAsFQDN",
    "hostUsers",
)
_POD_SECURITY = ("sysctls", "seLinuxOptions", "seccompProfile", "windowsOptions", "appArmorProfile")
_CONTAINER = ("stdin", "stdinOnce", "tty", "volumeDevices", "resizePolicy")
_CONTAINER_SECURITY = (
    "capabilities", "privileged", "procMount", "readOnlyRootFilesystem", "seLinuxOptions", "seccompProfile",
    "windowsOptions", "appArmorProfile",
)  # fmt: skip
_MOUNT = ("mountPropagation", "recursiveReadOnly")


def ignored_fields(
    pod: Object, isolation: str = "namespaces", *, by_engine: bool = False, limits_cpu: bool = True
) -> Iterator[str]:
    spec = spec_of(pod)
    yield from _set(spec, _POD, "spec")
    if by_engine and spec.get("imagePullSecrets"):
        yield "spec.imagePullSecrets"
    yield from _set(spec.get("securityContext") or {}, _POD_SECURITY, "spec.securityContext")
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from _of_volume(volume, f"spec.volumes[{index}]", by_engine)
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            path = f"spec.{group}[{index}]"
            yield from _of_container(container, path, isolation, by_engine)
            if not limits_cpu and "cpu" in ((container.get("resources") or {}).get("limits") or {}):
                yield f"{path}.resources.limits.cpu"


def _of_volume(volume: Mapping[str, Any], path: str, by_engine: bool) -> Iterator[str]:
    source = volume.get("emptyDir") or {}
    medium = source.get("medium") or ""
    if medium not in ("", "Memory"):
        yield f"{path}.emptyDir.medium"
    if source.get("sizeLimit") and (medium != "Memory" or by_engine):
        yield f"{path}.emptyDir.sizeLimit"


def _of_container(container: Mapping[str, Any], path: str, isolation: str, by_engine: bool) -> Iterator[str]:
    yield from _set(container, _CONTAINER, path)
    security = container.get("securityContext")
    if security and not by_engine:
        yield from _set(security, _CONTAINER_SECURITY, f"{path}.securityContext")
    if "ephemeral-storage" in ((container.get("resources") or {}).get("limits") or {}):
        yield f"{path}.resources.limits.ephemeral-storage"
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        yield from _set(mount, _MOUNT, f"{path}.volumeMounts[{index}]")
    for index, port in enumerate(container.get("ports") or ()):
        wanted = port.get("hostPort")
        if wanted and wanted != port.get("containerPort"):
            yield f"{path}.ports[{index}].hostPort"
    for field in ("startupProbe", "livenessProbe", "readinessProbe"):
        if "grpc" in (container.get(field) or {}):
            yield f"{path}.{field}.grpc.service"
    if (
        isolation == "none"
        and not by_engine
        and container.get("terminationMessagePath") not in (None, _DEFAULT_MESSAGE)
    ):
        yield f"{path}.terminationMessagePath"


def _set(values: Mapping[str, Any], names: tuple[str, ...], path: str) -> Iterator[str]:
    for name in names:
        if values.get(name) and not (name == "mountPropagation" and values[name] == "None"):
            yield f"{path}.{name}"


_DEFAULT_MESSAGE = "/dev/termination-log"
