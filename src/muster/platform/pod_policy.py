"""What users who are not admins may write into a Pod.

A Pod must not reach the machine or objects of other users. Allowed are the storage roots that the user may use, and
the claims, Secrets and ConfigMaps that an admin shares with a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from muster.kube.builtin import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, SECRET
from muster.kube.cluster import Cluster
from muster.kube.kinds import Kind
from muster.kube.objects import name_of
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor

SHARED = "muster.dev/shared"
"""The label with which admins share Secrets, ConfigMaps and claims: `everybody`, or the id of a team."""
EVERYBODY = "everybody"
RESERVED: Final = ("muster.dev/owner", "muster.dev/team", "muster.dev/run", "muster.dev/task", SHARED)
"""Labels that define ownership."""


_HARMLESS_VOLUMES = ("emptyDir", "downwardAPI", "image")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True, slots=True)
class PodAllowances:
    """What a user may refer to. Everything else is refused, also a name that is filled in later."""

    paths: Mapping[str, bool] = field(default_factory=dict)
    """Host paths, exactly these; true for read-only ones."""
    claims: Mapping[str, bool] = field(default_factory=dict)
    """The same for PersistentVolumeClaims."""
    secrets: frozenset[str] = frozenset()
    config_maps: frozenset[str] = frozenset()


def find_forbidden(pod_spec: Any, path: str, allowed: PodAllowances) -> list[FieldError]:
    """Returns what is not allowed, with paths that start with `path`. The spec need not be valid."""
    spec = _mapping(pod_spec)
    return [*_pod(spec, path, allowed), *_volumes(spec, path, allowed), *_containers(spec, path, allowed)]


def find_forbidden_metadata(metadata: Any, path: str, *, owned: bool = True) -> list[FieldError]:
    """The same for the metadata of a Pod template or object. With `owned`, the fields that define ownership are
    refused, too."""
    given = _mapping(metadata)
    found = [
        field_error(f"{path}.labels[{name}]", "confined.label", name=name)
        for name in _mapping(given.get("labels"))
        if name in RESERVED
    ]
    belongs = [name for name in ("ownerReferences", "finalizers") if owned and given.get(name)]
    found += [field_error(f"{path}.{name}", "confined.owner", field=name) for name in belongs]
    profiles = [name for name in _mapping(given.get("annotations")) if str(name).startswith(_APPARMOR)]
    found += [field_error(f"{path}.annotations[{name}]", "confined.setting", field=name) for name in profiles]
    return found


def _pod(spec: Mapping[str, Any], path: str, allowed: PodAllowances) -> Iterator[FieldError]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield field_error(f"{path}.{name}", "confined.host", field=name)
    for name in ("serviceAccountName", "serviceAccount"):
        if spec.get(name) not in (None, "", "default"):
            yield field_error(f"{path}.{name}", "confined.account", name=str(spec[name]), field=name)
    if spec.get("nodeName"):
        yield field_error(f"{path}.nodeName", "confined.node")
    priority = str(spec.get("priorityClassName") or "")
    if priority.startswith("system-"):
        yield field_error(f"{path}.priorityClassName", "confined.priority", name=priority)
    if spec.get("runtimeClassName"):
        yield field_error(f"{path}.runtimeClassName", "confined.setting", field="runtimeClassName")
    for at, secret in _items(spec.get("imagePullSecrets")):
        yield from _named(secret.get("name"), f"{path}.imagePullSecrets[{at}].name", "confined.secret", allowed.secrets)
    security = _mapping(spec.get("securityContext"))
    if security.get("sysctls"):
        yield field_error(f"{path}.securityContext.sysctls", "confined.setting", field="sysctls")
    yield from _profiles(security, f"{path}.securityContext")


def _profiles(security: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Checks the fields that Pods and containers share."""
    for name in ("seccompProfile", "appArmorProfile"):
        if _mapping(security.get(name)).get("type") not in (None, "RuntimeDefault"):
            yield field_error(f"{path}.{name}.type", "confined.setting", field=name)
    if security.get("seLinuxOptions"):
        yield field_error(f"{path}.seLinuxOptions", "confined.setting", field="seLinuxOptions")
    if _mapping(security.get("windowsOptions")).get("hostProcess"):
        yield field_error(f"{path}.windowsOptions.hostProcess", "confined.host", field="hostProcess")


