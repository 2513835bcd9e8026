"""One container in the form its supervisor runs it: command, variables, mounts, limits, user and checks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from muster.embedded.agent.checks import hook_of, probe_of
from muster.embedded.agent.contract import Isolation, Mount, PreparedContainer
from muster.embedded.agent.engines import Engine, engine_container
from muster.embedded.agent.environment import container_environment
from muster.embedded.agent.hosts import hostname_of
from muster.embedded.agent.images import SCRATCH, Recipe, hidden_folders, match_image, recipe, running_note
from muster.embedded.agent.requests import keep_folder, outside, paths_to_keep, scratch_folder
from muster.embedded.agent.settings import AgentSettings, ImageSettings
from muster.embedded.agent.status import is_sidecar
from muster.embedded.agent.surroundings import ConfigError, ContainerError, Surroundings
from muster.kube.objects import Object, spec_of
from muster.kube.quantity import milli, whole

Role: TypeAlias = Literal["init", "sidecar", "main"]

SHARED_MEMORY: Mount = {"type": "tmpfs", "target": "/dev/shm"}
"""Of the Pod, so that its containers can share it; of the container, which is less work, where it is alone."""

_HOSTNAME = "/proc/sys/kernel/hostname"
"""Tells whoever reads it the host name of their own namespace. A file per Pod would say the same for more."""
_TERMINATION_LOG = "/dev/termination-log"
_HIDING_BYTES = 64 * 1024
"""Enough for mount points."""


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
    limits_cpu: bool = True
    """Whether the kernel holds processes to a share of the CPU here. (Memory is watched in any case.)"""
    stand_ins: Mapping[str, ImageSettings] = field(default_factory=dict)
    """For images that the settings say nothing of."""

    def images_for(self, container: Mapping[str, Any]) -> Mapping[str, ImageSettings]:
        image = str(container.get("image") or "")
        return self.settings.images if match_image(image, self.settings.images) else self.stand_ins


@dataclass(frozen=True, slots=True)
class Part:
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


def containers_of(spec: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Role]]:
    """In the order in which they start."""
    found: list[tuple[Mapping[str, Any], Role]] = [
        (c, "sidecar" if is_sidecar(c) else "init") for c in spec.get("initContainers") or ()
    ]
    found.extend((c, "main") for c in spec.get("containers") or ())
    return found


def grace_of(spec: Mapping[str, Any]) -> float:
    grace = spec.get("terminationGracePeriodSeconds")
    return 30.0 if grace is None else float(grace)


def resolve(
    pod: Object, container: Mapping[str, Any], role: Role, around: Surroundings, here: Here, engine: Engine | None,
    devices: Mapping[str, str],
) -> Part:  # fmt: skip
    """Works out what can be missing. Raises NotReady, and touches nothing."""
    found = recipe(container, here.images_for(container), here.environment) if engine is None else None
    base = {"HOSTNAME": hostname_of(pod), **devices}
    if found is not None:
        base = {**found.env, **base}
    _refuse_root(pod, container)
    return Part(container, role, container_environment(pod, container, around, base=base), found)


def prepare_container(
    pod: Object, part: Part, mounts: list[Mount], layout: Layout, here: Here, *,
    engine: Engine | None, address: str, is_alone: bool,
) -> PreparedContainer:  # fmt: skip
    """Makes what the container has for itself. `mounts` are those of its volumes."""
    spec = part.spec
    termination_file = f"{layout.folder}/termination-{part.name}"
    _make_file(termination_file)
    termination = _file(termination_file, spec.get("terminationMessagePath") or _TERMINATION_LOG)
    limits: Mapping[str, Any] = (spec.get("resources") or {}).get("limits") or {}
    user, group, groups = _user(pod, spec)
    prepared: PreparedContainer = {
        "name": part.name,
        "role": part.role,
        "env": part.env,
        "uid": user,
        "gid": group,
        "groups": groups,
        "memoryLimit": whole(limits["memory"]) if limits.get("memory") else None,
        "cpuLimit": milli(limits["cpu"]) / 1000 if limits.get("cpu") else None,
        "logDir": f"{layout.logs}/{part.name}",
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
    keep = paths_to_keep(pod, part.name)
    if keep:
        prepared["keep"], prepared["keepFolder"] = keep, keep_folder(layout.folder, part.name)
    if part.recipe is None:
        assert engine is not None
        hosts = _file(layout.hosts_file, "/etc/hosts")
        engine_container(engine, pod, spec, prepared, [hosts, *mounts, termination], layout.folder)
        return prepared
    prepared["argv"] = part.recipe.argv(part.env)
    prepared["rootfs"] = part.recipe.rootfs
    if here.isolation == "none":
        _refuse_mounts(mounts, part.name)
        prepared["mounts"], prepared["cwd"] = [], part.recipe.cwd
        return prepared
    private = _private(part, layout, str(here.settings.home))
    if is_alone:
        private.append(SHARED_MEMORY)
    prepared["cwd"], more = _working_dir(part, part.recipe, [*private, *mounts], layout)
    prepared["mounts"] = [*private, *more, *mounts, termination]
    if keep:
        prepared["private"] = outside(keep, [mount["target"] for mount in prepared["mounts"]])
        prepared["privateFolder"] = f"{layout.folder}/private-{part.name}"
        if part.recipe.is_anywhere and any(os.path.dirname(path) == "/" for path in prepared["private"]):
            # It may well be `result.txt` to the container: most images begin at the root, which is now its own.
            prepared["cwd"] = "/"
    return prepared


def _private(part: Part, layout: Layout, home: str) -> list[Mount]:
    """What every container has for itself, below whatever it mounts there. The box keeps its keys, and what other Pods
    have, in `home`: there it sees what it runs from, and nothing else."""
    scratch = scratch_folder(layout.folder, part.name)
    _make_scratch(scratch)
    own = [_file(scratch, SCRATCH), _file(layout.hosts_file, "/etc/hosts"), _file(_HOSTNAME, "/etc/hostname")]
    if part.recipe is None or part.recipe.rootfs:
        return own
    if not home.startswith(f"{SCRATCH}/"):
        own.append({"type": "tmpfs", "target": home, "size": _HIDING_BYTES})
    needed = [f for f in hidden_folders(part.recipe.runs_from, (SCRATCH, home)) if os.path.isdir(f)]
    for folder in needed:
        if folder.startswith(f"{SCRATCH}/"):
            os.makedirs(f"{scratch}{folder.removeprefix(SCRATCH)}", exist_ok=True)
    return [*own, *(_through(folder, read_only=folder.startswith(f"{home}/")) for folder in needed)]


def _through(folder: str, *, read_only: bool) -> Mount:
    return {"type": "bind", "source": folder, "target": folder, "readOnly": read_only}


def _working_dir(part: Part, recipe: Recipe, mounts: list[Mount], layout: Layout) -> tuple[str, list[Mount]]:
    """An image has its WORKDIR; this machine may not have the folder, so the container gets an empty one there."""
    cwd = os.path.normpath(recipe.cwd)
    for mount in reversed(mounts):
        target = mount["target"]
        if cwd == target:
            return cwd, []
        if cwd.startswith(target.rstrip("/") + "/"):
            if mount["type"] == "bind" and not mount.get("readOnly") and "within" not in mount:
                os.makedirs(f"{mount['source']}{cwd[len(target.rstrip('/')) :]}", exist_ok=True)
            return cwd, []
    if os.path.isdir(f"{recipe.rootfs}{cwd}"):
        return cwd, []
    scratch = f"{layout.folder}/work-{part.name}"
    _make_scratch(scratch)
    return cwd, [_file(scratch, cwd)]


def _refuse_mounts(mounts: list[Mount], container: str) -> None:
    for mount in mounts:
        if os.path.realpath(mount["source"]) != os.path.realpath(mount["target"]):
            raise ContainerError(
                f"nothing can be mounted at {mount['target']}: this machine allows no mount namespaces to this user. "
                "Run as root, allow unprivileged user namespaces, or remove the volumeMount (see: muster doctor)",
                container,
            )


def _refuse_root(pod: Object, container: Mapping[str, Any]) -> None:
    context = {**(spec_of(pod).get("securityContext") or {}), **(container.get("securityContext") or {})}
    user = context.get("runAsUser")
    if context.get("runAsNonRoot") and (user == 0 or (user is None and os.getuid() == 0)):
        message = "container has runAsNonRoot and would run as root: write securityContext.runAsUser"
        raise ConfigError(message, str(container.get("name") or ""))


def _user(pod: Object, container: Mapping[str, Any]) -> tuple[int | None, int | None, list[int]]:
    shared: Mapping[str, Any] = spec_of(pod).get("securityContext") or {}
    context = {**shared, **(container.get("securityContext") or {})}
    groups = [int(g) for g in shared.get("supplementalGroups") or ()]
    if shared.get("fsGroup") is not None:
        groups.append(int(shared["fsGroup"]))
    return context.get("runAsUser"), context.get("runAsGroup"), groups


def _file(source: str, target: str) -> Mount:
    return {"type": "bind", "source": source, "target": target}


def _make_scratch(path: str) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    os.chmod(path, 0o1777)


def _make_file(path: str) -> None:
    """Any user of the container may write to it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.fchmod(descriptor, 0o666)
    finally:
        os.close(descriptor)
