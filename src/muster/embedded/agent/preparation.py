"""Everything a supervisor has to know of a Pod, worked out once before it starts.

What can be missing (a ConfigMap, a volume, a command) is found out first and raises `NotReady`; only then are folders
and files made. Doing it again for the same Pod is harmless.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from muster.embedded.agent.checks import hook_of, probe_of
from muster.embedded.agent.contract import POD_FILE, Isolation, Mount, PreparedContainer, PreparedPod
from muster.embedded.agent.engines import Engine, engine_container
from muster.embedded.agent.environment import container_environment
from muster.embedded.agent.hosts import hostname_of
from muster.embedded.agent.images import Recipe, recipe, running_note
from muster.embedded.agent.mounting import container_mounts, make_volume
from muster.embedded.agent.settings import AgentSettings
from muster.embedded.agent.status import is_sidecar
from muster.embedded.agent.surroundings import ConfigError, ContainerError, Surroundings
from muster.embedded.agent.unsupported import ignored_fields
from muster.embedded.agent.volumes import (
    SERVICE_ACCOUNT_FOLDER,
    SERVICE_ACCOUNT_VOLUME,
    EmptyDir,
    Files,
    Memory,
    Volume,
    plan_volumes,
)
from muster.kube.objects import Object, name_of, namespace_of, spec_of, uid_of
from muster.kube.quantity import milli, whole

Role: TypeAlias = Literal["init", "sidecar", "main"]


class Layout(NamedTuple):
    """Where a Pod's things are on this machine."""

    folder: str
    logs: str
    hosts_file: str
    notify: str


@dataclass(frozen=True, slots=True)
class Here:
    """What this machine offers every Pod."""

    settings: AgentSettings
    isolation: Isolation
    environment: Mapping[str, str]
    """What a container without an engine starts from."""


@dataclass(frozen=True, slots=True)
class Prepared:
    pod: PreparedPod
    notes: Mapping[str, str]
    """Per container: where it comes from, in place of `Pulled`."""
    ignored: tuple[str, ...] = ()
    """Fields of the Pod that mean nothing here."""
    files: Mapping[str, Files] = field(default_factory=dict)
    """The volumes that are written anew when their source changes."""


def prepare(
    pod: Object, around: Surroundings, layout: Layout, here: Here, *,
    engine: Engine | None = None, deadline: float | None = None,
    devices: Mapping[str, Mapping[str, str]] | None = None,
) -> Prepared:  # fmt: skip
    """Raises NotReady while something is missing. Writes everything but the Pod's own file."""
    spec = spec_of(pod)
    settings = here.settings
    volumes = plan_volumes(pod, around, layout.folder, settings.nfs)
    if engine is not None:
        volumes = {name: _for_engine(pod, name, volume) for name, volume in volumes.items()}
    parts = [_Part(c, role, {}, None) for c, role in containers_of(spec)]
    parts = [_resolve(pod, part, around, here, engine, (devices or {}).get(part.name) or {}) for part in parts]
    _refuse_root(pod, parts)

    os.makedirs(layout.folder, mode=0o700, exist_ok=True)
    group = (spec.get("securityContext") or {}).get("fsGroup")
    own = [] if here.isolation == "none" else [_shared_memory()]
    for name, volume in volumes.items():
        mount = make_volume(name, volume, group if here.isolation == "namespaces" else None)
        if mount is not None:
            own.append(mount)
    hostname = hostname_of(pod)
    _write(f"{layout.folder}/hostname", f"{hostname}\n".encode())
    mounts_account = SERVICE_ACCOUNT_VOLUME in volumes
    containers = []
    for part in parts:
        mounts = container_mounts(part.spec, volumes, part.env)
        if mounts_account and not any(m["target"] == SERVICE_ACCOUNT_FOLDER for m in mounts):
            source = volumes[SERVICE_ACCOUNT_VOLUME].path
            mounts.append({"type": "bind", "source": source, "target": SERVICE_ACCOUNT_FOLDER, "readOnly": True})
        containers.append(_container(pod, part, mounts, layout, here, engine, around.pod_ip))
    prepared: PreparedPod = {
        "uid": uid_of(pod),
        "namespace": namespace_of(pod),
        "name": name_of(pod),
        "hostname": hostname,
        "address": around.pod_ip,
        "restartPolicy": spec.get("restartPolicy") or "Always",
        "grace": float(spec.get("terminationGracePeriodSeconds", 30)),
        "deadline": deadline,
        "isolation": "none" if engine is not None else here.isolation,
        "mounts": own if engine is None else [],
        "containers": containers,
        "notify": layout.notify,
        "logFileBytes": settings.logs.file_bytes,
        "logFiles": settings.logs.files,
        "backoffBase": settings.backoff_base,
        "backoffMax": settings.backoff_max,
    }
    notes = {part.name: part.note(engine) for part in parts}
    files = {name: volume for name, volume in volumes.items() if isinstance(volume, Files)}
    return Prepared(prepared, notes, tuple(ignored_fields(pod, here.isolation, engine is not None)), files)