def _volumes(spec: Mapping[str, Any], path: str, allowed: PodAllowances) -> Iterator[FieldError]:
    for at, volume in _items(spec.get("volumes")):
        where = f"{path}.volumes[{at}]"
        for kind, source in volume.items():
            if kind != "name" and kind not in _HARMLESS_VOLUMES and source is not None:
                yield from _volume(kind, _mapping(source), f"{where}.{kind}", allowed)
        yield from _written_to(spec, path, volume, allowed)


def _volume(kind: str, source: Mapping[str, Any], path: str, allowed: PodAllowances) -> Iterator[FieldError]:
    match kind:
        case "hostPath":
            written = str(source.get("path") or "")
            if written not in allowed.paths:
                known = ", ".join(sorted(allowed.paths))
                told = {"path": written, "known": known} if known else {"path": written}
                yield field_error(f"{path}.path", "confined.path" if known else "confined.no path", **told)
        case "persistentVolumeClaim":
            yield from _named(source.get("claimName"), f"{path}.claimName", "confined.claim", allowed.claims)
        case "secret":
            yield from _named(source.get("secretName"), f"{path}.secretName", "confined.secret", allowed.secrets)
        case "configMap":
            yield from _named(source.get("name"), f"{path}.name", "confined.config map", allowed.config_maps)
        case "projected":
            for at, part in _items(source.get("sources")):
                yield from _projected(part, f"{path}.sources[{at}]", allowed)
        case _:
            yield field_error(path, "confined.volume", type=kind)


def _projected(part: Mapping[str, Any], path: str, allowed: PodAllowances) -> Iterator[FieldError]:
    for kind, source in part.items():
        where = f"{path}.{kind}"
        if kind == "secret":
            yield from _named(_mapping(source).get("name"), f"{where}.name", "confined.secret", allowed.secrets)
        elif kind == "configMap":
            yield from _named(_mapping(source).get("name"), f"{where}.name", "confined.config map", allowed.config_maps)
        elif kind == "serviceAccountToken":
            yield field_error(where, "confined.token")
        elif kind != "downwardAPI" and source is not None:
            yield field_error(where, "confined.volume", type=kind)


def _written_to(
    spec: Mapping[str, Any], path: str, volume: Mapping[str, Any], allowed: PodAllowances
) -> Iterator[FieldError]:
    """What may only be read has to be mounted so, everywhere."""
    host = _mapping(volume.get("hostPath")).get("path")
    claim = _mapping(volume.get("persistentVolumeClaim"))
    name = str(host or claim.get("claimName") or "")
    read_only = allowed.paths.get(name) if host else allowed.claims.get(name) and not claim.get("readOnly")
    if not read_only:
        return
    for where, container in _each_container(spec, path):
        for at, mount in _items(container.get("volumeMounts")):
            if mount.get("name") == volume.get("name") and mount.get("readOnly") is not True:
                yield field_error(f"{where}.volumeMounts[{at}]", "confined.read only", name=name)
        for at, device in _items(container.get("volumeDevices")):
            if device.get("name") == volume.get("name"):
                yield field_error(f"{where}.volumeDevices[{at}]", "confined.read only", name=name)


def _containers(spec: Mapping[str, Any], path: str, allowed: PodAllowances) -> Iterator[FieldError]:
    for where, container in _each_container(spec, path):
        yield from _security(_mapping(container.get("securityContext")), f"{where}.securityContext")
        yield from _environment(container, where, allowed)
        yield from _asked(container, where)
        for at, port in _items(container.get("ports")):
            if port.get("hostPort") or port.get("hostIP"):
                yield field_error(
                    f"{where}.ports[{at}].{'hostPort' if port.get('hostPort') else 'hostIP'}", "confined.port"
                )
        for at, mount in _items(container.get("volumeMounts")):
            if mount.get("mountPropagation") not in (None, "None"):
                yield field_error(
                    f"{where}.volumeMounts[{at}].mountPropagation", "confined.setting", field="mountPropagation"
                )