def write_pod_file(folder: str, pod: PreparedPod) -> None:
    """All of it or nothing: a Pod with this file may be started, and a supervisor may read it at any time."""
    try:
        text = orjson.dumps(pod)
    except TypeError:  # bytes of a Secret that are not text stand in the environment as lone surrogates
        import json

        text = json.dumps(pod).encode()
    _write(f"{folder}/{POD_FILE}.new", text)
    os.rename(f"{folder}/{POD_FILE}.new", f"{folder}/{POD_FILE}")


def containers_of(spec: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Role]]:
    """In the order in which they start."""
    found: list[tuple[Mapping[str, Any], Role]] = [
        (c, "sidecar" if is_sidecar(c) else "init") for c in spec.get("initContainers") or ()
    ]
    found.extend((c, "main") for c in spec.get("containers") or ())
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """A container on its way: its variables, and what stands in for its image (None where an engine has the image)."""

    spec: Mapping[str, Any]
    role: Role
    env: dict[str, str]
    recipe: Recipe | None

    @property
    def name(self) -> str:
        return str(self.spec.get("name") or "")

    def note(self, engine: Engine | None) -> str:
        image = str(self.spec.get("image") or "")
        if self.recipe is None:
            return f'Running "{image}" with {engine.name if engine is not None else "an engine"}'
        return running_note(image, self.recipe.mapped, self.recipe.rootfs)


def _resolve(
    pod: Object, part: _Part, around: Surroundings, here: Here, engine: Engine | None, devices: Mapping[str, str]
) -> _Part:
    found = recipe(part.spec, here.settings.images, here.environment) if engine is None else None
    base = {"HOSTNAME": hostname_of(pod), **devices}
    if found is not None:
        base = {**found.env, **base}
    return _Part(part.spec, part.role, container_environment(pod, part.spec, around, base=base), found)


def _container(
    pod: Object, part: _Part, mounts: list[Mount], layout: Layout, here: Here, engine: Engine | None, address: str
) -> PreparedContainer:
    spec, name = part.spec, part.name
    termination_file = f"{layout.folder}/termination-{name}"
    _write(termination_file, b"", 0o666)
    log_folder = f"{layout.logs}/{name}"
    os.makedirs(log_folder, exist_ok=True)
    limits: Mapping[str, Any] = (spec.get("resources") or {}).get("limits") or {}
    user, group, groups = _user(pod, spec)
    termination: Mount = {
        "type": "bind",
        "source": termination_file,
        "target": spec.get("terminationMessagePath") or "/dev/termination-log",
    }
    prepared: PreparedContainer = {
        "name": name,
        "role": part.role,
        "env": part.env,
        "uid": user,
        "gid": group,
        "groups": groups,
        "memoryLimit": whole(limits["memory"]) if limits.get("memory") else None,
        "cpuLimit": milli(limits["cpu"]) / 1000 if limits.get("cpu") else None,
        "logDir": log_folder,
        "terminationMessageFile": termination_file,
        "terminationMessageFromLogs": spec.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        "startupProbe": probe_of(spec, "startupProbe", address),
        "livenessProbe": probe_of(spec, "livenessProbe", address),
        "readinessProbe": probe_of(spec, "readinessProbe", address),
        "postStart": hook_of(spec, "postStart", address),
        "preStop": hook_of(spec, "preStop", address),
        "stopSignal": (spec.get("lifecycle") or {}).get("stopSignal") or "SIGTERM",
        "engine": None,
    }
    if engine is not None:
        names: list[Mount] = [
            _file(layout.hosts_file, "/etc/hosts"),
            _file(f"{layout.folder}/hostname", "/etc/hostname"),
        ]
        engine_container(engine, pod, spec, prepared, [*names, *mounts, termination], layout.folder)
        return prepared
    assert part.recipe is not None
    prepared["argv"] = part.recipe.argv(part.env)
    prepared["rootfs"] = part.recipe.rootfs
    if here.isolation == "none":
        _refuse_mounts(mounts, part)
        prepared["mounts"] = []
        prepared["cwd"] = part.recipe.cwd
        prepared["env"] = {**part.env, "TERMINATION_LOG": termination_file}
        return prepared
    prepared["cwd"], more = _working_dir(part, mounts, layout)
    prepared["mounts"] = [*_private(part, layout), *more, *mounts, termination]
    return prepared


def _private(part: _Part, layout: Layout) -> list[Mount]:
    """What every container has for itself, below whatever it mounts there."""
    scratch = f"{layout.folder}/tmp-{part.name}"
    _make_scratch(scratch)
    return [
        {"type": "bind", "source": scratch, "target": "/tmp"},
        _file(layout.hosts_file, "/etc/hosts"),
        _file(f"{layout.folder}/hostname", "/etc/hostname"),
    ]


def _working_dir(part: _Part, mounts: list[Mount], layout: Layout) -> tuple[str, list[Mount]]:
    """An image has its WORKDIR; this machine may not have the folder, so the container gets an empty one there."""
    assert part.recipe is not None
    cwd = os.path.normpath(part.recipe.cwd)
    inside = cwd if not part.recipe.rootfs else f"{part.recipe.rootfs}{cwd}"
    provided = ["/tmp", *(m["target"] for m in mounts)]
    if any(cwd == target or cwd.startswith(target.rstrip("/") + "/") for target in provided) or os.path.isdir(inside):
        return cwd, []
    scratch = f"{layout.folder}/work-{part.name}"
    _make_scratch(scratch)
    return cwd, [{"type": "bind", "source": scratch, "target": cwd}]


def _refuse_mounts(mounts: list[Mount], part: _Part) -> None:
    for mount in mounts:
        if os.path.realpath(mount["source"]) != os.path.realpath(mount["target"]):
            raise ContainerError(
                f"nothing can be mounted at {mount['target']}: this machine allows no mount namespaces to this user. "
                "Run as root, allow unprivileged user namespaces, or remove the volumeMount (see: muster doctor)",
                part.name,
            )


def _refuse_root(pod: Object, parts: list[_Part]) -> None:
    for part in parts:
        context = {**(spec_of(pod).get("securityContext") or {}), **(part.spec.get("securityContext") or {})}
        user = context.get("runAsUser")
        if context.get("runAsNonRoot") and (user == 0 or (user is None and os.getuid() == 0)):
            raise ConfigError(
                "container has runAsNonRoot and would run as root: write securityContext.runAsUser", part.name
            )


def _user(pod: Object, container: Mapping[str, Any]) -> tuple[int | None, int | None, list[int]]:
    shared: Mapping[str, Any] = spec_of(pod).get("securityContext") or {}
    context = {**shared, **(container.get("securityContext") or {})}
    groups = [int(g) for g in shared.get("supplementalGroups") or ()]
    if shared.get("fsGroup") is not None:
        groups.append(int(shared["fsGroup"]))
    return context.get("runAsUser"), context.get("runAsGroup"), groups


def _for_engine(pod: Object, name: str, volume: Volume) -> Volume:
    """The engine has mount namespaces of its own, so memory has to come from a tmpfs that both see."""
    return EmptyDir(f"/dev/shm/muster-{uid_of(pod)}/{name}") if isinstance(volume, Memory) else volume


def _shared_memory() -> Mount:
    return {"type": "tmpfs", "target": "/dev/shm"}


def _file(source: str, target: str) -> Mount:
    return {"type": "bind", "source": source, "target": target}


def _make_scratch(path: str) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    os.chmod(path, 0o1777)


def _write(path: str, content: bytes, mode: int = 0o644) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if mode & 0o022:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