def _security(security: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if security.get("privileged"):
        yield field_error(f"{path}.privileged", "confined.privileged")
    added = _mapping(security.get("capabilities")).get("add")
    if added:
        names = ", ".join(map(str, added)) if isinstance(added, list) else str(added)
        yield field_error(f"{path}.capabilities.add", "confined.capabilities", names=names)
    if security.get("procMount") not in (None, "", "Default"):
        yield field_error(f"{path}.procMount", "confined.setting", field="procMount")
    yield from _profiles(security, path)


def _environment(container: Mapping[str, Any], path: str, allowed: PodAllowances) -> Iterator[FieldError]:
    for at, variable in _items(container.get("env")):
        source = _mapping(variable.get("valueFrom"))
        where = f"{path}.env[{at}].valueFrom"
        for kind, code, known in (
            ("secretKeyRef", "confined.secret", allowed.secrets),
            ("configMapKeyRef", "confined.config map", allowed.config_maps),
        ):
            if source.get(kind) is not None:
                yield from _named(_mapping(source[kind]).get("name"), f"{where}.{kind}.name", code, known)
    for at, source in _items(container.get("envFrom")):
        where = f"{path}.envFrom[{at}]"
        for kind, code, known in (
            ("secretRef", "confined.secret", allowed.secrets),
            ("configMapRef", "confined.config map", allowed.config_maps),
        ):
            if source.get(kind) is not None:
                yield from _named(_mapping(source[kind]).get("name"), f"{where}.{kind}.name", code, known)


def _asked(container: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Checks probes and hooks: the node executes them on its own network."""
    lifecycle = _mapping(container.get("lifecycle"))
    hooks = [(f"lifecycle.{name}", lifecycle.get(name)) for name in ("postStart", "preStop")]
    for name, asked in [*((name, container.get(name)) for name in _PROBES), *hooks]:
        for way in ("httpGet", "tcpSocket"):
            if _mapping(_mapping(asked).get(way)).get("host"):
                yield field_error(f"{path}.{name}.{way}.host", "confined.probe")


def _named(name: Any, path: str, code: str, known: Iterable[str]) -> Iterator[FieldError]:
    if name in known:
        return
    if code == "confined.claim":
        yield field_error(path, code, name=str(name or ""))
    else:
        yield field_error(path, code, name=str(name or ""), label=SHARED, value=EVERYBODY)


def _each_container(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in _CONTAINERS:
        for at, container in _items(spec.get(kind)):
            yield f"{path}.{kind}[{at}]", container


def _items(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for at, item in enumerate(value if isinstance(value, list) else ()):
        yield at, _mapping(item)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class SharedObjects:
    """Names of the objects that admins share with the user."""

    claims: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    config_maps: frozenset[str] = frozenset()


class Root(Protocol):
    """A storage root: a host path or a claim."""

    @property
    def path(self) -> str: ...
    @property
    def host_path(self) -> str: ...
    @property
    def claim(self) -> str: ...
    @property
    def read_only(self) -> bool: ...


async def list_shared(cluster: Cluster, namespace: str, actor: Actor) -> SharedObjects:
    labels = f"{SHARED} in ({', '.join([EVERYBODY, *sorted(actor.teams)])})"

    async def names(kind: Kind) -> frozenset[str]:
        return frozenset(name_of(obj) for obj in (await cluster.list(kind, namespace, labels=labels)).items)

    return SharedObjects(await names(PERSISTENT_VOLUME_CLAIM), await names(SECRET), await names(CONFIG_MAP))


def pod_allowances(roots: Iterable[Root], shared: SharedObjects) -> PodAllowances:
    """`roots` are those that may be used."""
    known = list(roots)
    claims = dict.fromkeys(shared.claims, False)
    return PodAllowances(
        paths=_least({root.host_path or root.path: root.read_only} for root in known if not root.claim),
        claims=_least([claims, *({root.claim: root.read_only} for root in known if root.claim)]),
        secrets=shared.secrets,
        config_maps=shared.config_maps,
    )


def _least(given: Iterable[Mapping[str, bool]]) -> dict[str, bool]:
    """If a place is listed twice, the less restrictive entry counts."""
    found: dict[str, bool] = {}
    for each in given:
        for name, read_only in each.items():
            found[name] = found.get(name, True) and read_only
    return found
